"""The Coscheduling plugin of scheduler-plugins v0.34.7 for the simulated kube-scheduler.

Follows pkg/coscheduling/coscheduling.go (the extension points) and core/core.go (PodGroupManager), function by function. Its
behaviour is mostly decided by the events that do *not* wake it: a rejected pod is retried only when some pod is bound, when a
PodGroup is written, or when the first of its siblings gets a node; freed room alone does not wake it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from seatrial.model.plan import Scalar, Workload
from seatrial.model.units import SECOND
from seatrial.sim.framework import GROUP, POD_BOUND
from seatrial.sim.world import Sim
from seatrial.stacks.coscheduling.podgroup_controller import PodGroupController
from seatrial.stacks.permit_groups import OPTIMISTIC, PermitGroups

DEFAULT_WAIT = 60 * SECOND  # util.DefaultWaitTime: what a permit wait of 0 means
_RECENT = "failed recently"

# A pod's place in the active queue (Less): by priority, by its group's time, then by name. All pods of the group share the time, a
# list of one: when the group fails, it changes while the pods are in the heap, and the heap is not sorted again. The real plugin
# does the same, so keys are compared by their current values.
_Place = tuple[int, list[int] | int, str]


class CoschedulingPlugin(PermitGroups):
    """PodGroups of gangs; other workloads have none."""

    helped_by = POD_BOUND | GROUP  # EventsToRegister: Pod/Add, which here means assigned, and PodGroup/Add and Update

    def __init__(self, sim: Sim, settings: Mapping[str, Scalar]) -> None:
        super().__init__(sim, int(settings["permit-wait"]) or DEFAULT_WAIT)
        self.keys_change = sim.has_gangs
        self._backoff = int(settings["backoff"])
        self._may_lack = float(settings["reject-percentage"]) / 100
        self._made_at: dict[int, int] = {}  # group → creationTimestamp
        self._known: dict[int, int] = {}  # group → pods in the lister, which has no finished ones
        self._times: dict[int, list[int]] = {}  # group → last failure (lastFailedSchedulePG), else its creation
        self._backed_off: dict[int, int] = {}  # backedOffPG: until when
        self._rejected: dict[int, str] = {}  # group → the message when one of its pods finds no node
        self._places: dict[int, _Place] = {}
        sim.when_completed.append(self._forget)
        sim.when_deleted.append(self._forget)

    def made(self, group: int) -> None:
        """The PodGroup was created. Its creationTimestamp has whole seconds."""
        self._made_at[group] = at = self._sim.kernel.now // SECOND * SECOND
        self._times[group] = [at]
        self._known[group] = 0
        self._assigned[group] = set()
        name = self._sim.workloads[group].name
        self._rejected[group] = f"PodGroup {name} gets rejected: one of its pods is unschedulable"

    def _forget(self, group: int) -> None:
        self._sim.said.pop(group, None)
        for column in (self._made_at, self._known, self._assigned, self._times, self._backed_off, self._rejected):
            column.pop(group, None)

    # the queue

    def added(self, pod: int) -> None:
        group = self._sim.pods.job[pod]
        if group in self._made_at:
            self._known[group] += 1
        siblings = self._sim.pods_of(group)
        name = f"{self._sim.workloads[group].name}-{len(siblings) - 1}-" if group >= 0 else ""
        # InitialAttemptTimestamp, or that of the group
        now = self._sim.kernel.now
        time = self._times.get(group) or ([now] if self.keys_change else now)
        self._places[pod] = (-self._sim.pods.shape[pod].priority, time, name)

    def sort_key(self, pod: int, queued_at: int) -> tuple[Any, ...]:  # noqa: ARG002
        return self._places[pod]

    # a scheduling cycle

    def pre_filter(self, pod: int) -> bool:
        group = self._sim.pods.job[pod]
        self._reason = ""
        if group not in self._made_at:
            return True
        known, wanted = self._known[group], self._sim.workloads[group].pods
        if self._sim.kernel.now < self._backed_off.get(group, 0):
            self._reason = _RECENT
        elif known < wanted:
            self._reason = (
                f"cannot find enough sibling pods, current pods number: {known}, minMember of group: {wanted}"
            )
        else:
            return True
        return False

    def post_filter(self, pod: int) -> None:
        """Also after a failed `pre_filter`: a pod that comes before its siblings makes its group a failed one."""
        group = self._sim.pods.job[pod]
        if group not in self._made_at:
            return
        wanted, now = self._sim.workloads[group].pods, self._sim.kernel.now
        lacking = wanted - len(self._assigned[group])
        if lacking <= 0 or lacking / wanted <= self._may_lack:
            return
        self.reject_siblings(group, OPTIMISTIC)
        if self._backoff and self._known[group] >= wanted and now >= self._backed_off.get(group, 0):
            self._backed_off[group] = now + self._backoff
        self._times[group][0] = now
        self._sim.said[group] = self._reason or self._rejected[group]

    def held_up(self, delay: int) -> None:
        said = f"kube-scheduler waits {delay / SECOND:.0f}s to write why a pod is unschedulable: client-side throttling"
        for group in self._made_at:
            self._sim.said[group] = said

    def complete(self, group: int) -> None:
        self._times[group][0] = self._made_at[group]

    def unreserve(self, pod: int) -> None:
        super().unreserve(pod)
        group = self._sim.pods.job[pod]
        if group in self._made_at:
            self._times[group][0] = self._sim.kernel.now

    def gone(self, pod: int) -> None:
        """Finished or deleted: the scheduler's informer has only pods that may still run."""
        group = self._sim.pods.job[pod]
        self._places.pop(pod, None)
        if group in self._made_at:
            self._known[group] -= 1
            self._assigned[group].discard(pod)


def put_into(sim: Sim, settings: Mapping[str, Scalar]) -> Callable[[int, Workload], None]:
    """Adds plugin and controller to kube-scheduler; a gang's PodGroup is created before its Job."""
    plugin, groups = CoschedulingPlugin(sim, settings), PodGroupController(sim)
    sim.scheduler.use(plugin, groups)
    sim.limit_queues()

    def deliver(number: int, workload: Workload) -> None:
        if workload.gang:
            plugin.made(number)
            groups.made(number)
        sim.jobs.add(number, workload)

    return deliver
