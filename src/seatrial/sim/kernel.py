"""The event kernel: a heap of (when, order, do, arg, lane) and a clock that only events advance.

Events of the same moment run in the order in which they were scheduled, so a run depends on its seed alone.

Many events share a delay: a second until a Job is synced, ten until a container is ready. Events of one delay are in order, so they
wait in a lane, and only the first of a lane is in the heap. The heap then has a hundred entries instead of thousands, and an event
costs a fifth less.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush, heapreplace
from typing import Any

Do = Callable[[Any], None]
NEVER = 1 << 62
MOST_LANES = 32  # random delays are all different: their events go into the heap


class _Lane(deque[Any]):
    """Events with the same delay; the first event is in the heap, not here."""

    __slots__ = ("delay",)

    delay: int


class Kernel:
    """Virtual time. `now` is nanoseconds since the trial's epoch."""

    def __init__(self) -> None:
        self.now = 0
        self.heap: list[tuple[int, int, Do, Any, _Lane | None]] = []
        self._lanes: dict[int, _Lane] = {}  # delay → its lane, while it has events
        self.order = 0  # of the last scheduled event
        self._until = -1  # how far `run` may go
        self._advanced = 0
        self._halted = False

    def at(self, when: int, do: Do, arg: Any = None) -> None:
        """Calls `do(arg)` at `when`, or now if `when` has passed."""
        self.order += 1
        heappush(self.heap, (when if when > self.now else self.now, self.order, do, arg, None))

    def after(self, delay: int, do: Do, arg: Any = None) -> None:
        """Calls `do(arg)` after `delay`. Cheaper than `at` where the delay is always the same."""
        self.order += 1
        lane = self._lanes.get(delay)
        if lane is not None:
            lane.append((self.now + delay, self.order, do, arg, lane))
            return
        if len(self._lanes) < MOST_LANES:
            lane = self._lanes[delay] = _Lane()
            lane.delay = delay
        heappush(self.heap, (self.now + delay, self.order, do, arg, lane))

    def advance(self, when: int) -> bool:
        """Moves the clock to `when` inside the current event, if no other event is due by then.

        A caller that runs one step after another tries this first and falls back to `at`: same result, without the heap.
        """
        heap = self.heap
        if self._halted or when > self._until or (heap and heap[0][0] <= when):
            return False
        self.now = when
        self._advanced += 1
        return True

    def halt(self) -> None:
        """Ends `run` after the current event, for work outside the kernel."""
        self._halted = True

    @property
    def events(self) -> int:
        """Number of events that have run."""
        return self.order - len(self.heap) - sum(map(len, self._lanes.values())) + self._advanced

    @property
    def idle(self) -> bool:
        """Whether no event is left."""
        return not self.heap

    def run(self, until: int = NEVER) -> None:
        """Runs all events up to and including `until`, unless halted. `now` is then `until`, or the time of the halt; without
        `until`, the time of the last event."""
        heap, pop, replace = self.heap, heappop, heapreplace
        self._halted, self._until = False, until
        try:
            while heap:
                when, _, do, arg, lane = heap[0]
                if when > until:
                    break
                if lane:
                    replace(heap, lane.popleft())
                else:
                    pop(heap)
                    if lane is not None:
                        del self._lanes[lane.delay]
                self.now = when
                do(arg)
                if self._halted:
                    return
            if until != NEVER:
                self.now = max(self.now, until)
        finally:
            self._until = -1
