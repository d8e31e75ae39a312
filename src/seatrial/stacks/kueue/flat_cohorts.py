"""Kueue's victims in a cohort that consists of queues: the decision of `classical_victims`, for fleets of a thousand queues.

Below a cohort without a parent, without cohorts of its own and without lending limits, all usage of a queue counts against the
cohort. So a search needs a few numbers instead of the tree: what is free in the cohort, what the own queue uses, and by how much
every other queue exceeds its quota. The candidates of one head of a cycle are those of the next, so they are listed and sorted once
per cycle. With a thousand queues in one cohort, a search on the tree took 20 ms for each head, most of it for sorting and for
candidates that are taken and spared again; `tests/sim/test_flat_cohorts.py` holds the two against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
    listed = need.tree.listed if need.tree.listed is not None else {}
    queue = need.claim.queue
    rules = queue.preemption
    reclaimable: _Claims = ([], [])  # the own queue's among them
    if rules.reclaim != NEVER:
        reclaimable = _listed(need, listed)
    is_reclaim = any(claim.queue is not queue for claims in reclaimable for claim in claims)
    own: _Claims = ([], [])
    if rules.within_queue != NEVER:
        own = _parted(held_by(queue, need, rules.within_queue))
    if not (is_reclaim or own[0] or own[1]):
        return []
    advantage = fits_quota(queue, need.requests)[0]
    for borrowing in attempts(need, advantage and is_reclaim, is_reclaim):
        attempt = _Attempt(need, advantage, borrowing)
        if not is_reclaim or attempt.takes_nobody_elses:
            found = attempt.run(chain(*own))
        elif own[0] or attempt.own_fits():
            evicted, others = (_without(claims, queue) for claims in reclaimable)
            found = attempt.run(chain(evicted, own[0], others, own[1]))
        else:
            found = attempt.run_after(_all_taken(need, attempt, listed), own[1])
        if found:
            return found
    return []


class _Lost:
    """What the queues of a cohort lose, and how much that is."""

    def __init__(self, victims: list[Victim]) -> None:
        self.victims = victims
        self.of_queue: dict[QuotaQueue, list[Victim]] = {}
        self.total: dict[int, int] = {}
        for victim in victims:
            self.of_queue.setdefault(victim.claim.queue, []).append(victim)
            for cell, amount in victim.claim.usage.items():
                self.total[cell] = self.total.get(cell, 0) + amount

    def of_others(self, queue: QuotaQueue, cells: Iterable[int]) -> tuple[int, dict[int, int]]:
        """How many victims the other queues have, and how much of these cells they hold."""
        own = self.of_queue.get(queue, ())
        amounts = {cell: self.total.get(cell, 0) - sum(one.claim.usage.get(cell, 0) for one in own) for cell in cells}
        return len(self.victims) - len(own), amounts


def _all_taken(need: QuotaNeed, attempt: _Attempt, listed: dict[Any, Any]) -> _Lost:
    """The victims of all queues of the cohort if none suffices: each queue loses some until it is back within its quota, whatever
    the others lose. So the list is the same for all heads with these rules, except for their own queues' part in it."""
    claim, rules = need.claim, need.claim.queue.preemption
    key = (claim.queue.parent, claim.priority, claim.created if rules.reclaim == LOWER_OR_NEWER else None, rules,
           tuple(need.requests), frozenset(need.cells), attempt.advantage, attempt.borrowing)  # fmt: skip
    if key not in listed:
        of_all = _Attempt(need, attempt.advantage, attempt.borrowing)
        candidates = chain(*_listed(need, listed))
        listed[key] = _Lost([Victim(one, reason) for one in candidates if (reason := of_all.take(one))])
    found = listed[key]
    assert isinstance(found, _Lost)
    return found


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

    def run_after(self, lost: _Lost, own: list[QuotaClaim]) -> list[Victim]:
        """The victims where no number of other queues' workloads suffices, because the own queue has no quota left: all of them are
        taken, then its own, until the workload fits."""
        free, queue = self._free, self._queue
        count, amounts = lost.of_others(queue, free)
        for cell, amount in amounts.items():
            free[cell] += amount
        for number, claim in enumerate(own, start=1):
            self._change_own(claim.usage, -1)
            if self.own_fits() and self._cohort_fits():
                kept = self._spare([Victim(one, IN_QUEUE) for one in own[:number]])
                if self._fits_with(amounts):  # all others are spared, and for each the last of those kept comes first
                    turns = count % len(kept)
                    return kept[len(kept) - turns :] + kept[: len(kept) - turns]
                others = [victim for victim in lost.victims if victim.claim.queue is not queue]
                return self._spare(others + kept, count - 1)
        return []

    @property
    def takes_nobody_elses(self) -> bool:
        """It borrows, and may not evict others and borrow at the same time."""
        return self.borrowing and not self.advantage and self._queue.preemption.while_borrowing == NEVER

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

    def _spare(self, taken: list[Victim], start: int | None = None) -> list[Victim]:
        """The last ones first (fillBackWorkloads), from the last but one or from `start` on."""
        free, queue = self._free, self._queue
        for place in range(len(taken) - 2 if start is None else start, -1, -1):
            claim = taken[place].claim
            if claim.queue is queue:
                self._change_own(claim.usage, 1)
                if not (self.own_fits() and self._cohort_fits()):
                    self._change_own(claim.usage, -1)
                    continue
            else:
                if not self._fits_with(claim.usage):
                    continue
                for cell, amount in claim.usage.items():
                    if cell in free:
                        free[cell] -= amount
            taken[place] = taken[-1]
            taken.pop()
        return taken

    def _fits_with(self, usage: Mapping[int, int]) -> bool:
        """The cohort has room even if these are not evicted."""
        free, requests = self._free, self._need.requests
        for cell, amount in usage.items():  # noqa: SIM110  (a generator took twice the time)
            if cell in free and 0 < requests[cell] > free[cell] - amount:
                return False
        return True
