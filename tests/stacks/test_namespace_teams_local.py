"""Teams where a queue is a namespace, real: ResourceQuotas, and kube-scheduler's preemption. What it takes beside the model:
benchmarks/shared_fleet.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.conftest import COMMAND, Seatrial, command_in

pytestmark = pytest.mark.local

# Four nodes are full of the gangs of one team. Those of the other evict half of them; its quota has room for two at a time.
# Pods run 16 s, so that none ends before the other team comes, also on a busy machine (12 s were too few once).
SCENARIO = """
name: shared
nodes: [{name: fake, count: 4, capacity: {cpu: 8, memory: 32Gi}}]
stacks: [default]
priorities: {batch: 10, urgent: 100}
queues: {red: {quota: {cpu: 32}}, blue: {quota: {cpu: 16, memory: 32Gi}}}
steps:
  - - submit: {name: gang, queue: red, priority: batch, gang: true, count: 2, pods: 4, duration: 16s, checkpoint: 2s,
               requests: {cpu: 2}}
    - submit: {name: plain, queue: red, priority: batch, count: 8, duration: 16s, requests: {cpu: 2}}
  - wait: {for: running, timeout: 60s}
  - pause: 5s
  - submit: {name: urgent, queue: blue, priority: urgent, gang: true, count: 3, pods: 2, duration: 2s, requests: {cpu: 4}}
  - wait: {for: completed, timeout: 100s}
expect: ["completed == submitted"]
"""


@pytest.fixture(scope="module", params=["default", "coscheduling", "gang"])
def study(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """One run per stack for all tests of this module."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "shared.yaml").write_text(SCENARIO)
    done = command_in(folder, *COMMAND)("run", "shared.yaml", "--on", "local", "--stack", request.param, "-o", "out")
    assert done.returncode == 0, done.stderr
    return folder / "out"


@pytest.fixture(scope="module")
def trial(study: Path) -> dict[str, Any]:
    [file] = study.glob("trials/*/trial.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


@pytest.fixture(scope="module")
def pods(study: Path) -> pl.DataFrame:
    return pl.read_csv(study / "pods.csv", infer_schema_length=None)


@pytest.fixture(scope="module")
def evictions(study: Path) -> pl.DataFrame:
    [file] = study.glob("trials/*/evictions.parquet")
    names = pl.read_csv(study / "times.csv").with_row_index("workload_number")["workload"]
    return pl.read_parquet(file).with_columns(
        name=names.gather(pl.read_parquet(file)["workload"]), at=pl.col("at_ns") / 1e9
    )


def test_a_trial_with_preemptions_is_valid_and_loses_nothing(trial: dict[str, Any]) -> None:
    assert trial["validity"]["valid"], trial["validity"]["reasons"]
    assert trial["outcome"] == "completed"


def test_no_team_ever_holds_more_than_its_quota(pods: pl.DataFrame) -> None:
    urgent = pods.filter(pl.col("workload").str.starts_with("urgent"))
    ends = urgent.select(at=pl.coalesce("lost_s", "finished_s"), held=pl.lit(-4))
    begins = urgent.select(at="created_s", held=pl.lit(4))
    # A millisecond for pods that are created the moment another has finished: their times come from two requests.
    held = pl.concat([begins.with_columns(at=pl.col("at") + 0.001), ends]).sort("at")["held"].cum_sum()
    assert held.max() == 16
    assert urgent["lost_s"].null_count() == urgent.height == 6


def test_the_urgent_ones_evict_others_and_every_eviction_names_them(
    evictions: pl.DataFrame, pods: pl.DataFrame
) -> None:
    lost = pods.filter(pl.col("lost_s").is_not_null())
    evicted = evictions.filter(pl.col("event") == "evicted")
    assert lost.height >= 8, "two urgent gangs take the place of at least eight pods"
    assert set(evicted["name"]) == set(lost["workload"])
    assert set(evicted["reason"]) == {"preempted"}
    first, names = evictions["workload"].max(), set(evicted["by"])
    assert all(by > first for by in names), "each was evicted by one of the urgent, which came last"


def test_an_evicted_workload_is_whole_again_before_it_is_evicted_again(evictions: pl.DataFrame) -> None:
    for events in evictions.group_by("name", maintain_order=True).agg("event")["event"]:
        assert list(events) == ["evicted", "readmitted"] * (len(events) // 2)


def test_a_gang_continues_at_its_checkpoint_and_what_has_none_begins_again(pods: pl.DataFrame) -> None:
    """Pods of 16 s had run for 5 s and more, so at least 4 s of the gangs were saved."""
    ended = pods.filter(pl.col("finished_s").is_not_null()).join(
        pods.filter(pl.col("lost_s").is_not_null()).select("workload").unique(), on="workload", how="semi"
    )
    ran = ended.with_columns(ran=pl.col("finished_s") - pl.col("started_s"))
    plain = ran.filter(pl.col("workload").str.starts_with("plain"))["ran"]
    assert (plain > 15.9).all()
    gangs = ran.filter(pl.col("workload").str.starts_with("gang")).group_by("workload").agg(pl.col("ran").min())["ran"]
    assert len(gangs) and (gangs < 13.5).all()


def test_a_dry_run_counts_the_objects_of_queues(seatrial: Seatrial, tmp_path: Path) -> None:
    (tmp_path / "shared.yaml").write_text(SCENARIO)
    said = seatrial("run", "shared.yaml", "--on", "local", "--dry-run").stdout
    assert "2 LimitRange, 2 ResourceQuota" in " ".join(said.split())
