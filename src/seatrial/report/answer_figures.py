"""The figures that a scenario names as its answer (`answer: [...]`), for every set-up: what page and terminal begin with.

A figure that stands for a load as a whole may say nothing about the question. With Priority & Fairness on, the p99 of all requests
is 16 times as long, because the load waits instead of being rejected; what was asked is how many requests of nodes were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seatrial.analysis.studies import Study
from seatrial.analysis.trial_figures import Figures
from seatrial.model.figures import RATE, RATIO, TIME, find, is_asked
from seatrial.record.trial_record import TrialRecord
from seatrial.report.durations import lasting
from seatrial.report.grouping import Group, Spread


@dataclass(frozen=True)
class AnswerFigure:
    """One figure of one set-up and choice of params."""

    group: Group
    figure: str
    spread: Spread | None
    doubtful: bool  # its runs cannot vouch for it

    @property
    def shown(self) -> str:
        """The figure with its unit; marked with `!` where it is doubtful."""
        mark = "! " if self.doubtful else ""
        return f"{mark}{'–' if self.spread is None else amount(self.figure, self.spread)}"


def with_answers(study: Study) -> list[Figures]:
    """The rows of the summary, with those figures of the answer that are no columns of it."""
    more = [name for name in study.answer if is_asked(name)]
    if not more:
        return list(study.rows)
    trials = {trial.name: trial for trial in study.trials}
    return [{**row, **study.asked(trials[str(row["trial"])], more)} for row in study.rows]


def answers(study: Study, groups: Sequence[Group]) -> dict[str, list[AnswerFigure]]:
    """Figure → its answer by every group; without figures that nobody has."""
    trials = {trial.name: trial for trial in study.trials}
    found = {figure: [_answer(group, figure, trials) for group in groups] for figure in study.answer}
    return {figure: of for figure, of in found.items() if any(one.spread for one in of)}


def _answer(group: Group, name: str, trials: Mapping[str, TrialRecord]) -> AnswerFigure:
    sure = all(trials[str(row["trial"])].vouches_for([find(name).doubted_as]) for row in group.trusted)
    return AnswerFigure(group, name, group.of(name), not sure)


def amount(name: str, spread: Spread) -> str:
    """With its unit, and its deviation where there are repeats."""
    figure = find(name)
    if figure.kind == RATIO:
        return f"{spread.mean:.1%}"
    if figure.kind == TIME:
        return lasting(spread.mean, spread.deviation)
    unit = f" {figure.unit}" if figure.kind == RATE else ""
    digits = 2 if figure.kind == RATE else 0 if spread.mean == int(spread.mean) or spread.mean >= 100 else 1
    deviation = f" ± {spread.deviation:,.{digits}f}" if spread.deviation else ""
    return f"{spread.mean:,.{digits}f}{deviation}{unit}"


def in_a_sentence(figure: str, of: Sequence[AnswerFigure]) -> str:
    """`rejected(nodes): 312 with off, 0 with on`."""
    return f"{figure}: {', '.join(f'{one.shown} with {one.group.setup}' for one in of)}"
