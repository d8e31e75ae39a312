"""The real AppWrapper operator: its phases become stages, and what does not run in time is reset and runs later."""

from __future__ import annotations

import itertools
from pathlib import Path

import polars as pl
import pytest

from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.stacks.appwrapper.real import BINARY
from tests.runs.conftest import Start, run_on_local

pytestmark = pytest.mark.local

# `gang` lacks a node until `blocker` is deleted: its AppWrapper is reset before that, at least once.
SCENARIO = """
name: reset
nodes: [{name: fake, count: 3, capacity: {cpu: 4, memory: 8Gi}, pods: {start: 200ms}}]
setups:
  as-is:
    stack: appwrapper
    settings: {qps: {equal: 200}, appwrapper: {admission-grace: 4s, warmup-grace: 5s, retry-pause: 2s, retry-limit: 50}}
steps:
  - submit: {name: short, count: 4, duration: 2s, requests: {cpu: 1}}
  - wait: {for: completed, timeout: 90s}
  - submit: {name: blocker, count: 1, duration: 30m, requests: {cpu: 4}}
  - wait: {for: pods_ready, of: blocker, timeout: 90s}
  - submit: {name: gang, gang: true, count: 1, pods: 3, duration: 1s, requests: {cpu: 4}}
  - pause: 20s
  - delete: {of: blocker}
  - wait: {for: completed, of: gang, timeout: 120s}
expect: ["completed == 5"]
"""


@pytest.fixture(scope="module", autouse=True)
def built_too() -> None:
    ensure_binaries((BINARY,))


@pytest.fixture
def study(start: Start, tmp_path: Path) -> Path:
    return run_on_local(start, tmp_path, SCENARIO, 250)


def test_every_phase_is_seen_and_a_gang_that_does_not_run_in_time_is_reset_and_runs_later(study: Path) -> None:
    times = pl.read_csv(study / "times.csv")
    short = times.filter(pl.col("phase") == "short")
    order = ["submitted", "created", "queued", "admitted", "resources_deployed", "running", "finished", "completed"]
    for before, after in itertools.pairwise([short[f"{stage}_s"] for stage in order]):
        assert (after - before > -0.05).all(), (before.name, after.name)  # two watches may differ by some milliseconds
    assert (short["succeeded_s"] - short["finished_s"] > -0.05).all()
    [blocker] = times.filter(pl.col("phase") == "blocker").to_dicts()
    assert blocker["pods_ready_s"] > blocker["resources_deployed_s"]
    events = pl.read_parquet(next(study.glob("trials/*/evictions.parquet")))
    assert set(events["workload"]) == {5}, "the gang, submitted last"
    evicted = events.filter(pl.col("event") == "evicted")
    assert set(evicted["reason"]) == {"timed-out"}
    assert evicted["message"].str.starts_with("InsufficientPodsReady: ").all()
    assert list(events["event"]) == ["evicted", "readmitted"] * evicted.height
