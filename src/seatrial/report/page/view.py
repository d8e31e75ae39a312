"""A study as the sections of the page see it, and what a section is.

A section is a function from the view to a `PageSection`, or None if there is nothing to show. To add a section,
add its function to `SECTIONS` in `html_page`, or pass a ready section to `write_page`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from seatrial.analysis.gates import Verdict, judge
from seatrial.analysis.searched_studies import Searches, searches_of
from seatrial.analysis.studies import Study
from seatrial.analysis.trial_figures import Figures
from seatrial.record.trial_record import CUT_OFF, TrialRecord
from seatrial.report.answer_figures import AnswerFigure, answers, with_answers
from seatrial.report.durations import lasting
from seatrial.report.grouping import Group, grouped
from seatrial.report.page.markup import Html

CHARTED = 100  # sets of params with charts; a sweep of 1,000 would make the page 7.5 MB
LONGEST = 60  # letters of a name in a sentence; tables have the whole name
Combination = tuple[tuple[str, str], ...]  # the params that vary, with their values as text


@dataclass(frozen=True)
class PageSection:
    """A part of the page: anchor, title in the table of contents, heading, and markup made with `markup`."""

    name: str
    short: str
    title: str
    body: Html


@dataclass(frozen=True)
class View:
    """The study, its figures, and its trials grouped by set-up and params."""

    study: Study
    rows: Sequence[Figures]

    @cached_property
    def gates(self) -> dict[str, list[Verdict]]:
        """Every expectation of the scenario with its verdicts; empty while a trial runs or if one was cut off."""
        found: dict[str, list[Verdict]] = {}
        if any(trial.outcome == CUT_OFF for trial in self.study.trials):
            return found
        for verdict in judge(self.study):
            if verdict.place:
                found.setdefault(verdict.text, []).append(verdict)
        return found

    @cached_property
    def searches(self) -> Searches | None:
        """What `seatrial find` searched; None for every other study."""
        return searches_of(self.study)

    @cached_property
    def groups(self) -> list[Group]:
        """The repeats of each set-up and set of params, together."""
        return grouped(self.rows)

    @cached_property
    def setups(self) -> list[str]:
        """All set-ups, in their order."""
        return list(dict.fromkeys(group.setup for group in self.groups))

    @cached_property
    def trials(self) -> dict[str, TrialRecord]:
        """The trials by name."""
        return {trial.name: trial for trial in self.study.trials}

    @cached_property
    def row_of(self) -> dict[str, Figures]:
        """The figures of each trial, by its name."""
        return {str(row["trial"]): row for row in self.rows}

    @cached_property
    def combinations(self) -> list[Combination]:
        """Every set of params, in order; a single empty set if nothing varies."""
        return list(dict.fromkeys(combination(group) for group in self.groups))

    @cached_property
    def charted(self) -> list[Combination]:
        """The sets of params that have charts: all of them, or of many the largest, up to half with trials that did not complete,
        and the rest evenly spread."""
        if len(self.combinations) <= CHARTED:
            return self.combinations
        unfinished = [c for c in self.combinations if any(g.completed < len(g.rows) for g in self.at(c))]
        kept = {self.largest, *_spread(unfinished, CHARTED // 2)}
        kept.update(_spread([c for c in self.combinations if c not in kept], CHARTED - len(kept)))
        return [c for c in self.combinations if c in kept]

    @cached_property
    def left_out(self) -> str:
        """A note if not every set of params has charts."""
        if len(self.charted) == len(self.combinations):
            return ""
        return (
            f"{len(self.charted)} of {len(self.combinations):,} sets of params have charts: those that did not complete, and "
            "others at even distances. summary.csv and times.csv have all of them."
        )

    @cached_property
    def largest(self) -> Combination:
        """The set of params with most pods, the last of several."""
        best = max(self.groups, key=lambda group: group.most("pods"))
        equal = [group for group in self.groups if group.most("pods") == best.most("pods")]
        return combination(equal[-1])

    @cached_property
    def repeats(self) -> int:
        """The largest number of repeats."""
        return max((len(group.rows) for group in self.groups), default=0)

    @cached_property
    def submits(self) -> bool:
        """Whether the study submits workloads; it may only send requests to the API server."""
        return any(row["workloads"] or row["submitted"] for row in self.rows)

    @cached_property
    def answers(self) -> dict[str, list[AnswerFigure]]:
        """The figures that the scenario names as its answer, for `largest`."""
        return answers(self.study, self.at(self.largest)) if self.groups else {}

    @cached_property
    def _groups_at(self) -> dict[Combination, list[Group]]:
        found: dict[Combination, list[Group]] = {}
        for group in self.groups:
            found.setdefault(combination(group), []).append(group)
        return found

    @cached_property
    def _trusted(self) -> dict[Combination, list[TrialRecord]]:
        chosen = {str(row["trial"]): combination(group) for group in self.groups for row in group.rows}
        found: dict[Combination, list[TrialRecord]] = {}
        for trial in self.study.trusted:
            if trial.name in chosen:
                found.setdefault(chosen[trial.name], []).append(trial)
        return found

    def at(self, chosen: Combination) -> list[Group]:
        """The groups with these params, one for each set-up."""
        return self._groups_at.get(chosen, [])

    def trusted_at(self, chosen: Combination) -> list[TrialRecord]:
        """The trials with these params whose figures count, in their order."""
        return self._trusted.get(chosen, [])

    @cached_property
    def values(self) -> dict[str, list[str]]:
        """Each param that varies, with its values."""
        found: dict[str, list[str]] = {}
        for group in self.groups:
            for name, value in group.params.items():
                if value not in found.setdefault(name, []):
                    found[name].append(value)
        return found


def view_of(study: Study) -> View:
    """The study with the figures of its answer."""
    return View(study, with_answers(study))


def _spread(chosen: Sequence[Combination], most: int) -> list[Combination]:
    """`most` items at even distances, with the first and the last."""
    if len(chosen) <= most:
        return list(chosen)
    return [chosen[round(place * (len(chosen) - 1) / (most - 1))] for place in range(most)]


def combination(group: Group) -> Combination:
    """The params of a group."""
    return tuple(group.params.items())


def in_words(chosen: Combination) -> str:
    """Params in words: `jobs = 10, pods = 4`."""
    return ", ".join(f"{name} = {value}" for name, value in chosen)


def as_number(text: str) -> float | None:
    """A finite number, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def seconds(value: float | None, decimals: int | None = None) -> str:
    """A duration in words."""
    return "–" if value is None else lasting(value, decimals=decimals)


def plural(count: int, thing: str, things: str = "") -> str:
    """A count with its noun."""
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


def listed(names: Sequence[str], most: int = 6) -> str:
    """`a, b and c`; long lists and long names are cut."""
    short = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in names]
    shown = short if len(names) <= most else [*short[: most - 1], f"{len(names) - most + 1} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else ""
