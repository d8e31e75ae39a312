"""One cycle of Kueue's scheduler as a decision: the heads of all queues go in, what becomes of each comes out.

Facts (Kueue v0.16.1, pkg/scheduler/scheduler.go, schedule):
- All heads are nominated on the same snapshot: flavors, and whom to evict. Then they are looked at one after another, and what
  is admitted, or waits for its victims, counts as used for those after it.
- A head whose victims are those of a head before it is skipped, and so is one that no longer fits. It is tried again at once.
- A head that needs evictions for which there is no candidate reserves what is left for it, up to its borrowing limit, unless
  its queue may reclaim from anybody: so nobody with a lower priority takes it in the same cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from seatrial.model.fleet import ANY
from seatrial.stacks.kueue.admission_order import in_order
from seatrial.stacks.kueue.flavor_assignment import FIT, NO_FIT, PREEMPT, Assignment, assign, targets
from seatrial.stacks.kueue.quota_preemption import Victim
from seatrial.stacks.kueue.quota_tree import QuotaClaim, QuotaNode, QuotaTree, undo

WAITS, SKIPPED, PREEMPTS, ADMITTED = range(4)
OVERLAPPING = "Workload has overlapping preemption targets with another workload"
TAKEN = "Workload no longer fits after processing another workload"


@dataclass(slots=True)
class Head:
    """The head of a queue in a cycle, and what becomes of it."""

    claim: QuotaClaim
    assignment: Assignment
    victims: list[Victim] = field(default_factory=list)
    outcome: int = WAITS
    message: str = ""

    @property
    def is_requeued_at_once(self) -> bool:
        """Whether it always goes back into the heap: it was skipped, waits for victims, or has flavors to try."""
        return self.outcome in (SKIPPED, PREEMPTS) or any(place != -1 for place in self.claim.tried.values())


def decide(
    tree: QuotaTree, claims: Sequence[QuotaClaim], closed: Callable[[QuotaClaim, str], str] = lambda _, __: ""
) -> list[Head]:
    """The heads in the order in which they were looked at. The tree is left as it was; `tried` of the claims is updated.
    `closed(claim, flavor)`: why the workload's pods may not go to the flavor's nodes, if so."""
    tree.listed = {}
    heads = [_nominate(tree, claim, closed) for claim in claims]
    tree.listed = None
    cycle = _Cycle()
    ordered = []
    for head in in_order(tree, heads):
        ordered.append(head)
        cycle.look_at(head)
    undo(cycle.used)
    return ordered


def _nominate(tree: QuotaTree, claim: QuotaClaim, closed: Callable[[QuotaClaim, str], str]) -> Head:
    why = None if claim.queue.evicts else _refusal_key(claim, closed)
    known = tree.refusals.get(why) if why else None
    if known is not None:
        head = Head(claim, known[0], message=known[1])
    else:
        assignment = assign(tree, claim, lambda flavor: closed(claim, flavor))
        head = Head(claim, assignment)
        if assignment.mode == PREEMPT:
            head.victims = targets(tree, claim, assignment)
        if assignment.mode != FIT:
            head.message = assignment.message
            if why:
                tree.refusals[why] = assignment, head.message
    claim.tried, claim.tried_at = head.assignment.tried, claim.queue.generation
    return head


def _refusal_key(claim: QuotaClaim, closed: Callable[[QuotaClaim, str], str]) -> tuple[object, ...]:
    """All that an assignment depends on besides usage, where nobody can be evicted. All workloads of a queue are tried again
    whenever something is freed, and most of them ask for the same."""
    queue = claim.queue
    tried = claim.tried if claim.tried_at >= queue.generation else {}
    flavors = tuple([closed(claim, flavor) for group in queue.groups for flavor in group.flavors])
    return queue.name, tuple(claim.requests.items()), tuple(tried.items()), flavors


class _Cycle:
    """The state of a cycle: usage of the heads so far, and their victims."""

    def __init__(self) -> None:
        self.used: list[tuple[QuotaNode, int, int]] = []
        self._victims: dict[int, QuotaClaim] = {}

    def look_at(self, head: Head) -> None:
        assignment = head.assignment
        if assignment.mode == NO_FIT:
            return
        if assignment.mode == PREEMPT and not head.victims:
            if head.claim.queue.preemption.reclaim != ANY:
                self._use(head.claim, _reserved(head.claim, assignment))
            return
        if any(victim.claim.number in self._victims for victim in head.victims):
            _skip(head, OVERLAPPING)
            return
        if not self._fits(head):
            _skip(head, TAKEN)
            return
        self._victims.update((victim.claim.number, victim.claim) for victim in head.victims)
        self._use(head.claim, assignment.usage)
        if assignment.mode == PREEMPT:
            head.outcome = PREEMPTS
            head.claim.tried = {}
            head.message += f". Pending the preemption of {len(head.victims)} workload(s)"
        else:
            head.outcome = ADMITTED

    def _use(self, claim: QuotaClaim, usage: dict[int, int]) -> None:
        for cell, amount in usage.items():
            claim.queue.add_usage(cell, amount, self.used)

    def _fits(self, head: Head) -> bool:
        gone = [*self._victims.values(), *(victim.claim for victim in head.victims)]
        for claim in gone:
            for cell, amount in claim.usage.items():
                claim.queue.remove_usage(cell, amount)
        queue = head.claim.queue
        fits = all(max(0, queue.available(cell)) >= amount for cell, amount in head.assignment.usage.items())
        for claim in gone:
            for cell, amount in claim.usage.items():
                claim.queue.add_usage(cell, amount)
        return fits


def _skip(head: Head, message: str) -> None:
    head.outcome, head.message = SKIPPED, message
    head.claim.tried = {}


def _reserved(claim: QuotaClaim, assignment: Assignment) -> dict[int, int]:
    """The quota that a head without candidates reserves (quotaResourcesToReserve)."""
    queue, kept = claim.queue, {}
    for cell, amount in assignment.usage.items():
        limit = queue.borrow[cell]
        left = queue.nominal[cell] - queue.usage[cell]
        if not assignment.borrowing:
            kept[cell] = max(0, min(amount, left))
        else:
            kept[cell] = amount if limit is None else min(amount, left + limit)
    return kept
