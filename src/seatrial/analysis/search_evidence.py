"""The evidence of a search (`seatrial find`): figures of every trial that it ran, by place in the range and repeat.

A place is a position in the range of values, not the value. Repeats of a place that are not to be trusted are left out; others take
their place.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from seatrial.analysis.repeat_judging import Row, holds_on_average, may_still_hold
from seatrial.model.figures import FIGURES
from seatrial.scenario.expression_grammar import ExpressionProblem
from seatrial.scenario.expressions import Expression

LEAST = 0.1  # of the limit: smaller figures count as this, since a wait of 0 has no logarithm
SPARE = 2  # times as many repeats are tried at a place where some are not to be trusted


@dataclass(frozen=True)
class Evidence:
    """Trials by place and repeat (from 1), and the condition that is searched for."""

    condition: Expression
    repeats: int  # that decide at a place
    rows: Mapping[int, Mapping[int, Row]] = field(default_factory=dict)
    doubted: Collection[tuple[int, int]] = ()  # place and repeat of trials that are not to be trusted

    @property
    def trials(self) -> int:
        """How many trials were run."""
        return sum(len(of) for of in self.rows.values()) + len(self.doubted)

    def numbers(self, place: int) -> list[int]:
        """The repeats that decide at a place; fewer where too many are not to be trusted."""
        tried = range(1, SPARE * self.repeats + 1)
        return [number for number in tried if (place, number) not in self.doubted][: self.repeats]

    def row(self, place: int, number: int) -> Row | None:
        """The figures of one trial, if it was run and can be trusted."""
        return self.rows.get(place, {}).get(number)

    def holds(self, place: int, number: int) -> bool | None:
        """Whether the condition holds in one trial; None if that was not run."""
        row = self.row(place, number)
        return None if row is None else holds(self.condition, [row])

    def slack(self, place: int, number: int) -> float | None:
        """How far the condition is from changing in one trial."""
        row = self.row(place, number)
        return None if row is None else slack(self.condition, row)

    def usable(self, place: int) -> list[Row]:
        """The figures of the repeats that decide at a place, as far as they were run."""
        return [row for number in self.numbers(place) if (row := self.row(place, number)) is not None]

    def decided(self, place: int) -> bool | None:
        """Whether the condition holds on average; None while the repeats that were run leave that open. One is enough if repeats do
        not differ."""
        rows = self.usable(place)
        if len(rows) >= (1 if self.alike else self.repeats):
            return holds(self.condition, rows)
        return False if rows and not _may_hold(self.condition, rows, self.repeats) else None

    def complete(self, near: int) -> int | None:
        """The nearest place at which all repeats were run."""
        whole = [place for place in self.rows if len(self.usable(place)) >= self.repeats]
        return min(whole, key=lambda place: abs(place - near), default=None)

    def mean_slack(self, place: int) -> float | None:
        """The mean of `slack` over all repeats. One that was not run is taken to be as far from the others as where all were."""
        known = {n: one for n in self.numbers(place) if (one := self.slack(place, n)) is not None}
        whole = self.complete(place)
        if not known:
            return None
        if whole is not None and whole != place:
            there = {n: one for n in self.numbers(whole) if (one := self.slack(whole, n)) is not None}
            both = [n for n in known if n in there]
            if both:
                shift = statistics.fmean(bent(known[n]) - bent(there[n]) for n in both)
                known |= {n: unbent(bent(there[n]) + shift) for n in there if n not in known}
        return statistics.fmean(known.values())

    @cached_property
    def alike(self) -> bool:
        """Whether repeats are the same to the last figure: then nothing in the scenario is random, and one repeat says all."""
        whole = next((rows for place in self.rows if len(rows := self.usable(place)) >= self.repeats > 1), [])
        bare = [{name: row[name] for name in row if name in FIGURES and not FIGURES[name].label} for row in whole]
        return self.repeats == 1 or (len(bare) > 1 and all(row == bare[0] for row in bare) and bool(bare[0]))


def holds(condition: Expression, rows: Sequence[Row]) -> bool:
    """Whether the condition holds on average; False if it cannot be judged (a division by zero)."""
    try:
        return holds_on_average(condition, rows)
    except ExpressionProblem:
        return False


def _may_hold(condition: Expression, rows: Sequence[Row], repeats: int) -> bool:
    try:
        return may_still_hold(condition, rows, repeats)
    except ExpressionProblem:
        return False


def bent(slack: float) -> float:
    """A slack, so that a figure that grows by a factor per step, as waits do below the answer, makes a straight line."""
    return -math.log(max(1 - slack, LEAST))


def unbent(value: float) -> float:
    """The slack again."""
    return 1 - math.exp(-value)


def slack(condition: Expression, row: Row) -> float | None:
    """How far the condition is from changing; None if that has no number."""
    try:
        return condition.slack(row)
    except ExpressionProblem:
        return None
