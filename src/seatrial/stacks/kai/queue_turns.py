"""Whose turn it is: KAI's order of parents, of leaves below them, and of PodGroups in a leaf (v0.12.0).

JobsOrderByQueues (pkg/scheduler/actions/utils/job_order_by_queue.go) has a heap of parents, one of leaves per parent, and one of
PodGroups per leaf; after a pop only the first of a heap is put right, as here. Queues are compared by what they would have with
their next PodGroup (plugins/proportion/queue_order/queue_order.go); victims are taken in the reverse of that order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from random import Random

from seatrial.stacks.kai.job_lines import AlikeJobs, JobLine, VictimLine, line_up
from seatrial.stacks.kai.kai_session import KaiJob
from seatrial.stacks.kai.queue_shares import KINDS, Amounts3, QueueShare, ShareTree, Standing, added, at_most

Turn = tuple[str, AlikeJobs | None]  # whose turn it is: a leaf, and those that its group is one of


class _Turn:
    """A queue in a heap; `before` is asked again at each comparison, because shares change."""

    __slots__ = ("before", "queue")

    def __init__(self, queue: QueueShare, before: Callable[[QueueShare, QueueShare], bool]) -> None:
        self.queue, self.before = queue, before

    def __lt__(self, other: _Turn) -> bool:
        return self.before(self.queue, other.queue)


class QueueTurns:
    """The PodGroups of a session, one after another, of lines by leaf; of `VictimLine`s in reverse."""

    def __init__(
        self, tree: ShareTree, lines: Mapping[str, JobLine] | Mapping[str, VictimLine], random: Random
    ) -> None:
        self._tree, self._random = tree, random
        self._lines: dict[str, JobLine | VictimLine] = {key: line for key, line in lines.items() if line}
        self._victims = any(isinstance(line, VictimLine) for line in self._lines.values())
        self._popped: dict[str, list[KaiJob]] = {}
        self._leaves: dict[str, list[_Turn]] = {}
        self._drew = False  # the last turn was decided by chance
        self._turn: Turn = ("", None)
        self._passed: Turn = ("", None)  # the last turn, if nothing came of it
        self._before_that: Turn = ("", None)
        for key in self._lines:
            leaf = tree.queues[key]
            self._leaves.setdefault(leaf.parent, []).append(_Turn(leaf, self._leaf_before))
        for turns in self._leaves.values():
            heapify(turns)
        self._parents = [_Turn(tree.queues[key], self._parent_before) for key in self._leaves]
        heapify(self._parents)

    def __bool__(self) -> bool:
        return bool(self._parents)

    def pop(self) -> KaiJob:
        """The next PodGroup."""
        self._drew = False
        parents = self._parents
        if len(parents) > 1:
            heapreplace(parents, parents[0])
        leaves = self._leaves[parents[0].queue.key]
        if len(leaves) > 1:
            heapreplace(leaves, leaves[0])
        leaf = leaves[0].queue.key
        line = self._lines[leaf]
        job = line.pop()
        self._before_that, self._passed = self._passed, ("", None)
        self._turn = leaf, line.last
        if self._victims:
            self._popped.setdefault(leaf, []).append(job)
        self._close(leaf)
        return job

    def pass_over(self) -> bool:
        """Nothing came of the last turn, and nothing will of others like it until something changes: they have their turns at once.
        Among several leaves only those that come next, once the same leaf was first twice; whether all of them had it."""
        leaf, alike = self._turn
        line = self._lines.get(leaf)
        again = self._turn == self._before_that and not self._drew
        self._passed = self._turn
        if alike is None or not isinstance(line, JobLine):
            return False
        alone = len(self._parents) == len(self._leaves[self._parents[0].queue.key]) == 1
        if alone:
            line.drop(alike)
        elif again:
            line.drop_run(alike)
        self._close(leaf)
        return alone

    def _close(self, leaf: str) -> None:
        """The leaf, which is first, is out if nobody is left in it."""
        if self._lines[leaf]:
            return
        del self._lines[leaf]
        leaves = self._leaves[self._parents[0].queue.key]
        heappop(leaves)
        if not leaves:
            del self._leaves[self._parents[0].queue.key]
            heappop(self._parents)

    def push(self, job: KaiJob) -> None:
        """A PodGroup that has more pods."""
        leaf = self._tree.queues[job.queue]
        new = leaf.parent not in self._leaves
        if new:
            self._leaves[leaf.parent] = []
        line = self._lines.get(leaf.key)
        if line is None:
            self._lines.update(line_up([job]))
            heappush(self._leaves[leaf.parent], _Turn(leaf, self._leaf_before))
        elif isinstance(line, JobLine):
            line.push(job)
        if new:
            heappush(self._parents, _Turn(self._tree.queues[leaf.parent], self._parent_before))

    def _next(self, leaf: QueueShare) -> tuple[KaiJob | None, Sequence[KaiJob]]:
        head = self._lines[leaf.key].head
        if self._victims:
            return None, (*self._popped.get(leaf.key, ()), head)
        return head, ()

    def _standing(self, queue: QueueShare, leaf: QueueShare) -> Standing:
        """That of groups in one line is the same until something is placed or evicted."""
        job, victims = self._next(leaf)
        alike = job.alike if job is not None and job.alike is not None and job.alike.waits(job) else None
        if alike is None:
            return standing(self._tree.total, queue, job, victims)
        known = self._tree.standings.get(queue.key)
        if known is None or known[0] != queue.version or known[1] is not alike:
            found = standing(self._tree.total, queue, job, victims)
            known = self._tree.standings[queue.key] = (queue.version, alike, found)
        return known[2]

    def _leaf_before(self, left: QueueShare, right: QueueShare) -> bool:
        return self._before(left, right, left, right)

    def _parent_before(self, left: QueueShare, right: QueueShare) -> bool:
        return self._before(left, right, self._leaves[left.key][0].queue, self._leaves[right.key][0].queue)

    def _before(self, left: QueueShare, right: QueueShare, left_leaf: QueueShare, right_leaf: QueueShare) -> bool:
        if left is right or left_leaf.key not in self._lines or right_leaf.key not in self._lines:
            return False
        order = queue_order(left, right, self._standing(left, left_leaf), self._standing(right, right_leaf))
        if not order:  # those made in the same second come in the order of a Go map, which has none
            self._drew = True
            order = self._random.choice((-1, 1))
        return (order > 0) if self._victims else (order < 0)


def standing(total: Amounts3, queue: QueueShare, job: KaiJob | None, victims: Sequence[KaiJob]) -> Standing:
    """What GetQueueOrderResult (queue_order.go:24) compares, one after another; the smaller comes first."""
    over = all(fair < used for fair, used in zip(queue.fair, queue.allocated, strict=True))
    with_job = added(queue.allocated, job.asks()) if job else queue.allocated
    return (
        over,
        not at_most(with_job, queue.quota),
        _uses_without_share(queue, with_job),
        queue.dominant(_without(with_job, victims), total),
        queue.dominant(queue.allocated, total),
    )


def queue_order(left: QueueShare, right: QueueShare, left_stands: Standing, right_stands: Standing) -> int:
    """Negative if `left` comes first; of equal ones, that which may use less."""
    if left_stands != right_stands:
        return -1 if left_stands < right_stands else 1
    may = left.allocatable(), right.allocatable()
    less = at_most(may[0], may[1]), at_most(may[1], may[0])
    return 0 if less[0] == less[1] else -1 if less[0] else 1


def _uses_without_share(queue: QueueShare, used: Amounts3) -> bool:
    """penalizeZeroShareWithJob (queue_order.go:137)."""
    may = queue.allocatable()
    return any(may[kind] == 0 and used[kind] > 0 for kind in KINDS)


def _without(amounts: Amounts3, victims: Sequence[KaiJob]) -> Amounts3:
    left = list(amounts)
    for victim in victims:
        for kind in KINDS:
            left[kind] -= victim.amounts[kind] * victim.active
    return left
