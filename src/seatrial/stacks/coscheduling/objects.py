"""What a workload becomes on a real cluster, and what its pods say of why they wait."""

from __future__ import annotations

from collections.abc import Mapping

from seatrial.kube.resources import PODS, Resource
from seatrial.kube.shapes import Pod
from seatrial.model.interfaces import Manifest
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.model.plan import Workload
from seatrial.observe.observer import PLAIN_WATCHES, Observer, Watch, see_pod
from seatrial.stacks import jobs

POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


def manifests(workload: Workload, labels: Mapping[str, str]) -> list[Manifest]:
    """A gang has a PodGroup, made first: a pod whose group is not there is turned down in permit."""
    template = {"metadata": {"labels": {GROUP_LABEL: workload.name}}}
    return jobs.in_group(workload, labels, POD_GROUPS, {"minMember": workload.pods}, template)


def see_pod_and_why(observer: Observer, stamp: int, event: str, pod: Pod) -> None:
    see_pod(observer, stamp, event, pod)
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled":
            said = condition.message if condition.status == "False" else ""
            observer.says(pod.metadata.labels.get(WORKLOAD_LABEL, ""), said)


WATCHES = tuple(Watch(PODS, Pod, see_pod_and_why) if watch.resource == PODS else watch for watch in PLAIN_WATCHES)
