"""The result of a search: the answer, its interval, and contradictions. For an unfinished search, its state."""

from __future__ import annotations

from dataclasses import dataclass

from seatrial.analysis.searching import SPREADS, RepeatEdge, Search, edges

JITTER, FAR = 4, 20  # steps, and parts of the range: a repeat that falls back less far is noise
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
    over = lead is not None and search.decided.get(lead) is False and search.decided.get(search.last) is False
    if high is None and (lead is None or over):
        tried = set(search.between(0, search.last, SPREADS[-1] - 1)) | {0, search.last} <= search.lead.keys()
        state = NOWHERE if tried or over else UNFINISHED
        return SearchAnswer(state, largest, trials, nearest=_nearest(search))
    best = high if high is not None else _first_left(search, low)
    if best is None:
        return SearchAnswer(UNFINISHED, largest, trials, fails=None if low is None else search.place(low))
    below = [low] if high is not None or low is not None else [p for p in search.lead if p < best]
    fails = below[-1] if below else None
    state = UNFINISHED
    if high is not None and (low is None) == (high == 0) and (low is None or high - low == 1):
        state = FOUND if high else EVERYWHERE
    if lead is not None and low is not None and lead < low and lead not in search.decided and _contradictions(search):
        state = UNFINISHED  # something holds below, and the budget did not suffice to look there
    interval, open_first, open_last = _interval(search, best)
    ends = [search.place(position) for position in interval]
    return SearchAnswer(
        state, largest, trials, search.place(best), high is not None, None if fails is None else search.place(fails),
        (min(ends), max(ends)), *((open_last, open_first) if largest else (open_first, open_last)),
        contradictions=tuple((search.place(p), search.place(q)) for p, q in _contradictions(search)),
    )  # fmt: skip


def _first_left(search: Search, low: int | None) -> int | None:
    """The first position that holds in the first repeat, where the other repeats may still agree."""
    left = [p for p, held in search.lead.items() if held and p not in search.decided and (low is None or p > low)]
    return left[0] if left else None


def _interval(search: Search, best: int) -> tuple[tuple[int, int], bool, bool]:
    """The positions at which the first and the last repeat begin to hold, and whether either may lie further out."""
    found = [one for one in edges(search) if best in search.held(one.nth)]
    if search.evidence.alike or not found:
        return (best, best), False, False
    first = [(_until(one), one) for one in found]
    last = [(_from(one, search), one) for one in found]
    low, high = min(at for at, _ in first), max(at for at, _ in last)
    open_low = any(one.fails_below is None and one.first_holds for at, one in first if at == low)
    open_high = any(one.holds_above is None and one.last_fails is not None for at, one in last if at == high)
    return (min(low, best), max(high, best)), open_low, open_high


def _until(one: RepeatEdge) -> int:
    """The first position from which a repeat may hold."""
    if one.fails_below is not None:
        return one.fails_below + 1
    return one.first_holds or 0


def _from(one: RepeatEdge, search: Search) -> int:
    """The position from which a repeat holds."""
    if one.holds_above is not None:
        return one.holds_above
    return search.last if one.last_fails is None else min(one.last_fails + 1, search.last)


def _contradictions(search: Search) -> list[tuple[int, int]]:
    """The first position at which the condition holds and the last at which it does not, if that is higher: on average, or in the
    first repeat, where it is no jitter of a few steps."""
    found: list[tuple[int, int]] = []
    for known, least in ((search.decided, 1), (search.lead, max(JITTER, search.last // FAR))):
        first = next((p for p, held in known.items() if held), None)
        last = next((p for p in reversed(known) if not known[p]), None)
        if first is not None and last is not None and last - first >= least:
            found.append((first, last))
    return found[:1]


def _nearest(search: Search) -> int | None:
    """The place at which least is missing."""
    tried = [place for place in search.evidence.rows if search.evidence.usable(place)]
    missing = {place: slack for place in tried if (slack := search.evidence.mean_slack(place)) is not None}
    return max(missing, key=lambda place: missing[place], default=None)
