"""Volcano's PodGroups, and what a watch of them shows."""

from __future__ import annotations

import msgspec

from seatrial.kube.resources import PODS, Resource
from seatrial.kube.shapes import Condition, Object, Pod, Shape
from seatrial.kube.watching import DELETED
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.observe.observer import PLAIN_WATCHES, Observer, Watch, source_of
from seatrial.stacks.coscheduling.objects import see_pod_and_why
from seatrial.stacks.volcano import INQUEUE

POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
_MAY_PLACE = ("Inqueue", "Running", "Completed")


class _GroupStatus(Shape):
    phase: str = ""
    conditions: list[Condition] = msgspec.field(default_factory=list)


class _PodGroup(Object):
    status: _GroupStatus = msgspec.field(default_factory=_GroupStatus)


def see_pod_group(observer: Observer, stamp: int, event: str, group: _PodGroup) -> None:
    """Its phase: the stage; its condition Unschedulable: why the group waits."""
    if event == DELETED:
        return
    name = group.metadata.labels.get(WORKLOAD_LABEL, group.metadata.name)
    if group.status.phase in _MAY_PLACE:
        observer.workload(name, INQUEUE.name, stamp, source_of(event))
    for condition in group.status.conditions:
        if condition.type == "Unschedulable" and condition.status == "True":
            observer.says(name, f"{condition.reason}: {condition.message}")
        elif condition.type == "Scheduled" and condition.status == "True":
            observer.says(name, "")


WATCHES = (
    *(Watch(PODS, Pod, see_pod_and_why) if watch.resource == PODS else watch for watch in PLAIN_WATCHES),
    Watch(POD_GROUPS, _PodGroup, see_pod_group),
)
