"""Kueue in front of the AppWrapper operator as it is modelled: whose quota is held how long, and who evicts whom."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from seatrial import stacks
from seatrial.model.fleet import ANY, Fleet, Preemption, Queue
from seatrial.model.plan import Scalar, Step, Trial
from seatrial.model.units import SECOND
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from tests.sim.fleets import queue, to_queue
from tests.sim.making import Ran, fakes, run, trial

TEAMS = (queue("red", 6), queue("blue", 6))
DONE = (Wait("done", "completed"),)


def teams(
    *steps: Step,
    stack: str = "appwrapper-kueue",
    queues: tuple[Queue, ...] = TEAMS,
    cpu: int = 4000,
    settings: Mapping[str, Mapping[str, Scalar]] | None = None,
) -> Trial:
    fleet = Fleet(queues, preemption=Preemption(reclaim=ANY))
    return trial(*steps, nodes=[fakes(3, cpu=cpu)], stack=stack, qps=200.0, fleet=fleet, settings=settings)


def gang(name: str, of: str, count: int = 1, seconds: float = 20) -> Submit:
    return replace(to_queue(name, of, count=count, cpu=2, pods=3, seconds=seconds), gang=True)


def taken_back(stack: str, directory: Path) -> Ran:
    """`wide` fills the cohort; `back` takes its own quota back."""
    steps = ((gang("wide", "red", 2),), (Pause("both run", 8 * SECOND),), (gang("back", "blue", seconds=1),), DONE)
    return run(teams(*steps, stack=stack), directory)


def test_an_appwrapper_passes_the_stages_of_both_in_order(tmp_path: Path) -> None:
    ran = run(teams((gang("one", "red"),), (Wait("all", "released"),), DONE), tmp_path)
    order = [
        "submitted", "created", "queued", "quota_reserved", "admitted", "resources_deployed", "pods_ready", "succeeded", "released",
    ]  # fmt: skip
    times = [ran.times(stage)[0] for stage in order]
    assert all(before <= after for before, after in itertools.pairwise(times)), times


def test_nothing_is_deployed_before_it_is_admitted(tmp_path: Path) -> None:
    steps = ((gang("first", "red", 2, seconds=30),), (Pause("both run", 8 * SECOND),), (gang("then", "red"),), DONE)
    ran = run(teams(*steps), tmp_path)
    assert ran.ending.outcome == "completed"
    assert ran.times("resources_deployed")[2] > 30


def test_a_queue_takes_its_quota_back_and_what_gave_way_runs_again(tmp_path: Path) -> None:
    ran = taken_back("appwrapper-kueue", tmp_path)
    assert ran.ending.outcome == "completed"
    assert ran.evictions["event"].to_list() == ["evicted", "readmitted"]
    assert (ran.evictions["reason"][0], ran.evictions["by"][0]) == ("reclaimed", 2)


def test_an_eviction_hands_the_quota_on_later_than_with_jobs_since_the_operator_looks_every_five_seconds(
    tmp_path: Path,
) -> None:
    waits = {}
    for stack in ("kueue", "appwrapper-kueue"):
        ran = taken_back(stack, tmp_path / stack)
        evicted = ran.evictions.filter(pl.col("event") == "evicted")["at_ns"][0]
        waits[stack] = ran.times("admitted")[2] - evicted / 1e9
    assert waits["kueue"] < 3
    assert 4.5 < waits["appwrapper-kueue"] < 8


def test_a_reset_by_the_operator_keeps_the_quota(tmp_path: Path) -> None:
    """Nodes of 3 cores take one pod of 2 each, and two are taken by others: the gang is never whole, and starts anew."""
    own: Mapping[str, Mapping[str, Scalar]] = {
        "appwrapper": {
            "admission-grace": 2 * SECOND,
            "warmup-grace": 10 * SECOND,
            "retry-pause": 5 * SECOND,
            "retry-limit": 1,
        }
    }
    base = to_queue("base", "blue", count=2, cpu=2, seconds=300)
    steps = ((base,), (Pause("they run", 5 * SECOND),), (gang("gang", "red"),), (Pause("a reset", 30 * SECOND),))
    ran = run(teams(*steps, cpu=3000, settings=own), tmp_path)
    assert ran.evictions.filter(pl.col("event") == "evicted")["reason"].to_list() == ["timed-out"]
    assert ran.count("quota_reserved") == 3
    assert ran.count("released") <= 1


def test_it_refuses_what_was_never_tried_with_appwrappers() -> None:
    refuses = stacks.find("appwrapper-kueue").refuses
    assert "topology" in (refuses(teams((gang("one", "red"),), settings={"kueue": {"topology": True}})) or "")
    assert "checkpoint" in (refuses(teams((replace(gang("one", "red"), checkpoint=SECOND),))) or "")
