"""Two variables: the front of mixes that just do, and the cheapest of them.

The first variable is cut into slices; in each the second one is searched like a single variable. More of either never hurts, so a
trial says something about all slices: what holds with little holds with more, and what fails with much fails with less. With
prices, slices are added where a cheaper mix is still possible (the bound of a stretch between two slices), and the cheapest mix is
confirmed with all repeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from seatrial.analysis.search_answers import EVERYWHERE, FOUND, JITTER, answer_of
from seatrial.analysis.searched_studies import Case, Searches
from seatrial.analysis.searching import NextTrial, Search, next_probes

LEVELS = (
    (0.0, 1.0),
    (0.5,),
    (0.25, 0.75),
)  # parts of the first variable's range, in the order in which they become slices
CONFIRMED_LEAST = 0.35  # of the budget is left for confirming


@dataclass(frozen=True)
class FrontPoint:
    """The least of the second variable that does with one value of the first: places in their ranges."""

    across: int
    place: int
    cost: float | None
    confirmed: bool  # with all repeats, not only the first


@dataclass(frozen=True)
class Front:
    """The front of one set-up: the minimal mixes by the first variable, and the cheapest one."""

    points: tuple[FrontPoint, ...]
    trials: int
    bound: float | None = None  # no mix that was not tried can be cheaper
    contradictions: tuple[
        tuple[tuple[int, int], tuple[int, int]], ...
    ] = ()  # a mix that does, and a larger one that does not

    @property
    def best(self) -> FrontPoint | None:
        """The cheapest, confirmed ones first."""
        priced = [point for point in self.points if point.cost is not None]
        return min(priced, key=lambda point: (not point.confirmed, point.cost or 0.0, point.across), default=None)


def front_of(searches: Searches, base: Case) -> Front:
    """The front as far as it is known."""
    slices = _slices(searches, base)
    points, _ = _points(searches, base, slices)
    trials = sum(searches.search(_case(searches, base, across)).evidence.trials for across in slices)
    stretches = [bound for _, bound in _stretches(searches, points)]
    least = [p for n, p in enumerate(points) if not any(other.place <= p.place for other in points[:n])]
    cheapest = Front(tuple(points), trials).best
    shown = tuple(p for p in points if p in least or p == cheapest)
    return Front(shown, trials, min(stretches, default=None), tuple(_contradictions(searches, base)))


def next_of_front(searches: Searches, base: Case) -> list[tuple[Case, NextTrial]]:
    """The trials to run next, side by side."""
    question = searches.question
    slices = _slices(searches, base)
    left = question.limits.budget - sum(
        searches.search(_case(searches, base, across)).evidence.trials for across in slices
    )
    assert question.across is not None
    last = len(question.across.grid) - 1
    wanted = list(slices)
    for level in LEVELS:
        wanted += [across for part in level if (across := round(part * last)) not in wanted]
        found = list(_narrowing(searches, base, wanted))
        if found:
            return found[: max(left, 0)]
    points, found = _points(searches, base, wanted)
    if found and left > CONFIRMED_LEAST * question.limits.budget:
        return found[: max(left, 0)]
    return list(_confirming(searches, base, points))[: max(left, 0)]


def _points(
    searches: Searches, base: Case, slices: Sequence[int]
) -> tuple[list[FrontPoint], list[tuple[Case, NextTrial]]]:
    """The mixes of these slices, and of others where a cheaper one may be: as far as other slices say what they are, and then the
    trials that would say more."""
    found = {across: point for across in slices if (point := _point(searches, base, across)) is not None}
    while True:
        points = [found[across] for across in sorted(found)]
        middle = _middle(searches, points)
        probes = [] if middle is None else list(_narrowing(searches, base, [middle]))
        point = None if middle is None or probes else _point(searches, base, middle)
        if middle is None or point is None:
            return points, probes
        found[middle] = point


def _narrowing(searches: Searches, base: Case, slices: Sequence[int]) -> Iterator[tuple[Case, NextTrial]]:
    """The first repeat in these slices."""
    for across in slices:
        case = _case(searches, base, across)
        search = _search(searches, base, across)
        yield from ((case, probe) for probe in next_probes(search))


def _confirming(searches: Searches, base: Case, points: Sequence[FrontPoint]) -> Iterator[tuple[Case, NextTrial]]:
    """Runs all repeats of the cheapest mix, until no unconfirmed mix looks cheaper."""
    priced = sorted((p for p in points if p.cost is not None), key=lambda point: (point.cost or 0.0, point.across))
    known = {point.across for point in priced}
    begun = [
        across for across in _slices(searches, base) if across not in known
    ]  # whose mean is above the limit so far
    for across in [*begun, *(point.across for point in priced if not point.confirmed)]:
        cheapest = next((point.cost for point in priced if point.confirmed), None)
        own = next((point.cost for point in priced if point.across == across), None)
        if cheapest is not None and own is not None and own >= cheapest:
            return
        search = _search(searches, base, across)
        probes = next_probes(replace(search, limits=replace(search.limits, narrow_only=False, confirm_only=True)))
        if probes and (cheapest is None or _may_be_cheaper(searches, across, probes, cheapest)):
            yield from ((_case(searches, base, across), probe) for probe in probes)
            return


def _may_be_cheaper(searches: Searches, across: int, probes: Sequence[NextTrial], cheapest: float) -> bool:
    """Whether the mix that is tried next costs less than one that is confirmed."""
    cost = searches.question.cost(across, min(probe.place for probe in probes))
    return cost is not None and cost < cheapest


def _search(searches: Searches, base: Case, across: int) -> Search:
    """The search in a slice, with what other slices imply."""
    search = searches.search(_case(searches, base, across))
    implied: dict[int, bool] = {}
    for other in _slices(searches, base):
        lead = searches.search(_case(searches, base, other)).lead if other != across else {}
        for place, held in lead.items():
            if held == (other < across):  # holds with less, or fails with more of the first variable
                implied.setdefault(place, held)
    own = {place for place in search.evidence.rows if search.evidence.usable(place)}
    holds = min((place for place, held in implied.items() if held), default=None)
    fails = max((place for place, held in implied.items() if not held), default=None)
    ends = {p: h for p, h in ((holds, True), (fails, False)) if p is not None and p not in own}
    last = len(searches.question.variable.grid) - 1
    if holds is not None:
        ends.setdefault(last, True)
    if fails is not None:
        ends.setdefault(0, False)
    return replace(search, limits=replace(search.limits, narrow_only=True, largest=False), implied=ends)


def _point(searches: Searches, base: Case, across: int) -> FrontPoint | None:
    """The mix of a slice; None if it is not known, or if nothing in the slice does."""
    search = _search(searches, base, across)
    if next_probes(search):
        return None
    _, high = search.bracket
    confirmed = answer_of(replace(search, implied={})).state in (FOUND, EVERYWHERE)
    if high is None and search.decided:
        return None  # all repeats were run, and their mean is not within the limit yet
    first = next((place for place, held in search.lead.items() if held), None)
    place = first if high is None else high
    return None if place is None else _priced(searches, across, place, confirmed)


def _priced(searches: Searches, across: int, place: int, confirmed: bool) -> FrontPoint:
    return FrontPoint(across, place, searches.question.cost(across, place), confirmed)


def _stretches(
    searches: Searches, points: Sequence[FrontPoint]
) -> Iterator[tuple[tuple[FrontPoint, FrontPoint], float]]:
    """Neighbouring slices with others between them, and the least that a mix between them can cost."""
    for low, high in pairwise(points):
        bound = searches.question.cost(low.across + 1, high.place)
        if high.across - low.across > 1 and bound is not None:
            yield (low, high), bound


def _middle(searches: Searches, points: Sequence[FrontPoint]) -> int | None:
    """A slice where a cheaper mix may be; without prices where the front is least known."""
    best = min((point.cost for point in points if point.cost is not None), default=None)
    open_ = [(bound, pair) for pair, bound in _stretches(searches, points) if best is not None and bound < best]
    if best is None:
        gaps = [(high.place - low.place, (low, high)) for low, high in pairwise(points)]
        open_ = [(gap, (low, high)) for gap, (low, high) in gaps if high.across - low.across > 1 and gap < -1]
    if not open_:
        return None
    low, high = min(open_, key=lambda one: (one[0], one[1][0].across))[1]
    return (low.across + high.across) // 2


def _contradictions(searches: Searches, base: Case) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """A mix that does, and one with more of both that does not, in the first repeat."""
    known = [
        ((across, place), held)
        for across in _slices(searches, base)
        for place, held in searches.search(_case(searches, base, across)).lead.items()
    ]
    for (a, b), held in known:
        worse = [
            (c, d) for (c, d), other in known if held and not other and c >= a and d >= b and c + d - a - b >= JITTER
        ]
        if worse:
            yield (a, b), worse[0]
            return


def _slices(searches: Searches, base: Case) -> list[int]:
    """The slices that have trials, as places of the first variable."""
    name = searches.question.names[0]
    found = [
        searches.question.across_places[dict(case.params)[name]] for case in searches.rows if case.without(name) == base
    ]
    return sorted(found)


def _case(searches: Searches, base: Case, across: int) -> Case:
    """The case of a slice."""
    return base.beside(searches.question.names[0], searches.question.across_value(across))
