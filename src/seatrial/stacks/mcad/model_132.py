"""MCAD v1.31/v1.32, the version of the published table.

Three loops: the worker W (queueing, dispatch and completion checks, all serial and under the FIFO's lock), ScheduleNext S (which
AppWrapper may run; capacity from memory, no request), and U, which hands every AppWrapper to the worker again 5 s after its last
round ended. A dispatch costs two whole discoveries, and a conflict on its last write repeats it. The queue of S is a heap in which
all keys are equal, so its order is nearly last in, first out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from seatrial.model.lifecycle import QUEUED
from seatrial.model.plan import Scalar
from seatrial.model.units import MICROSECOND, MILLISECOND, SECOND
from seatrial.sim import pods as pod_state
from seatrial.sim.apiserver import GET, LIST
from seatrial.sim.goroutines import Calls, GoCond, Goroutine
from seatrial.sim.world import Sim
from seatrial.stacks.mcad import HEAD_OF_LINE
from seatrial.stacks.mcad.model import HANDLE, McadModel, WrapperCopy

ROUND = 5 * SECOND
CAPACITY = 4 * MILLISECOND  # computing from memory what is free


class Mcad132(McadModel):
    """The three loops."""

    def __init__(self, sim: Sim, settings: Mapping[str, Scalar]) -> None:
        super().__init__(sim, settings)
        self._random = sim.stream("mcad")
        self._heap: list[WrapperCopy] = []
        self._parked: dict[int, WrapperCopy] = {}
        self._filled = GoCond(self.processes)
        self.processes.start(self._schedule_next())
        self.processes.start(self._update_all())

    def _queue(self, wrapper: WrapperCopy) -> None:
        if not self._is_queued(wrapper.number):
            self._heap.append(wrapper)
            self._filled.wake()

    def _is_queued(self, number: int) -> bool:
        return number in self._parked or any(wrapper.number == number for wrapper in self._heap)

    def _pop(self) -> WrapperCopy:
        """container/heap over equal keys: the root goes, the last added takes its place."""
        first, last = self._heap[0], self._heap.pop()
        if self._heap:
            self._heap[0] = last
        return first

    def _schedule_next(self) -> Goroutine:
        while True:
            if not self._heap:
                yield self._filled.wait()
                continue
            wrapper = self._pop()
            number = wrapper.number
            if number not in self.server:
                continue
            self.refresh(wrapper)
            if wrapper.can_run:
                yield 100 * MICROSECOND
                continue
            yield from self.write(wrapper)  # HeadOfLine; an error is ignored
            self.sim.reach(number, HEAD_OF_LINE)
            if not self._is_queued(number):
                self._parked[number] = wrapper
            yield CAPACITY
            if number not in self.server:
                self._parked.pop(number, None)
                continue
            self.refresh(wrapper)
            wrapper.can_run = self.fits(number)
            if wrapper.can_run and (yield from self.write(wrapper)):
                yield from self.fifo.add(wrapper)
                self._parked.pop(number, None)
            else:
                wrapper.can_run = False
                self.processes.start(self._back_off(wrapper))
            yield 5 * MICROSECOND

    def _back_off(self, wrapper: WrapperCopy) -> Goroutine:
        """Outside the loops: no other AppWrapper waits for it."""
        self._parked.setdefault(wrapper.number, self.lister.get(wrapper.number, wrapper))
        yield self.backoff
        parked = self._parked.pop(wrapper.number, None)
        if parked:
            self._queue(parked)

    def _update_all(self) -> Goroutine:
        yield int(self._random.random() * ROUND)  # MCAD has been up for a while
        while True:
            wrappers = list(self.lister.values())
            self._random.shuffle(wrappers)  # a Go map has no order
            for wrapper in wrappers:
                yield self.fifo.lock.read()
                known = wrapper.number in self.fifo
                yield 2 * MICROSECOND + int(self._random.random() * 18 * MICROSECOND)
                if not known and not self._is_queued(wrapper.number):
                    yield from self.fifo.add(wrapper, replacing=False)
                    yield HANDLE
            yield ROUND

    def process(self, wrapper: WrapperCopy) -> Goroutine:
        number = wrapper.number
        if wrapper.state == "Completed":
            return
        if not wrapper.can_run:
            yield from self._enqueue(wrapper)
        elif wrapper.state == "Active":
            yield from self._look_after(wrapper)
        else:
            wrapper.state = "Active"
            yield from self.discover()
            yield from self.discover()
            yield from self.create_job(number)
            yield Calls(self.dynamic, GET)
            yield Calls(self.listing, LIST)
            yield from self.write(wrapper)

    def _enqueue(self, wrapper: WrapperCopy) -> Goroutine:
        if wrapper.state == "Enqueued":
            return
        wrapper.state = "Enqueued"
        if wrapper.number not in self._parked:
            yield from self.write(wrapper)
            self.sim.reach(wrapper.number, QUEUED)
            self._queue(wrapper)

    def _look_after(self, wrapper: WrapperCopy) -> Goroutine:
        """A dispatched AppWrapper: writes once that it runs, then asks whether its Job is complete."""
        if not wrapper.running and self.pods_in(wrapper.number, pod_state.RUNNING):
            wrapper.running = True
            yield from self.write(replace(wrapper))
        if (yield from self.is_complete(wrapper.number)):
            wrapper.state, wrapper.can_run = "Completed", False
            if (yield from self.write(wrapper)):
                self.released(wrapper.number)
