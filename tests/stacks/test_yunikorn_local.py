"""The real YuniKorn: gangs that reserve nodes with placeholders, which are no pods of theirs, and a scheduler that is killed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import polars as pl
import pytest

from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.stacks.yunikorn.real import BINARY, NAME
from tests.runs.conftest import Start, component_pid, run_on_local
from tests.waiting import eventually

pytestmark = pytest.mark.local

# Eight nodes that take one pod of a gang each, and gangs that fit at once: those that do not may deadlock after their time-out, as
# docs/stacks/yunikorn.md says. Then half of one holds four of eight nodes for as long as its placeholders may, because `blocker`
# has the rest.
SCENARIO = """
name: gangs
nodes:
  - {name: fake, count: 8, capacity: {cpu: 3, memory: 32Gi}, taints: ["kwok.x-k8s.io/node=fake:NoSchedule"],
     pods: {create: 200ms, start: 300ms}}
stacks: [yunikorn]
settings: {yunikorn: {placeholder-timeout: 5s, gang-style: Soft, interval: 500ms}}
steps:
  - submit: {name: gang, gang: true, sizes: [2, 3, 3], each: 1, order: shuffled, duration: 1s,
             requests: {cpu: 2, memory: 50M}}
  - submit: {name: single, count: 2, duration: 1s, requests: {cpu: 500m}}
  - wait: {for: completed, timeout: 100s}
  - submit: {name: blocker, count: 4, duration: 30s, requests: {cpu: 2}}
  - wait: {for: running, of: [blocker], timeout: 60s}
  - submit: {name: half, gang: true, count: 1, pods: 8, duration: 1s, requests: {cpu: 2}}
  - wait: {for: completed, timeout: 150s}
expect: ["completed == 10"]
"""


@pytest.fixture(scope="session", autouse=True)
def built_yunikorn() -> None:
    ensure_binaries((BINARY,))


def test_pods_of_a_gang_get_nodes_only_once_placeholders_hold_one_for_each_of_them_or_have_timed_out(
    start: Start, tmp_path: Path
) -> None:
    out = run_on_local(start, tmp_path, SCENARIO, 280)
    times = pl.read_csv(out / "times.csv")
    pods = pl.read_csv(out / "pods.csv")
    found = pods.group_by("workload").agg(pl.len(), bound=pl.col("bound_s").min(), nodes=pl.col("node").n_unique())
    found = found.join(times.select("workload", "phase", "size", "reserved_s"), on="workload")
    assert (found["len"] == found["size"]).all(), "placeholders are no pods of the workload"
    gangs = found.filter(pl.col("phase") == "gang")
    assert gangs["reserved_s"].null_count() < 3, "reserved whole, if the machine gave them their nodes in five seconds"
    assert (gangs["bound"] >= gangs["reserved_s"]).all()
    assert (gangs["nodes"] == gangs["size"]).all()
    # Its placeholders gave up, and its pods took what they got.
    assert found.filter(pl.col("phase") == "half")["reserved_s"].null_count() == 1


def test_a_killed_scheduler_is_started_again_and_the_run_completes(start: Start, tmp_path: Path) -> None:
    scenario = SCENARIO[: SCENARIO.index("  - submit: {name: blocker")].replace("duration: 1s", "duration: 3s")
    scenario = scenario.replace("count: 2", "count: 4")
    (tmp_path / "killed.yaml").write_text(scenario + 'expect: ["completed == 7"]\n')
    process = start("run", "killed.yaml", "--on", "local", "-o", "out")
    before = component_pid(NAME)
    observed = tmp_path / "out" / "trials" / "001-yunikorn-r1" / "submitted.jsonl"
    assert eventually(lambda: observed.exists() and len(observed.read_text().splitlines()) == 7)
    os.kill(before, signal.SIGKILL)
    _, words = process.communicate(timeout=200)
    assert process.returncode == 0, words
    [trial] = (tmp_path / "out" / "trials").glob("*/trial.json")
    assert any(NAME in death for death in json.loads(trial.read_text())["validity"]["deaths"])


TEAMS = """
name: teams
nodes:
  - {name: fake, count: 4, capacity: {cpu: 4, memory: 32Gi}, taints: ["kwok.x-k8s.io/node=fake:NoSchedule"],
     pods: {create: 200ms, start: 300ms}}
queues:
  red: {cohort: fleet, quota: {cpu: 8}}
  blue: {cohort: fleet, quota: {cpu: 8}}
  lone: {quota: {cpu: 0.2}}
preemption: {reclaim: any}
stacks: [yunikorn]
settings: {yunikorn: {preemption-delay: 4s, interval: 500ms}}
steps:
  - submit: {name: red, queue: red, count: 8, duration: 60s, requests: {cpu: 2}}
  - wait: {for: running, of: [red], timeout: 60s}
  - - submit: {name: blue, queue: blue, count: 4, duration: 2s, requests: {cpu: 2}}
    - submit: {name: lone, queue: lone, count: 4, duration: 2s, requests: {cpu: 100m}}
  - wait: {for: completed, of: [blue], timeout: 60s}
  - wait: {for: completed, timeout: 200s}
expect: ["completed == 16", "evicted > 0", "evicted <= 4"]
"""


def test_a_queue_takes_back_what_it_is_guaranteed_and_no_queue_has_more_than_its_maximum(
    start: Start, tmp_path: Path
) -> None:
    out = run_on_local(start, tmp_path, TEAMS, 280)
    times = pl.read_csv(out / "times.csv")
    blue, red = (times.filter(pl.col("phase") == phase) for phase in ("blue", "red"))
    assert blue["completed_s"].max() < red["completed_s"].max(), "blue did not wait for red"  # type: ignore[operator]
    evictions = pl.read_parquet(out / "trials" / "001-yunikorn-r1" / "evictions.parquet")
    assert set(evictions.filter(pl.col("event") == "evicted")["reason"]) == {"reclaimed"}
    lone = pl.read_csv(out / "pods.csv").filter(pl.col("workload").str.starts_with("lone"))
    together = max(
        ((lone["bound_s"] <= at) & (lone["finished_s"] > at)).sum() for at in lone["bound_s"].to_list()
    )  # fmt: skip
    assert together <= 2, "its maximum is its quota"
