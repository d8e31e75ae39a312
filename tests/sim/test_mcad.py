"""MCAD's queue under contention: what becomes of events that are older than what they tell."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from seatrial.model.plan import PodShape, Toleration
from seatrial.model.units import HOUR
from seatrial.scenario.actions.wait import Wait
from seatrial.sim.goroutines import Goroutine
from seatrial.stacks.mcad import model_140
from seatrial.stacks.mcad.model import WrapperCopy
from tests.sim.making import fakes, run, submit, trial

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


def test_a_backed_off_appwrapper_does_not_wait_behind_events_that_the_informer_has_not_delivered(
    contended: Watched,
) -> None:
    waited = [
        (contended.turns.index(number, turns) - turns, backlog)
        for turns, number, backlog in contended.due
        if number in contended.turns[turns:]
    ]
    assert max(backlog for _, backlog in waited) > 100
    assert all(others <= 20 for others, _ in waited)  # 5 are seen; behind the backlog it would be as many as that
