"""The real Kueue in front of the real AppWrapper operator: quota, priorities and preemption are Kueue's."""

from __future__ import annotations

import itertools
from pathlib import Path

import polars as pl
import pytest

from seatrial import stacks
from seatrial.clusters.programs.binaries import ensure_binaries
from tests.runs.conftest import Start, run_on_local

pytestmark = pytest.mark.local

# `wide` fills the cohort; `back` takes its own quota back, so that Kueue evicts one of them, which runs again later.
SCENARIO = """
name: shared
nodes: [{name: fake, count: 3, capacity: {cpu: 4, memory: 8Gi}, pods: {start: 200ms}}]
queues:
  red: {cohort: all, quota: {cpu: 6}, borrow: any}
  blue: {cohort: all, quota: {cpu: 6}, borrow: any}
preemption: {reclaim: any}
stacks: [appwrapper-kueue]
settings: {qps: {equal: 200}}
steps:
  - submit: {name: wide, queue: red, count: 2, duration: 20s, pods: 3, gang: true, requests: {cpu: 2}}
  - wait: {for: running, of: wide, timeout: 60s}
  - submit: {name: back, queue: blue, count: 1, duration: 1s, pods: 3, gang: true, requests: {cpu: 2}}
  - wait: {for: completed, timeout: 120s}
expect: ["completed == submitted", "audit_quota_exceeded == 0"]
"""


@pytest.fixture(scope="module", autouse=True)
def built_too() -> None:
    ensure_binaries(stacks.find("appwrapper-kueue").real.programs())


def test_a_queue_takes_its_quota_back_and_the_appwrapper_that_gives_way_runs_again(
    start: Start, tmp_path: Path
) -> None:
    out = run_on_local(start, tmp_path, SCENARIO, 220)
    times = pl.read_csv(out / "times.csv")
    order = [
        "submitted",
        "created",
        "queued",
        "quota_reserved",
        "admitted",
        "resources_deployed",
        "running",
        "finished",
    ]
    back = times.filter(pl.col("phase") == "back")
    for before, after in itertools.pairwise([back[f"{stage}_s"] for stage in order]):
        assert (after - before > -0.05).all(), (before.name, after.name)  # two watches may differ by some milliseconds
    events = pl.read_parquet(next(out.glob("trials/*/evictions.parquet")))
    assert events["event"].to_list() == ["evicted", "readmitted"]
    assert events["reason"][0] == "reclaimed"
    assert events["by"][0] == 2, "the workload of the other queue, submitted last"
    pods = pl.read_csv(out / "pods.csv").filter(pl.col("workload").str.starts_with("wide"))
    assert pods["lost_s"].count() == 3, "the pods of the one that gave way"
