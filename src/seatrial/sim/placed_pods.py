"""Pods that a scheduler of its own places, beside kube-scheduler: it assumes nodes, binds, and evicts through its own client.

It has the pods of workloads. Those of created objects (a Deployment's) stay with kube-scheduler, and both see the same nodes.
"""

from __future__ import annotations

from collections.abc import Callable

from seatrial.sim.apiserver import WRITE, ApiClient
from seatrial.sim.framework import SchedulerPlugin
from seatrial.sim.pods import ASSUMED, BOUND, PENDING, RUNNING
from seatrial.sim.world import Sim


class PlacedPods(SchedulerPlugin):
    """`created(pod)` is told of new pods, `ended(pod)` of those that finished or were deleted. Call before there are pods."""

    def __init__(
        self, sim: Sim, client: ApiClient, created: Callable[[int], None], ended: Callable[[int], None]
    ) -> None:
        self._sim, self._client, self._created, self._ended = sim, client, created, ended
        self._kernel, self._pods = sim.kernel, sim.pods
        self.releasing: set[int] = set()  # evicted, and not gone yet
        sim.gated = self._takes
        sim.scheduler.use(self)

    def _takes(self, pod: int) -> bool:
        self._created(pod)
        return True

    def gone(self, pod: int) -> None:
        """The pod finished or was deleted."""
        if self._pods.job[pod] >= 0:
            self.releasing.discard(pod)
            self._ended(pod)

    def assume(self, pod: int, node: int) -> None:
        """The node is the pod's from now on."""
        self._sim.scheduler.assume(pod, node)

    def bind(self, pod: int, at: int) -> None:
        """Sends the binding of an assumed pod at this time."""
        self._kernel.at(at, self._send, pod)

    def _send(self, pod: int) -> None:
        if self._pods.state[pod] == ASSUMED:
            self._sim.api.call(self._client, WRITE, self._sim.scheduler.is_bound, pod)

    def evict(self, pod: int, by: int, reason: str, message: str) -> None:
        """Writes the reason into the pod's status, then deletes it, for a pod of the workload `by`."""
        self.releasing.add(pod)
        self._sim.api.call_in_turn(self._client, WRITE, 2, self._deleted, (pod, by, reason, message))

    def _deleted(self, what: tuple[int, int, str, str]) -> None:
        pod, by, reason, message = what
        if BOUND <= self._pods.state[pod] <= RUNNING:
            self._sim.places.preempted(self._pods.job[pod], by, reason, message)
            self._sim.scheduler.preemption.delete(pod)
        elif self._pods.state[pod] == PENDING:
            self.releasing.discard(pod)
