"""Node groups of a scenario: fields and plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag

from seatrial.model.plan import NodeGroup, Span
from seatrial.scenario.field_types import (
    CapacityMap,
    Flag,
    LabelText,
    ObjectName,
    SelectorText,
    SpanText,
    TaintText,
    whole_number,
)
from seatrial.scenario.fields import FieldMistake, Fields

MOST_NODES = 1_000_000  # of a group; Kubernetes itself ends at 5,000
DEFAULT_PODS = 110  # of a node, as the kubelet has it
EXISTING = "existing"  # name of the group of nodes that exist already


class PodDelays(Fields):
    """Delays of the pods of a fake node."""

    create: SpanText = Field(
        Span(), description="From bound to container being created: 1s, or 1s..3s for evenly between."
    )
    start: SpanText = Field(Span(), description="From container being created to running: 10s, or 5s..15s.")


class NodeGroupFields(Fields):
    """Identical nodes."""

    name: ObjectName = Field(description="Nodes are called NAME-0, NAME-1 and so on.")
    count: Annotated[int, whole_number(1, MOST_NODES)] = Field(description="How many nodes.")
    capacity: CapacityMap = Field(description="Capacity of a node: cpu and memory, pods (default 110), GPUs and so on.")
    labels: dict[str, LabelText] = Field({}, description="Labels of the nodes.")
    taints: list[TaintText] = Field([], description="Taints as key=value:Effect or key:Effect.")
    kubelet: Flag = Field(False, description="true: a kubelet runs containers; false: fake nodes that only play them.")
    pods: PodDelays = Field(PodDelays.model_construct(), description="Start delays of pods on a fake node.")

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[FieldMistake]:
        if written.get("kubelet") is True and "pods" in written:
            what = "'pods' sets the delays of fake nodes; a kubelet has its own"
            return [FieldMistake("pods", what, "remove `pods`, or `kubelet: true`")]
        return []

    def group(self) -> NodeGroup:
        """The group with its defaults filled in."""
        return NodeGroup(
            self.name,
            self.count,
            {"pods": DEFAULT_PODS, **self.capacity},
            dict(self.labels),
            tuple(self.taints),
            self.kubelet,
            self.pods.create,
            self.pods.start,
        )


class ExistingNodesFields(Fields):
    """Nodes that exist already, on a cluster of a kubeconfig."""

    existing: SelectorText = Field(description="Label selector of nodes to place pods on; nothing is created.")


def _entries(value: Any) -> Any:
    """A plain list of groups, or `existing` alone, is the one entry of a mapping."""
    alone = isinstance(value, list) or (isinstance(value, dict) and isinstance(value.get("existing"), str))
    return {"": value} if alone else value


def _kind_of_entry(value: Any) -> str:
    """In brackets, so that pydantic's locations cannot be mistaken for keys of the file."""
    return "(existing)" if isinstance(value, dict) and "existing" in value else "(groups)"


Groups = Annotated[list[NodeGroupFields], Field(min_length=1)]
Entry = Annotated[
    Annotated[Groups, Tag("(groups)")] | Annotated[ExistingNodesFields, Tag("(existing)")],
    Discriminator(_kind_of_entry),
]
NodeEntries = Annotated[
    dict[str, Entry],
    Field(min_length=1),
    BeforeValidator(
        _entries, json_schema_input_type=Groups | ExistingNodesFields | dict[str, Groups | ExistingNodesFields]
    ),
]


def node_groups(entry: list[NodeGroupFields] | ExistingNodesFields) -> tuple[NodeGroup, ...]:
    """The groups of an entry of `nodes`."""
    if isinstance(entry, ExistingNodesFields):
        return (NodeGroup(EXISTING, 0, {}, existing=entry.existing),)
    return tuple(fields.group() for fields in entry)
