"""Total time over the parameter: one line for each set-up, the spread of its repeats around it, every repeat as a dot.

If several parameters vary, the one with most values is the axis, and every combination of the others has a panel.
"""

from __future__ import annotations

from typing import Any

from seatrial.model.figures import FIGURES
from seatrial.report.durations import lasting
from seatrial.report.grouping import Group
from seatrial.report.page.markup import chart
from seatrial.report.page.view import PageSection, View, as_number, in_words, plural

PANELS = 12


def totals(view: View) -> PageSection | None:
    """The section; None if no param varies."""
    if not view.values or not view.submits:
        return None
    name = max(view.values, key=lambda one: (_numeric(view.values[one]), len(view.values[one])))
    labels = None if _numeric(view.values[name]) else view.values[name]
    panels: dict[str, list[Group]] = {}
    for group in view.groups:
        others = tuple((key, value) for key, value in group.params.items() if key != name)
        panels.setdefault(in_words(others), []).append(group)
    shown = dict(list(panels.items())[:PANELS])
    data = {
        "x": {"label": name, "labels": labels},
        "y": {"label": "total time", "time": True},
        "panels": [
            {"title": title, "series": [_series(groups, setup, name, labels) for setup in view.setups]}
            for title, groups in shown.items()
        ],
    }
    missing = sum(group.of("total_s") is None for group in view.groups)
    if missing == len(view.groups):
        return None
    spread = (
        f"Lines are means of {view.repeats} repeats, bands one standard deviation to either side, dots single repeats."
        if view.repeats > 1
        else "One repeat each: the spread is unknown."
    )
    gaps = f"{plural(missing, 'point')} missing, where a repeat did not complete everything." if missing else ""
    cut = f"The first {PANELS} of {len(panels)} panels." if len(panels) > PANELS else ""
    title = FIGURES["total_s"].about.capitalize()
    return PageSection(
        "totals", "Total time", f"Total time over {name}", chart("lines", data, title, spread, gaps, cut)
    )


def _series(groups: list[Group], setup: str, name: str, labels: list[str] | None) -> dict[str, Any]:
    points = [point for group in groups if group.setup == setup and (point := _point(group, name, labels)) is not None]
    return {"name": setup, "points": sorted(points, key=lambda point: float(point["x"]))}


def _point(group: Group, name: str, labels: list[str] | None) -> dict[str, Any] | None:
    total = group.of("total_s")
    if total is None:
        return None
    value = group.params[name]
    dots = [row["total_s"] for row in group.trusted]
    deviation = total.deviation or 0.0
    return {
        "x": labels.index(value) if labels else as_number(value),
        "y": total.mean,
        "low": total.mean - deviation,
        "high": total.mean + deviation,
        "dots": dots if len(dots) > 1 else [],
        "tip": f"{group.setup}\n{in_words(tuple(group.params.items()))}\n"
        + f"{lasting(total.mean, total.deviation, 2)}, "
        + (f"{len(dots)} repeats" if total.deviation is not None else "one repeat"),
    }


def _numeric(values: list[str]) -> bool:
    return all(as_number(value) is not None for value in values)
