"""kube-scheduler's queue: active, backing off, unschedulable; and the events that move a pod between them.

Facts (kube-scheduler 1.34 and 1.36, pkg/scheduler/backend/queue): back-off 1 s, doubling per failure up to 10 s; its end is
rounded down to a whole second, and once a second the pods of past seconds are released. A failed pod waits for an event that the
rejecting plugin has registered for (queueing hints), including events during its own cycle, or for 5 minutes (checked every
30 s). While the active queue is empty the next pod comes from the back-off (SchedulerPopFromBackoffQ, on by default since 1.33).
A pod's place is by the time it was added or last failed, not by the time it returned to the active queue.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from typing import Any

from seatrial.model.units import MINUTE, SECOND
from seatrial.sim.framework import EVENTS, POD_GONE, ROOM
from seatrial.sim.kernel import NEVER, Kernel
from seatrial.sim.sorted_runs import Heap, HeapBySecond, SortedRun, SortedRunBySecond

BACKOFF_FIRST, BACKOFF_MOST = 1 * SECOND, 10 * SECOND
LONGEST = 5  # failures until the longest back-off: 1, 2, 4, 8, 10 s
BACKOFF = [0, *(min(BACKOFF_FIRST << doubled, BACKOFF_MOST) for doubled in range(LONGEST))]  # by failures
BACKOFF_LOOK = 1 * SECOND  # backoffQOrderingWindowDuration
UNSCHEDULABLE_MOST, UNSCHEDULABLE_LOOK = 5 * MINUTE, 30 * SECOND


class SchedulingQueue:
    """`key(pod, since)` orders the active queue; `wake` is called when there may be a pod to pop."""

    def __init__(self, kernel: Kernel, key: Callable[[int, int], tuple[Any, ...]], wake: Callable[[], None]) -> None:
        self._kernel = kernel
        self.key = key
        self._wake = wake
        self._active: SortedRun | Heap = SortedRun()
        self._backing_off: SortedRunBySecond | HeapBySecond = SortedRunBySecond()
        self._backoff_order: dict[int, int] = {}  # pod → order of its valid entry above
        self._unschedulable: dict[int, dict[int, int]] = {ROOM: {}}  # events that help → pod → time of failure
        self._failures = bytearray()  # per pod, up to LONGEST
        self._failed_at = array("q")  # per pod, the last
        self._parked = bytearray()  # per pod: 1 while it backs off or is unschedulable
        self._order = 0
        self._deleted: set[int] = set()  # pods deleted while active
        self._backoff_armed = self._flush_armed = False
        self.events = 0  # number of events so far
        self._last_event = dict.fromkeys(EVENTS, 0)  # event → number of the latest
        self._last_helped: dict[int, int] = {}  # set of events → number of the latest
        self.held: set[int] = set()  # pods that no event moves: their victims are being evicted (PreEnqueue)

    def keys_change(self) -> None:
        """A pod's key may change while it waits. Call before adding pods."""
        self._active, self._backing_off = Heap(), HeapBySecond()

    def add(self, pod: int) -> None:
        """Adds a new pod, or a pod after its back-off."""
        self._order += 1
        since = self._failed_at[pod] if pod < len(self._failures) and self._failures[pod] else self._kernel.now
        self._active.push((self.key(pod, since), self._order, pod))
        self._wake()

    @property
    def first(self) -> tuple[Any, int, int] | None:
        """The first active entry; its pod may be deleted."""
        return self._active.first if self._active else None

    @property
    def waiting(self) -> int:
        """Number of active entries, deleted pods included."""
        return len(self._active)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to pop."""
        return not self._active and not self._backing_off

    def pop(self) -> int:
        """The next pod, or −1."""
        active, deleted = self._active, self._deleted
        while (entry := active.pop()) is not None:
            pod = entry[2]
            if pod not in deleted:
                return pod
            deleted.discard(pod)
        return self._pop_backing_off()

    def failed(self, pod: int, events_before: int, helped_by: int = ROOM) -> None:
        """The pod was rejected. It backs off if an event that helps came during its cycle, else waits for one."""
        now, failures = self._kernel.now, self._failures
        if pod >= len(failures):
            self._make_room(pod)
        if failures[pod] < LONGEST:
            failures[pod] += 1
        self._failed_at[pod] = now
        self._parked[pod] = 1
        helped = self._last_helped.get(helped_by)
        if helped is None:
            helped = self._last_helped[helped_by] = max(
                (self._last_event[event] for event in EVENTS if helped_by & event), default=0
            )
        if helped > events_before and pod not in self.held:
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
        """An event: the pods that wait for it back off, except the pod `but` that caused it."""
        self.events += 1
        self._last_event[event] = self.events
        for helped_by in self._last_helped:
            if helped_by & event:
                self._last_helped[helped_by] = self.events
        for helped_by, waiting in self._unschedulable.items():
            if waiting and helped_by & event:
                stays = {but: waiting.pop(but)} if but in waiting else {}
                if self.held:
                    stays.update((pod, waiting.pop(pod)) for pod in self.held & waiting.keys())
                self._unschedulable[helped_by] = stays
                self._back_off(waiting)

    def activate(self, pods: Iterable[int]) -> None:
        """A plugin moves pods to the active queue, those of them that wait here."""
        parked, known, held = self._parked, len(self._parked), self.held
        for pod in [pod for pod in pods if pod < known and parked[pod]]:
            if pod not in held:
                self._leave(pod)
                self.add(pod)

    def _leave(self, pod: int) -> None:
        """Takes a parked pod out of the back-off, or from those that wait for an event."""
        self._parked[pod] = 0
        if self._backoff_order.pop(pod, None) is None:
            for waiting in self._unschedulable.values():
                if waiting.pop(pod, None) is not None:
                    return

    def _make_room(self, pod: int) -> None:
        more = pod + 1024 - len(self._failures)
        self._failures.extend(bytes(more))
        self._parked.extend(bytes(more))
        self._failed_at.frombytes(bytes(8 * more))

    def scheduled(self, pod: int) -> None:
        """The pod is bound: resets its failures."""
        if pod < len(self._failures):
            self._failures[pod] = 0

    def remove(self, pod: int) -> None:
        """The pod was deleted while it waited."""
        if pod < len(self._parked) and self._parked[pod]:
            self._leave(pod)
        else:
            self._deleted.add(pod)
        self.scheduled(pod)
        self.held.discard(pod)

    def _back_off(self, pods: Iterable[int]) -> None:
        """Moves pods to the back-off, or to the active queue if their back-off is over."""
        now = self._kernel.now
        this_second = now - now % BACKOFF_LOOK
        backoff_order, key, push = self._backoff_order, self.key, self._backing_off.push
        failures, failed = self._failures, self._failed_at
        backing_off = False
        for pod in pods:
            failed_at = failed[pod]
            ends = failed_at + BACKOFF[failures[pod]]
            until = ends - ends % BACKOFF_LOOK
            if until < this_second:
                self._parked[pod] = 0
                self.add(pod)
                continue
            self._order = order = self._order + 1
            backoff_order[pod] = order
            push(until, (key(pod, failed_at), order, pod))
            backing_off = True
        if backing_off:
            if not self._backoff_armed:
                self._backoff_armed = True
                self._look_later()
            self._wake()

    def _pop_backing_off(self) -> int:
        """The first pod in back-off, or −1."""
        waiting, backoff_order = self._backing_off, self._backoff_order
        while (entry := waiting.pop(NEVER)) is not None:
            _, order, pod = entry
            if backoff_order.get(pod) == order:
                del backoff_order[pod]
                self._parked[pod] = 0
                return pod
        return -1

    def _look_later(self) -> None:
        now = self._kernel.now
        self._kernel.at(now - now % BACKOFF_LOOK + BACKOFF_LOOK, self._end_backoffs)

    def _end_backoffs(self, _: object) -> None:
        now, backoff_order = self._kernel.now, self._backoff_order
        this_second = now - now % BACKOFF_LOOK
        while (entry := self._backing_off.pop(this_second)) is not None:
            key, order, pod = entry
            if backoff_order.get(pod) == order:
                del backoff_order[pod]
                self._parked[pod] = 0
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
            self.activate([pod for pod, since in waiting.items() if now - since > UNSCHEDULABLE_MOST])
        self._flush_armed = any(self._unschedulable.values())
        if self._flush_armed:
            self._kernel.at(now + UNSCHEDULABLE_LOOK, self._flush)
