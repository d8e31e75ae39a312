"""The figures of the scenario's `answer` over what a sweep varied: curves over one param, heat maps over two.

`totals` has the total time over the params; a scenario that names figures as its answer asks how these depend on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seatrial.model.figures import RATIO, TIME, find
from seatrial.report.answer_figures import amount
from seatrial.report.grouping import Group, Spread
from seatrial.report.page.markup import chart
from seatrial.report.page.view import PageSection, View, as_number, in_words, plural
from seatrial.report.sensitivity_picture import FIGURES_SHOWN, is_logarithmic

CELLS = 2_500  # of a heat map: more would be smaller than what a finger or an eye can tell apart


def sensitivity(view: View) -> PageSection | None:
    """The section; None unless one or two params with numbers vary and the scenario names figures as its answer."""
    names = list(view.values)
    if view.searches is not None or len(names) not in (1, 2):
        return None
    if any(as_number(value) is None for name in names for value in view.values[name]):
        return None
    shown = [name for name in view.study.answer if any(group.of(name) is not None for group in view.groups)]
    if not shown or (len(names) == 1 and shown == ["total_s"]):  # which `totals` has
        return None
    cut = f"The first {FIGURES_SHOWN} of {len(shown)} figures." if len(shown) > FIGURES_SHOWN else ""
    shown = shown[:FIGURES_SHOWN]
    over = " and ".join(names)
    if len(names) == 1:
        made = chart("lines", _curves(view, names[0], shown), "Each figure of the answer", _spread(view), cut)
    else:
        across, up = ([as_number(value) for value in view.values[name]] for name in names)
        if len(across) * len(up) > CELLS:
            return None
        made = chart(
            "heat",
            _maps(view, names, shown),
            "One figure at a time, one scale of colours for all set-ups",
            _empty(view),
            cut,
        )
    return PageSection("sensitivity", "Sensitivity", f"How the answer depends on {over}", made)


def _spread(view: View) -> str:
    return (
        f"Lines are means of {view.repeats} repeats, bands one standard deviation to either side, dots single repeats."
        if view.repeats > 1
        else "One repeat each: the spread is unknown."
    )


def _empty(view: View) -> str:
    means = f"Means of {view.repeats} repeats." if view.repeats > 1 else "One repeat each."
    return f"{means} A cell without a figure, for example because a repeat did not complete, is empty."


def _curves(view: View, name: str, shown: Sequence[str]) -> dict[str, Any]:
    values = [value for text in view.values[name] if (value := as_number(text)) is not None]
    return {
        "x": {"label": name, "labels": None, "log": is_logarithmic(values)},
        "y": {"label": "figure", "time": False},
        "panels": [
            {
                "title": _titled(figure), "y": figure, "time": _is_time(figure),
                "series": [{"name": setup, "points": _points(view, setup, name, figure)} for setup in view.setups],
            }
            for figure in shown
        ],
    }  # fmt: skip


def _points(view: View, setup: str, name: str, figure: str) -> list[dict[str, Any]]:
    found = []
    for group in view.groups:
        spread = group.of(figure) if group.setup == setup else None
        if spread is None:
            continue
        deviation = spread.deviation or 0.0
        dots = [row[figure] for row in group.trusted if row[figure] is not None]
        found.append({
            "x": as_number(group.params[name]) or 0.0, "y": spread.mean,
            "low": spread.mean - deviation, "high": spread.mean + deviation,
            "dots": dots if len(dots) > 1 else [], "tip": _tip(group, figure, spread),
        })  # fmt: skip
    return sorted(found, key=lambda point: float(point["x"]))


def _maps(view: View, names: Sequence[str], shown: Sequence[str]) -> dict[str, Any]:
    axes = [sorted({as_number(value) or 0.0 for value in view.values[name]}) for name in names]
    return {
        "x": {"label": names[0], "values": axes[0]},
        "y": {"label": names[1], "values": axes[1]},
        "figures": [{"name": _titled(figure), "ratio": find(figure).kind == RATIO} for figure in shown],
        "setups": [{"name": setup, "cells": _cells(view, setup, names, shown)} for setup in view.setups],
    }


def _cells(view: View, setup: str, names: Sequence[str], shown: Sequence[str]) -> list[dict[str, Any]]:
    """A cell for each pair of values: its value of every figure, and what it says of it."""
    found = []
    for group in view.groups:
        if group.setup == setup:
            spreads = [group.of(figure) for figure in shown]
            found.append({
                "x": as_number(group.params[names[0]]), "y": as_number(group.params[names[1]]),
                "values": [spread and spread.mean for spread in spreads],
                "tips": [_tip(group, figure, spread) for figure, spread in zip(shown, spreads, strict=True)],
            })  # fmt: skip
    return found


def _tip(group: Group, figure: str, spread: Spread | None) -> str:
    said = f"{figure}: {'–' if spread is None else amount(figure, spread)}"
    done = f"{group.completed} of {plural(len(group.rows), 'repeat')} completed"
    return f"{group.setup}\n{in_words(tuple(group.params.items()))}\n{said}\n{done}"


def _is_time(figure: str) -> bool:
    return find(figure).kind == TIME and find(figure).unit == "s"


def _titled(figure: str) -> str:
    unit = find(figure).unit
    return f"{figure}, {unit}" if unit else figure
