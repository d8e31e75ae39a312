"""The client that submits to real clusters, on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise

import pytest

from seatrial.clusters.access import submitting
from seatrial.clusters.access.submitting import RateLimit, in_rounds
from seatrial.model.plan import Pace
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.sim.clock import VirtualLoop
from seatrial.sim.kernel import Kernel

Sent = dict[str, list[int]]
Phase = Callable[[RateLimit, list[int]], Coroutine[None, None, None]]


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    monkeypatch.setattr(submitting, "clock", lambda: kernel.now)
    return kernel


def _side_by_side(kernel: Kernel, rate: float, **phases: Phase) -> Sent:
    sent: Sent = {name: [] for name in phases}

    async def main() -> None:
        limit = RateLimit.of(rate)
        await asyncio.gather(*(phase(limit, sent[name]) for name, phase in phases.items()))

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(kernel)) as runner:
        runner.run(main())
    return sent


def _even(kernel: Kernel, gap: int, count: int) -> Phase:
    async def phase(limit: RateLimit, sent: list[int]) -> None:
        for item in range(count):
            await limit.turn(item * gap)
            sent.append(kernel.now)

    return phase


def _rounds(kernel: Kernel, count: int, size: int) -> Phase:
    async def phase(limit: RateLimit, sent: list[int]) -> None:
        async def send(_index: int) -> None:
            sent.append(kernel.now)

        await in_rounds(range(count), Pace("rounds", size=size), limit, send)

    return phase


def test_a_slot_is_taken_when_an_item_is_due_so_that_phases_keep_their_own_pace(kernel: Kernel) -> None:
    sent = _side_by_side(kernel, 50, often=_even(kernel, 3 * SECOND, 40), rare=_even(kernel, 15 * SECOND, 5))
    for name, gap in (("often", 3 * SECOND), ("rare", 15 * SECOND)):
        late = [at - item * gap for item, at in enumerate(sent[name])]
        assert 0 <= min(late) <= max(late) <= 21 * MILLISECOND  # one turn of the other


def test_a_round_of_many_leaves_the_others_their_turns(kernel: Kernel) -> None:
    sent = _side_by_side(kernel, 50, rounds=_rounds(kernel, 200, 100), even=_even(kernel, SECOND, 4))
    assert max(at - item * SECOND for item, at in enumerate(sent["even"])) <= 40 * MILLISECOND


def test_all_phases_together_stay_below_the_clients_rate(kernel: Kernel) -> None:
    sent = _side_by_side(kernel, 50, a=_even(kernel, 0, 30), b=_even(kernel, 0, 30), rounds=_rounds(kernel, 40, 20))
    times = sorted(at for each in sent.values() for at in each)
    assert len(times) == 100
    assert times[-1] == pytest.approx(99 * 20 * MILLISECOND, rel=0.001)
    assert min(b - a for a, b in pairwise(times)) >= 20 * MILLISECOND - 1
