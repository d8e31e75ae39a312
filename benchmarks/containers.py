"""Real containers beside played ones and the simulator: one-pod Jobs of `sleep 10`, four nodes on this machine.

1. `kubelet: containers` on `local`, for each number of jobs.
2. From the run with most jobs come two figures: `start-latency` is its shortest start, and `start-work` the one with which the
   simulator has the same mean start. `machine-cores` is what this machine has.
3. With these two, the simulator and `kubelet: true` run all numbers of jobs: the other rows test them.

A row per number of jobs: total, mean and longest time to start, each real, played and simulated. `--keep DIR` keeps the
studies, and goes on with those that are there.

    python benchmarks/containers.py [--jobs 10,60] [--keep DIR]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import polars as pl

CORES = len(os.sched_getaffinity(0))
LEAST_WORK, MOST_WORK = 0.0, 4.0  # core-seconds
TRIES = 9  # of the bisection: to a hundredth
SCENARIO = """
name: containers
params: {{jobs: 10}}
nodes:
  - {{name: worker, count: 4, kubelet: {kubelet}, capacity: {{cpu: 5, memory: 8Gi, pods: 110}}}}
stacks: [default]
client: {{rate: 10/s}}
settings: {{kubelet: {{machine-cores: {cores}, start-latency: {latency}ms, start-work: {work}ms}}}}
steps:
  - submit: {{name: short, count: "${{jobs}}", duration: 10s, requests: {{cpu: 5m, memory: 50M}}}}
  - wait: {{for: completed, timeout: 4m}}
expect: ["completed == submitted"]
"""


class Model(NamedTuple):
    """The two figures of the simulator's kubelet, in seconds."""

    latency: float = 1.0
    work: float = 0.1


class Seen(NamedTuple):
    """Of one trial, in seconds."""

    total: float
    mean: float
    longest: float
    shortest: float


def run(folder: Path, name: str, on: str, kubelet: str, model: Model, jobs: str) -> dict[int, Seen]:
    """One study; a trial per number of jobs."""
    latency, work = round(model.latency * 1000), round(model.work * 1000)
    text = SCENARIO.format(kubelet=kubelet, cores=CORES, latency=latency, work=work)
    scenario, out = folder / f"{name}.yaml", folder / name
    if not (scenario.exists() and scenario.read_text() == text and (out / "summary.csv").exists()):
        scenario.write_text(text)
        command = ["run", scenario.name, "--on", on, "-o", name, "--force", "--set", f"jobs={jobs}"]
        done = subprocess.run(
            [sys.executable, "-m", "seatrial", *command], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{name}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    pods = pl.read_csv(out / "pods.csv").group_by("trial").agg(
        mean=pl.col("time_to_start_s").mean(), most=pl.col("time_to_start_s").max(), least=pl.col("time_to_start_s").min()
    )  # fmt: skip
    rows = pl.read_csv(out / "summary.csv").join(pods, on="trial").iter_rows(named=True)
    return {row["jobs"]: Seen(row["total_s"], row["mean"], row["most"], row["least"]) for row in rows}


def fitted(folder: Path, jobs: int, seen: Seen) -> Model:
    """The model whose mean start with so many jobs is the one seen: the longer a start works, the longer it takes."""
    low, high = LEAST_WORK, MOST_WORK
    for number in range(TRIES):
        middle = (low + high) / 2
        latency = max(seen.shortest - middle, 0)  # the shortest start waits for no other
        [simulated] = run(folder, f"fit-{number}", "sim", "true", Model(latency, middle), str(jobs)).values()
        low, high = (middle, high) if simulated.mean < seen.mean else (low, middle)
    return Model(max(seen.shortest - low, 0), low)


def main() -> None:
    """Prints the two figures and a row per number of jobs."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--jobs", default="10,60")
    options.add_argument("--keep", type=Path, help="a directory for the studies")
    asked = options.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = asked.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        real = run(folder, "real", "local", "containers", Model(), asked.jobs)
        model = fitted(folder, max(real), real[max(real)])
        print(
            f"start-latency {model.latency:.2f} s, start-work {model.work:.2f} core-seconds, from {max(real)} jobs",
            flush=True,
        )
        columns = {"real": real}
        columns["sim"] = run(folder, "sim", "sim", "true", model, asked.jobs)
        columns["played"] = run(folder, "played", "local", "true", model, asked.jobs)
        for jobs in real:
            told = [
                f"{kind} {row[jobs].total:.1f} s, start {row[jobs].mean:.1f} (up to {row[jobs].longest:.1f}) s"
                for kind, row in columns.items()
            ]
            print(
                f"{jobs} jobs: {'; '.join(told)}; sim is {columns['sim'][jobs].total / real[jobs].total - 1:+.0%}",
                flush=True,
            )
    print(f"{CORES} cores, load average {before:.1f} before and {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
