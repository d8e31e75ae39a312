"""Kueue's quotas as a tree: cohorts above ClusterQueues, what each of them may use, and what counts against it.

Facts (Kueue v0.16.1, pkg/cache/scheduler/resource_node.go):
- A node's subtree quota is its nominal quota plus what its children lend. A lending limit keeps the rest of a child's subtree
  quota to the child: its local quota, of which the parent knows nothing.
- Usage counts against a node. What exceeds its local quota counts against its parent too, up to the root.
- Available is the rest of the local quota plus what is available in the parent, at most as much as the borrowing limit allows.
  The root has its subtree quota less its usage. Potentially available is the same without usage.

A cell is one resource of one flavor, by its number. Amounts are lists by cell: a decision looks at few cells of few nodes, many
thousand times in a trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seatrial.model.fleet import NEVER, FlavorQuota, Fleet, Preemption, Queue

Usage = Mapping[int, int]  # cell → amount
Path = tuple[tuple["QuotaNode", int, int], ...]  # what an addition changed: node, cell, amount


@dataclass(slots=True, eq=False)
class QuotaClaim:
    """A workload that wants quota, or holds it. Times are whole seconds, as in the objects."""

    number: int
    queue: QuotaQueue
    priority: int
    created: int  # when it was created, or evicted for not running in time: its place in the queue
    requests: Mapping[str, int]
    uid: float = 0.0
    usage: dict[int, int] = field(default_factory=dict)  # what it holds
    flavors: Mapping[str, str] = field(default_factory=dict)  # resource → flavor
    reserved: int = -1  # since when
    evicted: bool = False  # it still holds its quota, but not for long
    tried: dict[str, int] = field(default_factory=dict)  # resource → last flavor tried, −1: all (LastAssignment)
    tried_at: int = -1  # the queue's generation then


class QuotaNode:
    """The common part of a cohort and a ClusterQueue."""

    def __init__(self, name: str, weight: float) -> None:
        self.name, self.weight = name, weight
        self.parent: QuotaNode | None = None
        self.cohorts: list[QuotaNode] = []
        self.queues: list[QuotaQueue] = []
        self.height = 0  # the distance to the furthest leaf
        self.nominal: list[int] = []
        self.borrow: list[int | None] = []
        self.lend: list[int | None] = []
        self.subtree: list[int] = []
        self.local: list[int] = []  # of the subtree quota, what the parent does not see
        self.usage: list[int] = []
        self.potential: list[int] = []

    def ancestors(self) -> Iterator[QuotaNode]:
        """From the parent to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    @property
    def root(self) -> QuotaNode:
        """The top of its tree; itself if it has no parent."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def local_available(self, cell: int) -> int:
        """The unused part of its local quota."""
        free = self.local[cell] - self.usage[cell]
        return free if free > 0 else 0

    def available(self, cell: int) -> int:
        """The free quota here; negative if overused."""
        if self.parent is None:
            return self.subtree[cell] - self.usage[cell]
        above = self.parent.available(cell)
        local, used, limit = self.local[cell], self.usage[cell], self.borrow[cell]
        if limit is not None:
            most = self.subtree[cell] - local - max(0, used - local) + limit
            above = min(above, most)
        return (local - used if local > used else 0) + above

    def exceeds_with(self, cell: int, amount: int) -> bool:
        """Whether it would use more than its subtree quota."""
        return self.usage[cell] + amount > self.subtree[cell]

    def is_within(self, cells: Iterable[int]) -> bool:
        """Whether it uses no more than its subtree quota of all these cells."""
        usage, subtree = self.usage, self.subtree
        for cell in cells:  # noqa: SIM110  (a generator took twice the time)
            if usage[cell] > subtree[cell]:
                return False
        return True

    def add_usage(self, cell: int, amount: int, path: list[tuple[QuotaNode, int, int]] | None = None) -> None:
        """Counts an amount against this node, and against its ancestors what they see of it."""
        node: QuotaNode | None = self
        while node is not None:
            free = node.local_available(cell)
            node.usage[cell] += amount
            if path is not None:
                path.append((node, cell, amount))
            if amount <= free:
                return
            amount -= free
            node = node.parent

    def remove_usage(self, cell: int, amount: int) -> None:
        """The opposite."""
        node: QuotaNode | None = self
        while node is not None:
            above = node.usage[cell] - node.local[cell]
            node.usage[cell] -= amount
            if above <= 0:
                return
            amount = min(amount, above)
            node = node.parent


class QuotaQueue(QuotaNode):
    """A ClusterQueue with the workloads that hold its quota."""

    def __init__(self, queue: Queue, preemption: Preemption) -> None:
        super().__init__(queue.name, queue.weight)
        self.preemption = preemption
        self.borrows_first, self.preempts_first = queue.borrows_first, queue.preempts_first
        resources = frozenset(name for quota in queue.quotas for name in quota.nominal)
        # One group, as our ClusterQueues have it: each flavor has a quota of every resource, be it 0.
        self.groups: tuple[ResourceGroup, ...] = (ResourceGroup(resources, tuple(q.flavor for q in queue.quotas)),)
        self.workloads: dict[int, QuotaClaim] = {}
        self.generation = 1  # raised whenever something is freed: flavors are then tried from the first one again
        self.refusals: dict[Any, Any] = {}  # the tree's

    @property
    def evicts(self) -> bool:
        """Whether its workloads may evict others at all."""
        rules = self.preemption
        return rules.within_queue != NEVER or (self.parent is not None and rules.reclaim != NEVER)

    def hold(self, claim: QuotaClaim) -> None:
        """The workload has its quota from now on."""
        self.refusals.clear()
        self.workloads[claim.number] = claim
        for cell, amount in claim.usage.items():
            self.add_usage(cell, amount)

    def drop(self, claim: QuotaClaim) -> None:
        """The opposite."""
        self.refusals.clear()
        del self.workloads[claim.number]
        for cell, amount in claim.usage.items():
            self.remove_usage(cell, amount)


@dataclass(frozen=True, slots=True)
class ResourceGroup:
    """Flavors that are alternatives for the same resources, in the order in which they are tried."""

    resources: frozenset[str]
    flavors: tuple[str, ...]


class QuotaTree:
    """All cohorts and ClusterQueues of a fleet. `preemption`: per queue where it is not the fleet's."""

    def __init__(self, fleet: Fleet, preemption: Mapping[str, Preemption] | None = None) -> None:
        self.cells: list[tuple[str, str]] = []  # (flavor, resource)
        self.number: dict[tuple[str, str], int] = {}
        self.fair_sharing = fleet.preemption.fair_sharing
        own = preemption or {}
        self.queues = {queue.name: QuotaQueue(queue, own.get(queue.name, fleet.preemption)) for queue in fleet.queues}
        self.cohorts: dict[str, QuotaNode] = {}
        self._lendable: dict[QuotaNode, dict[str, int]] = {}
        self._flat: dict[QuotaNode, bool] = {}
        self.listed: dict[Any, Any] | None = None  # what searches for victims know, while the tree does not change
        self.refusals: dict[Any, Any] = {}  # what does not fit and why, until a workload gets quota or frees it
        for queue in self.queues.values():
            queue.refusals = self.refusals
        for quotas in (*(cohort.quotas for cohort in fleet.cohorts), *(queue.quotas for queue in fleet.queues)):
            self._number_cells(quotas)
        cells: dict[str, list[int]] = {}
        for cell, (_, name) in enumerate(self.cells):
            cells.setdefault(name, []).append(cell)
        self.by_resource = [(name, tuple(numbers)) for name, numbers in sorted(cells.items())]
        self._join(fleet)
        for root in self._roots():
            self._add_up(root)
            self._look_down(root)

    def _number_cells(self, quotas: Sequence[FlavorQuota]) -> None:
        covered = {name for quota in quotas for name in quota.nominal}
        for quota in quotas:
            for name in sorted(covered):
                cell = (quota.flavor, name)
                if cell not in self.number:
                    self.number[cell] = len(self.cells)
                    self.cells.append(cell)

    def _join(self, fleet: Fleet) -> None:
        for cohort in fleet.cohorts:
            node = self._cohort(cohort.name)
            node.weight = cohort.weight
            if cohort.parent:
                node.parent = self._cohort(cohort.parent)
                node.parent.cohorts.append(node)
        for queue in fleet.queues:
            if queue.cohort:
                made = self.queues[queue.name]
                made.parent = self._cohort(queue.cohort)
                made.parent.queues.append(made)
        for queue in fleet.queues:
            self._set_quotas(self.queues[queue.name], queue.quotas)
        for cohort in fleet.cohorts:
            self._set_quotas(self.cohorts[cohort.name], cohort.quotas)
        for node in self.cohorts.values():
            if not node.nominal:
                self._set_quotas(node, ())

    def _cohort(self, name: str) -> QuotaNode:
        """A cohort that only queues name has no quota of its own."""
        if name not in self.cohorts:
            self.cohorts[name] = QuotaNode(name, 1.0)
        return self.cohorts[name]

    def _set_quotas(self, node: QuotaNode, quotas: Sequence[FlavorQuota]) -> None:
        count = len(self.cells)
        node.nominal, node.usage = [0] * count, [0] * count
        node.borrow, node.lend = [None] * count, [None] * count
        for quota in quotas:
            for name, amount in quota.nominal.items():
                cell = self.number[quota.flavor, name]
                node.nominal[cell] = amount
                node.borrow[cell], node.lend[cell] = quota.borrow.get(name), quota.lend.get(name)

    def _roots(self) -> list[QuotaNode]:
        return [node for node in (*self.cohorts.values(), *self.queues.values()) if node.parent is None]

    def _add_up(self, node: QuotaNode) -> None:
        """Subtree quotas, from the leaves up."""
        node.subtree = list(node.nominal)
        children: list[QuotaNode] = [*node.cohorts, *node.queues]
        for child in children:
            self._add_up(child)
            node.height = max(node.height, child.height + 1)
            for cell, amount in enumerate(child.subtree):
                node.subtree[cell] += amount - child.local[cell]
        node.local = [
            0 if limit is None else max(0, amount - limit)
            for amount, limit in zip(node.subtree, node.lend, strict=True)
        ]

    def _look_down(self, node: QuotaNode) -> None:
        """The potentially available quota, from the root down."""
        node.potential = list(node.subtree)
        if node.parent is not None:
            for cell, above in enumerate(node.parent.potential):
                limit = node.borrow[cell]
                most = node.local[cell] + above
                node.potential[cell] = most if limit is None else min(most, node.subtree[cell] + limit)
        for child in (*node.cohorts, *node.queues):
            self._look_down(child)

    def is_flat(self, queue: QuotaQueue) -> bool:
        """Whether the queue's cohort has no parent, no cohorts below it, and no queue with a lending limit."""
        cohort = queue.parent
        if cohort is None:
            return False
        known = self._flat.get(cohort)
        if known is None:
            alone = cohort.parent is None and not cohort.cohorts
            known = self._flat[cohort] = alone and not any(any(other.local) for other in cohort.queues)
        return known

    def lendable(self, node: QuotaNode) -> Mapping[str, int]:
        """Per resource, over all flavors, what is potentially available in a cohort."""
        known = self._lendable.get(node)
        if known is None:
            known = self._lendable[node] = {
                name: sum(node.potential[cell] for cell in cells) for name, cells in self.by_resource
            }
        return known

    def lowest_fit(self, queue: QuotaQueue, cell: int, amount: int) -> tuple[int, bool]:
        """The height of the smallest subtree around the queue whose quota takes the amount (0: the queue's own does), and whether
        there is a larger one (pkg/scheduler/preemption/classical, FindHeightOfLowestSubtreeThatFits)."""
        if queue.parent is None or queue.usage[cell] + amount <= queue.nominal[cell]:
            return 0, queue.parent is not None
        left = amount - queue.local_available(cell)
        root: QuotaNode = queue
        for node in queue.ancestors():
            if not node.exceeds_with(cell, left):
                return node.height, node.parent is not None
            left -= node.local_available(cell)
            root = node
        return root.height, False


def undo(path: Iterable[tuple[QuotaNode, int, int]]) -> None:
    """Takes additions of usage back, whatever came in between."""
    for node, cell, amount in path:
        node.usage[cell] -= amount
