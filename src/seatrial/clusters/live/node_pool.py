"""The nodes of a trial: fake ones that it makes and changes, and existing ones that it only counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from seatrial.clusters.access.applying import until
from seatrial.clusters.kwok import fake_nodes
from seatrial.clusters.live.session import Session
from seatrial.clusters.roster import Roster
from seatrial.kube.resources import NODES, STRATEGIC
from seatrial.kube.shapes import Node
from seatrial.model.labels import GROUP_LABEL, UNREADY_ANNOTATION
from seatrial.model.plan import NodeGroup
from seatrial.model.units import parse_quantity
from seatrial.scenario.actions.change_nodes import RUNTIME_CHANGES, NodeChange

NOT_READY_TAINT = (
    "node.kubernetes.io/not-ready"  # added by admission and the node lifecycle controller, removed by the latter
)


PER_KUBELET_S = 0.2  # more time to be ready: 1,000 took 140 s on a machine with other work
OPENING = ("uncordon", "ready", "start")  # changes after which nodes take pods again


class NodeSource(Protocol):
    """Provides the nodes of a group."""

    async def make(self, group: NodeGroup, first: int, there: int) -> list[str]:
        """The group's nodes, numbered from `first`, in a cluster with `there` others of the trial; their names."""

    async def ready(self, names: set[str]) -> bool:
        """Whether KWOK or their kubelets have taken on these nodes."""

    async def affect(self, change: NodeChange, names: Sequence[str]) -> None:
        """Does to kubelets and their runtimes what the step says; nothing on fake nodes."""

    async def existing(self) -> list[Node]:
        """Nodes of the cluster's own that the scenario counts on."""


class FakeNodes:
    """Nodes that the trial makes and the KWOK of the cluster plays. `standing`: groups that are there already, and stay."""

    def __init__(self, session: Session, standing: Callable[[], Sequence[NodeGroup]] = tuple) -> None:
        self._session, self._standing = session, standing

    async def make(self, group: NodeGroup, first: int, there: int) -> list[str]:
        if group in self._standing():
            return fake_nodes.names(group)
        return await fake_nodes.create(self._session.client, group, first, self._session.labels, there=there)

    async def ready(self, names: set[str]) -> bool:
        return await fake_nodes.leased(self._session.client, names)

    async def affect(self, change: NodeChange, names: Sequence[str]) -> None:
        pass

    async def existing(self) -> list[Node]:
        return []


class NodePool:
    """The nodes of a trial: their lifetimes, and which of them take pods."""

    def __init__(self, session: Session, source: NodeSource) -> None:
        self.groups: dict[str, NodeGroup] = {}  # node → its group
        self.closed: set[str] = set()  # nodes that take no pods: cordoned or not ready
        self._session, self._source = session, source
        self._roster: Roster[str] = Roster(session.now)

    def begin(self) -> None:
        """The trial's time begins: nodes that are there were there from its first moment."""
        self._roster.begin()

    def made(self) -> set[str]:
        """Names of the nodes that the trial made."""
        return self._roster.made()

    def capacity(self) -> dict[str, int]:
        """The total capacity of all nodes now."""
        return self._roster.capacity()

    def spans(self) -> list[dict[str, Any]]:
        """How many nodes of each group there were from when to when."""
        return self._roster.spans()

    async def add(self, *groups: NodeGroup) -> None:
        """Makes them at full client speed, and waits until KWOK or their kubelets have taken on all of them: a kubelet takes ten
        seconds to be Ready, so group after group would take that for each."""
        kubelets = 0
        for group in groups:
            added = await self._source.make(group, len(self._roster.of(group.name)), len(self.groups))
            for name in added:
                self._session.observer.node(name)
                self.groups[name] = group
            self._roster.add(group.name, added, group.capacity)
            kubelets += len(added) if group.kubelet else 0

        async def taken_on() -> bool:
            return await self._source.ready(self.made())

        await until(
            taken_on,
            f"{'their kubelets have' if kubelets else 'KWOK has'} not taken on all nodes",
            "look into its log",
            kubelets * PER_KUBELET_S,
        )

    async def count_existing(self) -> None:
        """Spans of nodes alike, for utilisation; what others use of them is not known."""
        alike: dict[tuple[tuple[str, int], ...], int] = {}
        for node in await self._source.existing():
            amounts = {name: parse_quantity(text, name) for name, text in node.status.allocatable.items()}
            self._session.observer.node(node.metadata.name)
            self.groups[node.metadata.name] = NodeGroup("existing", 1, amounts, node.metadata.labels)
            key = tuple(sorted(amounts.items()))
            alike[key] = alike.get(key, 0) + 1
        for key, count in alike.items():
            self._roster.note("existing", count, dict(key))

    async def change(self, change: NodeChange) -> None:
        """Cordons, uncordons, removes nodes or changes whether they are Ready, or what their kubelets do."""
        client = self._session.client
        changed = self._roster.of(change.group)[: change.count]
        await self._source.affect(change, changed)
        if change.change in RUNTIME_CHANGES:
            return
        for name in changed:
            (self.closed.discard if change.change in OPENING else self.closed.add)(name)
            if change.change == "remove":
                await client.delete(NODES, name)
                self.groups.pop(name, None)
                self._roster.remove(change.group, name)
            elif change.change in ("cordon", "uncordon"):
                await client.patch(NODES, {"spec": {"unschedulable": change.change == "cordon"}}, name)
            elif change.change in ("ready", "unready"):
                await self._make_ready(name, change.change == "ready")
        if change.change in ("ready", "unready"):
            await self._until_tainted(change.group, set(changed), change.change == "unready")

    async def _make_ready(self, name: str, ready: bool) -> None:
        """The mark keeps KWOK from setting the node Ready again."""
        mark = {"metadata": {"annotations": {UNREADY_ANNOTATION: None if ready else "true"}}}
        await self._session.client.patch(NODES, mark, name)
        status = {"status": {"conditions": [fake_nodes.ready_condition(ready, fake_nodes.timestamp())]}}
        await self._session.client.patch(NODES, status, name, how=STRATEGIC, subresource="status")

    async def _until_tainted(self, group: str, nodes: set[str], tainted: bool) -> None:
        """kube-scheduler looks at the taint, not at the condition, and the controller manager adds it a moment later: until then
        a node that the step made NotReady takes pods."""

        async def settled() -> bool:
            found = await self._session.client.list(
                NODES, shape=Node, labelSelector=f"{GROUP_LABEL}={group}", resourceVersion="0"
            )
            has = {
                node.metadata.name for node in found.items if any(t.key == NOT_READY_TAINT for t in node.spec.taints)
            }
            return nodes <= has if tainted else not nodes & has

        await until(
            settled,
            f"the controller manager has not {'added' if tainted else 'removed'} the taint {NOT_READY_TAINT} of {group}'s nodes",
            "look into its log",
        )
