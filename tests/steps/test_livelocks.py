"""Preemptors that evict each other are found and explained; evictions that resolve are not called a livelock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seatrial import stacks
from seatrial.clog import livelock, stuck
from seatrial.model.fleet import FAIR_SHARING, PREEMPTED, RECLAIMED, TIMED_OUT, FlavorQuota, Fleet, Queue
from seatrial.model.lifecycle import ADMITTED, QUEUED, RELEASED, lifecycle_with
from seatrial.model.plan import PodShape, Toleration, Workload
from seatrial.model.settings import Settings
from seatrial.model.units import MINUTE, SECOND
from seatrial.record.eviction_turns import EvictionTurns
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.stacks.base import StackBase
from tests.clog.making import gang, state
from tests.sim.making import Ran, fakes, run, to_the_end, trial

WHOLE = PodShape({"cpu": 3000}, tolerations=(Toleration(),))
QUEUES = Fleet(tuple(Queue(name, (FlavorQuota("", {"cpu": 3000}),), "all") for name in ("red", "blue")))


class _Rivals(StackBase):
    """A queue whose quota has room for one workload: every few seconds the one that waits takes the place of the other, for so many
    rounds, and lets it finish afterwards. The first rounds may be `slow`: 20 s."""

    name = "rivals"
    stages = lifecycle_with(QUEUED, ADMITTED, RELEASED)

    def __init__(self, rounds: int, slow: int = 0) -> None:
        self._rounds, self._slow = rounds, slow

    def model(self, sim: Any, settings: Settings) -> Callable[[int, Workload], None]:  # noqa: ARG002
        waiting: list[int] = []
        had: set[int] = set()
        holder: list[int] = []
        left = [self._rounds]

        def lasts() -> int:
            return (20 if self._rounds - left[0] < self._slow else 4) * SECOND

        def admit(number: int) -> None:
            holder[:] = [number]
            sim.jobs.resume(number)
            if number in had:
                sim.ledger.readmit(sim.kernel.now, number)
            else:
                had.add(number)
                sim.reach(number, ADMITTED)

        def take(_: object) -> None:
            if waiting and holder and left[0]:
                left[0] -= 1
                loser, winner = holder[0], waiting.pop(0)
                sim.ledger.evict(sim.kernel.now, loser, RECLAIMED if loser % 2 else FAIR_SHARING, winner)
                sim.jobs.suspend(loser)
                waiting.append(loser)
                admit(winner)
            if waiting and left[0]:
                sim.kernel.at(sim.kernel.now + lasts(), take, None)

        def completed(number: int) -> None:
            sim.reach(number, RELEASED)
            if holder == [number]:
                holder.clear()
                if waiting:
                    admit(waiting.pop(0))

        def created(number: int, workload: Workload) -> None:
            sim.jobs.add(number, workload, suspended=True)
            sim.reach(number, QUEUED)
            if holder:
                waiting.append(number)
                if len(waiting) == 1:
                    sim.kernel.at(sim.kernel.now + lasts(), take, None)
            else:
                admit(number)

        sim.when_completed.append(completed)
        return created


def rivals(
    rounds: int, directory: Path, monkeypatch: pytest.MonkeyPatch, seconds: float = 30, slow: int = 0, **more: Any
) -> Ran:
    red, blue = (
        Submit(name, 1, (1,), False, WHOLE, int(seconds * SECOND), queue=name, **more) for name in ("red", "blue")
    )
    monkeypatch.setattr(stacks, "find", lambda _name: _Rivals(rounds, slow))
    return run(trial(*to_the_end(red, blue), nodes=[fakes(2, cpu=3000)], fleet=QUEUES), directory)


def test_two_preemptors_that_evict_each_other_are_a_livelock_within_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = rivals(1_000_000, tmp_path, monkeypatch)
    assert ran.ending.outcome == "clogged" and ran.ending.clog
    diagnosis = ran.ending.clog.diagnosis
    assert diagnosis.kind == "livelock" and set(diagnosis.workloads) == {"red-0", "blue-0"}
    assert ran.ending.clog.at <= MINUTE
    for words in (
        "red-0 (queue red)",
        "blue-0 (queue blue)",
        "evict each other",
        "reclaimed",
        "fair-sharing",
        "To end it,",
    ):
        assert words in diagnosis.summary, diagnosis.summary
    assert {(edge.holder, edge.waiter) for edge in diagnosis.edges} == {("red-0", "blue-0"), ("blue-0", "red-0")}


@pytest.mark.parametrize("rounds", [1, 4])
def test_evictions_that_resolve_are_no_livelock(rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = rivals(rounds, tmp_path, monkeypatch)
    assert (ran.ending.outcome, ran.ending.clog) == ("completed", None)


def test_workloads_that_reach_their_checkpoints_are_no_livelock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = rivals(1_000_000, tmp_path, monkeypatch, seconds=20, checkpoint=SECOND)
    assert (ran.ending.outcome, ran.ending.clog) == ("completed", None), ran.ending.detail


def test_workloads_that_reach_no_checkpoint_any_more_are_a_livelock_once_patience_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four rounds of 20 s keep work, those of 4 s after them do not."""
    ran = rivals(1_000_000, tmp_path, monkeypatch, seconds=3600, slow=4, checkpoint=10 * SECOND)
    assert ran.ending.outcome == "clogged" and ran.ending.clog, ran.ending.detail
    assert ran.ending.clog.diagnosis.kind == "livelock"
    assert 10 * MINUTE < ran.ending.clog.at <= 14 * MINUTE


# the parts


def turned(*events: tuple[int, int, int]) -> EvictionTurns:
    """Who lost and who got the place, in rounds: each loser has its place again before it loses it once more."""
    turns = EvictionTurns()
    for at, lost, got in events:
        turns.readmitted(at * SECOND, lost)
        turns.evicted(at * SECOND + 1, lost, got, PREEMPTED)
    return turns


def pairs_of(turns: EvictionTurns) -> dict[tuple[int, int], tuple[int, int, str]]:
    return {pair: (turn.rounds, turn.since, turn.reason) for pair, turn in turns.repeated.items()}


def nobody(_number: int) -> bool:
    return False


def everybody(_number: int) -> bool:
    return True


def test_pods_that_are_preempted_one_by_one_are_one_round() -> None:
    turns = EvictionTurns()
    for at in range(8):
        turns.evicted(at, 0, 1, PREEMPTED)
    assert not turns.repeated


def test_timeouts_are_no_turns() -> None:
    turns = EvictionTurns()
    for at in range(9):
        turns.readmitted(at, 0)
        turns.evicted(at, 0, 1, TIMED_OUT)
    assert not turns.repeated


def test_a_victim_of_many_that_finish_is_not_stuck() -> None:
    """A stream of higher priorities, each of which evicts it once."""
    assert not stuck(pairs_of(turned(*((n, 0, n + 1) for n in range(20)))), nobody, everybody)


def test_a_ring_of_three_is_stuck_and_a_victim_beside_it_is_not_its_cause() -> None:
    turns = turned(*((3 * n + k, k, (k + 1) % 3) for n in range(4) for k in range(3)), *((n, 7, 0) for n in range(4)))
    assert stuck(pairs_of(turns), nobody, everybody) == {0, 1, 2}


def test_one_that_lost_its_place_for_another_that_never_got_it_is_stuck() -> None:
    pairs = pairs_of(turned(*((n, 0, 1) for n in range(3))))
    assert stuck(pairs, nobody, lambda number: number == 0) == {0, 1}
    assert not stuck(pairs, nobody, everybody)
    assert not stuck(pairs, lambda number: number == 1, nobody), "the other is over"


def test_who_loses_its_place_to_such_a_victim_and_takes_it_back_is_part_of_it() -> None:
    """Kueue's three (docs/stacks/kueue.md): the small one reclaims from a lender, and a large one that never gets in evicts it."""
    lender, large, small = range(3)
    pairs = pairs_of(turned(*((n, lender, small) for n in range(4)), *((n, small, large) for n in range(4))))
    assert stuck(pairs, nobody, lambda number: number != large) == {lender, large, small}


def test_the_diagnosis_says_what_to_change() -> None:
    a, b = (replace(gang(number, 1), queue=name, name=name) for number, name in enumerate(("red", "blue")))
    pairs = {(0, 1): (4, 0, RECLAIMED), (1, 0): (4, 0, PREEMPTED)}
    found = livelock(state([{"cpu": 3000}], [a, b, gang(5, 1)]), {0, 1}, pairs)
    assert "queues red and blue quota for both" in found.summary and "`reclaim: never`" in found.summary
    assert found.waiters == ("gang-5",)
