"""Shared fleets on `sim` and on `local`: the same scenarios, figure by figure.

    python benchmarks/shared_fleet.py                        everything: about an hour, most of it `baseline`
    python benchmarks/shared_fleet.py --case wave            200 nodes full of low gangs, then a wave of high ones
    python benchmarks/shared_fleet.py --case baseline --repeat 1 --keep out --prefer

`baseline` is kueue-baseline at a tenth of its size: 3 of 30 queues, 1,500 workloads, at 50 requests per second of each component
(as shipped a run takes a quarter of an hour): the mean wait of every class and the total time. `wave` fills 200 nodes with
gangs of a low priority and submits gangs of a high one: the work lost, and whether a gang of the low priority got a place while
one of the high had none. `teams` is two-teams, set-up by set-up: the wait of every queue, evictions, work lost, borrowed and lent.
With `--prefer` the kernel prefers the trial to other work on this machine: components have sessions of their own, so each
is an autogroup, whose nice value root can set.
A line per case and set-up, `sim / local (off by)`, with means over the repeats; docs/verified.md has the figures. Ends with
status 1 if a trial did not complete or is not valid, if the books do not add up, or if sim is off by more than 10 %.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

MOST = 0.10
LEAST_S = 1.0  # below that a wait is not compared: it is a few requests
CLUSTERS = ("sim", "local")
CROSSED_NS = 200_000_000  # seen: 30 to 65 ms
SCENARIOS = Path(__file__).parent.parent / "scenarios"

PRINT_ONLY = threading.Event()

STEPS = """
nodes: [{name: fake, count: 200, capacity: {cpu: 8, memory: 64Gi}, pods: {start: 200ms}}]
priorities: {low: 10, high: 100}
settings: {qps: {equal: 100}}
steps:
  - submit: {name: low, QUEUE priority: low, count: 25, pods: 8, gang: true, duration: 2m, requests: {cpu: 8}}
  - wait: {for: running, timeout: 5m}
  - pause: 20s
  - submit: {name: high, QUEUE priority: high, count: 10, pods: 8, gang: true, duration: 30s, requests: {cpu: 8}}
  - wait: {for: completed, timeout: 20m}
expect: ["completed == submitted"]
"""
ALL = "queues: {all: {quota: {cpu: 1600}}}\npreemption: {within-queue: lower-priority}"
WAVES = {
    "default": f"name: wave\nstacks: [default]\n{STEPS.replace('QUEUE', '')}",
    "kueue": f"name: wave\nstacks: [kueue]\n{ALL}\n{STEPS.replace('QUEUE', 'queue: all,')}",
}


@dataclass(frozen=True)
class Runs:
    """The repeats of a scenario on one cluster, in the directory of a study."""

    out: Path

    def table(self, name: str) -> pl.DataFrame:
        return pl.read_csv(self.out / name, infer_schema_length=None)

    def setups(self) -> list[str]:
        return self.table("summary.csv")["setup"].unique(maintain_order=True).to_list()

    def mean(self, table: str, figure: str, setup: str, **member: str) -> float:
        """Of a figure, over the repeats of a set-up."""
        rows = self.table(table).filter(pl.col("setup") == setup, *(pl.col(k) == v for k, v in member.items()))
        value = rows[figure].cast(pl.Float64).mean()
        return float(value) if isinstance(value, float) else float("nan")

    def members(self, table: str, column: str) -> list[str]:
        return self.table(table)[column].unique(maintain_order=True).to_list()

    def faults(self, setup: str) -> list[str]:
        """Why the repeats of a set-up cannot be compared."""
        found = []
        for row in self.table("summary.csv").filter(pl.col("setup") == setup).iter_rows(named=True):
            if row["outcome"] != "completed" or row["completed"] != row["submitted"]:
                found.append(f"{row['outcome']} with {row['completed']} of {row['submitted']}")
            if row["valid"] is not True:
                found.append("not valid")
        return found

    def trials(self, setup: str) -> Iterator[Path]:
        for trial in sorted((self.out / "trials").iterdir()):
            if json.loads((trial / "trial.json").read_text())["setup"] == setup:
                yield trial


def run(scenario: str, on: str, repeat: int, out: Path, more: Sequence[str] = ()) -> Runs:
    if PRINT_ONLY.is_set():
        return Runs(out)
    command = [sys.executable, "-m", "seatrial", "run", scenario, "--on", on, "--repeat", str(repeat), *more]
    subprocess.run([*command, "-o", str(out), "--force"], stdout=subprocess.DEVNULL, check=False)
    return Runs(out)


def prefer() -> None:
    """Keeps every process below this one at an autogroup's nice value of -15, as long as this one runs."""
    while True:
        parents = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):  # it ended meanwhile
                if entry.name.isdigit():
                    parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        ours = {os.getpid()}
        while more := {process for process, parent in parents.items() if parent in ours} - ours:
            ours |= more
        for process in ours:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                group = Path(f"/proc/{process}/autogroup")
                if not group.read_text().endswith("nice -15\n"):
                    group.write_text("-15")
        time.sleep(1)


def off(sim: float, local: float, least: float = 0.0) -> tuple[bool, str]:
    """Whether both are within 10 %, and the two as text."""
    text = f"{sim:,.1f} / {local:,.1f}"
    if max(sim, local) <= least or sim == local:
        return True, text
    by = sim / local - 1 if local else float("inf")
    return abs(by) <= MOST, f"{text} ({by:+.0%})"


def evictions(trial: Path) -> pl.DataFrame:
    """With names of phases instead of numbers of workloads."""
    if not (trial / "evictions.parquet").is_file():
        return pl.DataFrame(schema={"at_ns": pl.Int64, "workload": pl.Int32, "phase": pl.String, "event": pl.String})
    lines = pl.read_ndjson(trial / "submitted.jsonl").select(pl.col("number").alias("workload"), "phase")
    lines = lines.with_columns(pl.col("workload").cast(pl.Int32))
    return pl.read_parquet(trial / "evictions.parquet").join(lines, on="workload", how="left")


def books(trial: Path) -> tuple[list[str], int]:
    """Faults: an eviction without a reason, or of a workload that has had no place since the one before. And how often real
    Kueue wrote an eviction before the admission that it had decided earlier (docs/stacks/kueue.md): the place is seen later."""
    found, crossed = [], 0
    for _, events in evictions(trial).sort("at_ns", maintain_order=True).group_by("workload", maintain_order=True):
        rows = events.to_dicts()
        places = [row["at_ns"] for row in rows if row["event"] != "evicted"]
        before = None
        for row in (row for row in rows if row["event"] == "evicted"):
            name, now = f"{row['phase']} {row['workload']}", row["at_ns"]
            if not row["reason"]:
                found.append(f"{name} was evicted without a reason")
            if before is not None and not any(before < place <= now for place in places):
                late = any(now < place <= now + CROSSED_NS for place in places)
                crossed += late
                found += [] if late else [f"{name} was evicted twice"]
            before = now
    return found, crossed


def report(name: str, setup: str, both: dict[str, Runs], parts: list[tuple[bool, str]]) -> bool:
    """Prints the line; whether all is well."""
    faults = [f"{on}: {fault}" for on, runs in both.items() for fault in runs.faults(setup)]
    crossed = 0
    for on, runs in both.items():
        for trial in runs.trials(setup):
            wrong, late = books(trial)
            faults += [f"{on}: {fault}" for fault in wrong]
            crossed += late
    line = f"shared_fleet {name} {setup}, sim / local: {'; '.join(text for _, text in parts)}"
    line += f"; evictions written before an earlier admission: {crossed}" if crossed else ""
    print(line + (f"; NOT WELL: {', '.join(dict.fromkeys(faults))}" if faults else ""), flush=True)
    return not faults and all(good for good, _ in parts)


def baseline(repeat: int, folder: Path) -> bool:
    file = folder / "baseline.yaml"
    shipped = (SCENARIOS / "kueue-baseline.yaml").read_text()
    file.write_text(re.sub(r"(?m)^settings:.*$", "settings: {qps: {equal: 50}}", shipped))
    more = ("--set", "cohorts=1,queues=3")
    both = {on: run(str(file), on, repeat, folder / f"baseline-{on}", more) for on in CLUSTERS}
    good = True
    for setup in both["local"].setups():
        parts = []
        for name in both["local"].members("classes.csv", "class"):
            waits = (both[on].mean("classes.csv", "wait_mean_s", setup, **{"class": name}) for on in CLUSTERS)
            fine, text = off(*waits)
            parts.append((fine, f"mean wait of {name} {text} s"))
        fine, text = off(*(both[on].mean("summary.csv", "total_s", setup) for on in CLUSTERS))
        parts.append((fine, f"total {text} s"))
        counts = " / ".join(f"{both[on].mean('classes.csv', 'evicted', setup):.1f}" for on in CLUSTERS)
        parts.append((True, f"evictions of a class {counts}"))
        good &= report("baseline", setup, both, parts)
    return good


def in_order(trial: Path) -> bool:
    """No gang of the low priority got a place again before all of the high had one."""
    lines = {row["number"]: row["phase"] for row in pl.read_ndjson(trial / "submitted.jsonl").iter_rows(named=True)}
    record = json.loads((trial / "trial.json").read_text())
    names = [stage["name"] for stage in record["stages"]]
    place = names.index("admitted" if "admitted" in names else "scheduled")
    seen = pl.read_parquet(trial / "observed.parquet").filter(pl.col("stage") == place)
    if "admitted" not in names:
        pods = pl.read_parquet(trial / "pods.parquet")["workload"].to_list()
        last = max(row["at_ns"] for row in seen.iter_rows(named=True) if lines[pods[row["object"]]] == "high")
    else:
        last = max(row["at_ns"] for row in seen.iter_rows(named=True) if lines[row["object"]] == "high")
    back = evictions(trial).filter(pl.col("event") == "readmitted", pl.col("phase") == "low")["at_ns"]
    return bool((back > last).all())


def wave(repeat: int, folder: Path) -> bool:
    good = True
    for stack, text in WAVES.items():
        file = folder / f"wave-{stack}.yaml"
        file.write_text(text)
        both = {on: run(str(file), on, repeat, folder / f"wave-{stack}-{on}") for on in CLUSTERS}
        fine, lost = off(*(both[on].mean("summary.csv", "work_lost_s", stack) for on in CLUSTERS))
        orders = {on: all(in_order(trial) for trial in both[on].trials(stack)) for on in CLUSTERS}
        totals = off(*(both[on].mean("summary.csv", "total_s", stack) for on in CLUSTERS))
        counts = " / ".join(f"{both[on].mean('summary.csv', 'evicted', stack):.1f}" for on in CLUSTERS)
        parts = [
            (True, f"evicted {counts}"),
            (fine, f"work lost {lost} core-s"),
            (all(orders.values()), "order " + " / ".join("right" if orders[on] else "WRONG" for on in CLUSTERS)),
            (True, f"total {totals[1]} s"),
        ]
        good &= report("wave", stack, both, parts)
    return good


def teams(repeat: int, folder: Path) -> bool:
    both = {on: run("two-teams", on, repeat, folder / f"teams-{on}", ("--set", "minute=3")) for on in CLUSTERS}
    good = True
    for setup in both["local"].setups():
        parts = []
        for queue in both["local"].members("queues.csv", "queue"):
            sim, local = (both[on].mean("queues.csv", "wait_mean_s", setup, queue=queue) for on in CLUSTERS)
            fine, wait = off(sim, local, LEAST_S)
            texts = [
                off(*(both[on].mean("queues.csv", figure, setup, queue=queue) for on in CLUSTERS))[1]
                for figure in ("evicted", "work_lost_s", "borrowed_s", "lent_s")
            ]
            said = "wait {} s, evicted {}, lost {}, borrowed {}, lent {} core-s".format(wait, *texts)
            parts.append((fine, f"{queue}: {said}"))
        good &= report("teams", setup, both, parts)
    return good


CASES = {"wave": wave, "teams": teams, "baseline": baseline}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="a folder that keeps the studies")
    parser.add_argument(
        "--print", action="store_true", help="run nothing: the lines of the studies in the folder of --keep"
    )
    parser.add_argument("--prefer", action="store_true", help="needs root, and a kernel with autogroups")
    asked = parser.parse_args()
    if asked.print:
        PRINT_ONLY.set()
    if asked.prefer:
        threading.Thread(target=prefer, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        kept = asked.keep or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        outcomes = [CASES[name](asked.repeat, kept) for name in asked.case or CASES]
        return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
