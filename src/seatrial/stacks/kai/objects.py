"""What watches of KAI's PodGroups and BindRequests show.

A BindRequest has the name of its pod and none of our labels. Pods and BindRequests come by two watches, in any order. Why KAI
evicts a pod is a sentence in the pod's condition DisruptionTarget, whose reason is always the same
(pkg/scheduler/api/unschedule_info.go).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from seatrial.kube.resources import PODS
from seatrial.kube.shapes import Condition, Object, Pod, Shape, condition
from seatrial.kube.watching import DELETED
from seatrial.model.fleet import OTHER, PREEMPTED, RECLAIMED, TIMED_OUT
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.observe.observer import PLAIN_WATCHES, Observer, Watch, see_pod, source_of
from seatrial.stacks.kai import BIND_REQUESTED
from seatrial.stacks.kai.kai_kinds import BIND_REQUESTS, POD_GROUPS

_BY = re.compile(r"was preempted by (higher priority )?workload [^/\s]*/([^\s]*?)\.?(?:\s|$)")
_TOO_FEW = "doesn't meet the minimum required number of pods"
_MOVED = "resource consolidation"


class _SchedulingCondition(Shape):
    type: str = ""
    message: str = ""
    status: str = ""


class _GroupStatus(Shape):
    scheduling_conditions: list[_SchedulingCondition] = msgspec.field(default_factory=list)


class _PodGroup(Object):
    status: _GroupStatus = msgspec.field(default_factory=_GroupStatus)


class KaiWatcher:
    """The handlers, and what they know of pods without a node."""

    def __init__(self) -> None:
        self._workload: dict[str, str] = {}  # pod without a BindRequest → its workload
        self._early: dict[str, tuple[int, int]] = {}  # pod not seen yet → when its BindRequest was, by which source
        self._why: dict[str, str] = {}  # workload → why its PodGroup is unschedulable
        self._groups: dict[str, str] = {}  # PodGroup → its workload

    def watches(self) -> Sequence[Watch]:
        """All watches of a trial."""
        plain = (Watch(PODS, Pod, self.see_pod) if watch.resource == PODS else watch for watch in PLAIN_WATCHES)
        return (
            *plain,
            Watch(POD_GROUPS, _PodGroup, self.see_group),
            Watch(BIND_REQUESTS, Object, self.see_bind_request, labelled=False),
        )

    def see_pod(self, observer: Observer, stamp: int, event: str, pod: Pod) -> None:
        """As every pod, and whose BindRequest it will have."""
        observer.displacements.read = self._evicted
        see_pod(observer, stamp, event, pod)
        name, workload = pod.metadata.name, pod.metadata.labels.get(WORKLOAD_LABEL, "")
        if event == DELETED or pod.spec.node_name:
            self._workload.pop(name, None)
            observer.says(workload, "")
            return
        early = self._early.pop(name, None)
        if early is not None:
            self._requested(observer, workload, *early)
            return
        self._workload[name] = workload
        told = condition(pod.status.conditions, "PodScheduled")
        if told is not None and told.status == "False":
            observer.says(workload, self._why.get(workload) or told.message)

    def see_bind_request(self, observer: Observer, stamp: int, event: str, request: Object) -> None:
        """KAI has chosen the pod's node."""
        if event == DELETED:
            self._early.pop(request.metadata.name, None)
            return
        workload = self._workload.pop(request.metadata.name, None)
        if workload is not None:
            self._requested(observer, workload, stamp, source_of(event))
        elif request.metadata.name not in observer.pods:
            self._early.setdefault(request.metadata.name, (stamp, source_of(event)))

    def _requested(self, observer: Observer, workload: str, stamp: int, source: int) -> None:
        observer.workload(workload, BIND_REQUESTED.name, stamp, source)
        observer.says(workload, "")

    def see_group(self, observer: Observer, stamp: int, event: str, group: _PodGroup) -> None:  # noqa: ARG002
        """Its scheduling condition: why the group waits. KAI leaves it there once the group is placed."""
        name = group.metadata.labels.get(WORKLOAD_LABEL, "")
        if event == DELETED or not name:
            self._why.pop(name, None)
            return
        self._groups[group.metadata.name] = name
        for one in group.status.scheduling_conditions:
            said = f"{one.type}: {one.message}"
            if one.status == "True" and self._why.get(name) != said:
                self._why[name] = said
                observer.says(name, said)

    def _evicted(self, why: Condition) -> tuple[str, str] | None:
        """The reason of an eviction, and the workload that gets the place; None if it was not KAI's."""
        found = _BY.search(why.message)
        if found:
            return (PREEMPTED if found[1] else RECLAIMED), self._groups.get(found[2], "")
        if _TOO_FEW in why.message:
            return TIMED_OUT, ""
        return (OTHER, "") if _MOVED in why.message else None
