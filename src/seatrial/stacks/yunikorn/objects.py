"""Reads pods that YuniKorn schedules: nodes held by placeholders, and why a pod waits.

A placeholder is a pod that YuniKorn makes and takes away. It is no pod of the workload: it has a label of its own, by which it is
seen here, and none of those by which the workload's pods are counted and its application is played.
"""

from __future__ import annotations

from seatrial.kube.resources import PODS
from seatrial.kube.shapes import Pod, condition
from seatrial.kube.watching import DELETED
from seatrial.model.fleet import RECLAIMED
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.model.lifecycle import FINISHED, SCHEDULED
from seatrial.observe.displacements import disruption
from seatrial.observe.observer import PLAIN_WATCHES, Observer, Watch, source_of
from seatrial.stacks.coscheduling.objects import see_pod_and_why
from seatrial.stacks.yunikorn import RECLAIMS, RESERVED

PLACEHOLDER_LABEL = "seatrial.dev/placeholder-of"  # the workload for which it holds a node
QUEUE_LABEL = "yunikorn.apache.org/queue"  # of pods, where the scenario has queues
SIZE_ANNOTATION = "seatrial.dev/placeholders"  # how many the gang has


def see_pod(observer: Observer, stamp: int, event: str, pod: Pod) -> None:
    """A pod of a workload, or a placeholder."""
    workload = pod.metadata.labels.get(PLACEHOLDER_LABEL)
    if workload is None:
        see_pod_and_why(observer, stamp, event, pod)
        return
    if event == DELETED or pod.status.phase in ("Succeeded", "Failed"):
        observer.let_go(pod.metadata.name, workload)
    elif pod.spec.node_name:
        held = observer.hold(pod.metadata.name, workload, pod.spec.node_name)
        observer.says(workload, "")
        if held >= int(pod.metadata.annotations.get(SIZE_ANNOTATION, "1")):
            observer.workload(workload, RESERVED.name, stamp, source_of(event))
    else:
        why = condition(pod.status.conditions, "PodScheduled")
        if why is not None and why.status == "False":
            observer.says(workload, why.message)  # the gang's own pods say nothing yet


def see_pod_and_eviction(observer: Observer, stamp: int, event: str, pod: Pod) -> None:
    """YuniKorn deletes the victims of a preemption without a word in their status: a bound pod that is deleted before its end,
    while its workload is there, is one."""
    name, workload = pod.metadata.name, pod.metadata.labels.get(WORKLOAD_LABEL, "")
    number, known = observer.workloads.get(workload), observer.pods.get(name)
    reclaimed = event == DELETED and QUEUE_LABEL in pod.metadata.labels and disruption(pod) is None
    if reclaimed and known is not None and number is not None:
        reached = {observer.ledger.stages[stage].name for stage in observer.reached(known)}
        over = any(observer.has(workload, stage) for stage in ("completed", "failed", "deleted"))
        taken = SCHEDULED.name in reached and FINISHED.name not in reached and not over
        if taken and observer.displacements.begins(number):
            observer.evict(workload, RECLAIMED, stamp, "", RECLAIMS, pod.metadata.uid)
    see_pod(observer, stamp, event, pod)


WATCHES = tuple(Watch(PODS, Pod, see_pod_and_eviction) if watch.resource == PODS else watch for watch in PLAIN_WATCHES)
