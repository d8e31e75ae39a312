"""YuniKorn's queues for a fleet: a parent per cohort, and a leaf per queue below it.

A leaf is guaranteed its quota and may use what its parents have left, up to a borrowing limit. Nothing is above a topmost parent,
so what a cohort lends stays in it: a parent's maximum is the sum of its quotas. A queue without a cohort is below the root, and
has no more than its quota. A resource that no quota names is not limited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seatrial.model.fleet import ANY, Fleet, Queue, nominal

ROOT = "root"
ONLY = "default"  # the leaf of a trial without queues
Amount = Mapping[str, int]
NO_LIMIT: Amount = {}


@dataclass(frozen=True, slots=True)
class YunikornQueue:
    """One queue below the root. Amounts have our units; a resource that is not named is not limited, or not guaranteed."""

    name: str
    parent: str  # path
    leaf: bool
    guaranteed: Amount
    most: Amount
    fenced: bool = False  # priority.policy: fence

    @property
    def path(self) -> str:
        """Its name in YuniKorn, and in the label of pods."""
        return f"{self.parent}.{self.name}"


def yunikorn_queues(fleet: Fleet) -> Sequence[YunikornQueue]:
    """Parents first. Without queues, one leaf that all nodes are for. Where any workload may be evicted for a quota (`reclaim:
    any`), priorities end at the queue (fence), or YuniKorn would spare those of a higher priority."""
    if not fleet.queues:
        return (YunikornQueue(ONLY, ROOT, True, NO_LIMIT, NO_LIMIT),)
    parents = {cohort.name: cohort.parent for cohort in fleet.cohorts}
    parents.update({queue.cohort: "" for queue in fleet.queues if queue.cohort and queue.cohort not in parents})
    parents.update({name: "" for name in list(parents.values()) if name and name not in parents})
    fenced = fleet.preemption.reclaim == ANY
    made: dict[str, YunikornQueue] = {}
    for name in sorted(parents, key=lambda name: len(path_of(name, parents))):
        above = path_of(parents[name], parents)
        made[name] = YunikornQueue(parent_name(name), above, False, NO_LIMIT, _total(fleet, name, parents), fenced)
    leaves = [_leaf(queue, path_of(queue.cohort, parents), fenced) for queue in fleet.queues]
    return (*made.values(), *leaves)


def parent_name(cohort: str) -> str:
    """A cohort and a queue may have one name; their queues may not. Names in scenarios have no underscore."""
    return f"cohort_{cohort}"


def path_of(cohort: str, parents: Mapping[str, str]) -> str:
    """The path of the cohort's queue."""
    names: list[str] = []
    while cohort and cohort not in names:
        names.append(cohort)
        cohort = parents.get(cohort, "")
    return ".".join((ROOT, *(parent_name(name) for name in reversed(names))))


def _below(name: str, parents: Mapping[str, str]) -> set[str]:
    found = {name}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _total(fleet: Fleet, name: str, parents: Mapping[str, str]) -> dict[str, int]:
    """What the cohort's queues and those of cohorts below it have together, with quotas of the cohorts themselves. A resource that
    one of the queues has without limit is not limited."""
    inside = _below(name, parents)
    members = [nominal(queue.quotas) for queue in fleet.queues if queue.cohort in inside]
    named = {resource for quota in members for resource in quota}
    limited = {resource for resource in named if all(resource in quota for quota in members)}
    owned = [nominal(cohort.quotas) for cohort in fleet.cohorts if cohort.name in inside]
    return {resource: sum(quota.get(resource, 0) for quota in (*members, *owned)) for resource in sorted(limited)}


def _leaf(queue: Queue, parent: str, fenced: bool) -> YunikornQueue:
    quota = nominal(queue.quotas)
    if not queue.cohort:
        return YunikornQueue(queue.name, parent, True, quota, quota, fenced)
    most = {}
    for resource, amount in quota.items():
        borrow = [flavor.borrow.get(resource) for flavor in queue.quotas]
        if None not in borrow:
            most[resource] = amount + sum(limit for limit in borrow if limit is not None)
    return YunikornQueue(queue.name, parent, True, quota, most, fenced)
