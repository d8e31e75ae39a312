"""The nodes as YuniKorn's core sees them: the order in which they are tried, and which are reserved.

Facts (yunikorn-core v1.8.0-1): nodes are in a tree by score, then by name (objects/node_collection.go:71). The score is the mean of
the shares of cores and memory that are taken (`fair`), or one minus that (`binpacking`, objects/nodesorting.go:46); the first
node in this order that takes the pod gets it. Whether it does is asked of kube-scheduler's filters. A reserved node takes only the
pod that it is reserved for (objects/node.go:535).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from seatrial.model.plan import PodShape
from seatrial.sim.nodes import Nodes
from seatrial.stacks.yunikorn.core_applications import Ask, ResourceAmounts

FAIR = "fair"


class CoreNodes:
    """Scores are kept, and made anew for nodes that changed. `names`: of all nodes, by number."""

    def __init__(self, nodes: Nodes, names: Callable[[], list[str]], policy: str) -> None:
        self._nodes, self._names, self._fair = nodes, names, policy == FAIR
        self._layouts = -1
        self._seen = 0
        self._scores: NDArray[np.float64] = np.empty(0)
        self._rank: NDArray[np.int64] = np.empty(0, dtype=np.int64)  # by name
        self._could: dict[int, NDArray[np.bool_]] = {}  # shape → nodes that would take it if they were empty
        self._unreserved: NDArray[np.bool_] = np.empty(0, dtype=bool)
        self.reservations: dict[int, Ask] = {}

    def total(self) -> list[int | None]:
        """The total of all nodes: the root's maximum."""
        nodes = self._nodes
        there = [node for node in range(len(nodes)) if nodes.is_open(node, ignoring_cordons=True)]
        return [sum(map(amounts.__getitem__, there)) for amounts in nodes.capacity]

    @property
    def all_reserved(self) -> bool:
        """Whether every node is reserved."""
        self._catch_up()
        return not self._unreserved.any()

    def takes(self, node: int, shape: PodShape) -> bool:
        """Whether this node takes the pod now, whoever it is reserved for."""
        return self._nodes.takes(node, shape)

    def rank(self, node: int) -> int:
        """Its place by name."""
        self._catch_up()
        return int(self._rank[node])

    def choose(self, shape: PodShape) -> int:
        """The first node that takes the pod and is not reserved, or −1."""
        self._catch_up()
        return self._first(self._nodes.fitting(shape) & self._unreserved)

    def to_reserve(self, shape: PodShape, asked: ResourceAmounts) -> int:
        """Of those not reserved that would take the pod if they were empty, the one that lacks least (FitInScore)."""
        self._catch_up()
        could = self._could.get(id(shape))
        if could is None:
            nodes = self._nodes
            could = np.array([nodes.could_take(node, shape) for node in range(len(nodes))], dtype=bool)
            self._could[id(shape)] = could
        free = self._nodes.free
        best, least = -1, float("inf")
        for node in self._in_order(np.flatnonzero(could & self._unreserved)):
            lacks = 0.0
            for amounts, amount in zip(free, asked, strict=True):
                if amount > 0:
                    lacks += min(max(amount - amounts[node], 0) / amount, 1.0)
            if lacks < least:
                best, least = node, lacks
        return best

    def reserve(self, node: int, ask: Ask) -> None:
        """The node is the pod's as soon as it has room."""
        self._catch_up()
        self.reservations[node] = ask
        self._unreserved[node] = False
        ask.reserved = node
        ask.app.reserved[ask] = None
        ask.app.leaf.reserving[ask.app] = None

    def unreserve(self, ask: Ask) -> None:
        """The pod has no node reserved any more."""
        if ask.reserved < 0:
            return
        del self.reservations[ask.reserved]
        if ask.reserved < len(self._unreserved):
            self._unreserved[ask.reserved] = True
        ask.reserved = -1
        app = ask.app
        del app.reserved[ask]
        if not app.reserved:
            app.leaf.reserving.pop(app, None)

    def _first(self, among: NDArray[np.bool_]) -> int:
        there = np.flatnonzero(among)
        if not len(there):
            return -1
        scores = self._scores[there]
        best = there[scores == scores.min()]
        return int(best[0] if len(best) == 1 else best[self._rank[best].argmin()])

    def _in_order(self, there: NDArray[np.int64]) -> list[int]:
        order = np.lexsort((self._rank[there], self._scores[there]))
        return [int(node) for node in there[order]]

    def _catch_up(self) -> None:
        nodes = self._nodes
        if self._layouts != nodes.layouts:
            self._layouts, self._seen = nodes.layouts, nodes.changes
            names = self._names()
            self._rank = np.empty(len(nodes), dtype=np.int64)
            self._rank[np.argsort(np.array(names[: len(nodes)]))] = np.arange(len(nodes))
            self._scores = np.array([self._score(node) for node in range(len(nodes))])
            self._unreserved = np.ones(len(nodes), dtype=bool)
            self._unreserved[list(self.reservations)] = False
            self._could.clear()
        elif self._seen != nodes.changes:
            for node in nodes.changed_since(self._seen):
                self._scores[node] = self._score(node)
            self._seen = nodes.changes

    def _score(self, node: int) -> float:
        nodes = self._nodes
        shares = [
            1 - nodes.free[at][node] / nodes.capacity[at][node] for at in (0, 1) if nodes.capacity[at][node]
        ]  # cores, memory
        used = sum(shares) / len(shares) if shares else 0.0
        return used if self._fair else 1 - used
