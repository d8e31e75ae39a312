"""`nodes`: adds or removes nodes, or changes whether they take pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from pydantic import Field

from seatrial.model.interfaces import RunningTrial
from seatrial.model.plan import NodeGroup, Phase
from seatrial.scenario.actions.planning import Kind, Planning, WrittenPhase
from seatrial.scenario.field_types import Count, LastingDuration, ObjectName, Text
from seatrial.scenario.fields import FieldMistake, Fields, alone, one_of
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.node_groups import NodeGroupFields

RUNTIME_CHANGES = ("trouble", "heal")  # of the container runtimes of kubelets
KUBELET_CHANGES = ("stop", "start", *RUNTIME_CHANGES)
CHANGES = ("add", "remove", "cordon", "uncordon", "unready", "ready", *KUBELET_CHANGES)

TROUBLES = ("slow", "fail-every", "crash-every", "disk")

GroupName = Annotated[Text, one_of("node group")]


class NodesFields(Fields):
    """Change the nodes while the trial runs: one of add, remove, cordon, uncordon, unready, ready, stop, start, trouble, heal."""

    name: ObjectName | None = Field(None, description="Name of the phase.")
    add: NodeGroupFields | None = Field(None, description="A group of nodes that joins.")
    remove: GroupName | None = Field(None, description="The group whose nodes are removed.")
    cordon: GroupName | None = Field(None, description="The group whose nodes are cordoned.")
    uncordon: GroupName | None = Field(None, description="The group whose nodes are uncordoned.")
    unready: GroupName | None = Field(None, description="The group whose nodes become NotReady.")
    ready: GroupName | None = Field(None, description="The group whose nodes become Ready again.")
    stop: GroupName | None = Field(None, description="The group whose kubelets stop, as if killed; containers run on.")
    start: GroupName | None = Field(None, description="The group whose kubelets start again.")
    trouble: GroupName | None = Field(
        None, description="The group whose runtimes get the faults `slow`, `fail-every`, `crash-every`, `disk`."
    )
    heal: GroupName | None = Field(None, description="The group whose runtimes work normally again.")
    slow: LastingDuration | None = Field(
        None, description="With `trouble`: how much longer the runtime takes to answer."
    )
    fail_every: Count | None = Field(
        None, alias="fail-every", description="With `trouble`: every n-th start of a container on a node fails."
    )
    crash_every: Count | None = Field(
        None, alias="crash-every", description="With `trouble`: every n-th container on a node ends with status 1."
    )
    disk: Literal["full", "free"] | None = Field(
        None, description="With `trouble`: `full`, for DiskPressure, or `free`."
    )
    count: Count | None = Field(None, description="Only the first nodes of the group, this many; default: all.")

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[FieldMistake]:
        changes = [key for key in CHANGES if key in written]
        if not changes:
            return [FieldMistake("", "`nodes` without a change", f"write one of {', '.join(CHANGES)}")]
        found = [
            FieldMistake(key, f"'{key}' and '{changes[0]}' in one phase", "make two phases") for key in changes[1:]
        ]
        if "add" in written and "count" in written:
            found.append(FieldMistake("count", "'count' cannot be combined with 'add'", "write it into the group"))
        wrong = [key for key in TROUBLES if key in written]
        if "trouble" in written and not wrong:
            found.append(FieldMistake("trouble", "'trouble' without saying which", f"add {', '.join(TROUBLES)}"))
        return found + alone(written, **dict.fromkeys(TROUBLES, "trouble"))


@runtime_checkable
class ChangesNodes(Protocol):
    """What `nodes` needs of a cluster."""

    async def nodes(self, change: NodeChange) -> None:
        """Makes the change."""


@dataclass(frozen=True, slots=True)
class RuntimeTrouble:
    """Faults of the container runtimes of a group."""

    slow: int = 0  # ns that every answer takes longer
    fail_every: int = 0  # every n-th start fails; 0: none
    crash_every: int = 0  # every n-th container that has run its time ends with status 1; 0: none
    disk_full: bool = False


@dataclass(frozen=True, slots=True)
class NodeChange(Phase):
    """Adds the group `add`, or does `change` to the first `count` nodes of `group` (all if None)."""

    change: str  # one of CHANGES
    group: str
    count: int | None = None
    add: NodeGroup | None = None
    trouble: RuntimeTrouble = RuntimeTrouble()

    needs = ChangesNodes

    @property
    def added_nodes(self) -> tuple[NodeGroup, ...]:
        return (self.add,) if self.add else ()

    async def act(self, run: RunningTrial, cluster: ChangesNodes) -> None:  # noqa: ARG002
        await cluster.nodes(self)


def _plan(planning: Planning, phase: WrittenPhase) -> NodeChange:
    fields: NodesFields = phase.fields
    if fields.add is not None:
        return _plan_add(planning, phase, fields.add)
    change = next(change for change in CHANGES if getattr(fields, change))
    group: str = getattr(fields, change)
    known = planning.groups.get(group)
    if known is None:
        what = f"set-up '{planning.setup}' has no node group '{group}' at this point"
        planning.wrong((*phase.path, change), what, remedy_for(group, planning.groups))
    elif known.existing:
        what = f"set-up '{planning.setup}' uses existing nodes, which are never changed"
        planning.wrong((*phase.path, change), what, "change only nodes that the scenario makes")
    elif change in KUBELET_CHANGES and not known.kubelet:
        what = f"'{change}' needs kubelets, and the nodes of '{group}' have none"
        planning.wrong(
            (*phase.path, change), what, "give the group `kubelet: true`; for fake nodes there are unready and ready"
        )
    elif change in RUNTIME_CHANGES and known.containers:
        what = f"'{change}' is done to played containers, and those of '{group}' are real"
        planning.wrong((*phase.path, change), what, "give the group `kubelet: true`, or use `stop` and `start`")
    elif fields.count is not None and fields.count > known.count:
        what = f"{fields.count} nodes of '{group}', which has {known.count}"
        planning.wrong((*phase.path, "count"), what, f"write {known.count} or less")
    trouble = RuntimeTrouble(fields.slow or 0, fields.fail_every or 0, fields.crash_every or 0, fields.disk == "full")
    return NodeChange(phase.name, change, group, fields.count, trouble=trouble)


def _plan_add(planning: Planning, phase: WrittenPhase, fields: NodeGroupFields) -> NodeChange:
    if any(group.existing for group in planning.groups.values()):
        what = f"set-up '{planning.setup}' uses existing nodes, and its pods run only there"
        planning.wrong((*phase.path, "add"), what, "remove the step, or list nodes to make instead of `existing`")
    if fields.name in planning.groups:
        what = f"a node group '{fields.name}' exists already"
        planning.wrong((*phase.path, "add", "name"), what, "give the new nodes another name")
    group = planning.groups[fields.name] = fields.group()
    return NodeChange(phase.name, "add", group.name, None, group)


def _names(_name: str, _action: str, body: Mapping[str, Any]) -> dict[str, list[str]]:
    added = body.get("add")
    return {"node group": [added["name"]] if isinstance(added, dict) and isinstance(added.get("name"), str) else []}


KIND = Kind(
    {"nodes": "Add or remove nodes, or change whether they take pods."},
    NodesFields,
    _plan,
    names=_names,
    first=lambda fields: fields.add is not None,
)
