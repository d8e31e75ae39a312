"""Kueue's victims in a cohort that consists of queues: the decision of `classical_victims`, for fleets of a thousand queues.

Below a cohort without a parent, without cohorts of its own and without lending limits, all usage of a queue counts against the
cohort. So a search needs a few numbers instead of the tree: what is free in the cohort, what the own queue uses, and by how much
every other queue exceeds its quota. The candidates of one head of a cycle are those of the next, so they are listed and sorted once
per cycle. With a thousand queues in one cohort, a search on the tree took 20 ms for each head, most of it for sorting and for
candidates that are taken and spared again; `tests/sim/test_flat_cohorts.py` holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from seatrial.model.fleet import LOWER, LOWER_OR_NEWER, NEVER
from seatrial.stacks.kueue.quota_preemption import (
    IN_QUEUE,
    RECLAIM_WHILE_BORROWING,
    RECLAMATION,
    QuotaNeed,
    Victim,
    attempts,
    fits_quota,
    held_by,
    may_borrow_from,
)
from seatrial.stacks.kueue.quota_tree import QuotaClaim, QuotaQueue

_Claims = tuple[list[QuotaClaim], list[QuotaClaim]]  # those evicted already, and the others, each in Kueue's order


def flat_victims(need: QuotaNeed) -> list[Victim]:
    """The workloads to evict; empty if none would help. For queues of `QuotaTree.is_flat`."""
    listed = need.tree.listed
    if listed is None:
        return _victims(need, {})
    key = (need.claim.number, tuple(need.requests.items()), tuple(need.cells))
    if key not in listed:  # asked for once to choose a flavor, once more for the flavor that was chosen
        listed[key] = _victims(need, listed)
    found: list[Victim] = listed[key]
    return found


def _victims(need: QuotaNeed, listed: dict[object, Any]) -> list[Victim]:
    queue = need.claim.queue
    rules = queue.preemption
    others: _Claims = ([], [])
    if rules.reclaim != NEVER:
        others_and_own = _listed(need, listed)
        others = _without(others_and_own[0], queue), _without(others_and_own[1], queue)
    own: _Claims = ([], [])
    if rules.within_queue != NEVER:
        own = _parted(held_by(queue, need, rules.within_queue))
    candidates = (others[0], own[0], others[1], own[1])
    if not any(candidates):
        return []
    advantage = fits_quota(queue, need.requests)[0]
    is_reclaim = bool(others[0] or others[1])
    for borrowing in attempts(need, advantage and is_reclaim, is_reclaim):
        attempt = _Attempt(need, advantage, borrowing)
        if is_reclaim and not own[0] and not attempt.own_fits():
            found = attempt.run_after(_all_taken(need, attempt, listed), own[1])
        else:
            found = attempt.run(chain(*candidates))
        if found:
            return found
    return []


def _all_taken(need: QuotaNeed, attempt: _Attempt, listed: dict[object, Any]) -> list[Victim]:
    """The victims of all queues of the cohort if none suffices: each queue loses some until it is back within its quota, whatever
    the others lose. So the list is the same for all heads with these rules, except for their own queues' part in it."""
    claim, rules = need.claim, need.claim.queue.preemption
    key = (claim.queue.parent, claim.priority, claim.created if rules.reclaim == LOWER_OR_NEWER else None, rules,
           tuple(need.requests), frozenset(need.cells), attempt.advantage, attempt.borrowing)  # fmt: skip
    if key not in listed:
        of_all = _Attempt(need, attempt.advantage, attempt.borrowing)
        candidates = chain(*_listed(need, listed))
        listed[key] = [Victim(one, reason) for one in candidates if (reason := of_all.take(one))]
    queue = claim.queue
    return [victim for victim in listed[key] if victim.claim.queue is not queue]


def _listed(need: QuotaNeed, listed: dict[object, Any]) -> _Claims:
    """The workloads of the cohort's queues that exceed their quota and that the policy lets go, the own queue included."""
    claim, cohort, policy = need.claim, need.claim.queue.parent, need.claim.queue.preemption.reclaim
    assert cohort is not None
    priority = claim.priority if policy in (LOWER, LOWER_OR_NEWER) else None
    key = (cohort, policy, priority, claim.created if policy == LOWER_OR_NEWER else None, frozenset(need.cells))
    if key not in listed:
        over = (queue for queue in cohort.queues if not queue.is_within(need.cells))
        listed[key] = _parted([other for queue in over for other in held_by(queue, need, policy)])
    found = listed[key]
    assert isinstance(found, tuple)
    return found


def _parted(claims: list[QuotaClaim]) -> _Claims:
    claims.sort(key=lambda claim: (claim.priority, -claim.reserved, claim.uid))
    return [claim for claim in claims if claim.evicted], [claim for claim in claims if not claim.evicted]


def _without(claims: list[QuotaClaim], queue: QuotaQueue) -> list[QuotaClaim]:
    return [claim for claim in claims if claim.queue is not queue]


class _Attempt:
    """Takes candidates until the workload fits, then spares those without whom it still does."""

    def __init__(self, need: QuotaNeed, advantage: bool, borrowing: bool) -> None:
        self._need, self._queue = need, need.claim.queue
        self.advantage, self.borrowing = advantage, borrowing
        cohort = self._queue.parent
        assert cohort is not None
        self._free = {cell: cohort.subtree[cell] - cohort.usage[cell] for cell in need.requests}
        self._used = {cell: self._queue.usage[cell] for cell in need.requests}
        self._over: dict[QuotaQueue, dict[int, int]] = {}  # queue → cell → what it uses beyond its quota

    def run(self, candidates: Iterator[QuotaClaim]) -> list[Victim]:
        """The victims; empty if the workload does not fit without any of the candidates."""
        taken: list[Victim] = []
        queue, own_fits = self._queue, self.own_fits()
        for claim in candidates:
            if claim.queue is queue:
                self._change_own(claim.usage, -1)
                own_fits = self.own_fits()
                reason = IN_QUEUE
            else:
                reason = self.take(claim)
                if not reason:
                    continue
            taken.append(Victim(claim, reason))
            if own_fits and self._cohort_fits():
                return self._spare(taken)
        return []

    def run_after(self, others: list[Victim], own: list[QuotaClaim]) -> list[Victim]:
        """The victims where no number of other queues' workloads suffices, because the own queue has no quota left: all of them are
        taken, then its own, until the workload fits."""
        free = self._free
        for victim in others:
            for cell, amount in victim.claim.usage.items():
                if cell in free:
                    free[cell] += amount
        for number, claim in enumerate(own, start=1):
            self._change_own(claim.usage, -1)
            if self.own_fits() and self._cohort_fits():
                return self._spare([*others, *(Victim(one, IN_QUEUE) for one in own[:number])])
        return []

    def take(self, claim: QuotaClaim) -> str:
        """The reason to evict the workload of another queue now; empty if it may not be evicted."""
        lends = not self.advantage and may_borrow_from(self._need, claim)
        if self.borrowing and not self.advantage and not lends:
            return ""
        queue, cells = claim.queue, self._need.cells
        over = self._over.get(queue)
        if over is None:
            over = self._over[queue] = {cell: queue.usage[cell] - queue.subtree[cell] for cell in cells}
        if not any(more > 0 for more in over.values()):
            return ""  # evictions before this one have brought it back within its quota
        free = self._free
        for cell, amount in claim.usage.items():
            if cell in free:
                free[cell] += amount
            if cell in over:
                over[cell] -= amount
        return RECLAIM_WHILE_BORROWING if lends else RECLAMATION

    def _change_own(self, usage: Mapping[int, int], sign: int) -> None:
        for cell, amount in usage.items():
            if cell in self._free:
                self._used[cell] += sign * amount
                self._free[cell] -= sign * amount

    def own_fits(self) -> bool:
        """The quota of the own queue, or its borrowing limit, leaves room."""
        queue = self._queue
        for cell, amount in self._need.requests.items():
            used, limit = self._used[cell], queue.borrow[cell]
            if not self.borrowing and used + amount > queue.nominal[cell]:
                return False
            if limit is not None and amount > max(0, queue.subtree[cell] - max(0, used) + limit):
                return False
        return True

    def _cohort_fits(self) -> bool:
        free = self._free
        for cell, amount in self._need.requests.items():  # noqa: SIM110  (a generator took twice the time)
            if amount > free[cell] and amount > 0:
                return False
        return True

    def _spare(self, taken: list[Victim]) -> list[Victim]:
        """The last ones first (fillBackWorkloads); the last but one is the first that may be spared."""
        free, requests = self._free, self._need.requests
        for place in range(len(taken) - 2, -1, -1):
            claim = taken[place].claim
            if claim.queue is self._queue:
                self._change_own(claim.usage, 1)
                if not (self.own_fits() and self._cohort_fits()):
                    self._change_own(claim.usage, -1)
                    continue
            else:
                usage = [(cell, amount) for cell, amount in claim.usage.items() if cell in free]
                if any(0 < requests[cell] > free[cell] - amount for cell, amount in usage):
                    continue
                for cell, amount in usage:
                    free[cell] -= amount
            taken[place] = taken[-1]
            taken.pop()
        return taken
