"""The nodes as a grid of numbers: how many pods of a shape they could take, now or after something has ended.

A row per resource that a pod requests, a column per node. Pods of one shape are alike, so how many fit on a node is one division
per resource, for all nodes at once; pods are never placed one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from seatrial.model.fit import admits, ignores_cordons
from seatrial.model.plan import Amounts, NodeGroup, PodShape
from seatrial.model.state import NodeState, State

PODS = "pods"
UNLIMITED = 1 << 40  # pods on a node without a limit on pods
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class NodeGrid:
    """The nodes of a state; with `closed_too`, nodes that take no pods at the moment count as if they did."""

    def __init__(self, state: State, closed_too: bool = False) -> None:
        self.nodes = state.nodes
        self.shapes: list[PodShape] = []
        self._number: dict[int, int] = {}
        self._find_shapes(workload.shape for workload in state.workloads)
        asked = {name for shape in self.shapes for name, amount in shape.requests.items() if amount}
        self.resources = [PODS, *sorted(asked - {PODS})]
        self.needs = [self._needs(shape) for shape in self.shapes]
        self.capacity = self._amounts([node.capacity for node in self.nodes])
        self.open = np.array([closed_too or node.open for node in self.nodes], dtype=bool)
        self._cordoned = np.array([node.cordoned for node in self.nodes], dtype=bool)
        self._allowed: list[Mask | None] = [None] * len(self.shapes)

    def _find_shapes(self, shapes: Iterable[PodShape]) -> None:
        """Shapes are few and shared; equal shapes that are different objects (read from a file) become one."""
        alike: dict[str, int] = {}
        for shape in shapes:
            if id(shape) not in self._number:
                number = alike.setdefault(repr(shape), len(self.shapes))
                if number == len(self.shapes):
                    self.shapes.append(shape)
                self._number[id(shape)] = number

    def shape(self, shape: PodShape) -> int:
        """The number of a shape."""
        return self._number[id(shape)]

    def _needs(self, shape: PodShape) -> list[tuple[int, int]]:
        amounts = {PODS: 1, **{name: amount for name, amount in shape.requests.items() if amount}}
        return [(self.resources.index(name), amount) for name, amount in amounts.items()]

    def _amounts(self, of_nodes: Sequence[Amounts]) -> Numbers:
        rows = [[node.get(name, UNLIMITED if name == PODS else 0) for node in of_nodes] for name in self.resources]
        return np.array(rows, dtype=np.int64).reshape(len(self.resources), len(self.nodes))

    def free(self) -> Numbers:
        """Amounts that are free now."""
        return self._amounts([node.free for node in self.nodes])

    def allowed(self, shape: int) -> Mask:
        """The nodes that are open to a pod of this shape and whose labels and taints admit it."""
        mask = self._allowed[shape]
        if mask is None:
            wanted = self.shapes[shape]
            is_open = self.open | self._cordoned if ignores_cordons(wanted) else self.open
            mask = self._allowed[shape] = is_open & self._admitting(wanted)
        return mask

    def _admitting(self, shape: PodShape) -> Mask:
        """Asked once per kind of node: nodes are compared by taints and the labels that this shape selects by."""
        keys = [*shape.selector, *(key for key, _ in shape.affinity)]
        if not keys and not any(node.taints for node in self.nodes):
            return np.ones(len(self.nodes), dtype=bool)
        known: dict[tuple[object, ...], bool] = {}
        return np.array([self._admits(node, shape, keys, known) for node in self.nodes], dtype=bool)

    def _admits(
        self, node: NodeState, shape: PodShape, keys: Sequence[str], known: dict[tuple[object, ...], bool]
    ) -> bool:
        seen = (*(node.labels.get(key) for key in keys), node.taints)
        if seen not in known:
            known[seen] = admits(NodeGroup(node.group, 1, node.capacity, node.labels, node.taints), shape)
        return known[seen]

    def slots(self, room: Numbers, shape: int) -> Numbers:
        """How many pods of the shape each node has room for."""
        counts = np.minimum.reduce([room[row] // amount for row, amount in self.needs[shape]])
        return np.where(self.allowed(shape), np.maximum(counts, 0), 0)

    def fitting(self, room: Numbers, shape: int) -> Mask:
        """The nodes that have room for one pod of the shape, whatever labels and taints say."""
        return np.asarray(np.logical_and.reduce([room[row] >= amount for row, amount in self.needs[shape]]))

    def total(self, room: Numbers, shape: int) -> int:
        """How many pods of the shape all nodes have room for."""
        return int(self.slots(room, shape).sum())

    def give(self, room: Numbers, shape: int, nodes: Sequence[int], sign: int = 1) -> None:
        """Frees the room of a pod of the shape on each of these nodes (a node may come several times), or takes it with sign −1."""
        if not len(nodes):
            return
        counts = np.bincount(nodes, minlength=len(self.nodes)) * sign
        for row, amount in self.needs[shape]:
            room[row] += counts * amount

    def in_all(self, room: Numbers, where: Mask) -> dict[str, int]:
        """The amounts of these nodes together; an overcommitted node counts as 0."""
        part = np.maximum(room[:, where], 0)
        return {name: int(part[row].sum()) for row, name in enumerate(self.resources) if name != PODS}
