"""PodGroups of Kubernetes itself, and what a watch of them shows."""

from __future__ import annotations

from seatrial.kube.resources import Resource
from seatrial.kube.shapes import Conditioned
from seatrial.kube.watching import DELETED
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.observe.observer import PLAIN_WATCHES, Observer, Watch, source_of
from seatrial.stacks.gang import GROUP_SCHEDULED

POD_GROUPS = Resource("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup")
SCHEDULED_CONDITION = "PodGroupScheduled"


def see_pod_group(observer: Observer, stamp: int, event: str, group: Conditioned) -> None:
    """Its condition PodGroupScheduled: the stage, or why the group waits."""
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


WATCHES = (*PLAIN_WATCHES, Watch(POD_GROUPS, Conditioned, see_pod_group))
