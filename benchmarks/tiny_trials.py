"""What a trial costs beside its load: 1,000 trials of one job each on the simulator, and how long commands take to start.

    python benchmarks/tiny_trials.py
    python benchmarks/tiny_trials.py --trials 100

Everything runs through the command line, with as many workers as it chooses by itself, and the whole study directory is written
with its tables, pictures and page. A start is the best of three. Prints one line; ends with status 1 if 1,000 trials take more
than 30 s, or a command more than 0.5 s to start.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOST_S, MOST_START_S = 30.0, 0.5
COMMANDS = ("--help", "scenarios", "stacks", "schema")
SCENARIO = """
name: tiny
nodes: [{name: n, count: 1, capacity: {cpu: 4, memory: 8Gi}}]
stacks: [default]
steps:
  - submit: {name: load, count: 1, duration: 1s, requests: {cpu: 10m}}
  - wait: {for: completed, timeout: 1m}
"""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--trials", type=int, default=1000)
    trials = options.parse_args().trials
    with tempfile.TemporaryDirectory(prefix="seatrial-tiny-") as name:
        folder = Path(name)
        (folder / "tiny.yaml").write_text(SCENARIO)
        took = _seconds("run", str(folder / "tiny.yaml"), "--repeat", str(trials), "-o", str(folder / "out"))
        with (folder / "out" / "summary.csv").open() as file:
            completed = sum(row["outcome"] == "completed" for row in csv.DictReader(file))
    starts = {command: min(_seconds(command) for _ in range(3)) for command in COMMANDS}
    shown = ", ".join(f"{command} {seconds:.2f} s" for command, seconds in starts.items())
    print(
        f"tiny_trials: {completed} of {trials} trials of one job in {took:.1f} s ({took / trials * 1000:.0f} ms each), "
        f"{os.cpu_count()} cores; start of {shown}"
    )
    slow = took > MOST_S * max(trials, 1000) / 1000 or max(starts.values()) > MOST_START_S
    return int(slow or completed != trials)


def _seconds(*arguments: str) -> float:
    begun = time.monotonic()
    subprocess.run([sys.executable, "-m", "seatrial", *arguments], check=True, capture_output=True)
    return time.monotonic() - begun


if __name__ == "__main__":
    sys.exit(main())
