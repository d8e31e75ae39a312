"""kube-scheduler's queue: active, backing off, unschedulable; and what moves a pod from one to the other.

Facts (kube-scheduler 1.36): back-off 1 s, doubling per attempt up to 10 s, looked at once a second; a pod that failed and that
no event could help waits until an event comes or 5 minutes have passed (looked at every 30 s); while the active queue is empty
the next pod is taken from those that back off (SchedulerPopFromBackoffQ, on by default since 1.33).
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from seatrial.model.units import MINUTE, SECOND
from seatrial.sim.kernel import Kernel

BACKOFF_FIRST, BACKOFF_MOST = 1 * SECOND, 10 * SECOND
BACKOFF_LOOK = 1 * SECOND
UNSCHEDULABLE_MOST, UNSCHEDULABLE_LOOK = 5 * MINUTE, 30 * SECOND


class Queue:
    """`key(pod, queued_at)` orders the active queue; `wake` is called when there may be something to pop."""

    def __init__(self, kernel: Kernel, key: Callable[[int, int], tuple[Any, ...]], wake: Callable[[], None]) -> None:
        self._kernel = kernel
        self._key = key
        self._wake = wake
        self._active: list[tuple[tuple[Any, ...], int, int]] = []
        self._backing_off: list[tuple[int, int, int]] = []  # (until, order, pod)
        self._unschedulable: dict[int, int] = {}  # pod → failed when
        self._attempts: dict[int, int] = {}
        self._order = 0
        self._away: set[int] = set()  # deleted while queued
        self._backoff_armed = self._flush_armed = False
        self.events = 0  # moments at which something was freed or added

    def add(self, pod: int) -> None:
        """A new pod, or one whose back-off is over."""
        self._order += 1
        heappush(self._active, (self._key(pod, self._kernel.now), self._order, pod))
        self._wake()

    def pop(self) -> int:
        """The next pod, or −1."""
        active, away = self._active, self._away
        while active:
            pod = heappop(active)[2]
            if pod not in away:
                return pod
            away.discard(pod)
        while self._backing_off:
            pod = heappop(self._backing_off)[2]
            if pod not in away:
                return pod
            away.discard(pod)
        return -1

    def failed(self, pod: int, events_before: int) -> None:
        """No node for it. If something was freed while it was looked at, it backs off; else it waits for an event."""
        self._attempts[pod] = self._attempts.get(pod, 0) + 1
        if self.events != events_before:
            self._back_off(pod, self._kernel.now)
            return
        self._unschedulable[pod] = self._kernel.now
        if not self._flush_armed:
            self._flush_armed = True
            self._kernel.at(self._kernel.now + UNSCHEDULABLE_LOOK, self._flush)

    def moved(self) -> None:
        """Something was freed or added that any unschedulable pod might use."""
        self.events += 1
        if self._unschedulable:
            waiting, self._unschedulable = self._unschedulable, {}
            for pod, failed_at in waiting.items():
                self._back_off(pod, failed_at)
            self._wake()

    def activate(self, pod: int) -> None:
        """A plugin asks for this pod to be tried now."""
        if self._unschedulable.pop(pod, None) is not None:
            self.add(pod)

    def scheduled(self, pod: int) -> None:
        self._attempts.pop(pod, None)

    def remove(self, pod: int) -> None:
        """The pod was deleted while it waited."""
        if self._unschedulable.pop(pod, None) is None:
            self._away.add(pod)
        self._attempts.pop(pod, None)

    def _back_off(self, pod: int, failed_at: int) -> None:
        until = failed_at + min(BACKOFF_FIRST << min(self._attempts[pod] - 1, 10), BACKOFF_MOST)
        if until <= self._kernel.now:
            self.add(pod)
            return
        self._order += 1
        heappush(self._backing_off, (until, self._order, pod))
        if not self._backoff_armed:
            self._backoff_armed = True
            self._kernel.at(self._kernel.now + BACKOFF_LOOK, self._end_backoffs)

    def _end_backoffs(self, _: object) -> None:
        waiting = self._backing_off
        while waiting and waiting[0][0] <= self._kernel.now:
            pod = heappop(waiting)[2]
            if pod in self._away:
                self._away.discard(pod)
            else:
                self.add(pod)
        self._backoff_armed = bool(waiting)
        if waiting:
            self._kernel.at(self._kernel.now + BACKOFF_LOOK, self._end_backoffs)

    def _flush(self, _: object) -> None:
        now = self._kernel.now
        due = [pod for pod, since in self._unschedulable.items() if now - since > UNSCHEDULABLE_MOST]
        for pod in due:
            self.activate(pod)
        self._flush_armed = bool(self._unschedulable)
        if self._flush_armed:
            self._kernel.at(now + UNSCHEDULABLE_LOOK, self._flush)
