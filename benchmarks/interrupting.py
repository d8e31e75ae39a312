"""How long a large simulation takes to be gone after Ctrl-C, with everything observed so far in its tables.

    python benchmarks/interrupting.py

90,000 Jobs, interrupted once 3 MB of observations are on disk; the median and the worst of five. The target is 1 s.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SCENARIO = """
name: large
nodes: [{name: n, count: 200, capacity: {cpu: 64, memory: 256Gi, pods: 500}, pods: {start: 1s}}]
stacks: [default]
settings: {qps: unlimited}
steps:
  - submit: {name: load, count: 90000, duration: 30s, requests: {cpu: 10m}}
  - wait: {for: completed, timeout: 24h}
"""


def measure() -> float:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "large.yaml").write_text(SCENARIO)
        command = [sys.executable, "-m", "seatrial", "run", "large.yaml", "-o", "out"]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not any(path.stat().st_size > 3_000_000 for path in folder.glob("out/trials/*/observed-*.seg")):
            if process.poll() is not None:
                sys.exit("interrupting: the run ended before it could be interrupted")
            time.sleep(0.02)
        began = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        process.wait(60)
        took = time.monotonic() - began
        if process.returncode != 130 or not (folder / "out" / "times.csv").exists():
            sys.exit(f"interrupting: exit status {process.returncode}")
        return took


def main() -> None:
    times = sorted(measure() for _ in range(5))
    print(f"interrupting: gone {times[2]:.2f} s after Ctrl-C (median of 5), {times[-1]:.2f} s at worst")


if __name__ == "__main__":
    main()
