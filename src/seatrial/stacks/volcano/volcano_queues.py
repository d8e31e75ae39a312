"""Volcano's queues for a fleet: what a queue deserves, its capability, its guarantee, and its weight.

Volcano v1.10 has one level of queues, and all of them share the nodes: what one does not use any other may, up to its capability.
A quota is what a queue deserves (plugin `capacity`; `proportion` divides by weight instead). A queue with a cohort may borrow, so
its capability is quota and `borrow`. What it does not lend it is guaranteed: the others' capability is without it. A queue without
a cohort neither borrows nor lends. Cores and memory that no quota names are deserved without limit: else Volcano would take a queue
that uses any of it for one that uses more than it deserves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from seatrial.model.fleet import NEVER, Fleet, Queue, nominal

FRACTIONS = 1000  # weights are whole numbers
ONLY = "default"  # the queue that Volcano makes itself


@dataclass(frozen=True, slots=True)
class VolcanoQueue:
    """A Queue's spec. A resource that `capability` does not name is not limited."""

    name: str
    deserved: Mapping[str, int] = field(default_factory=dict)
    capability: Mapping[str, int] = field(default_factory=dict)
    guarantee: Mapping[str, int] = field(default_factory=dict)
    weight: int = 1
    reclaimable: bool = True


def volcano_queues(fleet: Fleet, capacity: Mapping[str, int]) -> Sequence[VolcanoQueue]:
    """The queues on nodes of this capacity together; without a fleet, Volcano's own. Capability and quotas are of one cohort."""
    if not fleet.queues:
        return (VolcanoQueue(ONLY),)
    in_all: dict[str, int] = {}
    for queue in fleet.queues:
        for name, amount in nominal(queue.quotas).items() if queue.cohort else ():
            in_all[name] = in_all.get(name, 0) + amount
    unnamed = {name: capacity[name] for name in ("cpu", "memory") if name in capacity}
    whole = all(queue.weight == int(queue.weight) for queue in fleet.queues)
    return [
        VolcanoQueue(
            queue.name,
            {**unnamed, **nominal(queue.quotas)},
            _capability(queue, in_all),
            _guarantee(queue),
            max(round(queue.weight * (1 if whole else FRACTIONS)), 1),
            fleet.preemption.reclaim != NEVER,
        )
        for queue in fleet.queues
    ]


def _capability(queue: Queue, in_all: Mapping[str, int]) -> dict[str, int]:
    """Quota and what may be borrowed: at most what the queues have together."""
    found = {}
    for name, amount in nominal(queue.quotas).items():
        limits = [flavor.borrow.get(name) for flavor in queue.quotas]
        if not queue.cohort:
            found[name] = amount
        elif None in limits:
            found[name] = in_all[name]
        else:
            found[name] = min(amount + sum(limit for limit in limits if limit is not None), in_all[name])
    return found


def _guarantee(queue: Queue) -> dict[str, int]:
    """The quota that the queue does not lend."""
    found = {}
    for name, amount in nominal(queue.quotas).items():
        limits = [flavor.lend.get(name) for flavor in queue.quotas]
        lends = amount if None in limits else sum(limit for limit in limits if limit is not None)
        kept = amount - (min(lends, amount) if queue.cohort else 0)
        if kept:
            found[name] = kept
    return found
