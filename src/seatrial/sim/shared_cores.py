"""Processors that all executing requests share evenly, at most one core each.

Go runs a goroutine for at most ten milliseconds at a time; with requests of a millisecond that is close to an even share. The time
served since the start is one number for all, so a request costs one heap entry, not an update at every change.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import ceil
from typing import Any

from seatrial.sim.kernel import Do, Kernel

_NEVER = 1 << 62


class Cores:
    """Processors with even sharing."""

    def __init__(self, kernel: Kernel, count: float) -> None:
        self._kernel, self._count = kernel, count
        self._served = 0.0  # ns of a core that a request present since the start has received
        self._at = 0
        self._heap: list[tuple[float, int, Do, Any]] = []
        self._order = 0
        self._due = _NEVER
        self._spent = 0.0  # core-ns spent

    def work(self, amount: int, then: Do, arg: Any = None) -> None:
        """Uses `amount` ns of one core, then calls `then(arg)`."""
        self._advance()
        self._order += 1
        heappush(self._heap, (self._served + amount, self._order, then, arg))
        self._plan()

    def spent(self) -> float:
        """Core-nanoseconds spent so far."""
        self._advance()
        return self._spent

    def _advance(self) -> None:
        now, running = self._kernel.now, len(self._heap)
        passed = now - self._at
        self._at = now
        if running and passed:
            share = min(self._count / running, 1.0)
            self._served += passed * share
            self._spent += passed * share * running

    def _plan(self) -> None:
        """Schedules the next end. A later arrival only delays it: the tick then schedules again."""
        running = len(self._heap)
        left = self._heap[0][0] - self._served
        due = self._kernel.now + max(ceil(left * running / self._count if running > self._count else left), 0)
        if due < self._due:
            self._due = due
            self._kernel.at(due, self._tick, due)

    def _tick(self, due: int) -> None:
        if due != self._due:
            return  # an earlier end was scheduled meanwhile
        self._due = _NEVER
        self._advance()
        heap, reached = self._heap, self._served + 0.5
        ended = []
        while heap and heap[0][0] <= reached:
            ended.append(heappop(heap))
        if heap:
            self._plan()
        for _, _, then, arg in ended:
            then(arg)
