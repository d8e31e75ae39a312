"""The fields that we read of the objects that we watch.

`json` decodes a whole pod in 32 µs, msgspec into these structs in 5 µs, because it skips all other fields. Stacks define
shapes of their kinds the same way. Every field has a default, since the server omits empty fields. Times stay text as
the server sends them: they are whole seconds, used only where nothing finer is known.
"""

from __future__ import annotations

import datetime

import msgspec

from seatrial.model.units import MICROSECOND, SECOND


class Shape(msgspec.Struct, rename="camel"):
    """Base of all shapes: field names are camel case on the wire."""


class OwnerReference(Shape):
    """An owner reference."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(Shape):
    """Metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []


class Object(Shape):
    """Any object, for callers that only read its metadata."""

    metadata: Meta = msgspec.field(default_factory=Meta)


class Condition(Shape):
    """A condition in a status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Conditions(Shape):
    """A status with conditions."""

    conditions: list[Condition] = []


class Conditioned(Object):
    """Any object, for callers that only read its conditions."""

    status: Conditions = msgspec.field(default_factory=Conditions)


class Resources(Shape):
    """Requests and limits of a container."""

    requests: dict[str, str] = {}
    limits: dict[str, str] = {}


class Container(Shape):
    """A container of a pod."""

    name: str = ""
    resources: Resources = msgspec.field(default_factory=Resources)


class PodSpec(Shape):
    """Spec of a pod."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: int = 0
    containers: list[Container] = []


class Running(Shape):
    """State of a running container."""

    started_at: str | None = None


class Terminated(Shape):
    """State of a terminated container."""

    reason: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(Shape):
    """State of a container."""

    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Shape):
    """Status of a container."""

    name: str = ""
    state: ContainerState = msgspec.field(default_factory=ContainerState)


class PodStatus(Shape):
    """Status of a pod."""

    phase: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []


class Pod(Object):
    """A pod."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class JobSpec(Shape):
    """Spec of a Job."""

    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None


class JobStatus(Shape):
    """Status of a Job."""

    active: int = 0
    ready: int | None = None
    succeeded: int = 0
    failed: int = 0
    conditions: list[Condition] = []


class Job(Object):
    """A batch/v1 Job."""

    spec: JobSpec = msgspec.field(default_factory=JobSpec)
    status: JobStatus = msgspec.field(default_factory=JobStatus)


class NodeTaint(Shape):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Shape):
    """Spec of a node."""

    unschedulable: bool = False
    taints: list[NodeTaint] = []


class NodeStatus(Shape):
    """Status of a node."""

    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: list[Condition] = []


class Node(Object):
    """A node."""

    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class Reference(Shape):
    """A reference to an object."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Event(Object):
    """An Event of events.k8s.io/v1."""

    reason: str = ""
    note: str = ""
    type: str = ""
    action: str = ""
    event_time: str | None = None
    deprecated_first_timestamp: str | None = None  # whole seconds, from older senders
    regarding: Reference = msgspec.field(default_factory=Reference)


def condition(conditions: list[Condition], kind: str) -> Condition | None:
    """The condition of this type; None if the object does not have it."""
    for one in conditions:
        if one.type == kind:
            return one
    return None


def nanoseconds(text: str) -> int:
    """A timestamp of the API in nanoseconds of the wall clock."""
    moment = datetime.datetime.fromisoformat(text)
    return int(moment.timestamp()) * SECOND + moment.microsecond * MICROSECOND
