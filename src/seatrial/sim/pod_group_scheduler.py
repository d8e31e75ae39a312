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
- Preemption is pod by pod (WorkloadAwarePreemption is alpha and off): each pod of the group that fits nowhere evicts at once and
  counts as placed for the pods after it. If all have a place then, all are nominated to it and the group waits for its victims;
  if not, nobody is nominated, and what was evicted was evicted for nothing (podGroupSchedulingDefaultAlgorithm,
  submitPodGroupAlgorithmResult).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from seatrial.model.plan import PodShape
from seatrial.sim.apiserver import WRITE
from seatrial.sim.group_queue import GroupQueue
from seatrial.sim.pods import ASSUMED, PENDING
from seatrial.sim.preemption import DRY_RUN
from seatrial.sim.queue import SchedulingQueue
from seatrial.sim.scheduler import Around, Scheduler


class _GroupCycle(NamedTuple):
    """A cycle that did not place its group."""

    group: int
    placed: int  # pods that had a node, with or without an eviction
    took: int
    changes: int  # of the queue, when it began
    nominated: dict[int, int]  # pod → node, if all would have one after the evictions


_WAITS, _NOWHERE, _PREEMPTS = range(
    3
)  # what a pod's condition says: waits for the others, fits nowhere, waits for victims


class _SinglePodQueue(SchedulingQueue):
    """The queue of pods without a group; `on_event` is called before its own handling of an event."""

    on_event: Callable[[], None]

    def moved(self, *what: Any, **more: Any) -> None:
        self.on_event()
        super().moved(*what, **more)


class GroupScheduler(Scheduler):
    """`needs(job)` is the minCount of the job's group, 0 for pods without a group. A group has its job's number.

    `refused(job, fitting)` is called when a group could not be placed, `preempts(job)` when it waits for its victims,
    `written(job)` when its scheduled condition is written.
    """

    def __init__(self, around: Around) -> None:
        super().__init__(around)
        queue = _SinglePodQueue(around.kernel, self._key, self._wake)
        queue.on_event = self._changed
        self._queue_with(queue)
        self.preemption.done = self._victims_deleted
        self.needs: Callable[[int], int] = lambda _job: 0
        self.refused: Callable[[int, int], None] = lambda _job, _fitting: None
        self.preempts: Callable[[int], None] = lambda _job: None
        self.written: Callable[[int], None] = lambda _job: None
        self._groups = GroupQueue(around.kernel, self._wake)
        self._unplaced: dict[int, list[int]] = {}  # group → its pods that have no node
        self._alive: dict[int, int] = {}  # group → its pods that have not ended
        self._since: dict[int, int] = {}  # group → when its first pod without a node came
        self._conditions: dict[int, int] = {}  # pod → its condition
        self._evicting: dict[int, set[int]] = {}  # group → its pods whose victims are being deleted
        self._parked: dict[int, int] = {}  # group that waits for that → length of its cycle
        self._reported: dict[int, tuple[int, list[int]]] = {}  # group → last report: how many of which pods fitted
        self._group_conditions: dict[int, bool] = {}  # group → whether its condition is scheduled
        self._trying = -1  # the group of the current cycle

    # pods are added and removed

    def add(self, pod: int, alone: bool = False) -> None:  # noqa: ARG002
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
        self._parked.pop(job, None)
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
            for column in (self._alive, self._unplaced, self._since, self._reported, self._evicting):
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
        took = self._cycle * len(members) + self._per_node * searched + DRY_RUN * self._looked
        ends = self._kernel.now + took
        if placed == len(members) and not self._preempted:
            self._unplaced[job] = []
            self._kernel.at(ends, self._fits, (job, members))
            return False
        nodes = self._pods.node
        nominated = {pod: nodes[pod] for pod in members} if placed == len(members) else {}
        for pod in members[:placed]:
            self._undo_assume(pod)
        cycle = _GroupCycle(job, placed, took, self._groups.changes, nominated)
        if self._kernel.advance(ends):
            return self._failed(cycle)
        self._kernel.at(ends, self._fails, cycle)
        return False

    def _place(self, members: Sequence[int]) -> int:
        """Assumes nodes for the pods; returns how many got one. Stops at the first failure: the pods are alike."""
        self._searched = self._looked = 0
        self._preempted = False
        for number, pod in enumerate(members):
            node = self._pick(pod)
            self._searched += self._nodes.searched
            if node < 0:
                node = self._preempt(pod)
            if node < 0:
                return number
            self.assume(pod, node)
        return len(members)

    def _preempt(self, pod: int) -> int:
        """Evicts pods of a lower priority; returns the node it does so on, or −1."""
        if self._pods.lowest >= self._pods.shape[pod].priority:
            return -1
        plan = self._search.plan(pod)
        self._looked += plan.looked
        self._preempted = self._preempted or plan.node >= 0
        if plan.node >= 0 and self.preemption.carry_out(pod, plan):
            self._evicting.setdefault(self._pods.job[pod], set()).add(pod)
        return plan.node

    def _victims_deleted(self, pod: int) -> None:
        job = self._pods.job[pod]
        evicting = self._evicting.get(job)
        if evicting is None:
            return
        evicting.discard(pod)
        if not evicting:
            del self._evicting[job]
            took = self._parked.pop(job, None)
            if took is not None and self._unplaced.get(job):
                self._changed()  # the other groups may rest
                self._groups.failed(job, took, unchanged=False)
                self._wake()

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

    def _fails(self, cycle: _GroupCycle) -> None:
        if self._failed(cycle):
            self._next()

    def _failed(self, cycle: _GroupCycle) -> bool:
        """Returns whether the loop continues at once because nothing must be written."""
        job, placed, took, changes, nominated = cycle
        self._trying = -1
        members = self._unplaced.get(job, [])
        if self._alive.get(job, 0) < self.needs(job) or not members:
            self._groups.remove(job)
            return True
        renominated = set()
        if self._search.counts:
            renominated = {pod for pod in members if self.preemption.nominate(pod, nominated.get(pod, -1))}
        report = (-1 if nominated else placed, members)
        writes = len(renominated)
        if self._reported.get(job) != report:
            self._reported[job] = (report[0], list(members))
            if nominated:
                self.preempts(job)
            else:
                self.refused(job, placed)
            said = {
                pod: _PREEMPTS if nominated else _NOWHERE if number >= placed else _WAITS
                for number, pod in enumerate(members)
            }
            writes += sum(self._conditions.get(pod) != said[pod] for pod in members if pod not in renominated)
            writes += job not in self._group_conditions
            self._conditions.update(said)
            self._group_conditions.setdefault(job, False)
        if job in self._evicting:
            self._parked[job] = took
        else:
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
