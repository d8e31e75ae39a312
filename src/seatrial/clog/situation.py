"""A state in which nothing moves, and what follows for each workload: whether it ever fits, and which component should act."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from seatrial.clog.diagnosis import Diagnosis, Edge
from seatrial.clog.knots import added, missing, scaled
from seatrial.clog.node_grid import Mask, NodeGrid
from seatrial.clog.queue_quotas import QueueQuotas
from seatrial.clog.wording import (
    COMPLETION,
    END,
    NAMED,
    NODES,
    PODS,
    QUEUE,
    SCHEDULER,
    amounts_of,
    listing,
    only,
    quantities,
    some,
)
from seatrial.model.fit import obstacles
from seatrial.model.plan import Amounts, NodeGroup
from seatrial.model.state import State, WorkloadState


@dataclass(frozen=True)
class Situation:
    """The state and what follows from it, each computed once and only when asked for."""

    state: State
    quiet_ns: int
    releases: tuple[int, ...]
    dead: tuple[str, ...]
    moving: frozenset[str]

    @cached_property
    def grid(self) -> NodeGrid:
        """The nodes as numbers."""
        return NodeGrid(self.state)

    @cached_property
    def empty(self) -> dict[int, int]:
        """Per shape, how many pods the open nodes take when they are empty."""
        return {shape: self.grid.total(self.grid.capacity, shape) for shape in range(len(self.grid.shapes))}

    @cached_property
    def room(self) -> dict[int, int]:
        """Per shape, how many pods there is room for now."""
        free = self.grid.free()
        return {shape: self.grid.total(free, shape) for shape in range(len(self.grid.shapes))}

    @cached_property
    def too_large(self) -> dict[int, str]:
        """Workloads, by number, that can never run with these nodes and this quota, and why."""
        found = {workload.number: self._why_never(workload) for workload in self.state.workloads}
        return {number: why for number, why in found.items() if why}

    @cached_property
    def line(self) -> list[WorkloadState]:
        """Workloads that are not admitted, in the order in which queues look at them."""
        waiting = [workload for workload in self.state.workloads if not workload.admitted]
        return sorted(waiting, key=lambda workload: (-workload.shape.priority, workload.number))

    @cached_property
    def quota_left(self) -> dict[str, int] | None:
        """The quota that admitted workloads leave; None without a quota."""
        if self.state.quota is None:
            return None
        used = added(declared(workload) for workload in self.state.workloads if workload.admitted)
        return {name: amount - used.get(name, 0) for name, amount in self.state.quota.items()}

    @cached_property
    def quotas(self) -> QueueQuotas | None:
        """Quotas of the fleet's queues; None where it has none, or the stack has neither a queue that admits nor queues in its
        scheduler."""
        if not self.state.fleet.queues:
            return None
        if self.state.counts_bound:
            bound = ((one.queue, scaled(one.shape.requests, len(one.nodes))) for one in self.state.workloads)
            return QueueQuotas(self.state.fleet, bound)
        if not self.state.queued:
            return None
        held = ((workload.queue, declared(workload)) for workload in self.state.workloads if workload.admitted)
        return QueueQuotas(self.state.fleet, held, closed=True)

    def lacks_quota(self, workload: WorkloadState) -> bool:
        """Whether it waits for quota, and its queue has too little left."""
        return bool(self.quotas and self.waits(workload) and self.quotas.lacking(workload.queue, self.asks(workload)))

    def waits(self, workload: WorkloadState) -> bool:
        """Whether it waits for admission; if the scheduler has the queues, whether it has pods without a node."""
        return missing(workload) > 0 if self.state.counts_bound else not workload.admitted

    def asks(self, workload: WorkloadState) -> dict[str, int]:
        """The room that its queue must have for it. A scheduler's queue takes a gang whole and other workloads pod by pod."""
        if not self.state.counts_bound:
            return declared(workload)
        pods = missing(workload) if workload.gang else min(missing(workload), 1)
        return scaled(workload.shape.requests, pods)

    @cached_property
    def lines(self) -> list[list[WorkloadState]]:
        """The line of each queue."""
        found: dict[str, list[WorkloadState]] = {}
        for workload in self.line:
            found.setdefault(workload.queue, []).append(workload)
        return list(found.values())

    @cached_property
    def free(self) -> dict[str, int]:
        """The free resources of all open nodes."""
        return self.grid.in_all(self.grid.free(), self.grid.open)

    def diagnosis(
        self,
        kind: str,
        summary: str,
        workloads: Sequence[WorkloadState],
        waiters: Sequence[WorkloadState] = (),
        amounts: Mapping[str, Amounts] | None = None,
        edges: tuple[Edge, ...] = (),
        **more: Any,
    ) -> Diagnosis:
        """A diagnosis about these workloads and the nodes that they hold."""
        nodes = self.places(workloads)
        return Diagnosis(kind, summary, self.names(workloads), self.names(waiters), nodes, amounts or {}, edges, **more)

    def fits_now(self, workload: WorkloadState) -> bool:
        """The rest of the quota and the nodes, as they are now, could take it."""
        if self.quota_left is not None and not workload.admitted and lacking(self.quota_left, declared(workload)):
            return False
        if self.lacks_quota(workload):
            return False
        need = missing(workload) if workload.gang else min(missing(workload), 1)
        return need <= self.room[self.grid.shape(workload.shape)]

    def undone(self, workload: WorkloadState) -> str:
        """The component that should act next on it and could; empty if the workload waits for room."""
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
            return f"it requests {quantities(only(asked, short))} in all and the queue admits at most {amounts_of(quota, short)}"
        if self.quotas and self.waits(workload):
            in_all = declared(workload) if not self.state.counts_bound or workload.gang else self.asks(workload)
            if why := self.quotas.why_never(workload.queue, in_all):
                return why
        shape = self.grid.shape(workload.shape)
        own = sum(not self.grid.allowed(shape)[node] for node in workload.nodes)  # stands where nothing more may go
        need = workload.size - workload.finished - own
        if missing(workload) and (need if workload.gang else 1) > self.empty[shape]:
            return self._why_nowhere(workload, shape, need)
        return ""

    def _why_nowhere(self, workload: WorkloadState, shape: int, need: int) -> str:
        grid, requests = self.grid, workload.shape.requests
        allowed = grid.allowed(shape)
        if self.empty[shape]:
            return (
                f"it needs {some(need, 'pod')} at once ({quantities(requests)} each) "
                f"and the nodes have room for {self.empty[shape]} when empty{self._kept_off(shape)}"
            )
        if not grid.open.any() and not allowed.any():
            return "no node takes pods" if grid.nodes else "there are no nodes"
        if not allowed.any():
            off = self._kept_off(shape)
            return f"it is allowed on no node{off or f', and none would have room for a pod ({quantities(requests)}) either'}"
        largest = self.largest(shape)
        short = lacking(largest, requests)
        if short:
            where = f" it is allowed on ({self._groups(allowed)})" if not allowed[grid.open].all() else ""
            why = f"a pod requests {quantities(only(requests, short))} and the largest node{where} has {amounts_of(largest, short)}"
        else:
            single = "no single node" if allowed[grid.open].all() else "no single node it is allowed on"
            why = f"{single} has everything that a pod requests ({quantities(requests)})"
        return why + self._kept_off(shape)

    def _kept_off(self, shape: int) -> str:
        """Node groups with room for a pod, and why the pod may not be placed there."""
        grid, wanted = self.grid, self.grid.shapes[shape]
        has_room = grid.fitting(grid.capacity, shape) & grid.open & ~grid.allowed(shape)
        kinds: dict[str, list[str]] = {}
        for place in np.flatnonzero(has_room).tolist():
            node = grid.nodes[place]
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
        return listing(list(dict.fromkeys(self.grid.nodes[place].group for place in np.flatnonzero(nodes).tolist())))

    def closed(self) -> str:
        """How many nodes are cordoned, or not Ready because of a step; empty if none is."""
        closed = sum(not node.open for node in self.state.nodes)
        of = f"{some(closed, 'node')} of {len(self.state.nodes)}"
        return f"{of} {'takes' if closed == 1 else 'take'} no pods" if closed else ""

    def largest(self, shape: int) -> dict[str, int]:
        """Per resource that the shape requests, the most that one node has."""
        capacity = self.grid.capacity[:, self.grid.allowed(shape)]
        rows = {self.grid.resources[row]: capacity[row] for row, _ in self.grid.needs[shape]}
        return {name: int(row.max(initial=0)) for name, row in rows.items() if name in self.grid.shapes[shape].requests}

    def names(self, workloads: Sequence[WorkloadState]) -> tuple[str, ...]:
        """The names of workloads."""
        return tuple(workload.name for workload in workloads)

    def places(self, workloads: Sequence[WorkloadState]) -> tuple[str, ...]:
        """The names of the nodes that they hold."""
        nodes = sorted({node for workload in workloads for node in workload.nodes})
        return tuple(self.state.nodes[node].name for node in nodes)


def declared(workload: WorkloadState) -> dict[str, int]:
    """The amounts that a queue counts for it."""
    return scaled(workload.shape.requests if workload.declares is None else workload.declares, workload.size)


def lacking(there: Amounts, asked: Amounts) -> list[str]:
    """Resources of which there is too little; one that `there` lacks is not limited."""
    return [name for name, amount in asked.items() if name in there and amount > there[name]]
