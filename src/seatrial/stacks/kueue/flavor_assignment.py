"""The flavor of each resource of a workload, and whether it fits at once, after evictions, or never.

Facts (Kueue v0.16.1, pkg/scheduler/flavorassigner/flavorassigner.go):
- Flavors of a resource group are tried in their order. All resources of the group get the same one, and the worst of them
  decides.
- A cell fits; or others would have to go (`reclaim` if all of them are of other queues, else `preempt`), or nobody may be
  evicted; or it never fits: more than is potentially available, or only by borrowing and evicting at once where that is not
  allowed.
- The search ends at a flavor that fits. At one that fits by borrowing it goes on if `whenCanBorrow` is TryNextFlavor, at one
  that needs evictions if `whenCanPreempt` is. Of those tried the best is taken: fit, reclaim, preempt, no candidates; then the
  one that borrows from the nearest cohort.
- The next attempt begins with the flavor after the last one tried, until something was freed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from seatrial.model.fleet import NEVER
from seatrial.model.units import format_quantity
from seatrial.stacks.kueue.fair_preemption import fair_victims
from seatrial.stacks.kueue.flat_cohorts import flat_victims
from seatrial.stacks.kueue.quota_preemption import QuotaNeed, Victim, classical_victims
from seatrial.stacks.kueue.quota_tree import QuotaClaim, QuotaTree, ResourceGroup

NO_FIT, NO_CANDIDATES, PREEMPT, RECLAIM, FIT = range(5)  # the better ones are larger
_Level = tuple[int, int]  # one of these, and minus the height from which quota is borrowed
_NEVER_FITS: _Level = (NO_FIT, 0)


@dataclass(slots=True)
class Assignment:
    """The flavors of a workload. `mode` is FIT, PREEMPT or NO_FIT."""

    mode: int = FIT
    borrowing: int = 0  # the height of the cohort that lends; 0: nothing is borrowed
    flavors: dict[str, str] = field(default_factory=dict)  # resource → flavor
    usage: dict[int, int] = field(default_factory=dict)
    cells: set[int] = field(default_factory=set)  # in which others have to go
    tried: dict[str, int] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)

    @property
    def message(self) -> str:
        """Kueue's message on why it does not fit."""
        return f"couldn't assign flavors to pod set main: {', '.join(sorted(self.reasons))}"

    @property
    def has_pending_flavors(self) -> bool:
        """Whether flavors are left that were not tried."""
        return any(place != -1 for place in self.tried.values())


def victims_of(need: QuotaNeed) -> list[Victim]:
    """The workloads to evict, by the rules of the tree."""
    listed = need.tree.listed
    if listed is None:
        return _search(need)
    key = (need.claim.number, tuple(need.requests.items()), tuple(need.cells))
    if key not in listed:  # asked for once to choose a flavor, once more for the flavor that was chosen
        listed[key] = _search(need)
    found: list[Victim] = listed[key]
    return found


def _search(need: QuotaNeed) -> list[Victim]:
    if need.tree.fair_sharing:
        return fair_victims(need)
    return flat_victims(need) if need.tree.is_flat(need.claim.queue) else classical_victims(need)


def assign(tree: QuotaTree, claim: QuotaClaim, closed: Callable[[str], str] = lambda _: "") -> Assignment:
    """The assignment of a pending workload. `closed(flavor)`: why its pods may not go to the flavor's nodes, if so."""
    if claim.queue.generation > claim.tried_at:
        claim.tried = {}
    made = Assignment()
    for name in sorted(claim.requests):
        if name in made.flavors:
            continue
        group = next((group for group in claim.queue.groups if name in group.resources), None)
        if group is None:
            if not claim.requests[name]:
                continue
            return Assignment(NO_FIT, reasons=[f"resource {name} unavailable in ClusterQueue"])
        search = _Search(tree, claim, group)
        search.run(name, closed)
        if search.best is None:
            return Assignment(NO_FIT, reasons=search.reasons)
        search.add_to(made)
    return made


def targets(tree: QuotaTree, claim: QuotaClaim, assignment: Assignment) -> list[Victim]:
    """The workloads to evict so that the assignment fits."""
    return victims_of(QuotaNeed(tree, claim, assignment.usage, assignment.cells))


@dataclass(slots=True)
class _Option:
    """One flavor for a resource group: per resource its mode and the height from which it borrows."""

    flavor: str
    level: _Level
    parts: dict[str, tuple[int, int]]


class _Search:
    """The flavors of one resource group for one workload."""

    def __init__(self, tree: QuotaTree, claim: QuotaClaim, group: ResourceGroup) -> None:
        self._tree, self._claim, self._group = tree, claim, group
        self._requests = {name: claim.requests[name] for name in sorted(claim.requests) if name in group.resources}
        self.best: _Option | None = None
        self.reasons: list[str] = []
        self._last = -1

    def run(self, resource: str, closed: Callable[[str], str]) -> None:
        """`resource` is one of the group: the place where the last attempt stopped is kept per resource."""
        flavors = self._group.flavors
        for place in range(self._claim.tried.get(resource, -1) + 1, len(flavors)):
            self._last = place
            flavor = flavors[place]
            if why := closed(flavor):
                self.reasons.append(why)
                continue
            option = self._try(flavor)
            if not self._goes_on(option.level):
                self.best = option
                break
            if option.level[0] != NO_FIT and (self.best is None or option.level > self.best.level):
                self.best = option
        if self._last == len(flavors) - 1:
            self._last = -1

    def _try(self, flavor: str) -> _Option:
        option = _Option(flavor, (FIT, 0), {})
        for name, amount in self._requests.items():
            mode, borrowing = self._cell(flavor, name, amount)
            option.level = min(option.level, (mode, -borrowing) if mode != NO_FIT else _NEVER_FITS)
            if mode == NO_FIT:
                break
            option.parts[name] = (mode, borrowing)
        return option

    def _goes_on(self, level: _Level) -> bool:
        queue = self._claim.queue
        mode, borrowing = level
        if mode in (NO_FIT, NO_CANDIDATES):
            return True
        if mode in (PREEMPT, RECLAIM) and not queue.preempts_first:
            return True
        return borrowing != 0 and not queue.borrows_first

    def _cell(self, flavor: str, name: str, amount: int) -> tuple[int, int]:
        """Mode and height of one resource in one flavor (fitsResourceQuota)."""
        tree, queue = self._tree, self._claim.queue
        cell = tree.number[flavor, name]
        most = queue.potential[cell]
        if amount > most:
            self.reasons.append(
                f"insufficient quota for {name} in flavor {flavor}, previously considered podsets requests (0) + current "
                f"podset request ({format_quantity(amount, name)}) > maximum capacity ({format_quantity(most, name)})"
            )
            return NO_FIT, 0
        height, may_reclaim = tree.lowest_fit(queue, cell, amount)
        available = max(0, queue.available(cell))
        if amount <= available:
            return FIT, height
        missing = format_quantity(amount - available, name)
        self.reasons.append(f"insufficient unused quota for {name} in flavor {flavor}, {missing} more needed")
        rules = queue.preemption
        while_borrowing = rules.while_borrowing != NEVER or (tree.fair_sharing and rules.reclaim != NEVER)
        if amount <= queue.nominal[cell] or may_reclaim or while_borrowing:
            return self._simulate(cell, amount)
        return NO_FIT, height

    def _simulate(self, cell: int, amount: int) -> tuple[int, int]:
        """Whether evictions would help in this cell alone (preemption_oracle.go)."""
        queue = self._claim.queue
        victims = victims_of(QuotaNeed(self._tree, self._claim, {cell: amount}, (cell,)))
        for victim in victims:
            victim.claim.queue.drop(victim.claim)
        height, _ = self._tree.lowest_fit(queue, cell, amount)
        for victim in victims:
            victim.claim.queue.hold(victim.claim)
        if not victims:
            return NO_CANDIDATES, height
        return (PREEMPT if any(victim.claim.queue is queue for victim in victims) else RECLAIM), height

    def add_to(self, made: Assignment) -> None:
        """The best flavor becomes part of the assignment."""
        assert self.best is not None
        flavor = self.best.flavor
        for name, (mode, borrowing) in self.best.parts.items():
            cell = self._tree.number[flavor, name]
            made.flavors[name], made.tried[name] = flavor, self._last
            made.usage[cell] = self._requests[name]
            made.borrowing = max(made.borrowing, borrowing)
            if mode != FIT:
                made.cells.add(cell)
                made.mode = PREEMPT
        if self.best.level[0] != FIT:
            made.reasons += self.reasons
