"""MCAD v1.31/v1.32, that of the published table.

Three loops: the worker W (queueing, dispatch and completion checks, all serial and under the FIFO's lock), ScheduleNext S (who
may run; capacity from memory, no request), and U, which hands every AppWrapper to the worker again 5 s after its last round
ended. A dispatch costs two whole discoveries, and a conflict on its last write has it done again. The queue of S is a heap in
which all keys are equal, so its order is nearly last in, first out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from seatrial.model.plan import Scalar
from seatrial.model.units import MICROSECOND, MILLISECOND, SECOND
from seatrial.sim import pods as pod_state
from seatrial.sim.api import GET, LIST
from seatrial.sim.processes import Process, Request, Signal
from seatrial.sim.world import Sim
from seatrial.stacks.mcad.parts import HANDLE, AppWrapper, Mcad

ROUND = 5 * SECOND
CAPACITY = 4 * MILLISECOND  # computing what is free, from memory


class Mcad132(Mcad):
    def __init__(self, sim: Sim, settings: Mapping[str, Scalar]) -> None:
        super().__init__(sim, settings)
        self._random = sim.stream("mcad")
        self._heap: list[AppWrapper] = []
        self._parked: dict[int, AppWrapper] = {}
        self._filled: Signal | None = None
        self.processes.start(self._schedule_next())
        self.processes.start(self._update_all())

    def _queue(self, wrapper: AppWrapper) -> None:
        if not self._is_queued(wrapper.number):
            self._heap.append(wrapper)
            if self._filled:
                filled, self._filled = self._filled, None
                self.processes.happen(filled)

    def _is_queued(self, number: int) -> bool:
        return number in self._parked or any(wrapper.number == number for wrapper in self._heap)

    def _pop(self) -> AppWrapper:
        """container/heap over equal keys: the root goes, the last added takes its place."""
        first, last = self._heap[0], self._heap.pop()
        if self._heap:
            self._heap[0] = last
        return first

    def _schedule_next(self) -> Process:
        while True:
            if not self._heap:
                filled = self._filled = Signal()
                yield filled
                continue
            wrapper = self._pop()
            number = wrapper.number
            if number not in self.server:
                continue
            self._refresh(wrapper)
            if wrapper.can_run:
                yield 100 * MICROSECOND
                continue
            yield from self.write(wrapper)  # HeadOfLine; an error is ignored
            self.head_of_line(number)
            if not self._is_queued(number):
                self._parked[number] = wrapper
            yield CAPACITY
            if number not in self.server:
                self._parked.pop(number, None)
                continue
            self._refresh(wrapper)
            wrapper.can_run = self.fits(number)
            if wrapper.can_run and (yield from self.write(wrapper)):
                yield from self.fifo.add(wrapper)
                self._parked.pop(number, None)
            else:
                wrapper.can_run = False
                self.processes.start(self._back_off(wrapper))
            yield 5 * MICROSECOND

    def _refresh(self, wrapper: AppWrapper) -> None:
        cached = self.lister.get(wrapper.number)
        if cached and cached.version > wrapper.version:
            wrapper.become(cached)

    def _back_off(self, wrapper: AppWrapper) -> Process:
        """Beside the loops: nobody else waits for it."""
        self._parked.setdefault(wrapper.number, self.lister.get(wrapper.number, wrapper))
        yield self.backoff
        parked = self._parked.pop(wrapper.number, None)
        if parked:
            self._queue(parked)

    def _update_all(self) -> Process:
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

    def process(self, wrapper: AppWrapper) -> Process:
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
            yield Request(self.dynamic, GET)
            yield Request(self.listing, LIST)
            yield from self.write(wrapper)

    def _enqueue(self, wrapper: AppWrapper) -> Process:
        if wrapper.state == "Enqueued":
            return
        wrapper.state = "Enqueued"
        if wrapper.number not in self._parked:
            yield from self.write(wrapper)
            self.queued(wrapper.number)
            self._queue(wrapper)

    def _look_after(self, wrapper: AppWrapper) -> Process:
        """A dispatched one: says once that it runs, then asks whether it is complete."""
        if not wrapper.running and self.pods_in(wrapper.number, pod_state.RUNNING):
            wrapper.running = True
            yield from self.write(replace(wrapper))
        if (yield from self.is_complete(wrapper.number)):
            wrapper.state, wrapper.can_run = "Completed", False
            if (yield from self.write(wrapper)):
                self.released(wrapper.number)
