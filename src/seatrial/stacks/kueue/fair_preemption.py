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

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush, heapreplace

from seatrial.model.fleet import ANY, NEVER
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

_Place = tuple[bool, bool, int, int, float]  # of a candidate (QuotaNeed.place)
_Ranked = tuple[int, float, _Place, int, QuotaQueue]  # a queue with candidates, as it sorts
_Waiting = Mapping[QuotaQueue, Sequence[QuotaClaim]]  # candidates by queue, each in Kueue's order
_Order = Mapping[QuotaNode | None, list[_Ranked]]  # by cohort, sorted


def fair_victims(need: QuotaNeed) -> list[Victim]:
    """The workloads to evict; empty if none would help."""
    queue = need.claim.queue
    rules = queue.preemption
    own = need.sorted(held_by(queue, need, rules.within_queue)) if rules.within_queue != NEVER else []
    others, order = _of_others(need)
    if not own and len(others) == (queue in others):
        return []
    for cell, amount in need.requests.items():
        queue.add_usage(cell, amount)  # shares are those with the workload
    taken: list[Victim] = []
    retried: dict[QuotaQueue, list[QuotaClaim]] = {}
    first = _QueueOrder(need, {**others, queue: own}, order)
    fits = _first_strategy(need, first, taken, retried) or _second_strategy(need, retried, taken)
    for cell, amount in need.requests.items():
        queue.remove_usage(cell, amount)
    if fits:
        taken = spare(need, taken, borrowing=True)
    put_back(taken)
    return taken if fits else []


def _of_others(need: QuotaNeed) -> tuple[_Waiting, _Order]:
    """The candidates of all queues of the tree that borrow, the own one included, and these queues in order. They are the same for
    many heads of a cycle, and to list them for each took most of the time where a cohort has a thousand queues."""
    claim = need.claim
    policy, root = claim.queue.preemption.reclaim, claim.queue.root
    if claim.queue.parent is None or policy == NEVER:
        return {}, {}
    known = need.tree.listed if need.tree.listed is not None else {}
    key = (root, policy, None if policy == ANY else (claim.priority, claim.created), frozenset(need.cells))
    if key not in known:
        over = (
            queue
            for queue in _queues_below(root)
            if any(queue.usage[cell] > queue.nominal[cell] for cell in need.cells)
        )
        waiting = {queue: sorted(found, key=_place) for queue in over if (found := held_by(queue, need, policy))}
        known[key] = waiting, _ordered(need, waiting)
    found_before: tuple[_Waiting, _Order] = known[key]
    return found_before


def _place(claim: QuotaClaim) -> _Place:
    """The sort key of another queue's candidate (QuotaNeed.place)."""
    return not claim.evicted, False, claim.priority, -claim.reserved, claim.uid


def _ordered(need: QuotaNeed, waiting: _Waiting) -> _Order:
    """Queues with candidates, by cohort."""
    order: dict[QuotaNode | None, list[_Ranked]] = {}
    for number, (queue, claims) in enumerate(waiting.items()):
        order.setdefault(queue.parent, []).append(_rank(share_of(need.tree, queue), _place(claims[0]), number, queue))
    for ranked in order.values():
        ranked.sort()
    return order


def _rank(share: Share, place: _Place, number: int, queue: QuotaQueue) -> _Ranked:
    """The largest share comes first, then whose first candidate comes first."""
    return -share[0], -share[1], place, number, queue


def _queues_below(cohort: QuotaNode) -> Iterator[QuotaQueue]:
    yield from cohort.queues
    for child in cohort.cohorts:
        yield from _queues_below(child)


def _first_strategy(
    need: QuotaNeed, order: _QueueOrder, taken: list[Victim], retried: dict[QuotaQueue, list[QuotaClaim]]
) -> bool:
    while (queue := order.next()) is not None:
        if queue is need.claim.queue:
            if order.take(order.pop(queue), IN_QUEUE, taken):
                return True
            continue
        ours, theirs = order.sides(queue)
        share = share_of(need.tree, ours)
        if order.ends_at(share > share_of(need.tree, theirs)):
            return False
        while order.has_more(queue):
            claim = order.pop(queue)
            if share <= _share_without(need, theirs, claim):
                if order.take(claim, BY_FAIR_SHARING, taken):
                    return True
                break  # shares have changed: another queue may come first
            retried.setdefault(queue, []).append(claim)
    return False


def _second_strategy(need: QuotaNeed, retried: _Waiting, taken: list[Victim]) -> bool:
    order = _QueueOrder(need, retried, _ordered(need, retried))
    while (queue := order.next()) is not None:
        ours, theirs = order.sides(queue)
        smaller = share_of(need.tree, ours) < share_of(need.tree, theirs)
        if smaller and order.take(order.pop(queue), BY_FAIR_SHARING, taken):
            return True
        if order.ends_at(not smaller):
            return False
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

    def __init__(self, need: QuotaNeed, waiting: _Waiting, order: _Order) -> None:
        self._need, self._queue = need, need.claim.queue
        self._ancestors = set(self._queue.ancestors())
        self._waiting, self._order = waiting, order
        self._gone: dict[QuotaQueue, int] = {}  # how many of its candidates had their turn
        self.pruned: set[QuotaNode] = set()
        self._shares: dict[QuotaNode, Share] = {}  # as long as nobody of the node is taken
        self._heaps: dict[QuotaNode, list[_Ranked]] = {}  # cohort → its queues with candidates
        self._asked: set[QuotaQueue] = set()  # queues that came first, and have changed since

    def ends_at(self, larger: bool) -> bool:
        """Whether nobody is left to take: the queue that comes first has a smaller share than the own one (`larger`), and below a
        single cohort the others' are smaller yet."""
        return larger and not self._queue.root.cohorts

    def has_more(self, queue: QuotaQueue) -> bool:
        """Whether a candidate of the queue is left."""
        return self._gone.get(queue, 0) < len(self._waiting.get(queue, ()))

    def pop(self, queue: QuotaQueue) -> QuotaClaim:
        """The next candidate of the queue."""
        gone = self._gone.get(queue, 0)
        self._gone[queue] = gone + 1
        return self._waiting[queue][gone]

    def take(self, claim: QuotaClaim, reason: str, taken: list[Victim]) -> bool:
        """Removes a victim; returns whether the workload fits now."""
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
            return self._queue if self.has_more(self._queue) and self._queue not in self.pruned else None
        root = self._queue.root
        while root not in self.pruned:
            found = self._below(root)
            if found is not None:
                self._asked.add(found)
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

    def _heap(self, cohort: QuotaNode) -> list[_Ranked]:
        heap = self._heaps.get(cohort)
        if heap is None:
            own = self._queue
            heap = self._heaps[cohort] = [ranked for ranked in self._order.get(cohort, ()) if ranked[-1] is not own]
            if cohort is own.parent and self.has_more(own):
                heappush(heap, self._ranked(own, -1))
        return heap

    def _largest_queue(self, cohort: QuotaNode) -> tuple[QuotaQueue | None, Share]:
        """The first of the cohort's heap. Only a queue that came first can have changed, and it is still the first there."""
        heap = self._heap(cohort)
        while heap:
            flag, share, _, number, queue = heap[0]
            if queue in self.pruned or not self.has_more(queue):
                heappop(heap)
            elif queue in self._asked:
                self._asked.remove(queue)
                heapreplace(heap, self._ranked(queue, number))
            elif (-flag, -share) == NOTHING and queue is not self._queue:
                heappop(heap)
            else:
                return queue, (-flag, -share)
        return None, BELOW_ALL

    def _ranked(self, queue: QuotaQueue, number: int) -> _Ranked:
        first = self._waiting[queue][self._gone.get(queue, 0)]
        return _rank(share_of(self._need.tree, queue), self._need.place(first), number, queue)

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
