"""Processors that all requests in execution share evenly, at most one core each.

Go hands its processors to whoever can run, ten milliseconds at a time at most: with requests of a millisecond that is as good as
an even share. What each has got since the start is one number, so a request costs a heap entry, not a visit at every change.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import ceil
from typing import Any

from seatrial.sim.kernel import Do, Kernel

_NEVER = 1 << 62


class Cores:
    def __init__(self, kernel: Kernel, count: float) -> None:
        self._kernel, self._count = kernel, count
        self._got = 0.0  # ns of processor that everyone who was there all along has got
        self._at = 0
        self._heap: list[tuple[float, int, Do, Any]] = []
        self._order = 0
        self._due = _NEVER
        self._busy = 0.0  # core-ns spent

    def work(self, amount: int, then: Do, arg: Any = None) -> None:
        """So many ns of one core; `then(arg)` when they are done."""
        self._advance()
        self._order += 1
        heappush(self._heap, (self._got + amount, self._order, then, arg))
        self._plan()

    def busy(self) -> float:
        """Core-nanoseconds spent so far."""
        self._advance()
        return self._busy

    def _advance(self) -> None:
        now, running = self._kernel.now, len(self._heap)
        passed = now - self._at
        self._at = now
        if running and passed:
            share = self._count / running
            share = min(share, 1.0)
            self._got += passed * share
            self._busy += passed * share * running

    def _plan(self) -> None:
        """The next end, if nothing else comes. Whoever comes later only delays it: it is then planned again."""
        running = len(self._heap)
        left = self._heap[0][0] - self._got
        due = self._kernel.now + max(ceil(left * running / self._count if running > self._count else left), 0)
        if due < self._due:
            self._due = due
            self._kernel.at(due, self._tick, due)

    def _tick(self, due: int) -> None:
        if due != self._due:
            return  # an earlier one was planned meanwhile
        self._due = _NEVER
        self._advance()
        heap, reached = self._heap, self._got + 0.5
        ended = []
        while heap and heap[0][0] <= reached:
            ended.append(heappop(heap))
        if heap:
            self._plan()
        for _, _, then, arg in ended:
            then(arg)
