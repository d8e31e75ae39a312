"""KAI's queues for a fleet: a parent per cohort, and a leaf per queue below it.

A leaf may use its quota, and beyond that what its parent has left, by weight; a limit ends that. Nothing is above the parents, so
what a cohort lends stays in it: a parent's limit is its quota. A queue without a cohort has a parent of its own and no more than
its quota. A resource that no quota names is not limited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from seatrial.model.fleet import Cohort, FlavorQuota, Fleet, Queue, nominal

RESOURCES = ("cpu", "memory", "nvidia.com/gpu")  # those that a queue counts
UNLIMITED = -1
Amount = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class KaiQueue:
    """One queue, parent or leaf. Amounts are those of RESOURCES, in our units; UNLIMITED is none."""

    name: str  # of the queue or cohort in the scenario
    parent: str  # key of its parent; empty: it is one
    quota: Amount
    limit: Amount
    weight: float = 1.0

    @property
    def key(self) -> str:
        """Unique among leaves and parents: names of queues have no dots."""
        return self.name if self.parent else f"{self.name}.parent"


EVERYTHING = dict.fromkeys(RESOURCES, UNLIMITED)
ONLY = "queue"  # the leaf of a trial without queues


def kai_queues(fleet: Fleet) -> Sequence[KaiQueue]:
    """Parents first. Without queues, one leaf that all nodes are for."""
    if not fleet.queues:
        parent = KaiQueue(ONLY, "", EVERYTHING, EVERYTHING)
        return (parent, KaiQueue(ONLY, parent.key, EVERYTHING, EVERYTHING))
    cohorts = {cohort.name: cohort for cohort in fleet.cohorts}
    parents: dict[str, KaiQueue] = {}
    for queue in fleet.queues:
        name = queue.cohort or queue.name
        members = [one for one in fleet.queues if one.cohort == queue.cohort] if queue.cohort else [queue]
        parents.setdefault(name, _parent(name, members, cohorts.get(queue.cohort)))
    leaves = [_leaf(queue, parents[queue.cohort or queue.name].key) for queue in fleet.queues]
    return (*parents.values(), *leaves)


def _parent(name: str, members: Sequence[Queue], cohort: Cohort | None) -> KaiQueue:
    quotas = [_quota(member.quotas) for member in members]
    own = nominal(cohort.quotas) if cohort else {}
    total = {
        resource: UNLIMITED if UNLIMITED in amounts else sum(amounts) + own.get(resource, 0)
        for resource in RESOURCES
        for amounts in [[quota[resource] for quota in quotas]]
    }
    return KaiQueue(name, "", total, total, cohort.weight if cohort else 1.0)


def _leaf(queue: Queue, parent: str) -> KaiQueue:
    quota = _quota(queue.quotas)
    limit = {resource: _limit(queue, resource, quota[resource]) for resource in RESOURCES}
    return KaiQueue(queue.name, parent, quota, limit, queue.weight)


def _quota(quotas: Iterable[FlavorQuota]) -> dict[str, int]:
    named = nominal(quotas)
    return {resource: named.get(resource, UNLIMITED) for resource in RESOURCES}


def _limit(queue: Queue, resource: str, quota: int) -> int:
    if quota == UNLIMITED:
        return UNLIMITED
    if not queue.cohort:
        return quota
    borrow = [flavor.borrow.get(resource) for flavor in queue.quotas]
    return UNLIMITED if None in borrow else quota + sum(amount for amount in borrow if amount is not None)
