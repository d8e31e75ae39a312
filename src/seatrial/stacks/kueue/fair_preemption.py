"""Kueue's victims for a workload that needs quota, with fair sharing.

Facts (Kueue v0.16.1, pkg/scheduler/preemption/preemption.go, fairPreemptions, and its folder fairsharing):
- Candidates are those of the own queue and of queues of the whole cohort that borrow one of the cells in need.
- The queue with the largest share is looked at next, found from the root down; queues and cohorts that borrow nothing drop out.
- A victim of another queue is taken if the share of the workload's side, with the workload, is at most the share of the
  victim's side without the victim (LessThanOrEqualToFinalShare); the sides are the children of the lowest cohort that both have
  in common. If that does not suffice, the first victim of each queue whose side's share is larger than that of the workload's
  side (LessThanInitialShare). Both strategies, in this order, are what Kueue does where its configuration names none.
- Victims without whom the workload fits are spared at the end, whatever that does to shares: Kueue's issue 14543.
"""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.model.fleet import NEVER
from seatrial.stacks.kueue.dominant_share import BELOW_ALL, NOTHING, Share, share_of
from seatrial.stacks.kueue.quota_preemption import (
    BY_FAIR_SHARING,
    IN_QUEUE,
    QuotaNeed,
    Victim,
    held_by,
    put_back,
    spare,
)
from seatrial.stacks.kueue.quota_tree import QuotaClaim, QuotaNode, QuotaQueue


def fair_victims(need: QuotaNeed) -> list[Victim]:
    """The workloads to evict; empty if none would help."""
    candidates = need.sorted(_candidates(need))
    if not candidates:
        return []
    queue = need.claim.queue
    for cell, amount in need.requests.items():
        queue.add_usage(cell, amount)  # shares are those with the workload
    taken: list[Victim] = []
    retried: list[QuotaClaim] = []
    fits = _first_strategy(need, candidates, taken, retried) or _second_strategy(need, retried, taken)
    for cell, amount in need.requests.items():
        queue.remove_usage(cell, amount)
    if fits:
        taken = spare(need, taken, borrowing=True)
    put_back(taken)
    return taken if fits else []


def _candidates(need: QuotaNeed) -> list[QuotaClaim]:
    queue = need.claim.queue
    rules = queue.preemption
    found = held_by(queue, need, rules.within_queue) if rules.within_queue != NEVER else []
    if queue.parent is not None and rules.reclaim != NEVER:
        for other in _queues_below(queue.root):
            if other is not queue and any(other.usage[cell] > other.nominal[cell] for cell in need.cells):
                found += held_by(other, need, rules.reclaim)
    return found


def _queues_below(cohort: QuotaNode) -> Iterator[QuotaQueue]:
    yield from cohort.queues
    for child in cohort.cohorts:
        yield from _queues_below(child)


def _first_strategy(
    need: QuotaNeed, candidates: list[QuotaClaim], taken: list[Victim], retried: list[QuotaClaim]
) -> bool:
    order = _QueueOrder(need, candidates)
    while (queue := order.next()) is not None:
        waiting = order.waiting[queue]
        if queue is need.claim.queue:
            if order.take(waiting.pop(0), IN_QUEUE, taken):
                return True
            continue
        ours, theirs = order.sides(queue)
        share = share_of(need.tree, ours)
        while waiting:
            claim = waiting.pop(0)
            if share <= _share_without(need, theirs, claim):
                if order.take(claim, BY_FAIR_SHARING, taken):
                    return True
                break  # shares have changed: another queue may come first
            retried.append(claim)
    return False


def _second_strategy(need: QuotaNeed, candidates: list[QuotaClaim], taken: list[Victim]) -> bool:
    order = _QueueOrder(need, candidates)
    while (queue := order.next()) is not None:
        ours, theirs = order.sides(queue)
        smaller = share_of(need.tree, ours) < share_of(need.tree, theirs)
        if smaller and order.take(order.waiting[queue].pop(0), BY_FAIR_SHARING, taken):
            return True
        order.pruned.add(queue)
    return False


def _take(need: QuotaNeed, claim: QuotaClaim, reason: str, taken: list[Victim]) -> bool:
    """Removes a victim; returns whether the workload fits now."""
    claim.queue.drop(claim)
    taken.append(Victim(claim, reason))
    queue = need.claim.queue
    for cell, amount in need.requests.items():
        queue.remove_usage(cell, amount)
    fits = need.fits(borrowing=True)
    for cell, amount in need.requests.items():
        queue.add_usage(cell, amount)
    return fits


def _share_without(need: QuotaNeed, side: QuotaNode, claim: QuotaClaim) -> Share:
    for cell, amount in claim.usage.items():
        claim.queue.remove_usage(cell, amount)
    share = share_of(need.tree, side)
    for cell, amount in claim.usage.items():
        claim.queue.add_usage(cell, amount)
    return share


class _QueueOrder:
    """The order of queues whose candidates are tried. The caller takes a candidate of it, or prunes it, before it asks again."""

    def __init__(self, need: QuotaNeed, candidates: list[QuotaClaim]) -> None:
        self._need, self._queue = need, need.claim.queue
        self._ancestors = set(self._queue.ancestors())
        self.waiting: dict[QuotaQueue, list[QuotaClaim]] = {}
        self.pruned: set[QuotaNode] = set()
        for claim in candidates:
            self.waiting.setdefault(claim.queue, []).append(claim)
        self._queues: dict[QuotaNode | None, list[QuotaQueue]] = {}  # cohort → its queues with candidates
        for queue in self.waiting:
            self._queues.setdefault(queue.parent, []).append(queue)
        self._shares: dict[QuotaNode, Share] = {}  # as long as nobody of the node is taken

    def take(self, claim: QuotaClaim, reason: str, taken: list[Victim]) -> bool:
        """Removes a victim; returns whether the workload fits now."""
        self._shares.pop(claim.queue, None)
        for cohort in claim.queue.ancestors():
            self._shares.pop(cohort, None)
        return _take(self._need, claim, reason, taken)

    def _share(self, node: QuotaNode) -> Share:
        share = self._shares.get(node)
        if share is None:
            share = self._shares[node] = share_of(self._need.tree, node)
        return share

    def next(self) -> QuotaQueue | None:
        """None: there is nobody left."""
        if self._queue.parent is None:
            return self._queue if self.waiting.get(self._queue) and self._queue not in self.pruned else None
        root = self._queue.root
        while root not in self.pruned:
            found = self._below(root)
            if found is not None:
                return found
        return None

    def _below(self, cohort: QuotaNode) -> QuotaQueue | None:
        """None: only pruned this time."""
        queue, queue_share = self._largest_queue(cohort)
        child, child_share = self._largest_cohort(cohort)
        if queue is None and child is None:
            self.pruned.add(cohort)
            return None
        if child is not None and child_share >= queue_share:
            return self._below(child)
        return queue

    def _largest_queue(self, cohort: QuotaNode) -> tuple[QuotaQueue | None, Share]:
        best, largest = None, BELOW_ALL
        for queue in self._queues.get(cohort, ()):
            if queue in self.pruned:
                continue
            share = self._share(queue)
            if not self.waiting.get(queue) or (share == NOTHING and queue is not self._queue):
                self.pruned.add(queue)
            elif share > largest or (
                best is not None
                and share == largest
                and self._need.place(self.waiting[queue][0]) < self._need.place(self.waiting[best][0])
            ):
                best, largest = queue, share
        return best, largest

    def _largest_cohort(self, cohort: QuotaNode) -> tuple[QuotaNode | None, Share]:
        best, largest = None, BELOW_ALL
        for child in cohort.cohorts:
            if child in self.pruned:
                continue
            share = self._share(child)
            if share == NOTHING and child not in self._ancestors:
                self.pruned.add(child)
            elif share >= largest:
                best, largest = child, share
        return best, largest

    def sides(self, queue: QuotaQueue) -> tuple[QuotaNode, QuotaNode]:
        """The children of the lowest common cohort: the one with the workload's queue, the one with the other queue."""
        theirs: QuotaNode = queue
        while theirs.parent is not None and theirs.parent not in self._ancestors:
            theirs = theirs.parent
        ours: QuotaNode = self._queue
        while ours.parent is not theirs.parent and ours.parent is not None:
            ours = ours.parent
        return ours, theirs
