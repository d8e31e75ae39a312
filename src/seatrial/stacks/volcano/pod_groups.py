"""Volcano's JobInfo: a PodGroup with its pods, as the scheduler's cache has it and as a session changes it.

Amounts are tuples by resource: cpu, memory, then those that only some pods request. The resource `pods` is counted by nodes alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.model.plan import Workload
from seatrial.model.units import SECOND
from seatrial.sim import pods as pod_state
from seatrial.sim.world import Sim

Amount = tuple[int, ...]
PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED = "Pending", "Inqueue", "Running", "Unknown", "Completed"


class GroupState:
    """The state of a PodGroup. Counts of pods are those of the cache; `placed` and `pipelined` are of the session that is open."""

    __slots__ = (
        "allocated", "asked", "best_effort", "born", "counted", "discarded", "failed", "held", "known", "least", "minimum", "name",
        "number", "over", "pending", "phase", "pipelined", "placed", "queue", "rank", "releasing", "running", "serial", "settled",
        "shape", "status", "succeeded", "told",
    )  # fmt: skip

    def __init__(self, number: int, workload: Workload, queue: str, asked: Amount, now: int) -> None:
        self.number, self.name, self.queue, self.shape = number, workload.name, queue, workload.shape
        self.least = workload.pods if workload.gang else 1  # minMember
        self.asked = asked  # by a pod
        self.minimum = times(asked, self.least)  # minResources
        self.best_effort = not any(asked)
        self.born = now // SECOND  # creationTimestamp
        self.phase = PENDING
        self.pending: list[int] = []
        self.held: list[int] = []  # pods that are bound or about to be, and not being deleted: Binding, Bound, Running
        self.allocated = self.running = self.succeeded = self.releasing = 0
        self.over = False
        self.placed: dict[int, int] = {}  # pod → node, of this session; Allocated, and Binding once committed
        self.pipelined: dict[int, int] = {}
        self.discarded: dict[int, int] = {}  # pods that a discarded statement had placed
        self.failed: dict[int, str] = {}  # pod → why it fits nowhere
        self.status: tuple[object, ...] = ()  # as it was last written
        self.settled = False  # nothing has happened since its status was written
        self.rank: tuple[object, ...] = ()  # its place in its queue, as long as it has nothing
        self.serial = self.counted = 0  # as it came; pending pods that its queue counts
        self.told: dict[int, object] = {}  # pod → what its condition PodScheduled says

    def recount(self, sim: Sim, releasing: set[int]) -> None:
        """Reads the pods again: something happened to one of them."""
        self.settled = False
        if self.over:
            return
        state = sim.pods.state
        self.pending, self.held = [], []
        self.running = self.succeeded = self.releasing = 0
        for pod in sim.pods_of(self.number):
            now = state[pod]
            if now == pod_state.PENDING:
                self.pending.append(pod)
            elif pod in releasing and now < pod_state.FINISHED:
                self.releasing += 1
            elif now < pod_state.FINISHED:
                self.held.append(pod)
                self.running += now == pod_state.RUNNING
            elif now == pod_state.FINISHED:
                self.succeeded += 1
        self.allocated = len(self.held)

    def complete(self, pods: int) -> None:
        """The Job is complete: its pods stay as they are."""
        self.over = True
        self.pending, self.held = [], []
        self.allocated = self.running = self.releasing = 0
        self.succeeded = pods

    def evicted(self, pod: int, *, running: bool, undone: bool = False) -> None:
        """The session that is open evicts a pod of it, or does not after all."""
        count = -1 if undone else 1
        (self.held.append if undone else self.held.remove)(pod)
        self.allocated -= count
        self.running -= count * running
        self.releasing += count
        self.settled = False

    def begin(self) -> None:
        """A session opens."""
        if self.touched():
            self.placed, self.pipelined, self.discarded, self.failed = {}, {}, {}, {}

    def touched(self) -> bool:
        """Whether the session has tried to place pods of it."""
        return bool(self.placed or self.pipelined or self.discarded or self.failed)

    def has_nothing(self) -> bool:
        """No pod of it has or had a place: it is no other than a group that has just come."""
        return not (self.allocated or self.placed or self.pipelined or self.best_effort or self.succeeded)

    def waiting(self) -> list[int]:
        """Pods that are Pending in this session, in the order of their creation."""
        if not self.placed and not self.pipelined:
            return self.pending
        return [pod for pod in self.pending if pod not in self.placed and pod not in self.pipelined]

    def ready_tasks(self) -> int:
        """ReadyTaskNum (api/job_info.go:786)."""
        return self.allocated + self.succeeded + len(self.placed)

    def pods(self) -> int:
        """The number of all its pods."""
        return len(self.pending) + self.allocated + self.succeeded + self.releasing

    def is_ready(self) -> bool:
        """IsReady (api/job_info.go:1029): pods that request nothing count as ready."""
        return self.ready_tasks() + self._pending_best_effort() >= self.least

    def is_pipelined(self) -> bool:
        """IsPipelined (api/job_info.go:1033)."""
        return self.ready_tasks() + len(self.pipelined) + self._pending_best_effort() >= self.least

    def _pending_best_effort(self) -> int:
        return len(self.pending) - len(self.placed) - len(self.pipelined) if self.best_effort else 0

    def valid(self) -> bool:
        """Enough pods exist (plugins/gang/gang.go:56; ValidTaskNum, api/job_info.go:1015)."""
        return len(self.pending) + self.allocated + self.succeeded >= self.least

    def total(self) -> Amount:
        """The requests of its allocated pods."""
        count = self.allocated + len(self.placed) + len(self.pipelined)
        return times(self.asked, count)

    def elastic(self) -> Amount:
        """Its resources beyond the minimum; empty as soon as one resource is not above it (GetElasticResources,
        api/job_info.go:575)."""
        total = times(self.asked, self.allocated)
        over = tuple(have - least for have, least in zip(total, self.minimum, strict=True))
        named = (at for at, amount in enumerate(self.asked) if at < 2 or amount)
        return over if all(over[at] > 0 for at in named) else tuple(0 for _ in over)


def amounts(names: Sequence[str], requests: object) -> Amount:
    """Requests as a tuple by these names."""
    assert hasattr(requests, "get")
    return tuple(int(requests.get(name, 0)) for name in names)


def plus(left: Amount, right: Amount) -> Amount:
    """Their sum."""
    return tuple(map(int.__add__, left, right))


def minus(left: Amount, right: Amount) -> Amount:
    """Their difference."""
    return tuple(map(int.__sub__, left, right))


def times(amount: Amount, count: int) -> Amount:
    """The requests multiplied by a count."""
    return tuple(one * count for one in amount)


def within(left: Amount, right: Amount) -> bool:
    """LessEqual."""
    return all(map(int.__le__, left, right))


def within_asked(left: Amount, right: Amount, asked: Amount) -> bool:
    """LessEqualWithDimension: only resources that are asked for are compared."""
    return all(one <= other for one, other, ask in zip(left, right, asked, strict=True) if ask > 0)
