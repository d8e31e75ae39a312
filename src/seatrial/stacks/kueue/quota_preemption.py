"""Kueue's victims for a workload that needs quota, without fair sharing.

Facts (Kueue v0.16.1, pkg/scheduler/preemption and its folder classical):
- Candidates hold one of the cells that lack quota, and the policy allows them: `withinClusterQueue` for the queue's own,
  `reclaimWithinCohort` for those of queues that use more than their nominal quota.
- From the queue up to the root: once the request fits the quota of a subtree, the queue has the advantage of the hierarchy over
  everybody outside it who exceeds his quota (hierarchical reclaim). Before that, priorities decide, and whether the queue may
  borrow at the same time: `borrowWithinCohort`, with its threshold.
- Order: those already evicted first; then hierarchical, by priority, own queue; in each of these the lowest priority, the last
  admitted, the UID.
- Candidates are taken until the workload fits; then, from the last but one back, those without whom it still fits are spared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from seatrial.model.fleet import ANY, LOWER, LOWER_OR_NEWER, NEVER
from seatrial.stacks.kueue.quota_tree import QuotaClaim, QuotaNode, QuotaQueue, QuotaTree

# Kueue's reasons of the condition Preempted.
IN_QUEUE, RECLAMATION = "InClusterQueue", "InCohortReclamation"
RECLAIM_WHILE_BORROWING, BY_FAIR_SHARING = "InCohortReclaimWhileBorrowing", "InCohortFairSharing"


@dataclass(frozen=True, slots=True)
class Victim:
    """A workload to evict, and why, in Kueue's word."""

    claim: QuotaClaim
    reason: str


@dataclass(slots=True)
class QuotaNeed:
    """A workload that needs room: what it asks for by cell, and the cells in which others are in the way."""

    tree: QuotaTree
    claim: QuotaClaim
    requests: Mapping[int, int]
    cells: Collection[int]

    def fits(self, borrowing: bool) -> bool:
        """Whether it fits now, and, unless it may borrow, within the nominal quota."""
        queue = self.claim.queue
        for cell, amount in self.requests.items():
            if not borrowing and queue.usage[cell] + amount > queue.nominal[cell]:
                return False
            if amount > max(0, queue.available(cell)):
                return False
        return True

    def sorted(self, claims: list[QuotaClaim]) -> list[QuotaClaim]:
        """Candidates in Kueue's order (preemption/common, CandidatesOrdering)."""
        return sorted(claims, key=self.place)

    def place(self, claim: QuotaClaim) -> tuple[bool, bool, int, int, float]:
        """The sort key of a candidate."""
        return (not claim.evicted, claim.queue is self.claim.queue, claim.priority, -claim.reserved, claim.uid)


@dataclass(slots=True)
class _Candidate:
    claim: QuotaClaim
    reason: str
    below: QuotaNode | None = None  # the cohort in which it meets the workload; None: the same queue
    no_borrowing: bool = False  # only if the workload then stays within its nominal quota


def is_allowed(claim: QuotaClaim, other: QuotaClaim, policy: str) -> bool:
    """Whether a policy lets the workload evict the other one."""
    if policy == ANY:
        return True
    if policy == LOWER:
        return claim.priority > other.priority
    return policy == LOWER_OR_NEWER and (
        claim.priority > other.priority or (claim.priority == other.priority and claim.created < other.created)
    )


def held_by(queue: QuotaQueue, need: QuotaNeed, policy: str) -> list[QuotaClaim]:
    """The workloads of a queue that hold a cell that is needed, and that the policy lets go."""
    cells = need.cells
    return [
        other
        for other in queue.workloads.values()
        if is_allowed(need.claim, other, policy) and any(cell in cells for cell in other.usage)
    ]


def classical_victims(need: QuotaNeed) -> list[Victim]:
    """The workloads to evict; empty if none would help."""
    queue = need.claim.queue
    hierarchical, by_priority = _of_cohort(need)
    own = []
    if queue.preemption.within_queue != NEVER:
        own = [_Candidate(other, IN_QUEUE) for other in held_by(queue, need, queue.preemption.within_queue)]
    kinds = [sorted(kind, key=lambda one: need.place(one.claim)) for kind in (hierarchical, by_priority, own)]
    candidates = [one for kind in kinds for one in kind if one.claim.evicted]
    candidates += [one for kind in kinds for one in kind if not one.claim.evicted]
    if not candidates:
        return []
    for borrowing in attempts(need, bool(hierarchical), bool(hierarchical or by_priority)):
        found = _attempt(need, candidates, borrowing)
        if found:
            return found
    return []


def attempts(need: QuotaNeed, hierarchical: bool, others: bool) -> tuple[bool, ...]:
    """The attempts with and without borrowing, in their order."""
    queue = need.claim.queue
    forbidden = queue.preemption.while_borrowing == NEVER
    under_nominal = all(queue.usage[cell] < queue.nominal[cell] for cell in need.cells)
    if not others or (forbidden and not under_nominal):
        return (True,)
    return (False, True) if forbidden and not hierarchical else (True, False)


def _attempt(need: QuotaNeed, candidates: list[_Candidate], borrowing: bool) -> list[Victim]:
    taken: list[Victim] = []
    for candidate in candidates:
        if not _is_valid(need, candidate, borrowing):
            continue
        claim = candidate.claim
        claim.queue.drop(claim)
        taken.append(Victim(claim, candidate.reason))
        if need.fits(borrowing):
            taken = spare(need, taken, borrowing)
            put_back(taken)
            return taken
    put_back(taken)
    return []


def _is_valid(need: QuotaNeed, candidate: _Candidate, borrowing: bool) -> bool:
    """Evictions before this one may have brought its queue, or a cohort above that, back within the quota."""
    if candidate.below is None:
        return True
    if borrowing and candidate.no_borrowing:
        return False
    node: QuotaNode | None = candidate.claim.queue
    while node is not None and node is not candidate.below:
        if node.is_within(need.cells):
            return False
        node = node.parent
    return True


def spare(need: QuotaNeed, taken: list[Victim], borrowing: bool) -> list[Victim]:
    """Spares victims without whom the workload fits, the last ones first (fillBackWorkloads). All victims are removed before; those
    that are returned still are."""
    for place in range(len(taken) - 2, -1, -1):
        claim = taken[place].claim
        claim.queue.hold(claim)
        if need.fits(borrowing):
            taken[place] = taken[-1]
            taken.pop()
        else:
            claim.queue.drop(claim)
    return taken


def put_back(taken: list[Victim]) -> None:
    """Ends a simulation: the victims hold their quota again."""
    for victim in taken:
        victim.claim.queue.hold(victim.claim)


def _of_cohort(need: QuotaNeed) -> tuple[list[_Candidate], list[_Candidate]]:
    """Candidates of other queues: by the hierarchy, by priority."""
    hierarchical: list[_Candidate] = []
    by_priority: list[_Candidate] = []
    queue = need.claim.queue
    if queue.parent is None or queue.preemption.reclaim == NEVER:
        return hierarchical, by_priority
    advantage, left = fits_quota(queue, need.requests)
    before: QuotaNode | None = None
    for cohort in queue.ancestors():
        for other in _exceeding(cohort, before, queue, need.cells):
            claims = held_by(other, need, queue.preemption.reclaim)
            if advantage:
                hierarchical += [_Candidate(claim, RECLAMATION, cohort) for claim in claims]
            else:
                by_priority += [_by_priority(need, claim, cohort) for claim in claims]
        fits, left = fits_quota(cohort, left)
        advantage = advantage or fits
        before = cohort
    return hierarchical, by_priority


def _by_priority(need: QuotaNeed, claim: QuotaClaim, cohort: QuotaNode) -> _Candidate:
    if may_borrow_from(need, claim):
        return _Candidate(claim, RECLAIM_WHILE_BORROWING, cohort)
    return _Candidate(claim, RECLAMATION, cohort, no_borrowing=True)


def may_borrow_from(need: QuotaNeed, claim: QuotaClaim) -> bool:
    """Whether the workload may evict the other one and borrow at the same time (`borrowWithinCohort`)."""
    rules = need.claim.queue.preemption
    most = rules.while_borrowing_up_to
    if rules.while_borrowing == NEVER or claim.priority >= need.claim.priority:
        return False
    return most is None or claim.priority <= most


def fits_quota(node: QuotaNode, requests: Mapping[int, int]) -> tuple[bool, dict[int, int]]:
    """Whether the requests fit the node's quota, and what of them its parent sees."""
    fits = all(not node.exceeds_with(cell, amount) for cell, amount in requests.items())
    return fits, {cell: max(0, amount - node.local_available(cell)) for cell, amount in requests.items()}


def _exceeding(cohort: QuotaNode, known: QuotaNode | None, but: QuotaQueue, cells: Collection[int]) -> list[QuotaQueue]:
    """The queues below a cohort that exceed their quota, in subtrees that do too; `known` was looked at before."""
    found = [queue for queue in cohort.queues if queue is not but and not queue.is_within(cells)]
    for child in cohort.cohorts:
        if child is not known and not child.is_within(cells):
            found += _exceeding(child, known, but, cells)
    return found
