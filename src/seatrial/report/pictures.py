"""The pictures of a study: general.png and detailed.png (in `step_pictures`), api.png (in `api_picture`), sizes.png (in
`size_picture`), find.png (in `search_picture`), sensitivity.png (in `sensitivity_picture`), and totals.png, the total time over the
one parameter that varies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seatrial.analysis.studies import Study
from seatrial.model.figures import FIGURES
from seatrial.report.api_picture import load_figure
from seatrial.report.drawing import MARKERS, colour, head, legend_height, our_style, save, short
from seatrial.report.grouping import grouped
from seatrial.report.search_picture import search_figure
from seatrial.report.sensitivity_picture import sensitivity_figure
from seatrial.report.size_picture import sizes_figure
from seatrial.report.step_pictures import write_step_pictures


def write_pictures(study: Study, kind: str = "png") -> list[Path]:
    """Writes the pictures of the study that have something to show."""
    written = write_step_pictures(study, kind)
    drawn = {
        "totals": _totals_figure, "api": load_figure, "sensitivity": sensitivity_figure, "find": search_figure,
        "sizes": sizes_figure,
    }  # fmt: skip
    with our_style():
        for name, draw in drawn.items():
            figure = draw(study)
            if figure is not None:
                written.append(save(figure, study.out / f"{name}.{kind}"))
    return written


def _totals_figure(study: Study) -> Any | None:
    """Total time over the parameter, if exactly one varies and is a number."""
    from matplotlib.figure import Figure

    groups = grouped(study.rows)
    name = next(iter(groups[0].params)) if groups and len(groups[0].params) == 1 else None
    if name is None or any(_as_number(group.params[name]) is None for group in groups):
        return None
    setups = list(dict.fromkeys(group.setup for group in groups))
    height = 4.6 + legend_height(setups)
    figure = Figure(figsize=(8.0, height))
    axis = figure.add_axes((0.09, 0.125, 0.88, 1 - (1.15 + legend_height(setups)) / height - 0.125))
    for place, setup in enumerate(setups):
        points = [
            (_as_number(group.params[name]) or 0.0, total.mean, total.deviation or 0.0)
            for group in groups
            if group.setup == setup and (total := group.of("total_s")) is not None
        ]
        if points:
            x, mean, deviation = zip(*sorted(points), strict=True)
            axis.errorbar(
                x, mean, yerr=deviation, color=colour(place), marker=MARKERS[place % len(MARKERS)],
                markersize=5, linewidth=1.6, capsize=3,
            )  # fmt: skip
    axis.set_xlabel(name)
    axis.set_ylabel("total time, s")
    axis.set_ylim(bottom=0)
    _ticks(axis, sorted({_as_number(group.params[name]) or 0.0 for group in groups}))
    repeats = max(len(group.rows) for group in groups)
    of = f"mean and standard deviation of {repeats} repeats" if repeats > 1 else "one repeat each"
    missing = sum(group.completed < len(group.rows) for group in groups)
    gap = f"; {missing} point{'s' if missing > 1 else ''} missing where a repeat did not complete" if missing else ""
    title = f"{short(study.name)} on {study.on}: {FIGURES['total_s'].about}"
    head(figure, height, title, [f"{of}{gap}"], setups=setups, markers=MARKERS, doubtful=study.doubtful)
    return figure


def _ticks(axis: Any, values: Sequence[float]) -> None:
    """Ticks at the points, as far as labels fit; a logarithmic axis for values that span decades."""
    if values[0] > 0 and values[-1] / values[0] >= 200:
        axis.set_xscale("log")
        scaled = [math.log(value) for value in values]
    else:
        scaled = list(values)
    ticks: list[float] = []
    last = -math.inf
    for value, place in zip(values, scaled, strict=True):
        if place - last >= 0.05 * (scaled[-1] - scaled[0]):
            ticks.append(value)
            last = place
    axis.set_xticks(ticks, [f"{tick:,.10g}" for tick in ticks])
    axis.minorticks_off()


def _as_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
