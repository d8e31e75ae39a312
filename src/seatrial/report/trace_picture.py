"""The picture of a trace: arrivals over its time and over the week, durations, sizes, and demand against a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from seatrial.model.units import HOUR, SECOND
from seatrial.report.drawing import colour, head, our_style, save, short
from seatrial.report.trace_text import DAYS, SHORT, amount, heading
from seatrial.traces.inspecting import DemandOverTime, Inspection

WIDTH, ROW, HEAD = 10.0, 2.3, 0.6  # inches
FAR = 3.0  # a fleet so many times above the highest demand is named, not drawn: the demand would be a flat line
BARS = 120
DAY_S = 86_400.0
_NONE = -99.0  # of a resource, where sizes are powers of two
_TICKS = {1e-3: "1 ms", 1: "1 s", 60: "1 m", 3600: "1 h", DAY_S: "1 d", 30 * DAY_S: "30 d", 365 * DAY_S: "1 y"}


def write_trace_picture(of: Inspection, path: Path) -> Path:
    """Draws it; the kind is that of the name (png, svg, pdf)."""
    with our_style():
        return save(_figure(of), path)


def _figure(of: Inspection) -> Any:
    from matplotlib.figure import Figure

    demands = of.demands[:4]
    rows = 2 + len(demands)
    height = HEAD + rows * ROW
    figure = Figure(figsize=(WIDTH, height))

    def axis(row: int, left: float, width: float, title: str) -> Any:
        bottom = height - HEAD - (row + 1) * ROW + 0.5
        found = figure.add_axes((left / WIDTH, bottom / height, width / WIDTH, (ROW - 0.85) / height))
        found.set_title(title, loc="left", fontsize=9, color="#222222")
        return found

    scale, unit = (DAY_S, "days") if of.lasts >= 2 * 24 * HOUR else (3600.0, "hours")
    _arrivals(axis(0, 0.8, 5.1, "jobs over the time of the trace"), of, scale, unit)
    _week(axis(0, 6.5, 3.2, "jobs by hour of the week"), of)
    _durations(axis(1, 0.8, 4.0, "duration" + (" and wait in the trace" if len(of.waits) else "")), of)
    _sizes(axis(1, 5.7, 4.1, "size of a job"), of)
    for number, demand in enumerate(demands):
        title = f"{SHORT.get(demand.resource, demand.resource)} wanted, if every job started at once"
        if of.nodes:
            title += f"; dashed: the fleet, {amount(demand.resource, demand.fleet)}"
            title += " (above the picture)" if demand.fleet > FAR * float(demand.highest.max()) else ""
        _demand(axis(2 + number, 0.8, 9.0, title), of, demand, scale, unit)
    lines = heading(of)
    head(figure, height, short(lines[0], 90), [short("; ".join(lines[1:3]), 130)], setups=())
    return figure


def _arrivals(axis: Any, of: Inspection, scale: float, unit: str) -> None:
    seconds = of.arrivals.due / SECOND
    counts, edges = np.histogram(seconds / scale, BARS)
    axis.stairs(counts, edges, fill=True, color=colour(0))
    axis.set_xlabel(f"{unit} since the first submission")
    axis.set_ylim(bottom=0)


def _week(axis: Any, of: Inspection) -> None:
    week = of.week.reshape(7, 24)
    axis.imshow(week, aspect="auto", cmap="Blues", vmin=0)
    axis.set_yticks(range(7), DAYS if of.dated else [f"day {day}" for day in range(1, 8)], fontsize=8)
    axis.set_xticks([0, 6, 12, 18], ["0", "6", "12", "18"])
    axis.set_xlabel("hour, UTC" if of.dated else "hour since the first submission")
    axis.grid(visible=False)


def _durations(axis: Any, of: Inspection) -> None:
    kinds = [("ran", of.arrivals.durations / SECOND), ("waited in the trace", of.waits / SECOND)]
    most = max(float(seconds.max(initial=1)) for _, seconds in kinds)
    bins = np.geomspace(1e-1, max(most, 1) * 1.01, 60)
    for place, (name, seconds) in enumerate(kinds):
        if len(seconds):
            counts, _ = np.histogram(np.maximum(seconds, 0.1), bins)
            axis.stairs(counts, bins, color=colour(place), label=name, linewidth=1.3, fill=place == 0, alpha=0.8)
    axis.set_xscale("log")
    axis.set_xticks(
        [at for at in _TICKS if 0.1 <= at <= most], [text for at, text in _TICKS.items() if 0.1 <= at <= most]
    )
    axis.minorticks_off()
    axis.set_ylabel("jobs")
    if len(of.waits):
        axis.legend(fontsize=8)


def _sizes(axis: Any, of: Inspection) -> None:
    """The rarest of the resources tells jobs apart best: GPUs, else cores."""
    sizes = next((one for one in reversed(of.spreads) if one.unit and one.unit not in ("ns", "memory")), of.spreads[1])
    resource = sizes.unit
    milli = resource == "cpu" or resource.endswith("-milli")
    values = sizes.values / 1000 if milli else sizes.values.astype(float)
    name = SHORT.get(resource, resource) or "pods"
    seen, counts = np.unique(
        np.where(values > 0, np.ceil(np.log2(np.maximum(values, 2.0**-10))), _NONE), return_counts=True
    )
    places = np.arange(len(seen))
    axis.bar(places, counts, color=colour(2), width=0.8)
    axis.set_xticks(places, ["0" if power == _NONE else f"≤ {2.0**power:g}" for power in seen], fontsize=8)
    axis.set_xlabel(f"{name} {sizes.name}" if resource else "pods per job")
    axis.set_ylabel("jobs")
    axis.grid(axis="x", visible=False)


def _demand(axis: Any, of: Inspection, one: DemandOverTime, scale: float, unit: str) -> None:
    factor = (
        2.0**30
        if one.resource == "memory"
        else 1000.0
        if one.resource == "cpu" or one.resource.endswith("-milli")
        else 1
    )
    axis.fill_between(one.at / scale, one.highest / factor, step="post", color=colour(0), alpha=0.35, linewidth=0)
    axis.step(one.at / scale, one.highest / factor, where="post", color=colour(0), linewidth=0.8)
    most = float(one.highest.max())
    if of.nodes and one.fleet <= FAR * most:
        axis.axhline(one.fleet / factor, color=colour(4), linewidth=1.4, linestyle="--")
    axis.set_xlabel(f"{unit} since the first submission")
    axis.set_ylabel("GiB" if one.resource == "memory" else SHORT.get(one.resource, one.resource))
    axis.set_ylim(bottom=0)
    axis.margins(x=0)
