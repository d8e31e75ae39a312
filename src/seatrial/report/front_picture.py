"""find.png of two variables: what was tried, the front between what does and what does not, and the cheapest mix."""

from __future__ import annotations

from typing import Any

from seatrial.analysis.search_fronts import Front
from seatrial.analysis.searched_studies import Case, Question, Searches
from seatrial.analysis.studies import Study
from seatrial.report.drawing import colour, head, short
from seatrial.report.front_lines import front_sentences, fronts_of, tried

CASES = 4
_WIDTH, _ROW, _HEAD = 8.0, 4.6, 0.75  # inches


def front_figure(study: Study, searches: Searches) -> Any:
    """A panel for each case."""
    from matplotlib.figure import Figure

    fronts = dict(list(fronts_of(searches).items())[:CASES])
    height = _HEAD + _ROW * len(fronts)
    figure = Figure(figsize=(_WIDTH, height))
    for row, (base, front) in enumerate(fronts.items()):
        bottom = (height - _HEAD - (row + 1) * _ROW + 0.6) / height
        axis = figure.add_axes((0.1, bottom, 0.86, (_ROW - 1.0) / height))
        sentence = front_sentences(searches, base, front)[0]
        figure.text(0.02, bottom + (_ROW - 0.9) / height, short(sentence, 110), fontsize=9, va="bottom")
        _draw(axis, searches, base, front)
    line = "full: it holds in the first repeat; hollow: it does not; line: the front; dotted: mixes of the same price"
    head(figure, height, f"{short(study.name)} on {study.on}: {short(searches.question.asked, 50)}", [line], setups=())
    return figure


def _draw(axis: Any, searches: Searches, base: Case, front: Front) -> None:
    question = searches.question
    for holds in (True, False):
        points = [(_at(question, 0, a), _at(question, 1, b)) for a, b, held in tried(searches, base) if held is holds]
        if points:
            face = colour(0) if holds else "none"
            axis.plot(
                *zip(*points, strict=True),
                "o",
                markersize=5,
                markerfacecolor=face,
                markeredgecolor=colour(0),
                alpha=0.6,
            )
    line = [(_at(question, 0, point.across), _at(question, 1, point.place)) for point in front.points]
    if line:
        axis.step(*zip(*line, strict=True), where="post", color="#444444", linewidth=1.6)
    best = front.best
    if best is not None and best.cost is not None:
        x, y = _at(question, 0, best.across), _at(question, 1, best.place)
        axis.plot([x], [y], "*", color=colour(4), markersize=15, zorder=5)
        price_x, price_y = (question.prices.get(one.path, 0.0) for one in question.variables)
        if price_y:
            ends = [question.variables[0].number(place) for place in (0, len(question.variables[0].grid) - 1)]
            axis.plot(
                ends, [(best.cost - price_x * end) / price_y for end in ends], ":", color=colour(4), linewidth=1.4
            )
    for which, limits in ((0, axis.set_xlim), (1, axis.set_ylim)):
        variable = question.variables[which]
        low, high = variable.number(0), variable.number(len(variable.grid) - 1)
        limits(low - 0.03 * (high - low), high + 0.03 * (high - low))
    axis.set_xlabel(question.names[0], fontsize=8.5)
    axis.set_ylabel(question.names[1], fontsize=8.5)
    axis.tick_params(labelsize=8)


def _at(question: Question, which: int, place: int) -> float:
    return question.variables[which].number(place)
