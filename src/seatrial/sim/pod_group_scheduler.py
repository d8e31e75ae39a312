"""Pod groups as kube-scheduler 1.36 schedules them with GangScheduling: one popped pod pulls its whole group into one cycle.

Facts (Kubernetes 1.36.3, pkg/scheduler):
- A pod is queued once its group has minCount pods (plugins/gangscheduling, PreEnqueue). Ended pods do not count: the scheduler
  does not see them.
- The cycle (schedule_one_podgroup.go) tries the pods one after another on one snapshot. All get their nodes, or none does;
  pods after the first failure are tried all the same.
- A group that failed waits for no event (backend/queue, determineSchedulingHintForInFlightPod): its pods back off. But when
  the active queue is empty, the scheduler pops pods before their back-off ends (SchedulerPopFromBackoffQ). So an otherwise idle
  scheduler tries waiting groups in turn without a pause: a core is busy (1,500 groups a second on a 2-core machine), and free
  room goes within milliseconds to the first group tried that fits.
- The loop waits for its writes: a pod's condition when its message changes (`0/8 nodes are available` or `waiting for minCount
  pods`), and the group's condition at the first failure and at success.
- Bindings run beside the loop. All pods of a group but the last wait in permit for a moment; they first get their
  nominatedNodeName (NominatedNodeNameForExpectation, on by default), so each costs two requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from seatrial.model.plan import PodShape
from seatrial.sim.apiserver import WRITE
from seatrial.sim.kernel import Kernel
from seatrial.sim.pods import ASSUMED, PENDING
from seatrial.sim.queue import BACKOFF_FIRST, BACKOFF_LOOK, BACKOFF_MOST, LONGEST, SchedulingQueue
from seatrial.sim.scheduler import Around, Scheduler

_Key = tuple[Any, ...]


class GroupQueue:
    """Waiting groups in the order of their cycles: active groups, then groups that back off.

    Once all have failed with the longest back-off and nothing has changed, every further cycle fails too. These cycles are not
    simulated (an hour would be millions): the queue rests until a change, and then computes whose turn it is.
    """

    def __init__(self, kernel: Kernel, wake: Callable[[], None]) -> None:
        self._kernel, self._wake = kernel, wake
        self._active: list[tuple[_Key, int, int]] = []  # (key, order, group)
        self._backing_off: list[tuple[int, _Key, int, int]] = []  # (until, key, order, group)
        self._entry: dict[int, int] = {}  # group → the order of its entry that counts
        self._priority: dict[int, int] = {}
        self._failures: dict[int, int] = {}
        self._futile: dict[int, int] = {}  # group → length of its cycle; failed since the last change, oldest first
        self._resting_since = -1
        self.changes = 0
        self._order = 0
        self._armed = False

    def add(self, group: int, priority: int, since: int) -> None:
        """Adds a complete group; its place is by the arrival of its first pod."""
        self._resume()
        self._priority[group] = priority
        self._activate(group, (-priority, since))

    def remove(self, group: int) -> None:
        """The group was placed, or is no longer complete."""
        for column in (self._entry, self._priority, self._failures):
            column.pop(group, None)
        if self._futile.pop(group, None) is not None and not self._futile:
            self._resting_since = -1

    def failed(self, group: int, took: int, unchanged: bool) -> None:
        """The group backs off. `unchanged`: nothing was written and nothing changed, so the next cycle would fail too."""
        failures = self._failures[group] = self._failures.get(group, 0) + 1
        self._back_off(group, self._kernel.now, min(BACKOFF_FIRST << (failures - 1), BACKOFF_MOST))
        self._futile.pop(group, None)
        if unchanged and failures >= LONGEST:
            self._futile[group] = took

    def changed(self) -> int:
        """Failed groups may fit now. Returns the rest of the cycle that a resting loop would be in, else 0."""
        left = self._resume()
        self.changes += 1
        self._futile.clear()
        return left

    @property
    def first(self) -> tuple[_Key, int, int] | None:
        """The first active group."""
        active = self._active
        while active and self._entry.get(active[0][2]) != active[0][1]:
            heappop(active)
        return active[0] if active else None

    def pop(self) -> int:
        """The next group to try; −1 if there is none, or all rest."""
        if self.first:
            group = heappop(self._active)[2]
            del self._entry[group]
            return group
        if self._futile and len(self._futile) == len(self._entry):
            self._resting_since = self._kernel.now
            return -1
        return self._pop_backing_off()

    def _resume(self) -> int:
        """Computes the order of the turns by now; the current cycle began before the change, so it still fails."""
        if self._resting_since < 0:
            return 0
        turns = list(self._futile.items())
        into = (self._kernel.now - self._resting_since) % sum(took for _, took in turns)
        self._resting_since = -1
        place = 0
        while into >= turns[place][1]:
            into -= turns[place][1]
            place += 1
        order = turns[place + 1 :] + turns[: place + 1]
        self._futile = dict(order)
        for number, (group, _) in enumerate(order):
            self._back_off(group, self._kernel.now - len(order) + number, BACKOFF_MOST)
        return turns[place][1] - into

    def _activate(self, group: int, key: _Key) -> None:
        self._order += 1
        self._entry[group] = self._order
        heappush(self._active, (key, self._order, group))
        self._wake()

    def _back_off(self, group: int, failed_at: int, wait: int) -> None:
        """Groups whose back-off ends in the same second are ordered as active ones (lessBackoffCompletedWithPriority)."""
        self._order += 1
        self._entry[group] = self._order
        until = failed_at + wait
        key = (-self._priority[group], failed_at)
        heappush(self._backing_off, (until - until % BACKOFF_LOOK, key, self._order, group))
        if not self._armed:
            self._armed = True
            self._look_later()

    def _look_later(self) -> None:
        now = self._kernel.now
        self._kernel.at(now - now % BACKOFF_LOOK + BACKOFF_LOOK, self._end_backoffs)

    def _end_backoffs(self, _: object) -> None:
        self._armed = False
        if self._resting_since >= 0:
            return
        now = self._kernel.now
        waiting = self._backing_off
        while waiting and waiting[0][0] < now - now % BACKOFF_LOOK:
            key = waiting[0][1]
            group = self._pop_backing_off()
            if group >= 0:
                self._activate(group, key)
        if waiting:
            self._armed = True
            self._look_later()

    def _pop_backing_off(self) -> int:
        while self._backing_off:
            _, _, order, group = heappop(self._backing_off)
            if self._entry.get(group) == order:
                del self._entry[group]
                return group
        return -1


class _SinglePodQueue(SchedulingQueue):
    """The queue of pods without a group; `on_event` is called before its own handling of an event."""

    on_event: Callable[[], None]

    def moved(self, *what: Any, **more: Any) -> None:
        self.on_event()
        super().moved(*what, **more)


class GroupScheduler(Scheduler):
    """`needs(job)` is the minCount of the job's group, 0 for pods without a group. A group has its job's number.

    `refused(job, fitting)` is called when a group could not be placed, `written(job)` when its scheduled condition is written.
    """

    def __init__(self, around: Around) -> None:
        super().__init__(around)
        queue = _SinglePodQueue(around.kernel, self._key, self._wake)
        queue.on_event = self._changed
        self.queue = queue
        self.needs: Callable[[int], int] = lambda _job: 0
        self.refused: Callable[[int, int], None] = lambda _job, _fitting: None
        self.written: Callable[[int], None] = lambda _job: None
        self._groups = GroupQueue(around.kernel, self._wake)
        self._unplaced: dict[int, list[int]] = {}  # group → its pods that have no node
        self._alive: dict[int, int] = {}  # group → its pods that have not ended
        self._since: dict[int, int] = {}  # group → when its first pod without a node came
        self._conditions: dict[int, bool] = {}  # pod → its condition: fits nowhere (True) or waits for the others
        self._reported: dict[int, tuple[int, list[int]]] = {}  # group → last report: how many of which pods fitted
        self._group_conditions: dict[int, bool] = {}  # group → whether its condition is scheduled
        self._trying = -1  # the group of the current cycle

    # pods are added and removed

    def add(self, pod: int) -> None:
        job = self._pods.job[pod]
        need = self.needs(job)
        if not need:
            super().add(pod)
            return
        unplaced = self._unplaced.setdefault(job, [])
        if not unplaced:
            self._since[job] = self._kernel.now
        unplaced.append(pod)
        alive = self._alive[job] = self._alive.get(job, 0) + 1
        if alive == need and job != self._trying:
            self._groups.add(job, self._pods.shape[pod].priority, self._since[job])

    def ended(self, pod: int) -> None:
        self._forget(pod)
        super().ended(pod)

    def delete(self, pod: int) -> None:
        job = self._pods.job[pod]
        if job not in self._alive:
            super().delete(pod)
            return
        waited = self._pods.state[pod] == PENDING
        if waited:
            self._unplaced[job].remove(pod)
        current, self._current = self._current, pod  # the pod is in no queue
        super().delete(pod)
        self._current = current
        self._forget(pod)
        if waited and job != self._trying:
            self._groups.remove(job)  # fewer pods than minCount

    def _forget(self, pod: int) -> None:
        """Removes the pod from its group."""
        job = self._pods.job[pod]
        if job not in self._alive:
            return
        self._alive[job] -= 1
        self._conditions.pop(pod, None)
        if not self._alive[job]:
            # The group's condition stays: the PodGroup outlives its pods.
            for column in (self._alive, self._unplaced, self._since, self._reported):
                column.pop(job, None)

    # the loop

    def _changed(self) -> None:
        left = self._groups.changed()
        if left and not self._busy:
            self._busy = True
            self._kernel.at(self._kernel.now + left, self._next)

    def _turn(self) -> bool:
        """Active pods and groups by priority and time, then pods in back-off, then groups in back-off."""
        if self._in_hand >= 0:
            return super()._turn()
        group, pod = self._groups.first, self.queue.first
        if group and (not pod or group[:2] < pod[:2]):
            return self._try(self._groups.pop())
        had_pods = not self.queue.empty
        if not had_pods:
            job = self._groups.pop()
            if job >= 0:
                return self._try(job)
        goes_on = super()._turn()
        if had_pods and not self._busy:
            self._wake()  # all of them were deleted
        return goes_on

    def _pass_over(self, shape: PodShape) -> bool:
        return self._groups.first is not None or super()._pass_over(shape)

    def _try(self, job: int) -> bool:
        self._trying = job
        members = self._unplaced[job]
        placed = self._place(members)
        searched = self._searched + self._nodes.searched * max(len(members) - placed - 1, 0)
        took = self._cycle * len(members) + self._per_node * searched
        ends = self._kernel.now + took
        if placed == len(members):
            self._unplaced[job] = []
            self._kernel.at(ends, self._fits, (job, members))
            return False
        for pod in members[:placed]:
            self._undo_assume(pod)
        cycle = (job, placed, took, self._groups.changes)
        if self._kernel.advance(ends):
            return self._failed(cycle)
        self._kernel.at(ends, self._fails, cycle)
        return False

    def _place(self, members: Sequence[int]) -> int:
        """Assumes nodes for the pods; returns how many got one. Stops at the first failure: the pods are alike."""
        self._searched = 0
        for number, pod in enumerate(members):
            node = self._pick(pod)
            self._searched += self._nodes.searched
            if node < 0:
                return number
            self._assume(pod, node)
        return len(members)

    def _undo_assume(self, pod: int) -> None:
        """The pod was placed only to try the others beside it: no event for the freed room."""
        self._release(pod)
        self._pods.state[pod] = PENDING
        self._pods.node[pod] = -1

    def _fits(self, cycle: tuple[int, list[int]]) -> None:
        job, members = cycle
        self._trying = -1
        self._groups.remove(job)
        members = [pod for pod in members if self._pods.state[pod] == ASSUMED]
        for pod in members[:-1]:
            self._api.call(self._client, WRITE, self._nominated, pod)
        for pod in members[-1:]:
            self._bind(pod)
        self._reported.pop(job, None)
        if members and not self._group_conditions.get(job):
            self._group_conditions[job] = True
            self._api.call(self._client, WRITE, self._condition_written, job)
        else:
            self._next()

    def _nominated(self, pod: int) -> None:
        if self._pods.state[pod] == ASSUMED:
            self._bind(pod)

    def _condition_written(self, job: int) -> None:
        self.written(job)
        self._next()

    def _fails(self, cycle: tuple[int, int, int, int]) -> None:
        if self._failed(cycle):
            self._next()

    def _failed(self, cycle: tuple[int, int, int, int]) -> bool:
        """Returns whether the loop continues at once because nothing must be written."""
        job, placed, took, changes = cycle
        self._trying = -1
        members = self._unplaced.get(job, [])
        if self._alive.get(job, 0) < self.needs(job) or not members:
            self._groups.remove(job)
            return True
        writes = 0
        if self._reported.get(job) != (placed, members):
            self._reported[job] = (placed, list(members))
            self.refused(job, placed)
            writes = sum(self._conditions.get(pod) != (number >= placed) for number, pod in enumerate(members))
            writes += job not in self._group_conditions
            self._conditions.update((pod, number >= placed) for number, pod in enumerate(members))
            self._group_conditions.setdefault(job, False)
        self._groups.failed(job, took, not writes and changes == self._groups.changes)
        if writes:
            self._write(writes)
        return not writes

    def _write(self, left: int) -> None:
        """Writes the conditions one after another, then continues the loop."""
        if left:
            self._api.call(self._client, WRITE, self._write, left - 1)
        else:
            self._next()
