"""The next trials of a search (`seatrial find`): a pure function of its evidence, so a killed search continues unchanged.

All values of a repeat see the same random streams, so one repeat by itself crosses the limit at one place, more or less. The search
narrows that place down with the first repeat, runs the other repeats where it ended, and moves to where their mean crosses the
limit, which the curve of the first repeat, shifted by how far the mean is away from it, predicts well. Then it looks for
contradictions in stretches that it has not tried, and for the places where single repeats cross the limit: the interval of the
answer.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from seatrial.analysis.search_evidence import Evidence, bent

UNTRIED = 4  # no stretch longer than a quarter of the range stays without a trial
CLOSE = 50  # parts of a long range: so close the first repeat is narrowed down before the others are asked
WORST = 2  # repeats that are run first where others have shown which are the worst: they may decide alone
SPREADS = (4, 8)  # parts of the range that are tried where neither end will do


class NextTrial(NamedTuple):
    """A trial: place of the value in the range, and the repeat."""

    place: int
    repeat: int


@dataclass(frozen=True)
class SearchLimits:
    """How a search is run."""

    budget: int  # trials
    at_once: int = 2  # values that are tried side by side while the range is narrowed down
    largest: bool | None = None  # False: the smallest; None: as the ends of the range say
    narrow_only: bool = False  # with the first repeat, and no further
    confirm_only: bool = False  # only all repeats, where the first one ended


@dataclass(frozen=True)
class Search:
    """A search as far as it went. `scale`: a number for every place, in which distances are measured (log where ratios count).

    Inside, positions count from the end where the condition is expected not to hold; `place` translates.
    """

    scale: Sequence[float]
    evidence: Evidence
    limits: SearchLimits
    implied: Mapping[int, bool] = field(default_factory=dict)  # by place: what other searches say of the first repeat

    @property
    def last(self) -> int:
        """The index of the last value of the scale."""
        return len(self.scale) - 1

    @cached_property
    def largest(self) -> bool:
        """Whether the condition is expected to hold below the answer: where it holds at the small end and not at the large one."""
        if self.limits.largest is not None:
            return self.limits.largest
        ends = [self._first_repeat(place) for place in (0, self.last)]
        return ends[0] is True and ends[1] is False

    def place(self, position: int) -> int:
        """The place of a position, and the other way round."""
        return self.last - position if self.largest else position

    def _first_repeat(self, place: int) -> bool | None:
        number = next(iter(self.evidence.numbers(place)), None)
        held = None if number is None else self.evidence.holds(place, number)
        return self.implied.get(place) if held is None else held

    @cached_property
    def lead(self) -> dict[int, bool]:
        """Position → whether the condition holds in the first repeat, in ascending order."""
        found = {self.place(place): self._first_repeat(place) for place in (*self.evidence.rows, *self.implied)}
        return {position: held for position, held in sorted(found.items()) if held is not None}

    @cached_property
    def decided(self) -> dict[int, bool]:
        """Position → whether the condition holds on average, where all repeats were run."""
        found = {self.place(place): self.evidence.decided(place) for place in self.evidence.rows}
        return {position: held for position, held in sorted(found.items()) if held is not None}

    @cached_property
    def bracket(self) -> tuple[int | None, int | None]:
        """The last position that fails on average below the first that holds, and that one."""
        first = next((position for position, held in self.decided.items() if held), None)
        below = [p for p, held in self.decided.items() if not held and (first is None or p < first)]
        return (below[-1] if below else None), first

    def at(self, position: int) -> float:
        """The position on the scale, ascending."""
        return -self.scale[self.place(position)] if self.largest else self.scale[position]

    def ran(self, position: int) -> int:
        """How many repeats were run there."""
        return len(self.evidence.usable(self.place(position)))

    def slack(self, position: int, nth: int = 0) -> float | None:
        """The slack of the n-th repeat (from 0)."""
        numbers = self.evidence.numbers(self.place(position))
        return self.evidence.slack(self.place(position), numbers[nth]) if nth < len(numbers) else None

    def held(self, nth: int) -> dict[int, bool]:
        """Position → whether the condition holds in the n-th repeat, in ascending order."""
        found: dict[int, bool] = {}
        for place in self.evidence.rows:
            numbers = self.evidence.numbers(place)
            held = self.evidence.holds(place, numbers[nth]) if nth < len(numbers) else None
            if held is not None:
                found[self.place(place)] = held
        return dict(sorted(found.items()))

    def between(self, low: int, high: int, count: int) -> list[int]:
        """Positions that divide a stretch evenly on the scale, without its ends."""
        if high - low - 1 <= count:
            return list(range(low + 1, high))
        step = (self.at(high) - self.at(low)) / (count + 1)
        wanted = [self.nearest(self.at(low) + step * (n + 1)) for n in range(count)]
        return sorted({min(max(one, low + 1), high - 1) for one in wanted})

    def nearest(self, at: float) -> int:
        """The position nearest to a number of the scale."""
        after = bisect_left(range(self.last + 1), at, key=self.at)
        near = [p for p in (after - 1, after) if 0 <= p <= self.last]
        return min(near, key=lambda p: abs(self.at(p) - at))

    def crossing(self, level: float) -> int | None:
        """The first position where the curve of the first repeat rises above a level, between the positions that were tried."""
        known = [(p, one) for p in self.lead if (one := self.slack(p)) is not None]
        for (low, below), (high, above) in pairwise(known):
            if below < level <= above:
                part = (level - below) / (above - below)
                at = self.at(low) + part * (self.at(high) - self.at(low))
                return min(max(bisect_left(range(self.last + 1), at - 1e-12, key=self.at), low + 1), high)
        return None


def next_probes(search: Search) -> list[NextTrial]:
    """The trials to run next, side by side; none if the search is over or its budget spent."""
    left = search.limits.budget - search.evidence.trials
    for step in _steps(search.limits):
        probes: list[NextTrial] = []
        for position, nth in step(search):
            numbers = search.evidence.numbers(search.place(position))
            probe = NextTrial(search.place(position), numbers[nth]) if nth < len(numbers) else None
            known = nth == 0 and search.limits.narrow_only and search.place(position) in search.implied
            if probe and probe not in probes and search.evidence.row(*probe) is None and not known:
                probes.append(probe)
        if probes:
            return probes[: max(left, 0)]
    return []


def _steps(limits: SearchLimits) -> tuple[Callable[[Search], _Wanted], ...]:
    if limits.narrow_only:
        return _ends, _narrow
    return (_average,) if limits.confirm_only else (_ends, _narrow, _average, _contradictions, _edges)


_Wanted = Iterator[tuple[int, int]]  # positions, and which of their repeats (from 0)


def _ends(search: Search) -> _Wanted:
    """The ends of the range; where the condition holds at neither, places between."""
    yield from ((0, 0), (search.last, 0))
    if not {0, search.last} <= search.lead.keys() or any(search.lead.values()) or search.limits.narrow_only:
        return
    for parts in SPREADS:
        spread = search.between(0, search.last, parts - 1)
        yield from ((position, 0) for position in spread)
        if not set(spread) <= search.lead.keys():
            return


def _narrow(search: Search) -> _Wanted:
    """The first repeat, from its first position that holds down to the one before it; in a long range not so far at first, since
    other repeats may cross the limit elsewhere."""
    first = next((position for position, held in search.lead.items() if held), None)
    if first is None:
        return
    below = [position for position in search.lead if position < first]
    closest = 1 if search.evidence.alike or search.limits.narrow_only else max(1, search.last // CLOSE)
    if below and first - below[-1] > closest:
        yield from ((position, 0) for position in search.between(below[-1], first, search.limits.at_once))


def _average(search: Search) -> _Wanted:
    """All repeats, at positions that converge on where the mean crosses the limit."""
    first = next((position for position, held in search.lead.items() if held), None)
    if first is None:
        return
    low, high = search.bracket
    if first not in search.decided and (high is None or first < high):
        yield from _all_repeats(search, first)
        return
    if high is None and low is not None and low < search.last:
        yield from _all_repeats(search, _beyond(search, low, 1))
    elif high is not None and (low is None or search.ran(low) == 1) and high - (-1 if low is None else low) > 1:
        yield from _all_repeats(search, max(_beyond(search, high, -1), 0 if low is None else low + 1))
    elif high is not None and low is not None and high - low > 1:
        yield from _all_repeats(search, _inside(search, low, high))


def _all_repeats(search: Search, position: int) -> _Wanted:
    """The repeats at a position, the worst ones first."""
    evidence, place = search.evidence, search.place(position)
    numbers = evidence.numbers(place)[: 1 if evidence.alike else None]
    missing = [number for number in numbers if evidence.row(place, number) is None]
    known = evidence.complete(place)
    if known is not None and len(missing) > WORST:
        slacks = {number: evidence.slack(known, number) for number in numbers}
        ranked = sorted(numbers, key=lambda number: (math.inf if (one := slacks[number]) is None else one, number))
        worst = [number for number in ranked[:WORST] if number in missing]
        missing = worst or missing
    yield from ((position, numbers.index(number)) for number in missing)


def _beyond(search: Search, position: int, way: int) -> int:
    """Where the mean crosses the limit, seen from one side: the last two means say where, or the curve of the first repeat: the
    mean is as far from its crossing as that curve is where it has the same value."""
    expected = _extended(search, position, way)
    if expected is None:
        mean = search.evidence.mean_slack(search.place(position))
        same, zero = None if mean is None else search.crossing(mean), search.crossing(0.0)
        expected = (
            None
            if same is None or zero is None
            else search.nearest(search.at(position) + search.at(zero) - search.at(same))
        )
    tried = sum(search.ran(p) > 1 for p in search.decided)
    if expected is None:
        expected = position + way * 2 ** (tried - 1)
    least: int = position + way * 2 ** max(tried - 2, 0)  # figures often fall ever more slowly: steps must grow
    return min(max(expected, least), search.last) if way > 0 else max(min(expected, least), 0)


def _extended(search: Search, position: int, way: int) -> int | None:
    """Where the line through the means at a position and at the one decided before it crosses the limit."""
    several = [p for p in search.decided if search.ran(p) > 1]
    earlier = [p for p in several if (position - p) * way > 0]
    if not earlier:
        return None
    other = max(earlier) if way > 0 else min(earlier)
    here, there = (_bent(search, p) for p in (position, other))
    slope = None if here is None or there is None else (here - there) / (search.at(position) - search.at(other))
    if here is None or slope is None or not slope > 0 or not math.isfinite(slope):
        return None
    at = min(search.at(position) - here / slope, search.at(search.last))
    return bisect_left(range(search.last + 1), at, key=search.at)


def _bent(search: Search, position: int) -> float | None:
    mean = search.evidence.mean_slack(search.place(position))
    return None if mean is None else bent(mean)


def _inside(search: Search, low: int, high: int) -> int:
    """Where the mean crosses the limit between two positions."""
    below, above = (_bent(search, position) for position in (low, high))
    if below is None or above is None or not below < 0 <= above or not math.isfinite(above - below):
        return (low + high) // 2
    at = search.at(low) + -below / (above - below) * (search.at(high) - search.at(low))
    return min(max(bisect_left(range(search.last + 1), at, key=search.at), low + 1), high - 1)


def _contradictions(search: Search) -> _Wanted:
    """The middle of every long stretch without a trial, and all repeats where the first one contradicts the answer furthest."""
    whole = search.at(search.last) - search.at(0)
    tried = list(search.lead)
    for low, high in pairwise(tried):
        if high - low > 1 and search.at(high) - search.at(low) > whole / UNTRIED:
            yield from ((position, 0) for position in search.between(low, high, 1))
    _, answer = search.bracket
    failing = [position for position, held in search.lead.items() if not held and position > (answer or 0)]
    if answer is not None and failing and failing[-1] not in search.decided:
        yield from _all_repeats(search, failing[-1])


@dataclass(frozen=True)
class RepeatEdge:
    """Where one repeat crosses the limit: after `fails` and not after `holds`, at the lower and at the upper edge."""

    nth: int
    fails_below: int | None  # the last position that fails below the first that holds
    first_holds: int | None
    last_fails: int | None
    holds_above: int | None  # the first position that holds above the last that fails


def edges(search: Search) -> list[RepeatEdge]:
    """The edges of every repeat that was run."""
    found = []
    for nth in range(search.evidence.repeats):
        held = search.held(nth)
        first = next((p for p, holds in held.items() if holds), None)
        last = next((p for p in reversed(held) if not held[p]), None)
        below = [p for p, holds in held.items() if not holds and (first is None or p < first)]
        above = [p for p, holds in held.items() if holds and (last is None or p > last)]
        if held:
            found.append(RepeatEdge(nth, below[-1] if below else None, first, last, above[0] if above else None))
    return found


def _edges(search: Search) -> _Wanted:
    """Single repeats, where they may still widen the interval of the answer."""
    _, answer = search.bracket
    if answer is None or search.evidence.alike:
        return
    found = edges(search)
    lowest = min((one.first_holds for one in found if one.first_holds is not None), default=answer)
    highest = max((one.last_fails + 1 for one in found if one.last_fails is not None), default=answer)
    for one in found:
        if one.first_holds and (one.fails_below is None or one.fails_below + 1 < min(one.first_holds, lowest)):
            yield _closer(search, one, answer, one.fails_below, one.first_holds), one.nth
        needed = one.holds_above is None or one.holds_above > max(highest, (one.last_fails or 0) + 1)
        if one.last_fails is not None and one.last_fails < search.last and needed:
            yield _closer(search, one, answer, one.last_fails, one.holds_above), one.nth


def _closer(search: Search, one: RepeatEdge, answer: int, low: int | None, high: int | None) -> int:
    """A position inside a stretch in which a repeat crosses the limit, or beyond its known end."""
    if low is not None and high is not None:
        return (low + high) // 2
    own, lead = search.slack(answer, one.nth), search.slack(answer)
    expected = None if own is None or lead is None else search.crossing(lead - own)
    if high is not None:
        expected = high - (answer - high + 1) if expected is None else expected - 1
        return max(min(expected, high - 1), 0)
    assert low is not None
    return min(max(low + (low - answer) + 2 if expected is None else expected, low + 1), search.last)
