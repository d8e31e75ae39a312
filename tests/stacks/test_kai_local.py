"""The real KAI: its stage, its queues, evictions with their reasons, and a scheduler and a binder that are killed."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.stacks.kai.real import BINDER, SCHEDULER
from tests.runs.conftest import Start, run_on_local

pytestmark = pytest.mark.local

# Blue borrows all of red's quota; red comes back for it, and then a higher priority preempts in red.
TEAMS = """
name: teams
nodes: [{name: fake, count: 2, capacity: {cpu: 4, memory: 8Gi}, pods: {create: 100ms, start: 200ms}}]
stacks: [kai]
priorities: {low: 10, high: 50}
queues: {red: {cohort: all, quota: {cpu: 4}}, blue: {cohort: all, quota: {cpu: 4}}}
preemption: {within-queue: lower-priority, reclaim: any, fair-sharing: true}
steps:
  - submit: {name: borrower, queue: blue, count: 8, duration: 40s, requests: {cpu: 1}}
  - wait: {for: running, of: [borrower], timeout: 30s}
  - submit: {name: owner, queue: red, priority: low, count: 4, duration: 40s, requests: {cpu: 1}}
  - wait: {for: running, of: [owner], timeout: 30s}
  - submit: {name: urgent, queue: red, priority: high, count: 1, duration: 1s, requests: {cpu: 1}}
  - wait: {for: completed, of: [urgent], timeout: 20s}
  - wait: {for: completed, timeout: 120s}
expect: ["completed == 13"]
"""


@pytest.fixture(scope="module", autouse=True)
def built_kai() -> None:
    ensure_binaries((SCHEDULER, BINDER))


def test_a_queue_takes_its_quota_back_a_priority_preempts_and_whoever_was_evicted_runs_again(
    start: Start, tmp_path: Path
) -> None:
    out = run_on_local(start, tmp_path, TEAMS, 250)
    [trial] = (out / "trials").iterdir()
    sent = [json.loads(line) for line in (trial / "submitted.jsonl").read_text().splitlines()]
    phase = {line["number"]: line["workload"].partition("-")[0] for line in sent}
    events = pl.read_parquet(trial / "evictions.parquet").filter(pl.col("event") == "evicted")
    found = {(phase[row["workload"]], row["reason"]) for row in events.iter_rows(named=True)}
    assert {("borrower", "reclaimed"), ("owner", "preempted")} <= found
    by = events.filter(pl.col("reason") == "reclaimed")["by"].to_list()
    assert {phase[number] for number in by} == {"owner"}, "KAI says for whom"
    times = pl.read_csv(out / "times.csv", infer_schema_length=None)
    assert times["bind_requested_s"].null_count() == 0
    assert (times["bind_requested_s"] > times["created_s"]).all()
    assert (
        times["scheduled_s"] >= times["bind_requested_s"] - 0.05
    ).all()  # two watches may differ by some milliseconds
