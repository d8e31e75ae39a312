"""kube-scheduler's queue: active, backing off, unschedulable; and what moves a pod from one to the other.

Facts (kube-scheduler 1.34 and 1.36, pkg/scheduler/backend/queue): back-off 1 s, doubling per failure up to 10 s; its end is
cut down to a whole second, and pods whose second has passed are let go once a second. A pod that failed waits until something
happens that the plugin which turned it down has registered for (queueing hints), also if that was while it was looked at, or
until 5 minutes have passed (looked at every 30 s). While the active queue is empty the next pod is taken from those that back
off (SchedulerPopFromBackoffQ, on by default since 1.33). A pod's place is by when it was added or last failed, not by when it
came back into the active queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from seatrial.model.units import MINUTE, SECOND
from seatrial.sim.framework import EVENTS, POD_GONE, ROOM
from seatrial.sim.kernel import NEVER, Kernel
from seatrial.sim.lines import Heap, HeapBySecond, Line, Lines

BACKOFF_FIRST, BACKOFF_MOST = 1 * SECOND, 10 * SECOND
LONGEST = 5  # failures after which the back-off is at its longest: 1, 2, 4, 8, 10 s
BACKOFF_LOOK = 1 * SECOND  # backoffQOrderingWindowDuration
UNSCHEDULABLE_MOST, UNSCHEDULABLE_LOOK = 5 * MINUTE, 30 * SECOND


class Queue:
    """`key(pod, since)` orders the active queue; `wake` is called when there may be something to pop."""

    def __init__(self, kernel: Kernel, key: Callable[[int, int], tuple[Any, ...]], wake: Callable[[], None]) -> None:
        self._kernel = kernel
        self._key = key
        self._wake = wake
        self._active: Line | Heap = Line()
        self._backing_off: Lines | HeapBySecond = Lines()
        self._backs_off: dict[int, int] = {}  # pod → the order of its entry above that counts
        self._unschedulable: dict[int, dict[int, int]] = {ROOM: {}}  # what helps → pod → failed when
        self._failures: dict[int, tuple[int, int]] = {}  # pod → how often, and when last
        self._order = 0
        self._away: set[int] = set()  # deleted while active
        self._backoff_armed = self._flush_armed = False
        self.events = 0  # moments at which something happened that may help someone
        self._last = dict.fromkeys(EVENTS, 0)  # event → the latest of these moments
        self._helped: dict[int, int] = {}  # what helps someone → the latest moment of any of it

    def keys_change(self) -> None:
        """A pod's key may change while it waits. To be called before there are pods."""
        self._active, self._backing_off = Heap(), HeapBySecond()

    def add(self, pod: int) -> None:
        """A new pod, or one whose back-off is over."""
        self._order += 1
        failed = self._failures.get(pod)
        since = self._kernel.now if failed is None else failed[1]
        self._active.push((self._key(pod, since), self._order, pod))
        self._wake()

    @property
    def first(self) -> tuple[Any, int, int] | None:
        """The first active one, though it may have been deleted."""
        return self._active.first if self._active else None

    @property
    def waiting(self) -> int:
        """How many are active, deleted ones among them."""
        return len(self._active)

    @property
    def empty(self) -> bool:
        """There is nothing to pop."""
        return not self._active and not self._backing_off

    def pop(self) -> int:
        """The next pod, or −1."""
        active, away = self._active, self._away
        while (entry := active.pop()) is not None:
            pod = entry[2]
            if pod not in away:
                return pod
            away.discard(pod)
        return self._pop_backing_off()

    def failed(self, pod: int, events_before: int, helped_by: int = ROOM) -> None:
        """Turned down. If something that helps came while it was looked at, it backs off; else it waits for that."""
        now = self._kernel.now
        before = self._failures.get(pod)
        self._failures[pod] = (1 if before is None else before[0] + 1, now)
        helped = self._helped.get(helped_by)
        if helped is None:
            helped = self._helped[helped_by] = max(self._last[event] for event in EVENTS if helped_by & event)
        if helped > events_before:
            self._back_off((pod,))
            return
        waiting = self._unschedulable.get(helped_by)
        if waiting is None:
            waiting = self._unschedulable[helped_by] = {}
        waiting[pod] = now
        if not self._flush_armed:
            self._flush_armed = True
            self._kernel.at(now + UNSCHEDULABLE_LOOK, self._flush)

    def moved(self, event: int = POD_GONE, but: int = -1) -> None:
        """Something happened that helps those who wait for it, except the pod it came from."""
        self.events += 1
        self._last[event] = self.events
        for helped_by in self._helped:
            if helped_by & event:
                self._helped[helped_by] = self.events
        for helped_by, waiting in self._unschedulable.items():
            if waiting and helped_by & event:
                self._unschedulable[helped_by] = {but: waiting.pop(but)} if but in waiting else {}
                self._back_off(waiting)

    def activate(self, pod: int) -> bool:
        """A plugin asks for this pod to be tried now; false if it is not waiting here."""
        found = self._backs_off.pop(pod, None) is not None or self._take_unschedulable(pod)
        if found:
            self.add(pod)
        return found

    def scheduled(self, pod: int) -> None:
        self._failures.pop(pod, None)

    def remove(self, pod: int) -> None:
        """The pod was deleted while it waited."""
        if self._backs_off.pop(pod, None) is None and not self._take_unschedulable(pod):
            self._away.add(pod)
        self._failures.pop(pod, None)

    def _take_unschedulable(self, pod: int) -> bool:
        return any(waiting.pop(pod, None) is not None for waiting in self._unschedulable.values())

    def _back_off(self, pods: Iterable[int]) -> None:
        """Into the back-off, or past it if its time is over already."""
        now = self._kernel.now
        this_second = now - now % BACKOFF_LOOK
        failures, backs_off, key, push = self._failures, self._backs_off, self._key, self._backing_off.push
        backing_off = False
        for pod in pods:
            count, failed_at = failures[pod]
            ends = failed_at + (BACKOFF_FIRST << (count - 1) if count < LONGEST else BACKOFF_MOST)
            until = ends - ends % BACKOFF_LOOK
            if until < this_second:
                self.add(pod)
                continue
            self._order = order = self._order + 1
            backs_off[pod] = order
            push(until, (key(pod, failed_at), order, pod))
            backing_off = True
        if backing_off:
            if not self._backoff_armed:
                self._backoff_armed = True
                self._look_later()
            self._wake()

    def _pop_backing_off(self) -> int:
        """The first of those that back off, or −1."""
        waiting, backs_off = self._backing_off, self._backs_off
        while (entry := waiting.pop(NEVER)) is not None:
            _, order, pod = entry
            if backs_off.get(pod) == order:
                del backs_off[pod]
                return pod
        return -1

    def _look_later(self) -> None:
        now = self._kernel.now
        self._kernel.at(now - now % BACKOFF_LOOK + BACKOFF_LOOK, self._end_backoffs)

    def _end_backoffs(self, _: object) -> None:
        now, backs_off = self._kernel.now, self._backs_off
        this_second = now - now % BACKOFF_LOOK
        while (entry := self._backing_off.pop(this_second)) is not None:
            key, order, pod = entry
            if backs_off.get(pod) == order:
                del backs_off[pod]
                self._order += 1
                self._active.push((key, self._order, pod))
        if self._active:
            self._wake()
        self._backoff_armed = bool(self._backing_off)
        if self._backoff_armed:
            self._look_later()

    def _flush(self, _: object) -> None:
        now = self._kernel.now
        for waiting in self._unschedulable.values():
            for pod in [pod for pod, since in waiting.items() if now - since > UNSCHEDULABLE_MOST]:
                self.activate(pod)
        self._flush_armed = any(self._unschedulable.values())
        if self._flush_armed:
            self._kernel.at(now + UNSCHEDULABLE_LOOK, self._flush)
