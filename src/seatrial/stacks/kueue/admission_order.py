"""The order of the heads of a cycle.

Facts (Kueue v0.16.1, pkg/scheduler/scheduler.go, entryOrdering, and fair_sharing_iterator.go):
- Without fair sharing: who borrows nothing, or from the nearest cohort, first; then priority; then the time of creation.
- With it, a tournament for each head of a cohort's tree: every cohort sends the child that would have the smallest share with
  its head admitted; equal shares by priority, then time. Shares are those of the moment, with the heads admitted before in this
  cycle.
- What is still equal comes in the order of a Go map, which is none: callers shuffle.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from seatrial.stacks.kueue.dominant_share import Share, share_of
from seatrial.stacks.kueue.flavor_assignment import Assignment
from seatrial.stacks.kueue.quota_tree import QuotaClaim, QuotaNode, QuotaQueue, QuotaTree


class Nominated(Protocol):
    """A head with its assignment."""

    @property
    def claim(self) -> QuotaClaim:
        """The workload."""

    @property
    def assignment(self) -> Assignment:
        """Its flavors."""


H = TypeVar("H", bound=Nominated)
_Rank = tuple[Share, int, int]


def in_order(tree: QuotaTree, heads: Sequence[H]) -> Iterator[H]:
    """The heads in their order. With fair sharing the tree is read whenever the next one is asked for."""
    if tree.fair_sharing:
        return _by_share(tree, heads)
    return iter(sorted(heads, key=_by_time))


def _by_time(head: Nominated) -> tuple[int, int, int]:
    return head.assignment.borrowing, -head.claim.priority, head.claim.created


def _by_share(tree: QuotaTree, heads: Sequence[H]) -> Iterator[H]:
    """Trees of cohorts do not influence each other."""
    trees: dict[QuotaNode, list[H]] = {}
    for head in heads:
        trees.setdefault(head.claim.queue.root, []).append(head)
    for root, its_heads in trees.items():
        if len(its_heads) == 1:
            yield from its_heads
        elif not root.cohorts:
            # Below a single cohort a queue's share depends on its own head alone, so one sort gives the order of all tournaments.
            yield from sorted(its_heads, key=lambda head: _ranks(tree, head)[0])
        else:
            yield from _Tournaments(tree, root, its_heads).winners()


def _ranks(tree: QuotaTree, head: Nominated) -> list[_Rank]:
    """With the head admitted, the share of its queue and of each cohort above but the root: its rank in the tournament of the
    parent of each."""
    queue, usage = head.claim.queue, head.assignment.usage
    for cell, amount in usage.items():
        queue.add_usage(cell, amount)
    nodes: list[QuotaNode] = [queue, *queue.ancestors()]
    shares = [share_of(tree, node) for node in nodes[:-1]]
    for cell, amount in usage.items():
        queue.remove_usage(cell, amount)
    return [(share, -head.claim.priority, head.claim.created) for share in shares]


class _Tournaments(Generic[H]):
    """The tournaments of one tree with nested cohorts. A head's ranks change only when a head below the same child of the root was
    admitted."""

    def __init__(self, tree: QuotaTree, root: QuotaNode, heads: Sequence[H]) -> None:
        self._tree, self._root = tree, root
        self._heads: dict[QuotaQueue, H] = {head.claim.queue: head for head in heads}
        self._known: dict[QuotaQueue, dict[QuotaNode, _Rank]] = {}

    def winners(self) -> Iterator[H]:
        while self._heads:
            winner = self._run(self._root)
            assert winner is not None
            queue = winner.claim.queue
            del self._heads[queue]
            yield winner
            top = _below(self._root, queue)
            self._known = {other: ranks for other, ranks in self._known.items() if _below(self._root, other) is not top}

    def _run(self, cohort: QuotaNode) -> H | None:
        candidates = [head for child in cohort.cohorts if (head := self._run(child)) is not None]
        candidates += [self._heads[queue] for queue in cohort.queues if queue in self._heads]
        return min(candidates, key=lambda head: self._rank(head, cohort), default=None)

    def _rank(self, head: H, cohort: QuotaNode) -> _Rank:
        queue = head.claim.queue
        if queue not in self._known:
            self._known[queue] = dict(zip(queue.ancestors(), _ranks(self._tree, head), strict=True))
        return self._known[queue][cohort]


def _below(root: QuotaNode, node: QuotaNode) -> QuotaNode:
    """The child of the root above a node, or the node itself."""
    while node.parent is not None and node.parent is not root:
        node = node.parent
    return node
