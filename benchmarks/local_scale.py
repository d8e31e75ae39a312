"""Many one-pod Jobs on many fake nodes, on a real control plane of this machine: how long, how much memory, and who was busy.

    python benchmarks/local_scale.py [--jobs 10000] [--nodes 1000]      the large run
    python benchmarks/local_scale.py --jobs 500 --nodes 20 --rate 25    how far watch times are from the audit log, unloaded

One line of figures: the total, the rate, processor seconds per component (the bottleneck is the largest), peak memory of all of
them together, and watch times against the audit log. The controllers run at `qps: {equal: 5000}`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import polars as pl

SCENARIO = """
name: local-scale
nodes:
  - {name: fake, count: NODES, capacity: {cpu: 32, memory: 256Gi, pods: 110}, pods: {start: 1s}}
stacks: [default]
settings: {qps: {equal: 5000}, kube-controller-manager: {job-syncs: 20}}
steps:
  - submit: {name: short, count: JOBS, RATE duration: 10s, requests: {cpu: 5m, memory: 50M}}
  - wait: {for: completed, timeout: 1h}
expect: ["completed == submitted"]
"""
TICK = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Census(threading.Thread):
    """Processor time and memory of everything below one directory, and of the tool itself."""

    def __init__(self, state: Path, tool: int) -> None:
        super().__init__(daemon=True)
        self.state, self.tool = state, tool
        self.over = threading.Event()
        self.cpu: dict[str, float] = {}
        self.peak: dict[str, int] = {}
        self.together = 0

    def run(self) -> None:
        while not self.over.wait(0.5):
            now: dict[str, int] = {}
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit():
                    self._look(entry, now)
            self.together = max(self.together, sum(now.values()))
            for name, size in now.items():
                self.peak[name] = max(self.peak.get(name, 0), size)

    def _look(self, entry: Path, now: dict[str, int]) -> None:
        try:
            ours = int(entry.name) == self.tool
            if not ours and not (entry / "cwd").readlink().is_relative_to(self.state):
                return
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            name = "seatrial" if ours else (entry / "comm").read_text().strip()
        except OSError:
            return
        self.cpu[name] = (int(fields[11]) + int(fields[12])) / TICK
        now[name] = int(fields[21]) * PAGE


def main() -> None:
    parser = argparse.ArgumentParser(description="Many Jobs on a real control plane.")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=0, help="Jobs submitted per second; as fast as possible without")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rate = f"rate: {asked.rate:g}/s," if asked.rate else ""
        text = SCENARIO.replace("NODES", str(asked.nodes)).replace("JOBS", str(asked.jobs)).replace("RATE", rate)
        (folder / "scale.yaml").write_text(text)
        state = folder / "state"
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "seatrial", "run", "scale.yaml", "--on", "local", "-o", "out"],
            cwd=folder, env={**os.environ, "XDG_STATE_HOME": str(state)}, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        census = Census(state, process.pid)
        census.start()
        status = process.wait()
        took = time.monotonic() - began
        census.over.set()
        census.join()
        row = pl.read_csv(folder / "out" / "summary.csv").row(0, named=True)
        trial = json.loads(next(folder.glob("out/trials/*/trial.json")).read_text())
    against = trial["validity"]["watch_against_audit"]
    busy = ", ".join(f"{n} {s:.0f} s" for n, s in sorted(census.cpu.items(), key=lambda item: -item[1])[:5])
    total = f"{row['total_s']:.1f} s" if row["total_s"] else "not all"
    print(
        f"local_scale: {asked.jobs} jobs on {asked.nodes} nodes: {row['completed']} completed, total {total}, "
        f"{row['rate_per_s'] or 0:.0f} jobs/s, whole command {took:.0f} s, exit {status}; processor time: {busy}; "
        f"peak memory together {census.together / 2**30:.2f} GiB, seatrial {census.peak.get('seatrial', 0) / 2**20:.0f} MiB; "
        f"watch against audit: median {against['median_ms']:.2f} ms, p99 {against['p99_ms']:.1f} ms of "
        f"{against['transitions']} transitions; valid: {trial['validity']['valid']} {trial['validity']['reasons'] or ''}"
    )


if __name__ == "__main__":
    main()
