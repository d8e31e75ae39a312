"""Node groups of a scenario: fields and plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, Discriminator, Field, Tag, TypeAdapter, ValidationError, WithJsonSchema

from seatrial.model.plan import NodeGroup, PlayedRuntime, Span
from seatrial.scenario.field_types import (
    ONE_AMOUNT,
    CapacityMap,
    Count,
    LabelKey,
    LabelText,
    ObjectName,
    SelectorText,
    SpanText,
    TaintText,
    quantity,
    whole_number,
)
from seatrial.scenario.fields import FieldMistake, Fields, alone, shown, wrong
from seatrial.scenario.node_trace_fields import NodeTraceFields
from seatrial.scenario.pod_delays import DEFAULT_PODS, PodDelays
from seatrial.traces.problem import TraceProblem

MOST_NODES = 1_000_000  # of a group; Kubernetes itself ends at 5,000
YAML = (".yaml", ".yml")
EXISTING = "existing"  # name of the group of nodes that exist already


CONTAINERS = "containers"


def _kubelet(value: Any) -> bool | str:
    if value != CONTAINERS and not isinstance(value, bool):
        remedy = "write true (its containers are played), containers (real ones) or false (a fake node)"
        raise wrong(f"{shown(value)} is no kind of kubelet", remedy)
    return value  # type: ignore[no-any-return]


_KubeletKind = Annotated[
    Any,
    BeforeValidator(_kubelet),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "string", "enum": [CONTAINERS]}]}),
]


def _bytes(value: Any) -> int:
    size = quantity(value, "memory")
    if size <= 0:
        raise wrong(f"{shown(value)} is no size", "write one like 500M or 2Gi")
    return size


_Size = Annotated[int, BeforeValidator(_bytes), WithJsonSchema(ONE_AMOUNT)]


class RuntimeFields(Fields):
    """What the container runtime of a kubelet takes, where containers are played; it replaces start-latency and start-work."""

    sandbox: SpanText = Field(Span(), description="From bound to the pod's sandbox and network: 1s, or 1s..3s.")
    start: SpanText = Field(Span(), description="From container created to started: 200ms, or 100ms..2s.")
    at_once: Count | None = Field(
        None, alias="at-once", description="Sandboxes and containers started at the same time on a node; default: any."
    )
    image: _Size | None = Field(None, description="Size of the image, pulled by the first pod of a node.")
    bandwidth: _Size | None = Field(None, description="Of pulls, per second: 100M.")

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[FieldMistake]:
        return alone(written, image="bandwidth", bandwidth="image")

    def runtime(self) -> PlayedRuntime:
        """As a plan has it."""
        return PlayedRuntime(self.sandbox, self.start, self.at_once or 0, self.image or 0, self.bandwidth or 0)


class NodeGroupFields(Fields):
    """Identical nodes."""

    name: ObjectName = Field(description="Nodes are called NAME-0, NAME-1 and so on.")
    count: Annotated[int, whole_number(1, MOST_NODES)] = Field(description="How many nodes.")
    capacity: CapacityMap = Field(description="Capacity of a node: cpu and memory, pods (default 110), GPUs and so on.")
    labels: dict[LabelKey, LabelText] = Field({}, description="Labels of the nodes.")
    taints: list[TaintText] = Field([], description="Taints as key=value:Effect or key:Effect.")
    kubelet: _KubeletKind = Field(
        False,
        description="true: a real kubelet with played containers; containers: with real containers; false: a fake node.",
    )
    pods: PodDelays = Field(PodDelays.model_construct(), description="Start delays of pods on a fake node.")
    runtime: RuntimeFields | None = Field(None, description="Times of a kubelet's played containers (kubelet: true).")

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[FieldMistake]:
        found: list[FieldMistake] = []
        if written.get("kubelet") in (True, CONTAINERS) and "pods" in written:
            what = "'pods' sets the delays of fake nodes; a kubelet has its own"
            found.append(FieldMistake("pods", what, "remove `pods`, or `kubelet`; `runtime` has those of a kubelet"))
        if "runtime" in written and written.get("kubelet") is not True:
            what = "'runtime' has the times of played containers"
            found.append(FieldMistake("runtime", what, "remove it, or add `kubelet: true`"))
        return found

    def group(self) -> NodeGroup:
        """The group with its defaults filled in."""
        return NodeGroup(
            self.name,
            self.count,
            {"pods": DEFAULT_PODS, **self.capacity},
            dict(self.labels),
            tuple(self.taints),
            bool(self.kubelet),
            self.pods.create,
            self.pods.start,
            containers=self.kubelet == CONTAINERS,
            runtime=self.runtime.runtime() if self.runtime else None,
        )


class ExistingNodesFields(Fields):
    """Nodes that exist already, on a cluster of a kubeconfig."""

    existing: SelectorText = Field(description="Label selector of nodes to place pods on; nothing is created.")


def _entries(value: Any) -> Any:
    """A plain list of groups, or `existing` or `trace` alone, is the one entry of a mapping."""
    alone = isinstance(value, list) or (
        isinstance(value, dict) and any(isinstance(value.get(key), str) for key in ALONE)
    )
    return {"": value} if alone else value


def _kind_of_entry(value: Any) -> str:
    """In brackets, so that pydantic's locations cannot be mistaken for keys of the file."""
    if isinstance(value, dict) and "trace" in value:
        return "(trace)"
    return "(existing)" if isinstance(value, dict) and "existing" in value else "(groups)"


def _kind_of_group(value: Any) -> str:
    return "(trace)" if isinstance(value, dict) and "trace" in value else "(group)"


ALONE = ("existing", "trace")  # keys of an entry that is no list of groups
Group = Annotated[
    Annotated[NodeGroupFields, Tag("(group)")] | Annotated[NodeTraceFields, Tag("(trace)")],
    Discriminator(_kind_of_group),
]
Groups = Annotated[list[Group], Field(min_length=1)]
Entry = Annotated[
    Annotated[Groups, Tag("(groups)")]
    | Annotated[ExistingNodesFields, Tag("(existing)")]
    | Annotated[NodeTraceFields, Tag("(trace)")],
    Discriminator(_kind_of_entry),
]
_Written = Groups | ExistingNodesFields | NodeTraceFields
NodeEntries = Annotated[
    dict[str, Entry],
    Field(min_length=1),
    BeforeValidator(_entries, json_schema_input_type=_Written | dict[str, _Written]),
]


def node_groups(
    entry: list[NodeGroupFields | NodeTraceFields] | ExistingNodesFields | NodeTraceFields, folder: Path
) -> Iterator[tuple[tuple[int, ...], tuple[NodeGroup, ...] | TraceProblem]]:
    """The groups of an entry of `nodes`, or what is wrong with a list of nodes, with its place in the entry."""
    if isinstance(entry, ExistingNodesFields):
        yield (), (NodeGroup(EXISTING, 0, {}, existing=entry.existing),)
        return
    written = [((), entry)] if isinstance(entry, NodeTraceFields) else [((n,), one) for n, one in enumerate(entry)]
    for place, fields in written:
        if isinstance(fields, NodeGroupFields):
            yield place, (fields.group(),)
            continue
        try:
            yield place, _in_yaml(fields, folder) if fields.trace.endswith(YAML) else fields.groups(folder)
        except TraceProblem as problem:
            yield place, problem


def _in_yaml(fields: NodeTraceFields, folder: Path) -> tuple[NodeGroup, ...]:
    """The groups of a YAML list, such as `seatrial record nodes` writes."""
    path = folder / fields.trace
    for option in ("columns", "head", "sample"):
        if getattr(fields, option):
            raise TraceProblem(f"'{option}' is for a list with a row per node", f"remove `{option}`", option)
    try:
        written = TypeAdapter(list[NodeGroupFields]).validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise TraceProblem(f"{path.name}: {(error.strerror or '').lower()}", "name a file that you can read") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise TraceProblem(f"{path.name} is no YAML: {str(error).splitlines()[0]}", "repair it") from None
    except ValidationError as error:
        first = error.errors()[0]
        said, at = first.get("ctx", {}), ".".join(map(str, first["loc"]))
        raise TraceProblem(
            f"{path.name}: {said.get('what', first['msg'])}{f' ({at})' if at else ''}",
            said.get("remedy", "write a list of node groups, as `seatrial record nodes` does"),
        ) from None
    return tuple(
        dataclasses.replace(
            one.group(), capacity={**one.group().capacity, **fields.capacity}, labels={**one.labels, **fields.labels},
            taints=(*one.taints, *fields.taints), create=fields.pods.create, start=fields.pods.start,
        )
        for one in written
    )  # fmt: skip
