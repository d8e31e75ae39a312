"""What a workload becomes on a real cluster, and what its PodGroup tells."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from seatrial.kube.resources import Resource
from seatrial.kube.shapes import Condition, Object, Shape
from seatrial.kube.watching import DELETED
from seatrial.model.interfaces import Manifest
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.model.plan import Workload
from seatrial.observe.observer import PLAIN_WATCHES, Observer, Watch, source_of
from seatrial.stacks import jobs
from seatrial.stacks.gang import GROUP, GROUP_SCHEDULED, VERSION

POD_GROUPS = Resource(GROUP, VERSION, "podgroups", "PodGroup")
SCHEDULED_CONDITION = "PodGroupScheduled"


def manifests(workload: Workload, labels: Mapping[str, str]) -> list[Manifest]:
    """A gang has a PodGroup, made first: pods whose group is not there would wait until it is."""
    spec = {"schedulingPolicy": {"gang": {"minCount": workload.pods}}}
    template = {"spec": {"schedulingGroup": {"podGroupName": workload.name}}}
    return jobs.in_group(workload, labels, POD_GROUPS, spec, template)


class _Status(Shape):
    conditions: list[Condition] = msgspec.field(default_factory=list)


class PodGroup(Object):
    status: _Status = msgspec.field(default_factory=_Status)


def see_pod_group(observer: Observer, stamp: int, event: str, group: PodGroup) -> None:
    if event == DELETED:
        return
    name = group.metadata.labels.get(WORKLOAD_LABEL, group.metadata.name)
    for condition in group.status.conditions:
        if condition.type != SCHEDULED_CONDITION:
            continue
        if condition.status == "True":
            observer.says(name, "")
            said = condition.last_transition_time
            observer.workload(name, GROUP_SCHEDULED.name, stamp, source_of(event), said)
        else:
            observer.says(name, f"{condition.reason}: {condition.message}")


WATCHES = (*PLAIN_WATCHES, Watch(POD_GROUPS, PodGroup, see_pod_group))
