"""The fields of Jobs and pods that a recording reads. The shapes that trials watch have fewer: decoding is paid per pod."""

from __future__ import annotations

import msgspec

from seatrial.kube.shapes import Container, JobStatus, Meta, Object, PodSpec, PodStatus, Shape


class RecordedPodSpec(PodSpec):
    """Spec of a pod, with all that it asks for."""

    init_containers: list[Container] = msgspec.field(default_factory=list)
    overhead: dict[str, str] = msgspec.field(default_factory=dict)
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)


class RecordedPod(Object):
    """A pod."""

    spec: RecordedPodSpec = msgspec.field(default_factory=RecordedPodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class RecordedTemplate(Shape):
    """The pods of a Job."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: RecordedPodSpec = msgspec.field(default_factory=RecordedPodSpec)


class RecordedJobSpec(Shape):
    """Spec of a Job, with its template: a Job that is suspended has no pods to read."""

    parallelism: int | None = None
    completions: int | None = None
    template: RecordedTemplate = msgspec.field(default_factory=RecordedTemplate)


class RecordedJob(Object):
    """A batch/v1 Job."""

    spec: RecordedJobSpec = msgspec.field(default_factory=RecordedJobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)
