"""The figures that a scenario names as its answer (`answer: [...]`), for every set-up: what page and terminal begin with.

A figure that stands for a load as a whole may say nothing about the question. With Priority & Fairness on, the p99 of all requests
is 16 times as long, because the load waits instead of being rejected; what was asked is how many requests of nodes were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seatrial.analysis import figures as fig
from seatrial.analysis.directory import StudyRecord, TrialRecord
from seatrial.model.doubts import RATES, TIMES, kind_of
from seatrial.report.durations import lasting
from seatrial.report.grouping import Group, Spread

NEEDS_ALL = ("total_s", "rate_per_s", "p50_s", "p95_s", "p99_s")  # would flatter a set-up that did not complete


@dataclass(frozen=True)
class Answer:
    """One figure of one set-up and choice of params."""

    group: Group
    figure: str
    spread: Spread | None
    doubtful: bool  # its runs cannot vouch for it

    @property
    def shown(self) -> str:
        mark = "! " if self.doubtful else ""
        return f"{mark}{'–' if self.spread is None else amount(self.figure, self.spread)}"


def figures_asked(study: StudyRecord) -> list[str]:
    return [str(name) for name in study.document.get("answer") or ()]


def with_answers(study: StudyRecord, rows: Sequence[fig.Figures]) -> list[fig.Figures]:
    """The rows of the summary, with those figures of the answer that are no columns of it."""
    more = [name for name in figures_asked(study) if "(" in name]
    if not more:
        return list(rows)
    trials = {trial.name: trial for trial in study.trials}
    return [{**row, **fig.asked_of(trials[str(row["trial"])], more)} for row in rows]


def answers(study: StudyRecord, groups: Sequence[Group]) -> dict[str, list[Answer]]:
    """Figure → its answer by every group; without figures that nobody has."""
    trials = {trial.name: trial for trial in study.trials}
    found = {figure: [_answer(group, figure, trials) for group in groups] for figure in figures_asked(study)}
    return {figure: of for figure, of in found.items() if any(one.spread for one in of)}


def _answer(group: Group, figure: str, trials: Mapping[str, TrialRecord]) -> Answer:
    spread = group.if_all_completed(figure) if figure.partition("(")[0] in NEEDS_ALL else group.over_repeats(figure)
    sure = all(trials[str(row["trial"])].vouches_for([kind_of(figure)]) for row in group.trusted)
    return Answer(group, figure, spread, not sure)


def amount(figure: str, spread: Spread) -> str:
    """With its unit, and its deviation where there are repeats."""
    name = figure.partition("(")[0]
    if name.endswith("_util"):
        return f"{spread.mean:.1%}"
    if kind_of(figure) == TIMES:
        return lasting(spread.mean, spread.deviation)
    unit = " /s" if name.endswith("_per_s") else ""
    digits = 2 if kind_of(figure) == RATES else 0 if spread.mean == int(spread.mean) or spread.mean >= 100 else 1
    deviation = f" ± {spread.deviation:,.{digits}f}" if spread.deviation else ""
    return f"{spread.mean:,.{digits}f}{deviation}{unit}"


def in_a_sentence(figure: str, of: Sequence[Answer]) -> str:
    """`rejected(nodes): 312 with off, 0 with on`."""
    return f"{figure}: {', '.join(f'{one.shown} with {one.group.setup}' for one in of)}"
