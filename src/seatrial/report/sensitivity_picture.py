"""sensitivity.png: the figures of the scenario's `answer` over what a sweep varied: curves over one param, heat maps over two.

totals.png has the total time over one param; a scenario that names other figures as its answer asks how these depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from seatrial.analysis.studies import Study
from seatrial.model.figures import find
from seatrial.report.answer_figures import with_answers
from seatrial.report.drawing import MARKERS, colour, head, legend_height, marked, short
from seatrial.report.grouping import Group, grouped

FIGURES_SHOWN, SETUPS_SHOWN = 6, 4  # panels in a picture
LOG_FROM = 50.0  # a param that spans so much gets a logarithmic axis
_PANEL, _WIDTH, _HEAD = 2.5, 4.3, 0.95  # inches


def sensitivity_figure(study: Study) -> Any | None:
    """None unless one or two params with numbers vary, and the scenario names figures as its answer."""
    if study.document.get("find"):
        return None  # a search has find.png
    groups = grouped(with_answers(study))
    names = list(groups[0].params) if groups else []
    numeric = all(_number(group.params[name]) is not None for group in groups for name in names)
    shown = [name for name in study.answer if any(group.of(name) is not None for group in groups)][:FIGURES_SHOWN]
    if len(names) not in (1, 2) or not numeric or not shown:
        return None
    return _curves(study, groups, names[0], shown) if len(names) == 1 else _maps(study, groups, names, shown)


def _curves(study: Study, groups: Sequence[Group], name: str, shown: Sequence[str]) -> Any:
    from matplotlib.figure import Figure

    setups = list(dict.fromkeys(group.setup for group in groups))
    across = min(2, len(shown))
    rows = -(-len(shown) // across)
    top = _HEAD + legend_height(setups)
    height = top + rows * _PANEL
    width = max(7.0, across * _WIDTH)
    figure = Figure(figsize=(width, height))
    for place, answer in enumerate(shown):
        row, column = divmod(place, across)
        box = ((column + 0.14) / across, (height - top - (row + 1) * _PANEL + 0.5) / height)
        axis = figure.add_axes((*box, 0.82 / across, (_PANEL - 0.75) / height))
        for number, setup in enumerate(setups):
            points = sorted(
                (_number(group.params[name]) or 0.0, spread.mean, spread.deviation or 0.0)
                for group in groups
                if group.setup == setup and (spread := group.of(answer)) is not None
            )
            if points:
                x, mean, deviation = zip(*points, strict=True)
                axis.errorbar(
                    x, mean, yerr=deviation, color=colour(number), marker=MARKERS[number % len(MARKERS)], markersize=4,
                    linewidth=1.4, capsize=2,
                )  # fmt: skip
        _scaled(axis.set_xscale, [_number(group.params[name]) or 0.0 for group in groups])
        axis.set_xlabel(short(name, 40), fontsize=8)
        axis.set_title(_titled(answer), loc="left", fontsize=9, color="#222222")
        _plain(axis)
    line = (
        "means, bars: standard deviation of repeats" if any(len(group.rows) > 1 for group in groups) else "one repeat"
    )
    head(
        figure, height, f"{short(study.name)} on {study.on}: over {short(name)}", [line], setups=setups, markers=MARKERS,
        doubtful=study.doubtful,
    )  # fmt: skip
    return figure


def _maps(study: Study, groups: Sequence[Group], names: Sequence[str], shown: Sequence[str]) -> Any:
    """A row per figure and a column per set-up, in one scale of colours per figure."""
    from matplotlib.figure import Figure

    setups = list(dict.fromkeys(group.setup for group in groups))[:SETUPS_SHOWN]
    axes = [sorted({_number(group.params[name]) or 0.0 for group in groups}) for name in names]
    tall = _PANEL + 0.5
    height, width = _HEAD + len(shown) * tall, max(7.0, 1.2 + len(setups) * 3.6)
    figure = Figure(figsize=(width, height))
    for row, answer in enumerate(shown):
        cells = {
            (group.setup, *(_number(group.params[name]) or 0.0 for name in names)): spread.mean
            for group in groups
            if (spread := group.of(answer)) is not None
        }
        values = list(cells.values())
        for column, setup in enumerate(setups):
            left, bottom = (column + 0.2) / len(setups), (height - _HEAD - (row + 1) * tall + 0.6) / height
            axis = figure.add_axes((left, bottom, 0.72 / len(setups), (tall - 0.95) / height))
            grid = [[cells.get((setup, x, y), math.nan) for x in axes[0]] for y in axes[1]]
            axis.imshow(grid, origin="lower", aspect="auto", cmap="viridis", vmin=min(values), vmax=max(values) or None)
            _name_cells(axis, grid, max(values), min(values))
            axis.set_xticks(range(len(axes[0])), [f"{x:,.6g}" for x in axes[0]], fontsize=7)
            axis.set_yticks(range(len(axes[1])), [f"{y:,.6g}" for y in axes[1]], fontsize=7)
            axis.set_xlabel(short(names[0], 40), fontsize=8)
            axis.set_ylabel(short(names[1], 40) if column == 0 else "", fontsize=8)
            axis.set_title(f"{marked([setup], study.doubtful)[0]}: {_titled(answer)}", loc="left", fontsize=8.5)
            axis.grid(visible=False)
    cut = f"; the first {SETUPS_SHOWN} set-ups" if len({group.setup for group in groups}) > SETUPS_SHOWN else ""
    line = f"means over repeats; empty: a trial did not complete{cut}"
    head(figure, height, f"{short(study.name)} on {study.on}: {' and '.join(names)}", [line], setups=())
    return figure


def _name_cells(axis: Any, grid: Sequence[Sequence[float]], most: float, least: float) -> None:
    """The value of each cell, dark on light cells and light on dark ones."""
    middle = (most + least) / 2
    for y, line in enumerate(grid):
        for x, value in enumerate(line):
            if not math.isnan(value):
                ink = "#000000" if value > middle else "#ffffff"
                axis.text(
                    x,
                    y,
                    f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color=ink,
                )


def _titled(name: str) -> str:
    unit = find(name).unit
    return f"{short(name, 34)}{f', {unit}' if unit else ''}"


def is_logarithmic(values: Sequence[float]) -> bool:
    """Whether a param with these values gets a logarithmic axis."""
    return min(values) > 0 and max(values) / min(values) >= LOG_FROM


def _scaled(set_scale: Any, values: Sequence[float]) -> None:
    if is_logarithmic(values):
        set_scale("log")


def _plain(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    for one in (axis.xaxis, axis.yaxis):
        one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        one.set_minor_formatter(NullFormatter())
    axis.tick_params(labelsize=7.5)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
