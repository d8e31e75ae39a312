"""Whether a condition holds over the repeats of a trial, beyond the noise between them. Gates ask it, and searches (`find`).

Exact figures (counts, outcomes) must hold in every repeat. Of measured ones the mean decides, and the interval around the mean
margin (left minus right) says whether that is beyond noise: up to `EVERY_REPEAT` repeats it goes from the smallest to the largest
margin, from six on it is that of `resampling.of_pairs`.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seatrial.analysis.resampling import of_pairs
from seatrial.model.figures import FIGURES, Value
from seatrial.scenario.expression_grammar import ExpressionProblem
from seatrial.scenario.expressions import Comparison, Expression

HOLDS, OPEN, FAILS = "holds", "open", "fails"
EVERY_REPEAT = 5  # up to here the interval is the range

Row = Mapping[str, Value]


@dataclass(frozen=True)
class Judged:
    """A condition over several repeats. `open`: it does not hold on average, but that is within noise."""

    state: str
    explanation: str


def over_repeats(expression: Expression, rows: Sequence[Row]) -> Judged:
    """The condition over these repeats, by the mean of measured figures."""
    try:
        may_hold = expression.decide(lambda comparison, wanted: _may_be(comparison, wanted, rows))
        found = means(expression, rows)
        holds = expression.evaluate(found)
    except ExpressionProblem as problem:
        return Judged(FAILS, f"`{expression.text}` cannot be judged: {problem.message}")
    said = f"{expression.explain(found)}{_margins(expression, rows)}, over {len(rows)} repeats"
    if not may_hold:
        return Judged(FAILS, f"`{expression.text}` does not hold: {said}")
    if not holds:
        return Judged(OPEN, f"`{expression.text}` does not hold on average, but that is not beyond noise: {said}")
    return Judged(HOLDS, said)


def holds_on_average(expression: Expression, rows: Sequence[Row]) -> bool:
    """Whether it holds: exact comparisons in every repeat, measured ones by the mean. Raises ExpressionProblem."""
    if len(rows) == 1:
        return expression.evaluate(rows[0])
    found = means(expression, rows)

    def is_so(comparison: Comparison, wanted: bool) -> bool:
        if _is_exact(comparison):
            return all(comparison.holds(row) is wanted for row in rows)
        return comparison.holds(found) is wanted

    return expression.decide(is_so)


def may_still_hold(expression: Expression, rows: Sequence[Row], repeats: int) -> bool:
    """Whether it may hold once all repeats were run: a wait that is so long in one repeat that the mean is above the limit even if
    no workload waits in the others decides, and so does a single repeat where every one must hold."""

    def may_be(comparison: Comparison, wanted: bool) -> bool:
        each = [comparison.holds(row) for row in rows]
        if None in each:
            return False
        if _is_exact(comparison):
            return all(one is wanted for one in each)
        least = comparison.least_mean(rows, repeats) if wanted else None
        return least is None or least

    return expression.decide(may_be)


def means(expression: Expression, rows: Sequence[Row]) -> dict[str, Value]:
    """Means of measured figures over the repeats; the rest from the first repeat."""
    values = dict(rows[0])
    for name in expression.names:
        measured = [row.get(name) for row in rows]
        numbers = [value for value in measured if isinstance(value, int | float) and not isinstance(value, bool)]
        if len(numbers) == len(rows):
            values[name] = statistics.fmean(numbers)
        elif None in measured:
            values[name] = None
    return values


def _margins(expression: Expression, rows: Sequence[Row]) -> str:
    parts = []
    comparisons = list(expression.comparisons())
    for comparison in comparisons:
        margins = [margin for row in rows if (margin := comparison.margin(row)) is not None]
        if len(margins) == len(rows) and len(set(margins)) > 1:
            low, high = _interval(margins)
            mean = statistics.fmean(margins)
            which = f" in `{comparison.text}`" if len(comparisons) > 1 else ""
            parts.append(f"left − right{which} is {mean:.4g} ({low:.4g} … {high:.4g})")
    return "; " + "; ".join(parts) if parts else ""


def _may_be(comparison: Comparison, wanted: bool, rows: Sequence[Mapping[str, Value]]) -> bool:
    """Whether the comparison may come out as wanted, given its margins in all repeats."""
    each = [comparison.holds(row) for row in rows]
    if None in each:
        return False
    margins = [comparison.margin(row) for row in rows]
    known = [margin for margin in margins if margin is not None]
    if len(known) < len(rows) or _is_exact(comparison):
        return all(one is wanted for one in each)
    return comparison.may_be(wanted, *_interval(known))


def _is_exact(comparison: Comparison) -> bool:
    """Whether it compares exact figures and params only."""
    figures = [_figure(name) for name in comparison.names]
    return all(FIGURES[name].exact for name in figures if name in FIGURES)


def _figure(name: str) -> str:
    """`p99_s` of `p99_s(kueue)` and of `p99_s of the baseline`."""
    return name.partition("(")[0].partition(" ")[0]


def _interval(margins: Sequence[float]) -> tuple[float, float]:
    if len(margins) <= EVERY_REPEAT:
        return min(margins), max(margins)
    effect = of_pairs([margins])
    assert effect.low is not None and effect.high is not None
    return effect.low, effect.high
