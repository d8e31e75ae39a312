"""A search (`seatrial find`) in a study directory: its question, as study.json holds it, and its trials as evidence.

The same code reads a study while it is searched and years later, so that reports need nothing but the directory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

from seatrial.analysis.cells import CellKey, as_text, spelled
from seatrial.analysis.repeat_judging import Row
from seatrial.analysis.search_answers import SearchAnswer, answer_of
from seatrial.analysis.search_evidence import Evidence
from seatrial.analysis.searching import Search, SearchLimits
from seatrial.analysis.studies import Study
from seatrial.analysis.trial_figures import asked_of, figures_of
from seatrial.model.figures import FIGURES
from seatrial.model.plan import Scalar
from seatrial.record.trial_record import CUT_OFF, TrialRecord
from seatrial.scenario.expressions import Expression
from seatrial.scenario.value_ranges import ValueRange, parse_variation
from seatrial.scenario.varying import param_names

FIND = "find"  # the key of study.json


@dataclass(frozen=True)
class Question:
    """The question of a search."""

    vary: tuple[str, ...]  # `PATH=RANGE` as it was written; the last one is searched, one before it makes slices
    so_that: tuple[str, ...]
    repeats: int
    limits: SearchLimits
    prices: Mapping[str, float] = field(default_factory=dict)  # of one more of each variable, by its path

    @cached_property
    def variables(self) -> tuple[ValueRange, ...]:
        """The variables, in the order in which they were given."""
        return tuple(parse_variation(text) for text in self.vary)

    @property
    def variable(self) -> ValueRange:
        """The variable that is searched."""
        return self.variables[-1]

    @property
    def across(self) -> ValueRange | None:
        """The variable that is cut into slices; None with a single one."""
        return self.variables[0] if len(self.variables) > 1 else None

    @property
    def names(self) -> tuple[str, ...]:
        """The params that are varied."""
        return param_names(self.variables)

    @property
    def name(self) -> str:
        """The param that is searched."""
        return self.names[-1]

    @cached_property
    def across_places(self) -> dict[str, int]:
        """The place of every value of the first of two variables, by its text."""
        return {} if self.across is None else {as_text(value): place for place, value in enumerate(self.across.grid)}

    def across_value(self, place: int) -> Scalar:
        """The value of the first of two variables at a place."""
        assert self.across is not None
        return self.across.grid[place]

    def cost(self, across: int | None, place: int) -> float | None:
        """The price of a mix; None without prices."""
        if not self.prices:
            return None
        places = [place] if across is None else [across, place]
        pairs = zip(self.variables, places, strict=True)
        return sum(self.prices.get(one.path, 0.0) * one.number(at) for one, at in pairs)

    @property
    def asked(self) -> str:
        """The condition as the user wrote it."""
        return " and ".join(self.so_that)

    @cached_property
    def condition(self) -> Expression:
        """The whole condition: a trial that did not complete does not meet it, unless it names outcomes itself."""
        whole = " and ".join(f"({text})" for text in self.so_that) if len(self.so_that) > 1 else self.so_that[0]
        if "outcome" in Expression.parse(whole).figures:
            return Expression.parse(whole)
        return Expression.parse(f'({whole}) and outcome == "completed"')

    @cached_property
    def scale(self) -> list[float]:
        """A number for every place of the range, ascending: its logarithm if the range spans decades."""
        numbers = [self.variable.number(place) for place in range(len(self.variable.grid))]
        if any(b <= a for a, b in pairwise(numbers)):
            return [float(place) for place in range(len(numbers))]
        return [math.log(number) for number in numbers] if self.variable.log else numbers

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of every value, by its text."""
        return {as_text(value): place for place, value in enumerate(self.variable.grid)}

    def value(self, place: int) -> Scalar:
        """The value at a place."""
        return self.variable.grid[place]

    def document(self) -> dict[str, Any]:
        """The question as in study.json."""
        return {
            "vary": list(self.vary),
            "so_that": list(self.so_that),
            "repeats": self.repeats,
            "budget": self.limits.budget,
            "at_once": self.limits.at_once,
            "largest": self.limits.largest,
            "prices": dict(self.prices),
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self | None:
        """The question of a study; None if it was no search."""
        found = document.get(FIND)
        if not found:
            return None
        limits = SearchLimits(int(found["budget"]), int(found["at_once"]), found["largest"])
        asked = tuple(found["vary"]), tuple(found["so_that"]), int(found["repeats"])
        return cls(*asked, limits, {path: float(price) for path, price in found["prices"].items()})


@dataclass(frozen=True)
class Case:
    """The subject of one search: a set-up, and values of the other params."""

    setup: str
    params: CellKey = ()

    def __str__(self) -> str:
        return f"{self.setup} ({spelled(self.params)})" if self.params else self.setup

    @classmethod
    def of(cls, setup: str, params: Mapping[str, Any], name: str) -> Self:
        """The case of a trial, whose params include the searched one."""
        return cls(setup, tuple(sorted((key, as_text(value)) for key, value in params.items() if key != name)))

    def without(self, name: str) -> Case:
        """The case of all slices of which this is one."""
        return Case(self.setup, tuple((key, value) for key, value in self.params if key != name))

    def beside(self, name: str, value: Any) -> Case:
        """The slice with this value."""
        return Case(self.setup, tuple(sorted((*self.without(name).params, (name, as_text(value))))))


@dataclass
class Searches:
    """The searches of a study, one for each case, with what their trials showed."""

    question: Question
    rows: dict[Case, dict[int, dict[int, Row]]] = field(default_factory=dict)
    doubted: dict[Case, dict[tuple[int, int], str]] = field(default_factory=dict)  # with the reason

    def add(self, trial: TrialRecord, figures: Row) -> None:
        """A trial that has ended. `figures` must include those that the condition asks by groups."""
        case = Case.of(trial.setup, trial.params, self.question.name)
        place = self.question.places[as_text(trial.params[self.question.name])]
        repeat = int(trial.document["repeat"])
        kinds = {FIGURES[name].doubted_as for name in self.question.condition.figures}
        if trial.vouches_for(kinds):
            self.rows.setdefault(case, {}).setdefault(place, {})[repeat] = figures
        else:
            self.rows.setdefault(case, {})
            self.doubted.setdefault(case, {})[place, repeat] = "; ".join(trial.reasons)

    def search(self, case: Case) -> Search:
        """The search of one case, as far as it went."""
        evidence = Evidence(
            self.question.condition, self.question.repeats, self.rows.get(case, {}), self.doubted.get(case, {}).keys()
        )
        return Search(self.question.scale, evidence, self.question.limits)

    def answers(self, cases: Iterable[Case] = ()) -> dict[Case, SearchAnswer]:
        """The answer of every case that was begun."""
        return {case: answer_of(self.search(case)) for case in dict.fromkeys([*cases, *self.rows])}


def searches_of(study: Study) -> Searches | None:
    """The searches of a study; None if it was no search."""
    question = Question.of(study.document)
    if question is None:
        return None
    found = Searches(question)
    for trial in study.trials:
        if trial.outcome != CUT_OFF and question.name in trial.params:
            found.add(trial, row_of(trial, study, question.condition.asked))
    return found


def row_of(trial: TrialRecord, study: Study | None, asked: Sequence[str]) -> Row:
    """All figures and params of a trial that a condition may name, not rounded."""
    if study is not None:
        return {**_params(trial), **study.figures(trial), **study.asked(trial, asked)}
    from seatrial.analysis.stage_times import lifecycle

    seen = lifecycle(trial)
    return {**_params(trial), **figures_of(seen), **(asked_of(trial, asked, lambda _: seen) if asked else {})}


def _params(trial: TrialRecord) -> dict[str, Any]:
    """In rows of figures, a param that has the name of a figure gives way."""
    return {name: value for name, value in trial.params.items() if name not in FIGURES}
