"""`seatrial plot` of many workloads: how long it takes.

    python benchmarks/plot.py [--workloads 100000] [--keep DIR]

The study is made by the simulator. One line of figures; target: 100,000 workloads in at most 10 s, each picture. With --keep the
study stays in DIR, to look at the pictures.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = [sys.executable, "-m", "seatrial"]
SCENARIO = """
name: plot-scale
nodes: [{name: fake, count: 1000, capacity: {cpu: 64, memory: 256Gi, pods: 250}, pods: {create: 200ms, start: 1s}}]
stacks: [kueue]
settings: {qps: {equal: 5000}}
steps:
  - submit: {name: short, count: WORKLOADS, rate: 500/s, duration: 20s, requests: {cpu: 1}}
  - wait: {for: completed, timeout: 4h}
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--workloads", type=int, default=100_000)
    arguments.add_argument("--keep", type=Path)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "many.yaml").write_text(SCENARIO.replace("WORKLOADS", str(given.workloads)))
        out = given.keep or folder / "out"
        run = [*COMMAND, "run", str(folder / "many.yaml"), "-o", str(out)]
        subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
        took = {}
        for kind in ("general", "detailed"):
            began = time.monotonic()
            subprocess.run([*COMMAND, "plot", "-o", str(out), "--plot", kind], check=True, stdout=subprocess.DEVNULL)
            took[kind] = time.monotonic() - began
        shown = ", ".join(f"{kind} {seconds:.1f} s" for kind, seconds in took.items())
        print(f"plot: {given.workloads} workloads: {shown}, each with times.csv, pods.csv, summary.csv and errors.csv")


if __name__ == "__main__":
    main()
