"""The real Volcano: its stages, its queues, evictions with their reasons, and a scheduler that is killed."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.stacks.volcano.real import BINARY
from tests.runs.conftest import Start, run_on_local

pytestmark = pytest.mark.local

# Blue borrows all of red's quota; red comes back for it. Then a higher priority preempts in red, which is below its capability.
# Without the plugin overcommit: those of blue that were evicted would be all that it lets in, and the higher priority would wait.
TEAMS = """
name: teams
nodes: [{name: fake, count: 2, capacity: {cpu: 4, memory: 8Gi}, pods: {create: 100ms, start: 200ms}}]
stacks: [volcano]
priorities: {low: 10, high: 50}
queues: {red: {cohort: all, quota: {cpu: 4}}, blue: {cohort: all, quota: {cpu: 4}}}
preemption: {within-queue: lower-priority, reclaim: any}
settings:
  volcano:
    actions: enqueue, allocate, backfill, reclaim, preempt
    plugins: priority, gang, conformance; drf, predicates, capacity, nodeorder, binpack
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
def built_volcano() -> None:
    ensure_binaries((BINARY,))


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
    assert events.filter(pl.col("reason") == "reclaimed").height >= 4
    by = {
        reason: {phase.get(number) for number in events.filter(pl.col("reason") == reason)["by"].to_list()}
        for reason in ("preempted", "reclaimed")
    }
    assert by["preempted"] == {"urgent"}  # the pod that preempts is nominated to the node
    assert None not in by["reclaimed"] and "owner" in by["reclaimed"]  # the log names the pod that reclaims
    times = pl.read_csv(out / "times.csv", infer_schema_length=None)
    assert times["inqueue_s"].null_count() == 0
    assert (
        times["inqueue_s"] > times["submitted_s"]
    ).all()  # the group is there before its Job, and may be let in before
