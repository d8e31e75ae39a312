"""The AppWrapper operator's model: its phases, its grace periods and retries, and what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

from seatrial.model.plan import NodeGroup, Pace, PodShape, Scalar, Span, Step, Trial
from seatrial.model.units import HOUR, MINUTE, SECOND
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from tests.sim.making import GI, Ran, run, trial

NODES = NodeGroup("fake", 3, {"cpu": 4000, "memory": 64 * GI, "pods": 110}, start=Span(SECOND))


def named(name: str, count: int = 1, pods: int = 1, cpu: int = 1, seconds: float = 5, **more: object) -> Submit:
    shape = PodShape({"cpu": cpu * 1000, "memory": 100_000_000})
    return Submit(name, count, (pods,), False, shape, int(seconds * SECOND), gang=pods > 1, **more)  # type: ignore[arg-type]


def wrapped(
    *steps: Step,
    nodes: NodeGroup = NODES,
    qps: str | float = "as shipped",
    settings: Mapping[str, Scalar] | None = None,
) -> Trial:
    own = {"appwrapper": settings or {}}
    return trial(*steps, nodes=[nodes], stack="appwrapper", qps=qps, settings=own)


def reached(ran: Ran, phase: str, stage: str) -> list[float]:
    """When the workloads of a phase reached a stage, in seconds."""
    numbers = [n for n, name in enumerate(ran.cluster.ledger.workload_phase) if name == ran.cluster.ledger.phase(phase)]
    seen = ran.seen.filter((pl.col("stage") == stage) & pl.col("object").is_in(numbers))
    return sorted((seen["at_ns"] / 1e9).to_list())


DONE = (Wait("done", "succeeded", timeout=HOUR),)
# 9 of 12 cores are taken until the blocker is deleted: two of three pods of a gang find a node.
BLOCKED = ((named("blocker", 1, cpu=4, seconds=7200),), (Pause("a", 3 * SECOND),), (named("gang", 1, 3, cpu=4),))


def blocked(rest_s: int, settings: Mapping[str, Scalar] | None = None) -> Trial:
    freed: tuple[Step, ...] = ((Pause("b", rest_s * SECOND),), (DeleteWorkloads("c", ("blocker",)),))
    end: Step = (Wait("done", "completed", of=("gang",), timeout=2 * HOUR, go_on=True),)
    return wrapped(*BLOCKED, *freed, end, settings=settings)


def test_an_appwrapper_passes_all_stages_in_order(tmp_path: Path) -> None:
    ran = run(wrapped((named("one", seconds=30),), DONE, (Wait("all", "completed"),)), tmp_path)
    order = ["submitted", "created", "queued", "admitted", "resources_deployed", "pods_ready", "succeeded", "completed"]
    times = [ran.times(stage)[0] for stage in order]
    assert times == sorted(times)
    assert times[5] == pytest.approx(5, abs=0.2), "it looks again 5 s after its first look"
    assert times[7] - times[6] == pytest.approx(1, abs=0.2), (
        "it looks at pods, and the Job controller is a second later"
    )


def test_until_its_job_exists_an_appwrapper_costs_four_writes_through_a_bucket_of_its_kind(tmp_path: Path) -> None:
    """Two patches of the phase, the finalizer, one patch of the component, the Job, then one more patch, and the phase Running:
    at 20 per second, 100 AppWrappers that arrive together take 30 s less a burst of 30."""
    nodes = NodeGroup("fake", 3, {"cpu": 64_000, "memory": 64 * GI, "pods": 110}, start=Span(SECOND))
    ran = run(wrapped((named("many", 100, seconds=600),), (Wait("d", "resources_deployed"),), nodes=nodes), tmp_path)
    last = reached(ran, "many", "resources_deployed")[-1]
    assert last > (100 * 6 - 30) / 20
    fast = wrapped((named("many", 100, seconds=600),), (Wait("d", "resources_deployed"),), nodes=nodes, qps=1000)
    assert reached(run(fast, tmp_path / "fast"), "many", "resources_deployed")[-1] < last / 4


def test_appwrappers_that_wait_for_nodes_use_up_the_bucket_of_the_others(tmp_path: Path, sent: Counter[str]) -> None:
    settings = {"warmup-grace": HOUR}
    steps = ((named("stuck", 10, 4, cpu=4),), (Pause("a", 60 * SECOND),))
    run(wrapped(*steps, settings=settings), tmp_path)
    assert sent["appwrapper"] == pytest.approx(10 * 6 + 10 * 60 / 5, rel=0.1), (
        "each looks every five seconds, and writes"
    )


def test_a_gang_that_does_not_run_in_time_is_reset_and_runs_when_there_is_room(tmp_path: Path) -> None:
    ran = run(blocked(350), tmp_path)
    resets = ran.evictions.filter(pl.col("event") == "evicted")
    assert resets["reason"].to_list() == ["timed-out"]
    assert resets["message"][0] == "InsufficientPodsReady: 1 pods pending; 2 pods running; 0 pods succeeded"
    deployed = reached(ran, "gang", "resources_deployed")[0]
    evicted, readmitted = (ran.evictions["at_ns"] / 1e9).to_list()
    assert evicted - deployed == pytest.approx(5 * 60 + 2.5, abs=3), "the warm-up grace, seen at the next look"
    assert readmitted - evicted == pytest.approx(90, abs=2), "the pause between retries"
    assert reached(ran, "gang", "completed")[0] == pytest.approx(readmitted + 1 + 5 + 1, abs=1)


def test_after_its_last_retry_it_has_failed_and_its_nodes_are_free(tmp_path: Path) -> None:
    settings = {
        "admission-grace": 10 * SECOND,
        "warmup-grace": 10 * SECOND,
        "retry-pause": 2 * SECOND,
        "retry-limit": 2,
    }
    late: tuple[Step, ...] = ((Pause("b", 2 * MINUTE),), (named("late", 2, cpu=4),))
    end: Step = (Wait("done", "completed", of=("late",), timeout=HOUR),)
    ran = run(wrapped(*BLOCKED, *late, end, settings=settings), tmp_path)
    assert len(ran.evictions.filter(pl.col("event") == "evicted")) == 2
    assert len(reached(ran, "gang", "failed")) == 1
    assert len(reached(ran, "late", "completed")) == 2


def test_a_reset_gang_leaves_no_pod_behind(tmp_path: Path) -> None:
    settings = {"admission-grace": 10 * SECOND, "warmup-grace": 10 * SECOND, "retry-pause": 60 * SECOND}
    ran = run(wrapped(*BLOCKED, (Pause("b", 30 * SECOND),), settings=settings), tmp_path)
    assert len(reached(ran, "gang", "failed")) == 0
    lost = ran.seen.filter(pl.col("stage") == "lost")
    assert lost.height == 3
    holders = [one.name for one in ran.cluster.state().workloads if one.nodes]
    assert holders == ["blocker-0"]


def test_burst_orders_arrivals_as_they_came(tmp_path: Path) -> None:
    ran = run(wrapped((named("some", 5, pace=Pace("rate", per_s=10)),), DONE), tmp_path)
    queued, admitted = reached(ran, "some", "queued"), reached(ran, "some", "admitted")
    assert all(one < other for one, other in zip(queued, admitted, strict=True))
