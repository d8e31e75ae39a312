"""A run on `local` that `seatrial record` records, then its trace replayed on the same API server and on `sim`.

    python benchmarks/recorded_replay.py [--jobs 150] [--rate 2.4] [--keep DIR]

Target: arrivals the same within 10 ms, total within 5 %. Jobs of one to four pods come at random to nodes that they nearly fill, so
that some wait. The nodes of the replays are those that `seatrial record nodes` wrote. Arrivals are compared as differences from the
median one: those of the run when it sent them, those of the trace, and those of both replays when they sent them. A trace has when
a Job was created, not when it was sent: on a busy machine the API server takes its time between the two, and the run's own watch
shows the same. One line; status 1 if a target is missed (by the 99th percentile of arrivals).

Durations are between 2 and 8 s on purpose: where one long job decides the total, the total says when that job happened to be placed
(docs/traces.md).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

COMMAND = [sys.executable, "-m", "seatrial"]
CLUSTER = "recorded-replay"
QPS = "500"
ARRIVALS_MS, TOTAL = 10.0, 0.05  # what was asked for
NODES = "- {name: fake, count: 4, capacity: {cpu: 8, memory: 64Gi, pods: 110}}\n"
HEAD = f"""nodes: {{trace: nodes.yaml}}
stacks: [default]
settings: {{qps: {{equal: {QPS}}}}}
steps:
"""
WAIT = "  - wait: {for: completed, timeout: 10m}\n"
Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sent:
    """When a run sent its Jobs and its watch saw them created, in ms, in order; and its figures."""

    at: Times
    created: Times
    total_s: float
    mean_wait_s: float


def seatrial(folder: Path, *arguments: str) -> None:
    """Runs a command to its end."""
    done = subprocess.run([*COMMAND, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"recorded_replay: seatrial {arguments[0]}: {done.stderr}")


def run(folder: Path, name: str, submit: str, *where: str) -> Sent:
    """One scenario, run."""
    (folder / f"{name}.yaml").write_text(f"name: {name}\n{HEAD}  - submit: {{name: jobs, {submit}}}\n{WAIT}")
    seatrial(folder, "run", f"{name}.yaml", *where, "-o", name, "-q")
    [lines] = (folder / name / "trials").glob("*/submitted.jsonl")
    sent = [json.loads(line)["at_ns"] / 1e6 for line in lines.read_text().splitlines()]
    with (folder / name / "summary.csv").open(encoding="utf-8") as file:
        [row] = csv.DictReader(file)
    if (row["outcome"], row["valid"]) != ("completed", "true"):
        sys.exit(f"recorded_replay: {name}: {row['outcome']}, valid: {row['valid']}")
    times = pl.read_csv(folder / name / "times.csv")
    wait = (times["scheduled_s"] - times["submitted_s"]).cast(pl.Float64).mean()
    assert isinstance(wait, float)
    return Sent(np.sort(sent), np.sort(times["created_s"].to_numpy()) * 1e3, float(row["total_s"]), wait)


def recorded(folder: Path, jobs: int, rate: float) -> Sent:
    """The run that is recorded while it goes; the trace is then in folder/recording."""
    recorder = subprocess.Popen(
        [*COMMAND, "record", "--cluster", CLUSTER, "-o", "recording"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not list((folder / "recording").glob("gap*")) and recorder.poll() is None:
            time.sleep(0.05)  # its first heartbeat: both watches are well
        submit = f"count: {jobs}, pods: 1..4, rate: {rate}/s, arrival: poisson, duration: 2s..8s, requests: {{cpu: 1, memory: 1Gi}}"
        made = run(folder, "origin", submit, "--on", "local", "--cluster", CLUSTER)
    finally:
        recorder.send_signal(signal.SIGINT)
        recorder.wait(60)
    return made


def off(one: Times, other: Times) -> Times:
    """How far arrivals are apart, in ms."""
    apart = one - other
    return np.abs(apart - np.median(apart))


def words(apart: Times) -> str:
    p50, p90, p99 = np.percentile(apart, [50, 90, 99])
    return f"{p50:.1f}, {p90:.1f} and {p99:.1f} ms (p50, p90, p99)"


def main() -> None:
    """Prints the line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=150)
    parser.add_argument("--rate", type=float, default=2.4, help="jobs per second")
    parser.add_argument("--keep", type=Path, help="an empty directory for the studies and the recording")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.keep or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "made.yaml").write_text(NODES)
        seatrial(folder, "cluster", "up", CLUSTER, "--nodes", "made.yaml", "--qps", QPS)
        try:
            seatrial(folder, "record", "nodes", "--cluster", CLUSTER, "-o", "nodes.yaml")
            origin = recorded(folder, options.jobs, options.rate)
            replay = "trace: recording/trace.parquet"
            local = run(folder, "on-local", replay, "--on", "local", "--cluster", CLUSTER)
        finally:
            seatrial(folder, "cluster", "down", CLUSTER)
        sim = run(folder, "on-sim", replay, "--on", "sim")
        trace = pl.read_parquet(folder / "recording" / "trace.parquet")
    line, met = judged(trace, options.jobs, origin, {"local": local, "sim": sim})
    print(f"recorded_replay: {line}; load average {os.getloadavg()[0]:.1f}", flush=True)
    sys.exit(0 if met else 1)


def judged(trace: pl.DataFrame, jobs: int, origin: Sent, replays: dict[str, Sent]) -> tuple[str, bool]:
    """The line, and whether every target is met."""
    waited = trace["wait_ns"].mean()
    assert isinstance(waited, float)
    in_trace = trace["submit_ns"].to_numpy() / 1e6
    recorded_off = off(in_trace, origin.at)
    text = (
        f"{trace.height} of {jobs} jobs recorded; total {origin.total_s:.1f} s, waits {origin.mean_wait_s:.2f} s on "
        f"average, {waited / 1e9:.2f} s in the trace; arrivals in the trace off by {words(recorded_off)}, in the run's own "
        f"watch by {words(off(origin.created, origin.at))}"
    )
    apart, more = [], []
    for name, again in replays.items():
        apart.append(off(again.at, in_trace))
        more.append(again.total_s / origin.total_s - 1)
        text += (
            f"; replayed on {name}: off the trace by {words(apart[-1])}, off the run by {words(off(again.at, origin.at))}, "
            f"total {again.total_s:.1f} s ({more[-1]:+.1%}), waits {again.mean_wait_s:.2f} s on average"
        )
    met = {
        "all recorded": trace.height == jobs,
        "arrivals recorded": bool(np.percentile(recorded_off, 99) <= ARRIVALS_MS),
        "arrivals replayed": all(np.percentile(one, 99) <= ARRIVALS_MS for one in apart),
        "totals": all(abs(one) <= TOTAL for one in more),
    }
    verdict = ", ".join(f"{name} {'met' if well else 'missed'}" for name, well in met.items())
    return f"{text}: {verdict}", all(met.values())


if __name__ == "__main__":
    main()
