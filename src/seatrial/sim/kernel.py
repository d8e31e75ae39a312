"""The event kernel: a heap of (when, order, do, arg, lane) and a clock that only such an event can advance.

Events of the same moment happen in the order they were asked for, so a run depends on its seed alone.

Most events that are far ahead are as far ahead as others before them: a second until a Job is synced, ten until a container is
ready. Those of one delay come in order, so they stand in a lane, and only the first of a lane is in the heap. The heap then has a
hundred entries instead of thousands, and an event costs a fifth less.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Do = Callable[[Any], None]
NEVER = 1 << 62
MOST_LANES = 32  # delays that are drawn are all different: they go into the heap


class _Lane(deque[Any]):
    """Events that are all the same time ahead when they are asked for; the first of them is in the heap, not here."""

    __slots__ = ("delay",)

    delay: int


class Kernel:
    """Virtual time. `now` is nanoseconds since the trial's epoch."""

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[tuple[int, int, Do, Any, _Lane | None]] = []
        self._lanes: dict[int, _Lane] = {}  # delay → its lane, while there is anyone in it
        self._order = 0
        self._until = -1  # how far `run` may go
        self._advanced = 0
        self._halted = False

    def at(self, when: int, do: Do, arg: Any = None) -> None:
        """Calls `do(arg)` at `when`; a moment that has passed is now."""
        self._order += 1
        heappush(self._heap, (when if when > self.now else self.now, self._order, do, arg, None))

    def after(self, delay: int, do: Do, arg: Any = None) -> None:
        """Calls `do(arg)` so much later. Cheaper than `at` where the delay is always the same."""
        self._order += 1
        lane = self._lanes.get(delay)
        if lane is not None:
            lane.append((self.now + delay, self._order, do, arg, lane))
            return
        if len(self._lanes) < MOST_LANES:
            lane = self._lanes[delay] = _Lane()
            lane.delay = delay
        heappush(self._heap, (self.now + delay, self._order, do, arg, lane))

    def advance(self, when: int) -> bool:
        """Moves the clock on to `when` inside the event that is happening, if nothing else would happen before.

        Whoever does one thing after another asks this first, and `at` otherwise: what happens is the same, without the heap.
        """
        heap = self._heap
        if self._halted or when > self._until or (heap and heap[0][0] <= when):
            return False
        self.now = when
        self._advanced += 1
        return True

    def halt(self) -> None:
        """Ends `run` after the event that is happening: someone outside the kernel has something to do first."""
        self._halted = True

    @property
    def events(self) -> int:
        """How many have happened."""
        return self._order - len(self._heap) - sum(map(len, self._lanes.values())) + self._advanced

    @property
    def idle(self) -> bool:
        return not self._heap

    def run(self, until: int = NEVER) -> None:
        """Lets everything happen up to and including `until`, unless halted. `now` is then `until`, or where it halted; without
        `until`, when the last event was.

        The collector rests meanwhile: models make no cycles, and tracing millions of heap entries took a third of the time.
        """
        heap, pop, push = self._heap, heappop, heappush
        collecting = gc.isenabled()
        gc.disable()
        self._halted, self._until = False, until
        try:
            while heap and heap[0][0] <= until:
                self.now, _, do, arg, lane = pop(heap)
                if lane:
                    push(heap, lane.popleft())
                elif lane is not None:
                    del self._lanes[lane.delay]
                do(arg)
                if self._halted:
                    return
            if until != NEVER:
                self.now = max(self.now, until)
        finally:
            self._until = -1
            if collecting:
                gc.enable()
