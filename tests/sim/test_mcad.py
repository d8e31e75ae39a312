"""MCAD's queue under contention: what becomes of events that are older than what they tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from seatrial import stacks
from seatrial.model.plan import PodShape, Toleration
from seatrial.model.units import HOUR
from seatrial.scenario.actions.wait import Wait
from seatrial.sim.goroutines import Goroutine
from seatrial.stacks.mcad import model_140
from seatrial.stacks.mcad.model import WrapperCopy
from tests.sim.making import fakes, run, submit, to_the_end, trial

NODES, JOBS = 30, 200


class Watched(model_140.Mcad140):
    """Notes the worker's turns, and when timers put a backed-off AppWrapper back."""

    made: ClassVar[list[Watched]] = []
    turns: list[int]
    due: list[tuple[int, int, int]]  # turns before, which AppWrapper, events that the informer has not delivered yet
    revived: int

    def first_seen(self, wrapper: WrapperCopy) -> None:
        if self not in self.made:
            self.made.append(self)
            self.turns, self.due, self.revived = [], [], 0
        super().first_seen(wrapper)

    def process(self, wrapper: WrapperCopy) -> Goroutine:
        self.turns.append(wrapper.number)
        yield from super().process(wrapper)

    def delay(self, wrapper: WrapperCopy) -> int:
        delay = super().delay(wrapper)
        if delay:
            self.sim.kernel.at(self.sim.kernel.now + delay, self._note, wrapper.number)
        return delay

    def create_job(self, number: int) -> Goroutine:
        self.revived += number in self.complete
        yield from super().create_job(number)

    def _note(self, number: int) -> None:
        self.due.append((len(self.turns), number, len(self._events)))


@pytest.fixture
def contended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """200 one-pod Jobs on nodes for 30, to the end."""
    Watched.made.clear()
    monkeypatch.setattr(model_140, "Mcad140", Watched)
    load = submit(JOBS, shape=PodShape({"cpu": 1000}, tolerations=(Toleration(),)), seconds=120)
    ran = run(
        trial((load,), (Wait("all", "completed", timeout=100 * HOUR),), stack="mcad", nodes=[fakes(NODES, cpu=1000)]),
        tmp_path,
    )
    assert ran.ending.outcome == "completed"
    [model] = Watched.made
    return model


def test_a_completed_appwrapper_is_not_dispatched_again_by_an_event_from_before_its_end(contended: Watched) -> None:
    old = [number for number in contended.complete if contended.turns.count(number) > 2]
    assert len(old) > 10
    assert contended.revived == 0


def test_a_timer_that_is_due_does_not_wait_behind_events_that_the_informer_has_not_delivered(
    contended: Watched,
) -> None:
    waited = [
        (contended.turns.index(number, turns) - turns, backlog)
        for turns, number, backlog in contended.due
        if number in contended.turns[turns:]
    ]
    behind = [others for others, backlog in waited if backlog > 100]
    assert len(behind) > 5
    assert all(others <= 20 for others in behind)  # 2 are seen; behind the backlog it would be as many as that


def test_a_timer_is_set_only_when_the_informer_has_delivered_what_came_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real MCAD: a gang that had no room, while 16 single pods were queued, came back after all of them (gpu-mix-short)."""
    Watched.made.clear()
    monkeypatch.setattr(model_140, "Mcad140", Watched)
    shape, singles = PodShape({"cpu": 1000}, tolerations=(Toleration(),)), 16
    loads = (
        replace(submit(1, 50, shape, 200), name="filler"),
        replace(submit(1, 30, shape, 1), name="large"),
        replace(submit(singles, 1, shape, 100), name="single"),
    )
    at_once = [(load,) for load in loads]
    run(trial(*at_once, (Wait("all", "completed", timeout=HOUR),), stack="mcad", nodes=[fakes(70, cpu=1000)]), tmp_path)
    [model] = Watched.made
    large = 1
    tries = [turn for turn, number in enumerate(model.turns) if number == large]
    first_try, second_try = tries[1:3]  # its first turn queues it
    between = set(model.turns[first_try + 1 : second_try])
    assert between >= set(range(2, 2 + singles))


def test_gpus_that_count_twice_keep_no_appwrapper_waiting_that_asks_for_none(tmp_path: Path) -> None:
    """10 of 16 GPUs are bound and do not run yet, so they count as 20; MCAD takes what is left for 0, and 0 suffices."""
    gpus = PodShape({"cpu": 1000, "nvidia.com/gpu": 5}, tolerations=(Toleration(),))
    cores = PodShape({"cpu": 1000}, tolerations=(Toleration(),))
    first = replace(submit(1, 2, gpus, 30), name="gpus")
    steps = ((first,), (Wait("bound", "scheduled"),), *to_the_end(replace(submit(1, 1, cores, 1), name="cores")))
    ran = run(trial(*steps, stack="mcad", nodes=[fakes(2, **{"nvidia.com/gpu": 8})]), tmp_path)
    assert ran.ending.outcome == "completed"
    with_gpus, without = ran.times("admitted")
    assert without - with_gpus < 1, "without a backoff of 20 s"


def test_priorities_are_said_to_have_no_effect_on_the_queue() -> None:
    low, high = (submit(2, shape=replace(PodShape({"cpu": 1000}), priority=value)) for value in (1, 2))
    [said] = stacks.find("mcad").findings(trial((low, high), stack="mcad"))
    assert "`priority` has no effect on the queue of MCAD" in said
    assert stacks.find("mcad").findings(trial((low,), stack="mcad")) == ()
