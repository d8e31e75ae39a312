"""MCAD v1.40, the version of `local`.

One worker does everything in one callback: first turn Queueing, second turn HeadOfLine, capacity by LISTs (nodes, pods per node,
pods per dispatched AppWrapper), dispatch with one discovery. Every AppWrapper has a poller of its own that looks for completion
every 5 s with a discovery through the same token bucket, and continues for ever once it is complete. Without room the worker
itself sleeps, and everything behind it waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from seatrial.model.lifecycle import QUEUED
from seatrial.model.plan import Scalar
from seatrial.model.units import SECOND
from seatrial.sim.apiserver import GET, LIST
from seatrial.sim.goroutines import Calls, Goroutine, Signal
from seatrial.sim.world import Sim
from seatrial.stacks.mcad import HEAD_OF_LINE
from seatrial.stacks.mcad.model import McadModel, WrapperCopy

POLL = 5 * SECOND


class Mcad140(McadModel):
    """The worker and the pollers."""

    def __init__(self, sim: Sim, settings: Mapping[str, Scalar]) -> None:
        super().__init__(sim, settings)
        self._admitted: set[int] = set()  # and not complete yet, as far as the server knows
        self._admissions: dict[
            int, Signal
        ] = {}  # of pollers that have nothing to do before their AppWrapper is admitted

    def first_seen(self, wrapper: WrapperCopy) -> None:
        self.processes.start(self._poll(wrapper.number))

    def delay(self, wrapper: WrapperCopy) -> int:
        """Every update of an AppWrapper with a Backoff condition reaches the queue by the backoff later."""
        return self.backoff if wrapper.backed_off and wrapper.number in self.lister else 0

    def _poll(self, number: int) -> Goroutine:
        """Every 5 s. Rounds that only find that there is nothing to do yet are left out: with 10,000 AppWrappers in the queue
        they were most of all events."""
        wait = POLL
        while number in self.server:
            yield wait
            wait = POLL
            wrapper = self.lister.get(number)
            if wrapper is None:
                return
            if wrapper.state == "Enqueued" and number not in self._admitted:
                began = self.sim.kernel.now
                admission = self._admissions[number] = Signal()
                yield admission
                wait = POLL - (self.sim.kernel.now - began) % POLL
                continue
            if wrapper.state == "Completed" and not self.wrappers.limited:
                return  # it polls for ever, without effect on anything else
            if wrapper.state in ("", "Completed"):
                yield Calls(self.wrappers, GET)
            if wrapper.state == "Active":
                yield Calls(self.listing, LIST)
                if (yield from self.is_complete(number)):
                    wrapper.state, wrapper.can_run = "Completed", False
                    if (yield from self.write(replace(wrapper))):
                        self._admitted.discard(number)
                        self.released(number)
                    yield from self.fifo.delete(number)

    def process(self, wrapper: WrapperCopy) -> Goroutine:
        if wrapper.state in ("Completed", "Active"):
            return
        if not wrapper.can_run and wrapper.state != "Enqueued":
            wrapper.state = "Enqueued"
            yield from self.write(wrapper, refresh=True)
            self.sim.reach(wrapper.number, QUEUED)
        elif not wrapper.can_run:
            yield from self._schedule_next(wrapper)

    def _schedule_next(self, wrapper: WrapperCopy) -> Goroutine:
        number = wrapper.number
        self.refresh(wrapper)
        if not wrapper.can_run:
            if not (yield from self.write(wrapper, refresh=True)):
                return
            self.sim.reach(number, HEAD_OF_LINE)
            yield from self._count_room(number)
            if not self.fits(number):
                yield from self._back_off(wrapper)
                return
            self._admitted.add(number)
            if number in self._admissions:
                self.processes.happen(self._admissions.pop(number))
            cached = replace(self.lister.get(number, wrapper), can_run=True)
            if not (yield from self.write(cached, refresh=True)):
                self.fifo.put(wrapper)
                return
            wrapper.become(cached)
        yield from self._dispatch(wrapper)

    def _dispatch(self, wrapper: WrapperCopy) -> Goroutine:
        self.refresh(wrapper)
        if wrapper.state == "Active":
            yield Calls(self.listing, LIST)
            return
        if wrapper.state == "Completed":
            return  # an event from before the end was in the queue; its CanRun stays, so its pods are listed from now on
        wrapper.state = "Active"
        yield from self.discover()
        yield from self.create_job(wrapper.number)
        yield from self.write(wrapper, refresh=True)

    def _count_room(self, number: int) -> Goroutine:
        known = [self.lister[other] for other in self._admitted if other != number and other in self.lister]
        others = sum(1 for cached in known if cached.can_run)
        yield Calls(self.listing, LIST, 1 + len(self.sim.nodes) + others, in_turn=True)

    def _back_off(self, wrapper: WrapperCopy) -> Goroutine:
        """The worker sleeps, and everything in the FIFO waits. The first time, the AppWrapper's own HeadOfLine event, from before
        the condition, brings it back into the queue at once; later only delayed events do."""
        wrapper.backed_off = True
        yield from self.write(wrapper, refresh=True)
        yield self.backoff
