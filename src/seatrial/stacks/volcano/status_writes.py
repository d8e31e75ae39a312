"""Volcano's writes at the end of a session: PodGroups whose status changed, and the condition of every waiting pod.

Facts (v1.10.0, pkg/scheduler): 16 workers go through the groups (framework/job_updater.go:17). Each writes its PodGroup if phase,
counts or conditions changed (:102), then, one after another, the pods that wait and whose condition PodScheduled changes
(cache/cache.go:1433, taskUnschedulable :985). The next session begins a period after the last answer. PodGroups and queues are
written by one client, pods by another, Events by a third; each has a token bucket of its own (:518).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from seatrial.sim.apiserver import WRITE, ApiClient
from seatrial.sim.goroutines import Calls, Goroutine, Goroutines, Signal
from seatrial.stacks.volcano.pod_groups import COMPLETED, INQUEUE, PENDING, RUNNING, UNKNOWN, GroupState

WORKERS = 16  # jobUpdaterWorker


def settle(group: GroupState, has_gangs: bool) -> str:
    """Sets the phase that the session leaves the group in (jobStatus, framework/session.go:242); returns why it is unschedulable,
    or nothing."""
    unready = has_gangs and not group.is_ready()
    allocated = group.allocated + len(group.placed) + group.succeeded
    if group.running and unready:
        group.phase = UNKNOWN
    elif allocated >= group.least:
        group.phase = COMPLETED if group.succeeded == allocated else RUNNING
    elif group.phase != INQUEUE:
        group.phase = PENDING
    return _unschedulable(group) if unready else ""


def _unschedulable(group: GroupState) -> str:
    """The message of its condition (plugins/gang/gang.go:196)."""
    schedulable = len(group.discarded) + group.ready_tasks()
    return f"{group.least - schedulable}/{group.pods()} tasks in gang unschedulable: {fit_error(group)}"


def fit_error(group: GroupState) -> str:
    """FitError (api/job_info.go:703)."""
    placed, waiting = len(group.placed), group.waiting()
    counts = {
        "Pending": len(waiting), "Allocated": placed, "Pipelined": len(group.pipelined), "Running": group.running,
        "Bound": group.allocated - group.running, "Releasing": group.releasing, "Succeeded": group.succeeded,
    }  # fmt: skip
    there = [f"{count} {name}" for name, count in counts.items() if count]
    said = f"pod group is not ready, {', '.join(sorted([*there, f'{group.least} minAvailable']))}"
    reasons = Counter("Schedulable" if pod in group.discarded else "Unschedulable" for pod in waiting)
    if reasons:
        said += f"; Pending: {', '.join(sorted(f'{count} {name}' for name, count in reasons.items()))}"
    if group.failed:
        pod = min(group.failed)
        said += f". Origin reason is {group.name}-{pod}: {group.failed[pod]}"
    return said


def conditions(group: GroupState, ready: bool) -> int:
    """How many pods get another condition; remembers what they say."""
    waiting = group.waiting()
    if ready and not waiting and not group.pipelined:
        group.told.clear()
        return 0
    general: str | None = None
    count = 0
    for pod in (*waiting, *group.pipelined, *(() if ready else group.placed)):
        says: object
        if pod in group.placed:
            says = ("assigned", group.placed[pod])
        elif pod in group.pipelined:
            says = ("released", group.pipelined[pod])
        elif pod in group.discarded:
            says = ("assigned", group.discarded[pod])
        elif pod in group.failed:
            says = group.failed[pod]
        else:
            general = general or fit_error(group)
            says = general
        if group.told.get(pod) != says:
            group.told[pod] = says
            count += 1
    return count


class GroupUpdate:
    """One group's writes; `written` is called at the answer to the PodGroup's."""

    __slots__ = ("group", "pods", "said", "writes")

    def __init__(self, group: GroupState, writes: bool, said: str, pods: int) -> None:
        self.group, self.writes, self.said, self.pods = group, writes, said, pods


class StatusWriter:
    """Carries updates out, 16 at a time."""

    def __init__(
        self, processes: Goroutines, groups: ApiClient, pods: ApiClient, written: Callable[[GroupUpdate], None]
    ) -> None:
        self._processes, self._groups, self._pods, self._written = processes, groups, pods, written

    def write(self, updates: Sequence[GroupUpdate], queues: int) -> Goroutine:
        """Done when all are answered, and then the status of so many queues."""
        left = list(reversed(updates))
        done = Signal(happened=not left)
        busy = [min(WORKERS, len(left))]
        for _ in range(busy[0]):
            self._processes.start(self._work(left, busy, done))
        yield done
        if queues:
            yield Calls(self._groups, WRITE, queues, in_turn=True)

    def _work(self, left: list[GroupUpdate], busy: list[int], done: Signal) -> Goroutine:
        while left:
            update = left.pop()
            if update.writes:
                yield Calls(self._groups, WRITE)
                self._written(update)
            if update.pods:
                yield Calls(self._pods, WRITE, update.pods, in_turn=True)
        busy[0] -= 1
        if not busy[0]:
            self._processes.happen(done)
