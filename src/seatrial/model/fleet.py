"""A shared fleet: queues with quotas, cohorts that lend, flavors of nodes, rules of preemption, and why a workload is evicted.

A scenario's `queues`, `flavors` and `preemption` become a `Fleet` of each set-up. Words are close to Kueue's; a stack maps them to
its own objects, or refuses what it cannot honour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

# Why a workload lost its place. The words of figures and tables; a stack's own reason is the message of the eviction.
PREEMPTED = "preempted"  # for a workload of a higher priority: in its queue, or by kube-scheduler
RECLAIMED = "reclaimed"  # a queue of the cohort took its own quota back
FAIR_SHARING = "fair-sharing"  # for a queue with a smaller share
TIMED_OUT = "timed-out"  # its pods did not run in time
NODE_GONE = "node-gone"
OTHER = "other"
REASONS = (PREEMPTED, RECLAIMED, FAIR_SHARING, TIMED_OUT, NODE_GONE, OTHER)

NEVER, ANY, LOWER, LOWER_OR_NEWER = "never", "any", "lower-priority", "lower-or-newer-equal-priority"


@dataclass(frozen=True, slots=True)
class Flavor:
    """One kind of nodes with its own quotas: those of a node group; all nodes if `nodes` is empty."""

    name: str
    nodes: str = ""


@dataclass(frozen=True, slots=True)
class FlavorQuota:
    """The quota of a queue or a cohort in one flavor.

    `borrow`, `lend`: resource → how much at most beyond the nominal quota, or of it; a resource that is not named has no limit.
    """

    flavor: str
    nominal: Mapping[str, int]
    borrow: Mapping[str, int] = field(default_factory=dict)
    lend: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Queue:
    """A team's place in a stack. `quotas` are in the order in which flavors are tried."""

    name: str
    quotas: tuple[FlavorQuota, ...]
    cohort: str = ""
    weight: float = 1.0  # of its share in fair sharing
    borrows_first: bool = True  # borrows in a flavor before it tries the next one (whenCanBorrow)
    preempts_first: bool = False  # preempts in a flavor before it tries the next one (whenCanPreempt)


@dataclass(frozen=True, slots=True)
class Cohort:
    """Queues that lend each other what they do not use; it may have a quota and a parent of its own."""

    name: str
    parent: str = ""
    quotas: tuple[FlavorQuota, ...] = ()
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Preemption:
    """The rules of preemption. Kueue's defaults: nobody."""

    within_queue: str = NEVER  # never, lower-priority, lower-or-newer-equal-priority
    reclaim: str = NEVER  # of what others of the cohort borrowed: never, lower-priority, any
    while_borrowing: str = NEVER  # never, lower-priority
    while_borrowing_up_to: int | None = None  # only workloads up to this priority (maxPriorityThreshold)
    fair_sharing: bool = False


@dataclass(frozen=True, slots=True)
class Fleet:
    """The queues that share the nodes, and their rules. Without queues there is one, with all nodes."""

    queues: tuple[Queue, ...] = ()
    cohorts: tuple[Cohort, ...] = ()
    flavors: tuple[Flavor, ...] = ()
    preemption: Preemption = Preemption()
    priorities: Mapping[str, int] = field(default_factory=dict)  # name → value

    def queue(self, name: str) -> Queue:
        """The queue of this name."""
        return next(queue for queue in self.queues if queue.name == name)


def nominal(quotas: Iterable[FlavorQuota]) -> dict[str, int]:
    """Quotas of all flavors together."""
    found: dict[str, int] = {}
    for quota in quotas:
        for name, amount in quota.nominal.items():
            found[name] = found.get(name, 0) + amount
    return found


def topmost(fleet: Fleet, cohort: str) -> str:
    """The cohort at the top of its tree; a cohort that nothing describes is its own."""
    parents = {one.name: one.parent for one in fleet.cohorts}
    seen: set[str] = set()
    while parents.get(cohort) and cohort not in seen:
        seen.add(cohort)
        cohort = parents[cohort]
    return cohort
