"""Pods that hold a node in permit, each for a time: one event for all of them.

A gang that lacks a node is rejected hundreds of times a second, long before its pods have waited their minute. An event for each of
these waits was a fifth of all events of a simulation with contending gangs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from seatrial.sim.kernel import Kernel

Held = TypeVar("Held")


class PermitWaits(Generic[Held]):
    """`holding` has the pods that wait now; whoever lets one go removes it there. `time_out(pod)` is called for one that waited too
    long."""

    def __init__(self, kernel: Kernel, time_out: Callable[[int], None]) -> None:
        self._kernel, self._time_out = kernel, time_out
        self.holding: dict[int, Held] = {}
        self._ends: deque[tuple[int, int, Held]] = (
            deque()
        )  # (when, pod, what it holds), in order; most are let go before
        self._armed = False

    def hold(self, pod: int, held: Held, wait: int) -> None:
        """The pod waits for `wait` ns at most."""
        self.holding[pod] = held
        ends, limits = self._kernel.now + wait, self._ends
        if limits and ends < limits[-1][0]:  # a plugin with a shorter wait than another
            self._kernel.at(ends, self._end_one, (pod, held))
            return
        limits.append((ends, pod, held))
        if not self._armed:
            self._armed = True
            self._kernel.at(ends, self._end)

    def _end_one(self, what: tuple[int, Held]) -> None:
        pod, held = what
        if self.holding.get(pod) is held:
            self._time_out(pod)

    def _end(self, _: object) -> None:
        limits, holding, now = self._ends, self.holding, self._kernel.now
        while limits:
            ends, pod, held = limits[0]
            if holding.get(pod) is held:
                if ends > now:
                    self._kernel.at(ends, self._end)
                    return
                self._time_out(pod)
            limits.popleft()
        self._armed = False
