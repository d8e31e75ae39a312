"""What a search has found: the answer, its interval, and what contradicts it. Of an unfinished one, how far it is."""

from __future__ import annotations

from dataclasses import dataclass

from seatrial.analysis.searching import SPREADS, RepeatEdge, Search, edges

FOUND, EVERYWHERE, NOWHERE, UNFINISHED = "found", "everywhere", "nowhere", "unfinished"


@dataclass(frozen=True)
class SearchAnswer:
    """Places in the range, of values in ascending order."""

    state: str  # `everywhere`: the condition holds at the end of the range where it was expected not to
    largest: bool
    trials: int
    place: int | None = None  # the answer; of an unfinished search, the best place so far
    sure: bool = False  # all repeats decided at `place`, not only the first
    fails: int | None = None  # the nearest place beyond it at which the condition does not hold
    interval: tuple[int, int] | None = (
        None  # from the first to the last place at which a single repeat crosses the limit
    )
    open_below: bool = False  # the interval may reach further
    open_above: bool = False
    nearest: int | None = None  # where it holds nowhere: the place at which least is missing
    contradictions: tuple[
        tuple[int, int], ...
    ] = ()  # it holds at the first place, and not at the second, where it should


def answer_of(search: Search) -> SearchAnswer:
    """The answer as far as it is known."""
    trials, largest = search.evidence.trials, search.largest
    low, high = search.bracket
    lead = next((position for position, held in search.lead.items() if held), None)
    if high is None and (lead is None or search.decided.get(search.last) is False):
        tried = set(search.between(0, search.last, SPREADS[-1] - 1)) | {0, search.last} <= search.lead.keys()
        state = NOWHERE if tried or search.decided.get(search.last) is False else UNFINISHED
        return SearchAnswer(state, largest, trials, nearest=_nearest(search))
    best = high if high is not None else _first_left(search, low)
    if best is None:
        return SearchAnswer(UNFINISHED, largest, trials, fails=None if low is None else search.place(low))
    below = [low] if high is not None or low is not None else [p for p in search.lead if p < best]
    fails = below[-1] if below else None
    state = UNFINISHED
    if high is not None and (low is None) == (high == 0) and (low is None or high - low == 1):
        state = FOUND if high else EVERYWHERE
    interval, open_first, open_last = _interval(search, best)
    ends = [search.place(position) for position in interval]
    return SearchAnswer(
        state, largest, trials, search.place(best), high is not None, None if fails is None else search.place(fails),
        (min(ends), max(ends)), *((open_last, open_first) if largest else (open_first, open_last)),
        contradictions=tuple((search.place(p), search.place(q)) for p, q in _contradictions(search, best)),
    )  # fmt: skip


def _first_left(search: Search, low: int | None) -> int | None:
    """The first position that holds in the first repeat, where the other repeats may still agree."""
    left = [p for p, held in search.lead.items() if held and p not in search.decided and (low is None or p > low)]
    return left[0] if left else None


def _interval(search: Search, best: int) -> tuple[tuple[int, int], bool, bool]:
    """From where the first repeat begins to hold to where the last does, and whether either may lie further out."""
    found = [one for one in edges(search) if _near(one, search)]
    if search.evidence.alike or not found:
        return (best, best), False, False
    first = [(one.fails_below + 1 if one.fails_below is not None else one.first_holds or 0, one) for one in found]
    last = [(_from(one, search), one) for one in found]
    low, high = min(at for at, _ in first), max(at for at, _ in last)
    open_low = any(one.fails_below is None and one.first_holds for at, one in first if at == low)
    open_high = any(one.holds_above is None for at, one in last if at == high)
    return (min(low, best), max(high, best)), open_low, open_high


def _near(one: RepeatEdge, search: Search) -> bool:
    """Whether the repeat was run where the search ended, or is the only one."""
    return one.first_holds is not None or search.evidence.repeats == 1


def _from(one: RepeatEdge, search: Search) -> int:
    """The position from which a repeat holds."""
    if one.holds_above is not None:
        return one.holds_above
    return search.last if one.last_fails is None else min(one.last_fails + 1, search.last)


def _contradictions(search: Search, best: int) -> list[tuple[int, int]]:
    """Positions at which the condition holds, each with a higher one at which it does not, on average or in the only repeat."""
    known = {**search.lead, **search.decided}
    failing = [p for p in sorted(known) if p > best and not known[p]]
    return [(max(p for p in known if p < q and known[p]), q) for q in failing]


def _nearest(search: Search) -> int | None:
    """The place at which least is missing."""
    tried = [place for place in search.evidence.rows if search.evidence.usable(place)]
    missing = {place: slack for place in tried if (slack := search.evidence.mean_slack(place)) is not None}
    return max(missing, key=lambda place: missing[place], default=None)
