"""Volcano's kinds, what watches of PodGroups and pods show, and what the scheduler's log does.

Why Volcano evicts a pod is in the pod's condition Ready, written before it is deleted (pkg/scheduler/cache/cache.go:223). Who gets
the place is not: a pod that preempts is nominated to the node at the end of the session (api/job_info.go:770), one that reclaims is
not (framework/session.go:370 does not note the eviction). Several pods may reclaim on one node in one session, so their conditions
do not tell them apart. The scheduler's log names both (actions/reclaim/reclaim.go:186, as an error, so at every verbosity).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import msgspec

from seatrial.kube.resources import PODS, Resource
from seatrial.kube.shapes import Condition, Object, Pod, Shape, condition
from seatrial.kube.watching import DELETED
from seatrial.model.fleet import OTHER, PREEMPTED, RECLAIMED
from seatrial.model.labels import STUDY_LABEL, WORKLOAD_LABEL
from seatrial.observe.displacements import disruption
from seatrial.observe.observer import PLAIN_WATCHES, Observer, Watch, source_of
from seatrial.stacks.coscheduling.objects import see_pod_and_why
from seatrial.stacks.volcano import INQUEUE

POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False)
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
_REASONS = {"reclaim": RECLAIMED, "preempt": PREEMPTED}  # by the last word of the condition's message
_MAY_PLACE = ("Inqueue", "Running", "Completed")
_RECLAIMS = re.compile(r"Try to reclaim Task <[^/>]*/([^>]+)> for Tasks <[^/>]*/([^>]+)>")


class _GroupStatus(Shape):
    phase: str = ""
    conditions: list[Condition] = msgspec.field(default_factory=list)


class _PodGroup(Object):
    status: _GroupStatus = msgspec.field(default_factory=_GroupStatus)


def study_queue(labels: Mapping[str, str], name: str) -> str:
    """Queues are cluster-wide: ours are named after the study."""
    return "-".join(filter(None, ("seatrial", labels.get(STUDY_LABEL), name)))


def see_volcano_pod(observer: Observer, stamp: int, event: str, pod: Pod) -> None:
    """As every pod; Volcano's evictions have a condition of their own."""
    observer.displacements.why, observer.displacements.read = _eviction, _told
    see_pod_and_why(observer, stamp, event, pod)


def _eviction(pod: Pod) -> Condition | None:
    ready = condition(pod.status.conditions, "Ready")
    return ready if ready and ready.status == "False" and ready.reason == "Evict" else disruption(pod)


def _told(why: Condition) -> tuple[str, str] | None:
    """The reason of an eviction; the workload that gets the place is not in it."""
    if why.type != "Ready":
        return None
    return _REASONS.get(why.message.rpartition(" ")[2], OTHER), ""


def reclaims(log: str) -> Iterator[tuple[str, str]]:
    """Pods that `reclaim` evicted, each with the pod that it made room for."""
    for found in _RECLAIMS.finditer(log):
        yield found[1], found[2]


def see_pod_group(observer: Observer, stamp: int, event: str, group: _PodGroup) -> None:
    """Its phase: the stage; its condition Unschedulable: why the group waits."""
    if event == DELETED:
        return
    name = group.metadata.labels.get(WORKLOAD_LABEL, group.metadata.name)
    if group.status.phase in _MAY_PLACE:
        observer.workload(name, INQUEUE.name, stamp, source_of(event))
    for one in group.status.conditions:
        if one.type == "Unschedulable" and one.status == "True":
            observer.says(name, f"{one.reason}: {one.message}")
        elif one.type == "Scheduled" and one.status == "True":
            observer.says(name, "")


WATCHES = (
    *(Watch(PODS, Pod, see_volcano_pod) if watch.resource == PODS else watch for watch in PLAIN_WATCHES),
    Watch(POD_GROUPS, _PodGroup, see_pod_group),
)
