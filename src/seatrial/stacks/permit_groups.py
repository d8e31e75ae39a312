"""Groups whose pods hold their nodes in permit until all of the group have one, in the simulated kube-scheduler.

Coscheduling does so (pkg/coscheduling/core/core.go of scheduler-plugins), and Fluence, which was copied from it.
"""

from __future__ import annotations

from seatrial.sim.framework import ALLOW, SchedulerPlugin
from seatrial.sim.world import Sim

OPTIMISTIC, UNRESERVED = "optimistic rejection in PostFilter", "rejection in Unreserve"


class PermitGroups(SchedulerPlugin):
    """A group is the number of its workload. Pods of workloads without a group pass."""

    def __init__(self, sim: Sim, wait: int) -> None:
        self._sim, self._wait = sim, wait
        self._assigned: dict[int, set[int]] = {}  # group → pods that hold a node
        self._waiting: dict[int, list[int]] = {}  # group → those of them that wait in permit
        self._reason = ""  # why `pre_filter` rejected the pod of this cycle, if it did

    def reason(self, pod: int) -> str:  # noqa: ARG002
        return self._reason

    def permit(self, pod: int) -> int:
        group = self._sim.pods.job[pod]
        assigned = self._assigned.get(group)
        if assigned is None:
            return ALLOW
        assigned.add(pod)
        if len(assigned) >= self._sim.workloads[group].pods:
            self.complete(group)
            self._sim.said.pop(group, None)
            self._waiting.pop(group, None)
            for sibling in self._sim.pods_of(group):
                if sibling != pod:
                    self._sim.scheduler.allow(sibling)
            return ALLOW
        if len(assigned) == 1:  # ActivateSiblings: only the first calls the others
            self._sim.scheduler.activate(self._sim.pods_of(group))
        self._waiting.setdefault(group, []).append(pod)
        return self._wait

    def complete(self, group: int) -> None:
        """All pods of the group have a node."""

    def unreserve(self, pod: int) -> None:
        group = self._sim.pods.job[pod]
        if group in self._assigned:
            self._assigned[group].discard(pod)
            self.reject_siblings(group, UNRESERVED)

    def reject_siblings(self, group: int, reason: str) -> None:
        """Rejects all that wait in permit, in the order in which they were created. Each of them then calls this again."""
        for sibling in sorted(self._waiting.pop(group, ())):
            self._sim.scheduler.reject(sibling, reason)
