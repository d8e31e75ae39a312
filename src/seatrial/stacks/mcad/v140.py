"""MCAD v1.40, that of `local`.

One worker does everything in one callback: first turn Queueing, second turn HeadOfLine, capacity by LISTs (nodes, pods per node,
pods per dispatched AppWrapper), dispatch with one discovery. Every AppWrapper has a poller of its own that looks for completion
every 5 s with a discovery through the same bucket, and asks for ever once it is complete. Without room the worker itself sleeps,
and everything behind it waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from seatrial.model.plan import Scalar
from seatrial.model.units import SECOND
from seatrial.sim.api import GET, LIST
from seatrial.sim.processes import Process, Request, Signal
from seatrial.sim.world import Sim
from seatrial.stacks.mcad.parts import AppWrapper, Mcad

POLL = 5 * SECOND


class Mcad140(Mcad):
    def __init__(self, sim: Sim, settings: Mapping[str, Scalar]) -> None:
        super().__init__(sim, settings)
        self._tried: set[int] = set()  # backed off once already
        self._let_go: set[int] = set()  # and not complete yet, as far as the server knows
        self._goes: dict[int, Signal] = {}  # of pollers that have nothing to do before their AppWrapper is let go

    def first_seen(self, wrapper: AppWrapper) -> None:
        self.processes.start(self._poll(wrapper.number))

    def delay(self, wrapper: AppWrapper) -> int:
        """Once it has a Backoff condition, every update of it reaches the queue that much later."""
        return self.backoff if wrapper.backed_off and wrapper.number in self.lister else 0

    def _poll(self, number: int) -> Process:
        """Every 5 s. Rounds in which it only finds that there is nothing to do yet are left out: with 10,000 AppWrappers in
        the queue they were most of all events."""
        wait = POLL
        while number in self.server:
            yield wait
            wait = POLL
            wrapper = self.lister.get(number)
            if wrapper is None:
                return
            if wrapper.state == "Enqueued" and number not in self._let_go:
                began = self.sim.kernel.now
                goes = self._goes[number] = Signal()
                yield goes
                wait = POLL - (self.sim.kernel.now - began) % POLL
                continue
            if wrapper.state == "Completed" and not self.wrappers.limited:
                return  # it asks for ever, and nobody feels it
            if wrapper.state in ("", "Completed"):
                yield Request(self.wrappers, GET)
            if wrapper.state == "Active":
                yield Request(self.listing, LIST)
                if (yield from self.is_complete(number)):
                    wrapper.state, wrapper.can_run = "Completed", False
                    if (yield from self.write(replace(wrapper))):
                        self._let_go.discard(number)
                        self.released(number)

    def process(self, wrapper: AppWrapper) -> Process:
        if wrapper.state in ("Completed", "Active"):
            return
        if not wrapper.can_run and wrapper.state != "Enqueued":
            wrapper.state = "Enqueued"
            yield from self.write(wrapper, refresh=True)
            self.queued(wrapper.number)
        elif not wrapper.can_run:
            yield from self._schedule_next(wrapper)

    def _schedule_next(self, wrapper: AppWrapper) -> Process:
        number = wrapper.number
        self._refresh(wrapper)
        if not wrapper.can_run:
            if not (yield from self.write(wrapper, refresh=True)):
                return
            self.head_of_line(number)
            yield from self._count_room(number)
            if not self.fits(number):
                yield from self._back_off(wrapper)
                return
            self._let_go.add(number)
            if number in self._goes:
                self.processes.happen(self._goes.pop(number))
            cached = replace(self.lister.get(number, wrapper), can_run=True)
            if not (yield from self.write(cached, refresh=True)):
                self.fifo.put(wrapper)
                return
            wrapper.become(cached)
        yield from self._dispatch(wrapper)

    def _dispatch(self, wrapper: AppWrapper) -> Process:
        self._refresh(wrapper)
        if wrapper.state == "Active":
            yield Request(self.listing, LIST)
            return
        wrapper.state = "Active"
        yield from self.discover()
        yield from self.create_job(wrapper.number)
        yield from self.write(wrapper, refresh=True)

    def _refresh(self, wrapper: AppWrapper) -> None:
        cached = self.lister.get(wrapper.number)
        if cached and cached.version > wrapper.version:
            wrapper.become(cached)

    def _count_room(self, number: int) -> Process:
        known = [self.lister[other] for other in self._let_go if other != number and other in self.lister]
        others = sum(1 for cached in known if cached.can_run)
        yield Request(self.listing, LIST, 1 + len(self.sim.nodes) + others, in_turn=True)

    def _back_off(self, wrapper: AppWrapper) -> Process:
        """The worker sleeps, and with it everyone in the FIFO. The first time the AppWrapper is in line again at once: its
        own HeadOfLine event, from before the condition, is still on its way."""
        wrapper.backed_off = True
        yield from self.write(wrapper, refresh=True)
        yield self.backoff
        if wrapper.number not in self._tried:
            self._tried.add(wrapper.number)
            self.fifo.put(replace(wrapper))
