"""Pod groups as kube-scheduler 1.36 schedules them with GangScheduling: one popped pod pulls its whole group into one cycle.

Facts (Kubernetes 1.36.3, pkg/scheduler):
- A pod is kept out of the queue until its group has minCount pods (plugins/gangscheduling, PreEnqueue). Pods that ended do not
  count: the scheduler does not see them.
- The cycle (schedule_one_podgroup.go) tries the pods one after another on one snapshot. All get their nodes, or none does;
  pods behind the first that found no node are looked at all the same.
- A group that failed waits for no event (backend/queue, determineSchedulingHintForInFlightPod): its pods back off. But when
  the active queue is empty, the scheduler takes pods from the back-off before their time (SchedulerPopFromBackoffQ). So while
  groups wait and nothing else is to do, it tries them in turn without a pause: a core is busy (1,500 groups a second on a
  2-core machine), and room is taken within milliseconds, by whichever group is tried first that fits into it.
- What the loop writes it waits for: a pod's condition where its words change (`0/8 nodes are available` or `waiting for minCount
  pods`), and the group's condition when it first fails and when it succeeds.
- Bindings run beside the loop. All pods but the last of a group have waited in permit for a moment; such a pod first gets its
  nominatedNodeName (NominatedNodeNameForExpectation, on by default), so it costs two requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from seatrial.model.plan import PodShape
from seatrial.sim.api import WRITE
from seatrial.sim.kernel import Kernel
from seatrial.sim.pods import ASSUMED, PENDING
from seatrial.sim.queue import BACKOFF_FIRST, BACKOFF_LOOK, BACKOFF_MOST, LONGEST, Queue
from seatrial.sim.scheduler import Around, Scheduler

_Key = tuple[Any, ...]


class Turns:
    """Groups that wait, in the order in which they are tried: active ones, then those that back off.

    Once all have failed with the longest back-off and nothing has changed, they take turns in vain. That is not simulated: they
    rest until something changes, and then it is found whose turn it would be. An hour of it would be millions of cycles.
    """

    def __init__(self, kernel: Kernel, wake: Callable[[], None]) -> None:
        self._kernel, self._wake = kernel, wake
        self._active: list[tuple[_Key, int, int]] = []  # (key, order, group)
        self._backing_off: list[tuple[int, _Key, int, int]] = []  # (until, key, order, group)
        self._entry: dict[int, int] = {}  # group → the order of its entry that counts
        self._priority: dict[int, int] = {}
        self._failures: dict[int, int] = {}
        self._in_vain: dict[
            int, int
        ] = {}  # group → length of its cycle: those that failed since the last change, oldest first
        self._resting_since = -1
        self.changes = 0
        self._order = 0
        self._armed = False

    def add(self, group: int, priority: int, since: int) -> None:
        """A group that is complete; its place is by when its first pod came."""
        self._stir()
        self._priority[group] = priority
        self._activate(group, (-priority, since))

    def remove(self, group: int) -> None:
        """It was placed, or it lacks pods again."""
        for column in (self._entry, self._priority, self._failures):
            column.pop(group, None)
        if self._in_vain.pop(group, None) is not None and not self._in_vain:
            self._resting_since = -1

    def failed(self, group: int, took: int, quietly: bool) -> None:
        """It backs off. `quietly`: nothing was written, nor has anything changed, so the next time will be the same."""
        failures = self._failures[group] = self._failures.get(group, 0) + 1
        self._back_off(group, self._kernel.now, min(BACKOFF_FIRST << (failures - 1), BACKOFF_MOST))
        self._in_vain.pop(group, None)
        if quietly and failures >= LONGEST:
            self._in_vain[group] = took

    def changed(self) -> int:
        """What failed before may fit now. How long the cycle still takes that is under way, unless the loop is known to run."""
        left = self._stir()
        self.changes += 1
        self._in_vain.clear()
        return left

    @property
    def first(self) -> tuple[_Key, int, int] | None:
        """The first active one."""
        active = self._active
        while active and self._entry.get(active[0][2]) != active[0][1]:
            heappop(active)
        return active[0] if active else None

    def pop(self) -> int:
        """The next one to be tried, or −1: there is none, or all rest."""
        if self.first:
            group = heappop(self._active)[2]
            del self._entry[group]
            return group
        if self._in_vain and len(self._in_vain) == len(self._entry):
            self._resting_since = self._kernel.now
            return -1
        return self._pop_backing_off(1 << 62)

    def _stir(self) -> int:
        """Takes the turns up where they would be by now; the cycle under way began before the change, so it still fails."""
        if self._resting_since < 0:
            return 0
        turns = list(self._in_vain.items())
        into = (self._kernel.now - self._resting_since) % sum(took for _, took in turns)
        self._resting_since = -1
        place = 0
        while into >= turns[place][1]:
            into -= turns[place][1]
            place += 1
        order = turns[place + 1 :] + turns[: place + 1]
        self._in_vain = dict(order)
        for number, (group, _) in enumerate(order):
            self._back_off(group, self._kernel.now - len(order) + number, BACKOFF_MOST)
        return turns[place][1] - into

    def _activate(self, group: int, key: _Key) -> None:
        self._order += 1
        self._entry[group] = self._order
        heappush(self._active, (key, self._order, group))
        self._wake()

    def _back_off(self, group: int, failed_at: int, wait: int) -> None:
        """Pods whose back-off ends in the same second are ordered as active ones are (lessBackoffCompletedWithPriority)."""
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
            group = self._pop_backing_off(1 << 62)
            if group >= 0:
                self._activate(group, key)
        if waiting:
            self._armed = True
            self._look_later()

    def _pop_backing_off(self, before: int) -> int:
        waiting = self._backing_off
        while waiting and waiting[0][0] < before:
            _, _, order, group = heappop(waiting)
            if self._entry.get(group) == order:
                del self._entry[group]
                return group
        return -1


class _Queue(Queue):
    """The queue of pods without a group, which hears first of what may help both."""

    hears: Callable[[], None]

    def moved(self, *what: Any, **more: Any) -> None:
        self.hears()
        super().moved(*what, **more)


class GroupScheduler(Scheduler):
    """`needs(job)` is how many pods the job's group must have, 0 if its pods are no group. A group has its job's number.

    `refused(job, fitting)` is called whenever a group could not be placed, `written(job)` when its condition says it is scheduled.
    """

    def __init__(self, around: Around) -> None:
        super().__init__(around)
        queue = _Queue(around.kernel, self._key, self._wake)
        queue.hears = self._changed
        self.queue = queue
        self.needs: Callable[[int], int] = lambda _job: 0
        self.refused: Callable[[int, int], None] = lambda _job, _fitting: None
        self.written: Callable[[int], None] = lambda _job: None
        self._turns = Turns(around.kernel, self._wake)
        self._unplaced: dict[int, list[int]] = {}  # group → its pods that have no node
        self._alive: dict[int, int] = {}  # group → its pods that have not ended
        self._since: dict[int, int] = {}  # group → when its first pod without a node came
        self._words: dict[int, bool] = {}  # pod → its condition says that it fits nowhere (or waits for the others)
        self._said: dict[
            int, tuple[int, list[int]]
        ] = {}  # group → how many of which pods fitted when that was last said
        self._group_words: dict[int, bool] = {}  # group → its condition says that it is scheduled
        self._trying = -1  # the group whose cycle it is

    # pods come and go

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
            self._turns.add(job, self._pods.shape[pod].priority, self._since[job])

    def ended(self, pod: int) -> None:
        self._left(pod)
        super().ended(pod)

    def delete(self, pod: int) -> None:
        job = self._pods.job[pod]
        if job not in self._alive:
            super().delete(pod)
            return
        waited = self._pods.state[pod] == PENDING
        if waited:
            self._unplaced[job].remove(pod)
        current, self._current = self._current, pod  # it stands in no queue that would have to forget it
        super().delete(pod)
        self._current = current
        self._left(pod)
        if waited and job != self._trying:
            self._turns.remove(job)  # fewer than it needs

    def _left(self, pod: int) -> None:
        """One pod less that the scheduler sees."""
        job = self._pods.job[pod]
        if job not in self._alive:
            return
        self._alive[job] -= 1
        self._words.pop(pod, None)
        if not self._alive[job]:
            for column in (
                self._alive,
                self._unplaced,
                self._since,
                self._said,
            ):  # not its condition: the PodGroup outlives its pods
                column.pop(job, None)

    # the loop

    def _changed(self) -> None:
        left = self._turns.changed()
        if left and not self._busy:
            self._busy = True
            self._kernel.at(self._kernel.now + left, self._next)

    def _turn(self) -> bool:
        """Active pods and groups by priority and time, then pods that back off, then groups that do."""
        if self._in_hand >= 0:
            return super()._turn()
        group, pod = self._turns.first, self.queue.first
        if group and (not pod or group[:2] < pod[:2]):
            return self._try(self._turns.pop())
        had_pods = not self.queue.empty
        if not had_pods:
            job = self._turns.pop()
            if job >= 0:
                return self._try(job)
        goes_on = super()._turn()
        if had_pods and not self._busy:
            self._wake()  # all of them were deleted ones
        return goes_on

    def _pass_over(self, shape: PodShape) -> None:
        if not self._turns.first:
            super()._pass_over(shape)

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
            self._take_back(pod)
        cycle = (job, placed, took, self._turns.changes)
        if self._kernel.advance(ends):
            return self._failed(cycle)
        self._kernel.at(ends, self._fails, cycle)
        return False

    def _place(self, members: Sequence[int]) -> int:
        """Assumes nodes for them one after another; how many got one. The first that gets none ends it: they are alike."""
        self._searched = 0
        for number, pod in enumerate(members):
            node = self._pick(pod)
            self._searched += self._nodes.searched
            if node < 0:
                return number
            self._assume(pod, node)
        return len(members)

    def _take_back(self, pod: int) -> None:
        """It was placed only to see whether the others fit beside it: nobody hears of the room."""
        self._release(pod)
        self._pods.state[pod] = PENDING
        self._pods.node[pod] = -1

    def _fits(self, cycle: tuple[int, list[int]]) -> None:
        job, members = cycle
        self._trying = -1
        self._turns.remove(job)
        members = [pod for pod in members if self._pods.state[pod] == ASSUMED]
        for pod in members[:-1]:
            self._api.call(self._client, WRITE, self._nominated, pod)
        for pod in members[-1:]:
            self._bind(pod)
        self._said.pop(job, None)
        if members and not self._group_words.get(job):
            self._group_words[job] = True
            self._api.call(self._client, WRITE, self._says_scheduled, job)
        else:
            self._next()

    def _nominated(self, pod: int) -> None:
        if self._pods.state[pod] == ASSUMED:
            self._bind(pod)

    def _says_scheduled(self, job: int) -> None:
        self.written(job)
        self._next()

    def _fails(self, cycle: tuple[int, int, int, int]) -> None:
        if self._failed(cycle):
            self._next()

    def _failed(self, cycle: tuple[int, int, int, int]) -> bool:
        """Whether the loop goes on at once: nothing has to be written."""
        job, placed, took, changes = cycle
        self._trying = -1
        members = self._unplaced.get(job, [])
        if self._alive.get(job, 0) < self.needs(job) or not members:
            self._turns.remove(job)
            return True
        writes = 0
        if self._said.get(job) != (placed, members):
            self._said[job] = (placed, list(members))
            self.refused(job, placed)
            writes = sum(self._words.get(pod) != (number >= placed) for number, pod in enumerate(members))
            writes += job not in self._group_words
            self._words.update((pod, number >= placed) for number, pod in enumerate(members))
            self._group_words.setdefault(job, False)
        self._turns.failed(job, took, not writes and changes == self._turns.changes)
        if writes:
            self._write(writes)
        return not writes

    def _write(self, left: int) -> None:
        """The loop goes on when all conditions are written, one after another."""
        if left:
            self._api.call(self._client, WRITE, self._write, left - 1)
        else:
            self._next()
