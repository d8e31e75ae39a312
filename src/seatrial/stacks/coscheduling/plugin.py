"""The Coscheduling plugin of scheduler-plugins v0.34.7 for the simulated kube-scheduler.

Follows pkg/coscheduling/coscheduling.go (the extension points) and core/core.go (PodGroupManager), function by function. What
decides how it behaves is mostly what it does *not* ask to be woken by: a pod that it has turned down comes back only when some
pod is bound, when a PodGroup is written, or when the first of its siblings gets a node; room alone does not wake it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seatrial.model.plan import Scalar
from seatrial.model.units import SECOND
from seatrial.sim.framework import ALLOW, GROUP, POD_BOUND, PluginBase
from seatrial.sim.world import Sim

DEFAULT_WAIT = 60 * SECOND  # util.DefaultWaitTime: what a permit wait of 0 means
_OPTIMISTIC, _UNRESERVED, _RECENT = "optimistic rejection in PostFilter", "rejection in Unreserve", "failed recently"


# A pod's place in the active queue (Less): by its group's time, then by name. The time is a list of one that all pods of the group
# share: when the group fails it changes while the pods are in the heap, and nobody sorts the heap again. That is so in the real one
# too, hence a comparison of what is true now.
_Place = tuple[list[int], str]


class Coscheduling(PluginBase):
    """A group is the number of its workload. A workload that is no gang has none, and passes through."""

    keys_change = True
    helped_by = POD_BOUND | GROUP  # EventsToRegister: Pod/Add, which here means assigned, and PodGroup/Add and Update

    def __init__(self, sim: Sim, settings: Mapping[str, Scalar]) -> None:
        self._sim = sim
        self._wait = int(settings["permit-wait"]) or DEFAULT_WAIT
        self._backoff = int(settings["backoff"])
        self._may_lack = float(settings["reject-percentage"]) / 100
        self._made_at: dict[int, int] = {}  # group → creationTimestamp
        self._known: dict[int, int] = {}  # group → pods in the lister, which has no finished ones
        self._assigned: dict[int, set[int]] = {}  # group → pods that hold a node
        self._times: dict[
            int, list[int]
        ] = {}  # group → when it last failed (lastFailedSchedulePG), else when it was made
        self._backed_off: dict[int, int] = {}  # backedOffPG: until when
        self._places: dict[int, _Place] = {}
        self._reason = ""  # why `pre_filter` turned down the pod whose turn it is, if it did
        sim.when_completed.append(self._forget)
        sim.when_deleted.append(self._forget)

    def made(self, group: int) -> None:
        """The PodGroup exists. Its creationTimestamp has whole seconds."""
        self._made_at[group] = at = self._sim.kernel.now // SECOND * SECOND
        self._times[group] = [at]
        self._known[group] = 0
        self._assigned[group] = set()

    def _forget(self, group: int) -> None:
        self._sim.said.pop(group, None)
        for column in (self._made_at, self._known, self._assigned, self._times, self._backed_off):
            column.pop(group, None)

    # the queue

    def added(self, pod: int) -> None:
        group = self._sim.pods.job[pod]
        if group in self._made_at:
            self._known[group] += 1
        siblings = self._sim.pods_of(group)
        name = f"{self._sim.workloads[group].name}-{len(siblings) - 1}-"
        # InitialAttemptTimestamp, or that of the group
        self._places[pod] = (self._times.get(group) or [self._sim.kernel.now], name)

    def sort_key(self, pod: int, queued_at: int) -> tuple[Any, ...]:  # noqa: ARG002
        return (-self._sim.pods.shape[pod].priority, *self._places[pod])

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

    def reason(self, pod: int) -> str:  # noqa: ARG002
        return self._reason

    def post_filter(self, pod: int) -> None:
        """Also after `pre_filter`: a pod that comes before its siblings makes its group one that has failed."""
        group = self._sim.pods.job[pod]
        if group not in self._made_at:
            return
        wanted, now = self._sim.workloads[group].pods, self._sim.kernel.now
        lacking = wanted - len(self._assigned[group])
        if lacking <= 0 or lacking / wanted <= self._may_lack:
            return
        self._reject_siblings(group, _OPTIMISTIC)
        if self._backoff and self._known[group] >= wanted and now >= self._backed_off.get(group, 0):
            self._backed_off[group] = now + self._backoff
        self._times[group][0] = now
        name = self._sim.workloads[group].name
        self._sim.said[group] = self._reason or f"PodGroup {name} gets rejected: one of its pods is unschedulable"

    def held_up(self, delay: int) -> None:
        said = f"kube-scheduler waits {delay / SECOND:.0f}s to write why a pod is unschedulable: client-side throttling"
        for group in self._made_at:
            self._sim.said[group] = said

    def permit(self, pod: int) -> int:
        group = self._sim.pods.job[pod]
        if group not in self._made_at:
            return ALLOW
        assigned = self._assigned[group]
        assigned.add(pod)
        siblings = [sibling for sibling in self._sim.pods_of(group) if sibling != pod]
        if len(assigned) >= self._sim.workloads[group].pods:
            self._times[group][0] = self._made_at[group]
            self._sim.said.pop(group, None)
            for sibling in siblings:
                self._sim.scheduler.allow(sibling)
            return ALLOW
        if len(assigned) == 1:  # ActivateSiblings: only the first calls the others
            for sibling in siblings:
                self._sim.scheduler.activate(sibling)
        return self._wait

    def unreserve(self, pod: int) -> None:
        group = self._sim.pods.job[pod]
        if group in self._made_at:
            self._assigned[group].discard(pod)
            self._reject_siblings(group, _UNRESERVED)
            self._times[group][0] = self._sim.kernel.now

    def gone(self, pod: int) -> None:
        """Finished or deleted: the scheduler's informer has only pods that may still run."""
        group = self._sim.pods.job[pod]
        self._places.pop(pod, None)
        if group in self._made_at:
            self._known[group] -= 1
            self._assigned[group].discard(pod)

    def _reject_siblings(self, group: int, reason: str) -> None:
        """Only who is assigned can wait in permit."""
        if assigned := self._assigned[group]:
            for sibling in self._sim.pods_of(group):
                if sibling in assigned:
                    self._sim.scheduler.reject(sibling, reason)
