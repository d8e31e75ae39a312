"""find.png: what a search (`seatrial find`) tried, the limit, and the answer with its interval.

Left the whole range, right the part around the answer, where all repeats were run. Figures far beyond the limit would press the
part that matters into a line, so the right panel ends at a multiple of the limit, and arrows stand for what lies above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.analysis.repeat_judging import Row
from seatrial.analysis.search_answers import FOUND, SearchAnswer
from seatrial.analysis.searched_studies import Case, Question, Searches, searches_of
from seatrial.analysis.studies import Study
from seatrial.model.figures import TIME, find
from seatrial.report.drawing import colour, head, short
from seatrial.report.front_picture import front_figure
from seatrial.report.search_lines import answer_lines, figures_in
from seatrial.scenario.expressions import Expression

CASES = 6  # rows of panels
LOG_FROM = 50.0  # times: figures that span so much are drawn on a logarithmic axis
BEYOND = 2.5  # times the limit: where the panel around the answer ends
_ROW, _WIDTH, _HEAD = 2.9, 9.6, 0.75  # inches


@dataclass(frozen=True)
class SearchCurve:
    """A figure over the values that were tried, and its limit, if that is a number."""

    figure: str
    unit: str
    limit: float | None

    def of(self, rows: Sequence[Row]) -> list[float]:
        """The figure in each of these repeats that has it."""
        return [float(value) for row in rows if isinstance(value := row.get(self.figure), int | float)]


def curve_of(question: Question) -> SearchCurve | None:
    """The figure that the condition is about; None if it is about none that is a number."""
    for text in question.so_that:
        for comparison in Expression.parse(text).comparisons():
            figures = [name for name in figures_in(text) if name in comparison.names]
            if figures:
                figure = find(figures[0])
                unit = figure.unit if figure.kind == TIME else figure.unit or ""
                return SearchCurve(figures[0], unit, comparison.limit_of(figures[0]))
    return None


def search_figure(study: Study) -> Any | None:
    """None if the study is no search, or its condition has no figure."""
    searches = searches_of(study)
    if searches is not None and searches.question.across is not None:
        return front_figure(study, searches) if searches.rows else None
    curve = None if searches is None else curve_of(searches.question)
    if searches is None or curve is None or not searches.rows:
        return None
    from matplotlib.figure import Figure

    answers = dict(list(searches.answers().items())[:CASES])
    height = _HEAD + _ROW * len(answers)
    figure = Figure(figsize=(_WIDTH, height))
    for row, (case, answer) in enumerate(answers.items()):
        bottom = (height - _HEAD - (row + 1) * _ROW + 0.55) / height
        sentence = answer_lines(searches, case, answer)[0]
        figure.text(
            0.02, bottom + (_ROW - 0.72) / _ROW * _ROW / height, short(sentence, 118), fontsize=9.5, va="bottom"
        )
        for left, near in ((0.075, False), (0.58, True)):
            axis = figure.add_axes((left, bottom, 0.4, (_ROW - 0.85) / height))
            _draw(axis, searches, case, answer, curve, near)
    more = f"; the first {CASES} of {len(searches.rows)} searches" if len(searches.rows) > CASES else ""
    line = (
        "dots: trials; grey: the first repeat; blue: mean of all repeats; dashed: the limit; shaded: where single repeats have "
        f"their answer{more}"
    )
    head(figure, height, f"{short(study.name)} on {study.on}: {short(searches.question.asked, 50)}", [line], setups=())
    return figure


def _draw(axis: Any, searches: Searches, case: Case, answer: SearchAnswer, curve: SearchCurve, near: bool) -> None:
    question, evidence = searches.question, searches.search(case).evidence
    shown = around(question, answer) if near else (0, len(question.variable.grid) - 1)
    points = [(place, curve.of(evidence.usable(place))) for place in sorted(evidence.rows)]
    points = [(place, values) for place, values in points if values]
    inside = [value for place, values in points if shown[0] <= place <= shown[1] for value in values]
    if not inside:
        return
    top = _top(inside, curve.limit) if near else max(inside)
    floor = _floor(inside, curve.limit) if not near else min(0.0, *inside)
    for place, values in points:
        x = _x(question, place)
        kept = [max(value, floor) for value in values if value <= top]
        axis.plot([x] * len(kept), kept, "o", color=colour(0), alpha=0.45, markersize=4.5, markeredgewidth=0)
        if len(kept) < len(values) and shown[0] <= place <= shown[1]:
            axis.plot([x], [top * 0.98], "^", color=colour(0), markersize=5)
    first = [(_x(question, place), max(values[0], floor)) for place, values in points]
    axis.plot(*zip(*first, strict=True), color="#999999", linewidth=1)
    means = [(_x(question, p), sum(of) / len(of)) for p, of in points if evidence.decided(p) is not None]
    if means and not evidence.alike:
        axis.plot(*zip(*means, strict=True), color=colour(0), linewidth=1.8)
    if curve.limit is not None:
        axis.axhline(curve.limit, color="#B00000", linestyle="--", linewidth=1.1)
    if answer.interval is not None and answer.place is not None:
        low, high = (_x(question, place) for place in answer.interval)
        axis.axvspan(low, high, color=colour(1), alpha=0.22, linewidth=0)
        axis.axvline(_x(question, answer.place), color=colour(1), linewidth=2 if answer.state == FOUND else 1)
    if not near and floor > 0:
        axis.set_yscale("log")
        axis.set_ylim(floor * 0.8, top * 1.3)
    else:
        axis.set_ylim(floor, top * (1.0 if near else 1.05) or 1.0)
    if question.variable.log and not near:
        axis.set_xscale("log")
    if near:
        axis.set_xlim(*(_x(question, place) for place in shown))
    _name_axes(axis, question, curve, near)


def _name_axes(axis: Any, question: Question, curve: SearchCurve, near: bool) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_xlabel(f"{short(question.name, 34)}{', around the answer' if near else ''}", fontsize=8.5)
    if not near:
        axis.set_ylabel(f"{short(curve.figure, 30)}{f', {curve.unit}' if curve.unit else ''}", fontsize=8.5)
    for one in (axis.xaxis, axis.yaxis):  # numbers, not powers: our style draws no formulas
        one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        one.set_minor_formatter(NullFormatter())
    axis.tick_params(labelsize=8)


def around(question: Question, answer: SearchAnswer) -> tuple[int, int]:
    """The first and the last place around the answer: its interval, and as much on both sides."""
    last = len(question.variable.grid) - 1
    middle = answer.place if answer.place is not None else answer.nearest
    low, high = answer.interval or (middle or 0, middle or 0)
    beside = max(3, (high - low + 1) // 2)
    return max(low - beside, 0), min(high + beside, last)


def _x(question: Question, place: int) -> float:
    return question.variable.number(place)


def _floor(values: Sequence[float], limit: float | None) -> float:
    """The beginning of a logarithmic axis; 0 for a linear one."""
    positive = [value for value in values if value > 0]
    if not positive or max(positive) / min(positive) < LOG_FROM or min(values) < 0:
        return min(0.0, *values)
    return max(min(positive), limit / LOG_FROM) if limit and limit > 0 else min(positive)


def _top(values: Sequence[float], limit: float | None) -> float:
    highest = max(values)
    if limit is None or limit <= 0 or highest <= BEYOND * limit:
        return highest * 1.08 or 1.0
    return BEYOND * limit
