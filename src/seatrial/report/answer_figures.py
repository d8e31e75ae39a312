"""The figures that a scenario names as its answer (`answer: [...]`), for every set-up; page and terminal begin with them.

A figure of the whole load may not answer the question: with Priority & Fairness on, the p99 of all requests is 16 times as long,
because the load waits instead of being rejected; the scenario asks how many requests of nodes were rejected.
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
    doubtful: bool  # its runs are not to be trusted for this figure

    @property
    def shown(self) -> str:
        """The figure with its unit; marked with `!` if doubtful."""
        mark = "! " if self.doubtful else ""
        return f"{mark}{'–' if self.spread is None else amount(self.figure, self.spread)}"


def with_answers(study: Study) -> list[Figures]:
    """The rows of the summary, with the figures of the answer that are not columns of it."""
    more = [name for name in study.answer if is_asked(name)]
    if not more:
        return list(study.rows)
    trials = {trial.name: trial for trial in study.trials}
    return [{**row, **study.asked(trials[str(row["trial"])], more)} for row in study.rows]


def answers(study: Study, groups: Sequence[Group]) -> dict[str, list[AnswerFigure]]:
    """Figure → its answer for every group; without figures that no group has."""
    trials = {trial.name: trial for trial in study.trials}
    found = {figure: [_answer(group, figure, trials) for group in groups] for figure in study.answer}
    return {figure: of for figure, of in found.items() if any(one.spread for one in of)}


def _answer(group: Group, name: str, trials: Mapping[str, TrialRecord]) -> AnswerFigure:
    sure = all(trials[str(row["trial"])].vouches_for([find(name).doubted_as]) for row in group.trusted)
    return AnswerFigure(group, name, group.of(name), not sure)


def amount(name: str, spread: Spread) -> str:
    """The value with its unit, and its deviation if there are repeats."""
    figure = find(name)
    if figure.kind == RATIO:
        return f"{spread.mean:.1%}"
    if figure.kind == TIME and figure.unit == "s":
        return lasting(spread.mean, spread.deviation)
    unit = f" {figure.unit}" if figure.kind in (RATE, TIME) else ""
    digits = 2 if figure.kind == RATE else 0 if spread.mean == int(spread.mean) or spread.mean >= 100 else 1
    deviation = f" ± {spread.deviation:,.{digits}f}" if spread.deviation else ""
    return f"{spread.mean:,.{digits}f}{deviation}{unit}"


def in_a_sentence(figure: str, of: Sequence[AnswerFigure]) -> str:
    """`rejected(nodes): 312 with off, 0 with on`."""
    return f"{figure}: {', '.join(f'{one.shown} with {one.group.setup}' for one in of)}"
