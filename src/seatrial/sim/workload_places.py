"""Evictions where no queue object has them: a scheduler evicts a pod of the workload, or its node is gone.

A workload is evicted once until it has its place again, which is when all its pods are bound: the pods of one gang fall to one
decision of the scheduler after another, within a tenth of a second. Real clusters are read the same way (`observe.displacements`).
A stack with a queue of its own (Kueue) records its evictions itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from seatrial.model.fleet import NODE_GONE, PREEMPTED
from seatrial.model.plan import Workload
from seatrial.record.ledger import Ledger
from seatrial.sim.kernel import Kernel
from seatrial.sim.pods import BOUND, FINISHED, RUNNING, Pods
from seatrial.sim.preemption import MESSAGE


class WorkloadPlaces:
    """Records who lost its place and who has it again. `pods_of(workload)`: those it has had."""

    def __init__(
        self,
        kernel: Kernel,
        ledger: Ledger,
        pods: Pods,
        workloads: Sequence[Workload],
        pods_of: Callable[[int], Sequence[int]],
    ) -> None:
        self._kernel, self._ledger, self._pods = kernel, ledger, pods
        self._workloads, self._pods_of = workloads, pods_of
        self._queued: set[int] = set()  # evicted by a stack's queue, which gives them their place again

    def preempted(self, number: int, by: int, reason: str = PREEMPTED, message: str = MESSAGE) -> None:
        """One decision of a scheduler hit the workload, for a pod of the workload `by` (negative: of none)."""
        if number not in self._ledger.evicted:
            self._ledger.evict(self._kernel.now, number, reason, max(by, -1), message)

    def evicted(self, number: int, reason: str, by: int, message: str) -> None:
        """A stack's queue took the workload's place, for the workload `by` (−1: for none)."""
        self._queued.add(number)
        self._ledger.evict(self._kernel.now, number, reason, by, message)

    def admitted(self, number: int) -> None:
        """A stack's queue gave the workload its place, again if it was evicted."""
        if number in self._queued:
            self._queued.discard(number)
            self._ledger.readmit(self._kernel.now, number)

    def node_gone(self, lost: Iterable[int], node: int) -> None:
        """These pods go with their node."""
        state, now = self._pods.state, self._kernel.now
        for number in sorted({self._pods.job[pod] for pod in lost if BOUND <= state[pod] <= RUNNING}):
            if number >= 0 and number not in self._ledger.evicted:
                self._ledger.evict(now, number, NODE_GONE, message=f"node {self._ledger.nodes[node]} is gone")

    def bound(self, number: int) -> None:
        """A pod of the workload was bound; call while any workload is evicted."""
        if number in self._ledger.evicted and number not in self._queued:
            state = self._pods.state
            bound = sum(BOUND <= state[pod] <= FINISHED for pod in self._pods_of(number))
            if bound == self._workloads[number].pods:
                self._ledger.readmit(self._kernel.now, number)
