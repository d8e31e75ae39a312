"""Topology-aware scheduling with one level, the host: nodes are assigned to a workload before its pods exist.

Facts (Kueue v0.16.1, pkg/cache/scheduler/tas_flavor_snapshot.go): per node, Kueue counts how many pods fit into its capacity less
what admitted workloads were assigned. Nodes are sorted by that number, the smallest first, then by name (LeastFreeCapacity, which
the feature gate TASProfileMixed sets for workloads that ask for no level). The first node that takes all pods is chosen; otherwise
nodes are filled in that order. Nodes that are cordoned or not ready do not count; what other pods hold is not modelled.
"""

from __future__ import annotations

import numpy as np

from seatrial.model.fit import admits
from seatrial.model.plan import PodShape
from seatrial.sim.world import Sim


class Topology:
    """Free capacity of every node by Kueue's accounts, and the nodes of each admitted workload."""

    def __init__(self, sim: Sim) -> None:
        self._sim = sim
        self._free: list[np.ndarray] = []  # per resource: capacity less what was assigned, per node
        self._by_name = np.empty(0, dtype=np.int64)  # rank of each node in the order of names
        self._allowed: dict[int, tuple[int, np.ndarray]] = {}  # shape → (nodes then, which of them may take it)
        self._given: dict[int, tuple[list[tuple[int, int]], list[int]]] = {}  # workload → (requests), node per pod

    def assign(self, number: int, shape: PodShape, pods: int) -> str:
        """Assigns nodes to the workload; returns why not, if it does not fit."""
        self._grow()
        needs = self._needs(shape)
        counts = self._counts(shape, needs)
        order = np.lexsort((self._by_name, counts))
        whole = order[np.searchsorted(counts[order], pods) :] if len(order) else order
        if len(whole):
            nodes = [int(whole[0])] * pods
        else:
            fit = int(counts.sum())
            if fit < pods:
                said = "doesn't allow to fit any" if not fit else f"allows to fit only {fit} out"
                return f'topology "seatrial" {said} of {pods} pod(s)'
            filled = np.repeat(order, counts[order])[:pods]
            nodes = filled[np.argsort(self._by_name[filled], kind="stable")].tolist()
        self._given[number] = (needs, nodes)
        self._take(needs, nodes, -1)
        return ""

    def nodes(self, number: int) -> list[int]:
        """One node for each of its pods, sorted by name."""
        return list(self._given[number][1])

    def release(self, number: int) -> None:
        """Frees the workload's nodes."""
        given = self._given.pop(number, None)
        if given:
            self._take(*given, 1)

    def _take(self, needs: list[tuple[int, int]], nodes: list[int], sign: int) -> None:
        for resource, amount in needs:
            np.add.at(self._free[resource], nodes, sign * amount)

    def _grow(self) -> None:
        """Nodes may have been added."""
        nodes, known = self._sim.nodes, len(self._by_name)
        if len(nodes) == known:
            return
        fresh = [np.asarray(column[known:], dtype=np.int64) for column in nodes.capacity]
        self._free = [np.append(old, new) for old, new in zip(self._free, fresh, strict=True)] if known else fresh
        names = self._sim.ledger.nodes
        ranks = sorted(range(len(nodes)), key=names.__getitem__)
        self._by_name = np.argsort(np.asarray(ranks))

    def _needs(self, shape: PodShape) -> list[tuple[int, int]]:
        column = self._sim.nodes.resources.index
        return [(column(name), amount) for name, amount in {**shape.requests, "pods": 1}.items() if amount]

    def _counts(self, shape: PodShape, needs: list[tuple[int, int]]) -> np.ndarray:
        nodes = self._sim.nodes
        known, allowed = self._allowed.get(id(shape), (0, np.empty(0)))
        if known != len(nodes):
            allowed = np.asarray([admits(group, shape) for group in nodes.groups])
            self._allowed[id(shape)] = (len(nodes), allowed)
        counts = np.minimum.reduce([self._free[resource] // amount for resource, amount in needs])
        is_open = np.asarray([nodes.is_open(node) for node in range(len(nodes))])
        return np.where(allowed & is_open, np.maximum(counts, 0), 0)
