"""When KAI takes from one queue for another: plugins/proportion/reclaimable (v0.12.0).

A queue may ask for what its fair share still has. It gets that from queues that use more than they are entitled to, or, while it is
below its quota itself, from those above their quota; and afterwards no queue that gave may be less saturated than the one that got.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from seatrial.stacks.kai.queue_shares import KINDS, Amounts3, QueueShare, ShareTree, added, at_most
from seatrial.stacks.kai.queue_tree import UNLIMITED

Used = Mapping[str, Amounts3]  # queue → what it has allocated


def may_reclaim(tree: ShareTree, key: str, asked: Amounts3, firm: bool) -> bool:
    """CanReclaimResources (reclaimable.go:31)."""
    queue = tree.queues[key]
    if not at_most(added(queue.allocated, asked), queue.fair):
        return False
    return not firm or at_most(added(queue.firm, asked), queue.quota)


def reclaimable(
    tree: ShareTree, used: Used, key: str, asked: Amounts3, firm: bool, taken: Mapping[str, Sequence[Amounts3]]
) -> bool:
    """Whether the leaf may have `asked` while victims give what is `taken` from their leaves. `used`: before anything was taken
    (Reclaimable, reclaimable.go:60)."""
    left: dict[str, list[float]] = {}
    involved: dict[str, set[int]] = {}
    for victim, parts in taken.items():
        reclaimer, reclaimee = _levelled(tree, key, victim)
        kinds = {kind for part in parts for kind in KINDS if part[kind] > 0}
        for part in parts:
            remaining = left.setdefault(reclaimee.key, list(used[reclaimee.key]))
            if not _fits_a_strategy(reclaimer, used[reclaimer.key], asked, reclaimee, remaining):
                return False
            for queue in tree.path(victim):
                kept = left.setdefault(queue.key, list(used[queue.key]))
                for kind in KINDS:
                    kept[kind] -= part[kind]
                involved.setdefault(queue.key, set()).update(kinds)
    return _within_bounds(tree, used, key, asked, firm, left, involved)


def _levelled(tree: ShareTree, key: str, victim: str) -> tuple[QueueShare, QueueShare]:
    """The two queues to compare: the highest of both paths that differ (:233)."""
    left, right = tree.path(key)[::-1], tree.path(victim)[::-1]
    pairs = list(zip(left, right, strict=False))
    return next((pair for pair in pairs if pair[0] is not pair[1]), pairs[-1])


def _fits_a_strategy(
    reclaimer: QueueShare, has: Amounts3, asked: Amounts3, reclaimee: QueueShare, left: Amounts3
) -> bool:
    """strategies/strategies.go: MaintainFairShare, or GuaranteeDeservedQuota."""
    if not at_most(left, reclaimee.allocatable()):
        return True
    return at_most(added(has, asked), reclaimer.quota) and not at_most(left, reclaimee.quota)


def _within_bounds(
    tree: ShareTree,
    used: Used,
    key: str,
    asked: Amounts3,
    firm: bool,
    left: Mapping[str, Amounts3],
    involved: Mapping[str, set[int]],
) -> bool:
    """reclaimingQueuesRemainWithinBoundaries (:146)."""
    wanted = {kind for kind in KINDS if asked[kind] > 0}
    for queue in tree.path(key):
        has = added(left.get(queue.key, used[queue.key]), asked)
        for name, remaining in left.items():
            sibling = tree.queues[name]
            if sibling.parent != queue.parent or sibling is queue:
                continue
            if not all(
                _stays_lower(has[kind], queue.fair[kind], remaining[kind], sibling.fair[kind])
                for kind in involved[name] | wanted
            ):
                return False
        if firm and not at_most(added(queue.firm, asked), queue.quota):
            return False
    return True


def _stays_lower(has: float, fair: float, sibling_has: float, sibling_fair: float) -> bool:
    """isFairShareSaturationLowerPerResource (:195), with the shipped saturation multiplier of 1."""
    if fair == sibling_fair == UNLIMITED:
        return True
    ratio = _saturation(has, fair)
    return not (ratio > 1 and sibling_fair > 0 and ratio >= _saturation(sibling_has, sibling_fair))


def _saturation(allocated: float, fair: float) -> float:
    if fair == 0:
        return math.inf if allocated > 0 else 0.0
    return 0.0 if fair == UNLIMITED else allocated / fair
