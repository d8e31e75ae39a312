"""Volcano's queues for a fleet, as the plugin `capacity` reads them: what a queue deserves, and its capability.

Volcano v1.10 has one level of queues, and all of them share the nodes: what one does not use any other may, up to its capability.
A quota is what a queue deserves. A queue with a cohort may borrow, so its capability is quota and `borrow`; without a cohort it is
the quota. A resource that no quota names is deserved without limit: else Volcano would take a queue that uses any of it for one
that uses more than it deserves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from seatrial.model.fleet import NEVER, Fleet, Queue, nominal

ONLY = "default"  # the queue that Volcano makes itself


@dataclass(frozen=True, slots=True)
class VolcanoQueue:
    """A Queue's spec. A resource that `capability` does not name is not limited."""

    name: str
    deserved: Mapping[str, int] = field(default_factory=dict)
    capability: Mapping[str, int] = field(default_factory=dict)
    weight: int = 1
    reclaimable: bool = True


def volcano_queues(fleet: Fleet, capacity: Mapping[str, int]) -> Sequence[VolcanoQueue]:
    """The queues on nodes of this capacity together; without a fleet, Volcano's own."""
    if not fleet.queues:
        return (VolcanoQueue(ONLY),)
    in_all: dict[str, int] = {}
    for queue in fleet.queues:
        for name, amount in nominal(queue.quotas).items():
            in_all[name] = in_all.get(name, 0) + amount
    return [
        VolcanoQueue(
            queue.name,
            {**{name: amount for name, amount in capacity.items() if name != "pods"}, **nominal(queue.quotas)},
            _capability(queue, in_all),
            reclaimable=fleet.preemption.reclaim != NEVER,
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
