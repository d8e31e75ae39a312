"""A state that has come to rest, and what follows from it for each workload: whether it ever fits, and who could act on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from seatrial.clog.board import Board, Mask
from seatrial.clog.knots import added, missing, scaled
from seatrial.clog.wording import NAMED, amounts_of, listing, only, quantities, some
from seatrial.model.fit import obstacles
from seatrial.model.plan import Amounts, NodeGroup
from seatrial.model.state import State, WorkloadState

# Who would have to act next on a workload, in the order of its life.
QUEUE, PODS, SCHEDULER, NODES, END, COMPLETION = "queue", "pods", "scheduler", "nodes", "end", "completion"


@dataclass(frozen=True)
class Scene:
    """The state and what follows from it, worked out once and only if asked for."""

    state: State
    quiet_ns: int
    releases: tuple[int, ...]
    dead: tuple[str, ...]
    moving: frozenset[str]

    @cached_property
    def board(self) -> Board:
        return Board(self.state)

    @cached_property
    def empty(self) -> dict[int, int]:
        """Per shape, how many pods the open nodes take when nothing stands on them."""
        return {shape: self.board.total(self.board.capacity, shape) for shape in range(len(self.board.shapes))}

    @cached_property
    def room(self) -> dict[int, int]:
        """Per shape, how many pods there is room for now."""
        free = self.board.free()
        return {shape: self.board.total(free, shape) for shape in range(len(self.board.shapes))}

    @cached_property
    def too_large(self) -> dict[int, str]:
        """Number of each workload that can never run as nodes and quota are, and why."""
        found = {workload.number: self._why_never(workload) for workload in self.state.workloads}
        return {number: why for number, why in found.items() if why}

    @cached_property
    def line(self) -> list[WorkloadState]:
        """Those the queue has not let go, in the order in which queues look at them."""
        waiting = [workload for workload in self.state.workloads if not workload.admitted]
        return sorted(waiting, key=lambda workload: (-workload.shape.priority, workload.number))

    @cached_property
    def quota_left(self) -> dict[str, int] | None:
        if self.state.quota is None:
            return None
        used = added(declared(workload) for workload in self.state.workloads if workload.admitted)
        return {name: amount - used.get(name, 0) for name, amount in self.state.quota.items()}

    def fits_now(self, workload: WorkloadState) -> bool:
        """What is left of the quota, and the nodes as they are, could take it."""
        if self.quota_left is not None and not workload.admitted and lacking(self.quota_left, declared(workload)):
            return False
        need = missing(workload) if workload.gang else min(missing(workload), 1)
        return need <= self.room[self.board.shape(workload.shape)]

    def undone(self, workload: WorkloadState) -> str:
        """Who would have to act next on it and could; nobody, if it waits for room."""
        if workload.number in self.too_large:
            return ""
        if not workload.admitted:
            return QUEUE if self.fits_now(workload) else ""
        if workload.finished >= workload.size:
            return COMPLETION
        if missing(workload) > workload.waiting:
            return PODS
        if workload.waiting and self.fits_now(workload):
            return SCHEDULER
        if workload.starting and (not workload.gang or not workload.waiting):
            return NODES
        return END if workload.runs and 0 < workload.due < self.state.at else ""

    def _why_never(self, workload: WorkloadState) -> str:
        asked, quota = declared(workload), self.state.quota
        if quota is not None and not workload.admitted and (short := lacking(quota, asked)):
            return f"it asks for {quantities(only(asked, short))} in all and the queue admits at most {amounts_of(quota, short)}"
        shape = self.board.shape(workload.shape)
        own = sum(not self.board.allowed(shape)[node] for node in workload.nodes)  # stands where nothing more may go
        need = workload.size - workload.finished - own
        if missing(workload) and (need if workload.gang else 1) > self.empty[shape]:
            return self._why_nowhere(workload, shape, need)
        return ""

    def _why_nowhere(self, workload: WorkloadState, shape: int, need: int) -> str:
        board, requests = self.board, workload.shape.requests
        allowed = board.allowed(shape)
        if self.empty[shape]:
            return (
                f"it needs {some(need, 'pod')} at once ({quantities(requests)} each) "
                f"and the nodes have room for {self.empty[shape]} when empty{self._kept_off(shape)}"
            )
        if not board.open.any():
            return "no node takes pods" if board.nodes else "there are no nodes"
        if not allowed.any():
            off = self._kept_off(shape)
            return f"it may stand on no node{off or f', and none would have room for a pod ({quantities(requests)}) either'}"
        largest = self.largest(shape)
        short = lacking(largest, requests)
        if short:
            where = f" that it may stand on ({self._groups(allowed)})" if not allowed[board.open].all() else ""
            why = f"a pod asks for {quantities(only(requests, short))} and the largest node{where} has {amounts_of(largest, short)}"
        else:
            single = "no single node" if allowed[board.open].all() else "no single node that it may stand on"
            why = f"{single} has all that a pod asks for ({quantities(requests)})"
        return why + self._kept_off(shape)

    def _kept_off(self, shape: int) -> str:
        """Groups of nodes that would have room for a pod, and why it may not stand there."""
        board, wanted = self.board, self.board.shapes[shape]
        has_room = board.fitting(board.capacity, shape) & board.open & ~board.allowed(shape)
        kinds: dict[str, list[str]] = {}
        for place in np.flatnonzero(has_room).tolist():
            node = board.nodes[place]
            if node.group not in kinds:
                group = NodeGroup(node.group, 1, node.capacity, node.labels, node.taints)
                kinds[node.group] = [self._has(node.capacity, wanted.requests), *obstacles(group, wanted)]
        told = [
            f"{name} would have room{has}, but {' and '.join(why)}"
            for name, (has, *why) in islice(kinds.items(), NAMED)
        ]
        more = f"; so would {some(len(kinds) - NAMED, 'more group')}" if len(kinds) > NAMED else ""
        return "".join(f"; {text}" for text in told) + more

    def _has(self, capacity: Amounts, requests: Amounts) -> str:
        asked = {name: capacity.get(name, 0) for name in requests}
        return f" ({quantities(asked)})" if asked else ""

    def _groups(self, nodes: Mask) -> str:
        return listing(list(dict.fromkeys(self.board.nodes[place].group for place in np.flatnonzero(nodes).tolist())))

    def largest(self, shape: int) -> dict[str, int]:
        """Of each resource that the shape asks for, the most that one node has."""
        capacity = self.board.capacity[:, self.board.allowed(shape)]
        rows = {self.board.resources[row]: capacity[row] for row, _ in self.board.needs[shape]}
        return {
            name: int(row.max(initial=0)) for name, row in rows.items() if name in self.board.shapes[shape].requests
        }

    def names(self, workloads: Sequence[WorkloadState]) -> tuple[str, ...]:
        return tuple(workload.name for workload in workloads)

    def places(self, workloads: Sequence[WorkloadState]) -> tuple[str, ...]:
        nodes = sorted({node for workload in workloads for node in workload.nodes})
        return tuple(self.state.nodes[node].name for node in nodes)


def declared(workload: WorkloadState) -> dict[str, int]:
    """What a queue counts for it."""
    return scaled(workload.shape.requests if workload.declares is None else workload.declares, workload.size)


def lacking(there: Amounts, asked: Amounts) -> list[str]:
    """Resources of which there is too little; one that `there` does not name is not limited by a quota."""
    return [name for name, amount in asked.items() if name in there and amount > there[name]]
