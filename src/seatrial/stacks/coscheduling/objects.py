"""PodGroups of scheduler-plugins, and what pods say about why they wait."""

from __future__ import annotations

from seatrial.kube.resources import PODS, Resource
from seatrial.kube.shapes import Pod
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.observe.observer import PLAIN_WATCHES, Observer, Watch, see_pod

POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


def see_pod_and_why(observer: Observer, stamp: int, event: str, pod: Pod) -> None:
    """As every pod, and the message of its condition PodScheduled."""
    see_pod(observer, stamp, event, pod)
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled":
            said = condition.message if condition.status == "False" else ""
            observer.says(pod.metadata.labels.get(WORKLOAD_LABEL, ""), said)


WATCHES = tuple(Watch(PODS, Pod, see_pod_and_why) if watch.resource == PODS else watch for watch in PLAIN_WATCHES)
