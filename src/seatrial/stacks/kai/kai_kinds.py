"""KAI's kinds of API objects, and the names by which its objects and ours find each other (v0.12.0, pkg/common/constants)."""

from __future__ import annotations

from collections.abc import Mapping

from seatrial.kube.resources import Resource
from seatrial.model.labels import STUDY_LABEL, priority_class

GROUP = "scheduling.run.ai"
QUEUES = Resource(GROUP, "v2", "queues", "Queue", namespaced=False)
POD_GROUPS = Resource(GROUP, "v2alpha2", "podgroups", "PodGroup")
BIND_REQUESTS = Resource(GROUP, "v1alpha2", "bindrequests", "BindRequest")
QUEUE_LABEL = "kai.scheduler/queue"
GROUP_ANNOTATION = "pod-group-name"
SCHEDULER_NAME = "kai-scheduler"


def study_name(labels: Mapping[str, str], *parts: str) -> str:
    """Queues are cluster-wide, and KAI finds the pods of a PodGroup by its name alone, in all namespaces: ours are named after
    the study."""
    return "-".join(filter(None, ("seatrial", labels.get(STUDY_LABEL), *parts)))


def class_name(labels: Mapping[str, str], priority: int) -> str:
    """The PriorityClass of a workload. KAI takes a PodGroup without one for priority 50, so 0 has a class too."""
    return priority_class(labels.get(STUDY_LABEL, ""), priority)
