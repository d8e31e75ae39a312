"""The real Volcano: its stages, its queues, evictions with their reasons, and a scheduler that is killed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import polars as pl
import pytest

from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.stacks.volcano.real import BINARY, NAME
from tests.runs.conftest import Start, component_pid
from tests.waiting import eventually

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
    (tmp_path / "teams.yaml").write_text(TEAMS)
    process = start("run", "teams.yaml", "--on", "local", "-o", "out")
    _, words = process.communicate(timeout=250)
    assert process.returncode == 0, words
    [trial] = (tmp_path / "out" / "trials").iterdir()
    sent = [json.loads(line) for line in (trial / "submitted.jsonl").read_text().splitlines()]
    phase = {line["number"]: line["workload"].partition("-")[0] for line in sent}
    events = pl.read_parquet(trial / "evictions.parquet").filter(pl.col("event") == "evicted")
    found = {(phase[row["workload"]], row["reason"]) for row in events.iter_rows(named=True)}
    assert {("borrower", "reclaimed"), ("owner", "preempted")} <= found
    assert events.filter(pl.col("reason") == "reclaimed").height >= 4
    by = events.filter(pl.col("reason") == "preempted")["by"].to_list()
    assert {phase.get(number) for number in by} == {"urgent"}  # the pod that preempts is nominated to the node
    times = pl.read_csv(tmp_path / "out" / "times.csv", infer_schema_length=None)
    assert times["inqueue_s"].null_count() == 0
    assert (
        times["inqueue_s"] > times["submitted_s"]
    ).all()  # the group is there before its Job, and may be let in before


def test_a_killed_scheduler_is_started_again_and_the_run_completes(start: Start, tmp_path: Path) -> None:
    process = start("run", "small.yaml", "--on", "local", "--stack", "volcano", "-o", "out", "--set", "jobs=30")
    before = component_pid(NAME)
    jobs = tmp_path / "out" / "trials" / "001-volcano-r1" / "submitted.jsonl"
    assert eventually(lambda: jobs.is_file() and jobs.stat().st_size > 0)
    os.kill(before, signal.SIGKILL)
    _, words = process.communicate(timeout=150)
    assert process.returncode == 0, words
    row = pl.read_csv(tmp_path / "out" / "summary.csv").row(0, named=True)
    assert (row["submitted"], row["completed"], row["outcome"]) == (30, 30, "completed")
    trial = json.loads(next(tmp_path.glob("out/trials/*/trial.json")).read_text())
    assert any(NAME in death for death in trial["validity"]["deaths"])
