"""A study as the sections of the page see it, and what a section is.

A section is a function of the view that gives a `Section`, or None where there is nothing to show. Whoever has something to add
to the page adds such a function to `SECTIONS` in `writing`, or gives ready sections to `write_page`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from seatrial.analysis import figures as fig
from seatrial.analysis.directory import CUT_OFF, StudyRecord, TrialRecord, read_study
from seatrial.analysis.gates import Verdict, judge_study
from seatrial.analysis.lifecycle import Lifecycle, lifecycle
from seatrial.analysis.tables import summary_rows
from seatrial.report.answers import Answer, answers, with_answers
from seatrial.report.durations import lasting
from seatrial.report.grouping import Group, grouped
from seatrial.report.page.markup import Html

LONGEST = 60  # of a name in a sentence; tables have the whole
KEPT = 2_000  # pods; a hundred such trials take some 50 MB
Combination = tuple[tuple[str, str], ...]  # the params that vary, with their values as text


@dataclass(frozen=True)
class Section:
    """A part of the page: its anchor, what the list of contents calls it, its heading, and markup made with `markup`."""

    name: str
    short: str
    title: str
    body: Html


@dataclass(frozen=True)
class View:
    """The study, its figures, and its trials put together by what they share."""

    study: StudyRecord
    rows: Sequence[fig.Figures]

    @cached_property
    def _kept(self) -> dict[str, Lifecycle]:
        return {}

    def seen(self, trial: TrialRecord) -> Lifecycle:
        """What the trial's workloads went through. Several sections ask; small trials are read once, large ones are not kept."""
        if trial.name in self._kept:
            return self._kept[trial.name]
        seen = lifecycle(trial)
        if seen.pods.height <= KEPT:
            self._kept[trial.name] = seen
        return seen

    @cached_property
    def gates(self) -> dict[str, list[Verdict]]:
        """Every expectation of the scenario, with its verdicts; none while a trial runs, or where one was cut off."""
        found: dict[str, list[Verdict]] = {}
        if any(trial.outcome == CUT_OFF for trial in self.study.trials):
            return found
        for verdict in judge_study(self.study, self.rows):
            if verdict.place:
                found.setdefault(verdict.text, []).append(verdict)
        return found

    @cached_property
    def groups(self) -> list[Group]:
        return grouped(self.rows)

    @cached_property
    def setups(self) -> list[str]:
        return list(dict.fromkeys(group.setup for group in self.groups))

    @cached_property
    def trials(self) -> dict[str, TrialRecord]:
        return {trial.name: trial for trial in self.study.trials}

    @cached_property
    def row_of(self) -> dict[str, fig.Figures]:
        return {str(row["trial"]): row for row in self.rows}

    @cached_property
    def combinations(self) -> list[Combination]:
        """Every set of params in the order in which they came; one empty one where nothing varies."""
        return list(dict.fromkeys(combination(group) for group in self.groups))

    @cached_property
    def largest(self) -> Combination:
        """The one that says most: where most pods were, the last of several."""
        best = max(self.groups, key=lambda group: group.most("pods"))
        equal = [group for group in self.groups if group.most("pods") == best.most("pods")]
        return combination(equal[-1])

    @cached_property
    def repeats(self) -> int:
        return max((len(group.rows) for group in self.groups), default=0)

    @cached_property
    def submits(self) -> bool:
        """Whether it is about workloads at all; a study may only send requests to the API server."""
        return any(row["workloads"] or row["submitted"] for row in self.rows)

    @cached_property
    def answers(self) -> dict[str, list[Answer]]:
        """The figures that the scenario names as its answer, at the combination that says most."""
        return answers(self.study, self.at(self.largest)) if self.groups else {}

    def at(self, chosen: Combination) -> list[Group]:
        return [group for group in self.groups if combination(group) == chosen]

    def trusted_at(self, chosen: Combination) -> list[TrialRecord]:
        """Its trials whose figures count."""
        names = {str(row["trial"]) for group in self.at(chosen) for row in group.rows}
        return [trial for trial in self.study.trusted if trial.name in names]

    @cached_property
    def values(self) -> dict[str, list[str]]:
        """Each param that varies, with its values."""
        found: dict[str, list[str]] = {}
        for group in self.groups:
            for name, value in group.params.items():
                if value not in found.setdefault(name, []):
                    found[name].append(value)
        return found


def view_of(out: Path) -> View:
    study = read_study(out)
    return View(study, with_answers(study, summary_rows(out)))


def combination(group: Group) -> Combination:
    return tuple(group.params.items())


def in_words(chosen: Combination) -> str:
    return ", ".join(f"{name} = {value}" for name, value in chosen)


def as_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def seconds(value: float | None, decimals: int | None = None) -> str:
    """As a person would say it."""
    return "–" if value is None else lasting(value, decimals=decimals)


def plural(count: int, thing: str, things: str = "") -> str:
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def listed(names: Sequence[str], most: int = 6) -> str:
    """a, b and c; of many the first few and how many more, of a very long one its beginning."""
    short = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in names]
    shown = short if len(names) <= most else [*short[: most - 1], f"{len(names) - most + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else ""
