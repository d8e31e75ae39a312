"""Describes the workload of a Job or a pod: owner, place, requests. It becomes a line of a recording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from seatrial.kube.shapes import Container, Meta, OwnerReference
from seatrial.model.labels import GANG_LABEL
from seatrial.model.units import parse_quantity
from seatrial.observe.anonymising import NameHider
from seatrial.observe.recorded_shapes import RecordedJob, RecordedPod, RecordedPodSpec
from seatrial.record.recordings import JOB, POD, SeenLine

HIGHEST_PRIORITY = 1_000_000_000  # of users; above are Kubernetes' own
# Where the queueing controllers have the name of the queue; the first that is there wins.
QUEUE_KEYS = (
    "kueue.x-k8s.io/queue-name", "scheduling.volcano.sh/queue-name", "volcano.sh/queue-name", "yunikorn.apache.org/queue",
    "kai.scheduler/queue", "runai/queue",
)  # fmt: skip
# Pods with one of these run only together.
GANG_KEYS = (
    GANG_LABEL, "scheduling.x-k8s.io/pod-group", "scheduling.k8s.io/group-name", "yunikorn.apache.org/task-group-name",
)  # fmt: skip
GROUP_KEY = "kueue.x-k8s.io/pod-group-name"  # plain pods of one workload
EACH_ITS_OWN = ("ReplicaSet", "StatefulSet", "ReplicationController")  # their pods come and go one by one
LEFT_OUT = ("DaemonSet", "Node")  # as many pods as there are nodes
RUN_AGAIN = ("CronJob",)  # each of its Jobs is a workload
GPU_MODEL = "nvidia.com/gpu.product"
MILLI_GPUS = "nvidia.com/gpu-milli"


class Describer:
    """Makes the first line of an object. `labels`: user and class → the label that says it."""

    def __init__(self, names: NameHider, labels: Mapping[str, str] | None = None) -> None:
        self.names = names
        self._labels = dict(labels or {})
        self.left_out: Counter[str] = Counter()  # kind of owner → pods

    def job(self, job: RecordedJob) -> SeenLine:
        """A Job: the workload itself, unless another object controls it."""
        owner = _controller(job.metadata)
        own = owner is None or owner.kind in RUN_AGAIN
        spec, template = job.spec, job.spec.template
        at_a_time = 1 if spec.parallelism is None else spec.parallelism
        pods = at_a_time if spec.completions is None else min(spec.completions, at_a_time)
        meta = Meta(labels={**template.metadata.labels, **job.metadata.labels}, namespace=job.metadata.namespace,
                    annotations={**template.metadata.annotations, **job.metadata.annotations})  # fmt: skip
        return SeenLine(
            self.names.uid(job.metadata.uid), JOB,
            root=self.names.uid(job.metadata.uid if own or owner is None else owner.uid),
            kind="Job" if own or owner is None else owner.kind,
            name=self._name(job.metadata.namespace, job.metadata.name if own or owner is None else owner.name),
            pods=pods, gang=_is_gang(meta, pods),
            **self._common(meta, template.spec),
        )  # fmt: skip

    def pod(self, pod: RecordedPod) -> SeenLine | None:
        """A pod, named after what it belongs to; None if it belongs to no workload."""
        meta, owner = pod.metadata, _controller(pod.metadata)
        if owner is not None and owner.kind in LEFT_OUT:
            self.left_out[owner.kind] += 1
            return None
        group = meta.labels.get(GROUP_KEY, "") if owner is None else ""
        if group:
            root, kind, name = f"{meta.namespace}/{group}", "Pods", group
        elif owner is None or owner.kind in EACH_ITS_OWN:
            root, kind, name = meta.uid, owner.kind if owner else "Pod", meta.name
        else:
            root, kind, name = owner.uid, owner.kind, owner.name
        return SeenLine(
            self.names.uid(meta.uid), POD, root=self.names.uid(root), kind=kind,
            name=self._name(meta.namespace, name), gang=_is_gang(meta, 2), **self._common(meta, pod.spec),
        )  # fmt: skip

    def _name(self, namespace: str, name: str) -> str:
        return self.names.once("job", f"{namespace}/{name}")

    def _common(self, meta: Meta, spec: RecordedPodSpec) -> dict[str, Any]:
        asked = _asked(spec)
        queue = _first(meta, QUEUE_KEYS) or meta.namespace
        user = meta.labels.get(self._labels.get("user", ""), "") or meta.namespace
        return {
            "group": self.names.name("group", meta.namespace),
            "user": self.names.name("user", user),
            "queue": self.names.name("queue", queue),
            "class_name": meta.labels.get(self._labels.get("class", ""), ""),
            "priority": spec.priority if spec.priority and abs(spec.priority) <= HIGHEST_PRIORITY else None,
            "cpu_milli": asked["cpu"],
            "memory_bytes": asked["memory"],
            "gpu_milli": asked["gpu"],
            "gpu_model": spec.node_selector.get(GPU_MODEL, ""),
        }


def _controller(meta: Meta) -> OwnerReference | None:
    return next((one for one in meta.owner_references if one.controller), None)


def _first(meta: Meta, keys: Iterable[str]) -> str:
    return next((meta.labels.get(key) or meta.annotations[key] for key in keys
                 if meta.labels.get(key) or meta.annotations.get(key)), "")  # fmt: skip


def _is_gang(meta: Meta, pods: int) -> bool:
    """Our own label also marks single pods with checkpoints, with a 1."""
    return pods > 1 and bool(_first(meta, GANG_KEYS)) and meta.labels.get(GANG_LABEL) != "1"


def _asked(spec: RecordedPodSpec) -> Counter[str]:
    """The sum of its containers, at least what an init container asks for, and the pod's overhead."""
    found: Counter[str] = Counter()
    for container in spec.containers:
        found += _of_container(container)
    for container in spec.init_containers:
        found |= _of_container(container)
    return found + _amounts(spec.overhead)


def _of_container(container: Container) -> Counter[str]:
    """A limit without a request is one."""
    return _amounts({**container.resources.limits, **container.resources.requests})


def _amounts(asked: Mapping[str, str]) -> Counter[str]:
    """Millicores, bytes, thousandths of GPUs of any maker. Other resources are not part of a trace."""
    found: Counter[str] = Counter()
    for resource, text in asked.items():
        if resource in ("cpu", "memory") or resource.endswith("/gpu") or resource == MILLI_GPUS:
            try:
                amount = parse_quantity(text, resource)
            except ValueError:
                continue
            if resource == MILLI_GPUS:
                found["gpu"] += amount
            elif resource.endswith("/gpu"):
                found["gpu"] += 1000 * amount
            else:
                found[resource] += amount
    return found
