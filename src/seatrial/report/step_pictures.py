"""general.png and detailed.png: a row per lifecycle step, left how long the step took over the time of submission, right
the distribution of those times.

They follow the pictures of Run:ai's scale test, with finer clocks. Each picture is one set of axes measured in inches:
matplotlib needs 20 ms for every set of axes with its ticks, and a picture of 14 panels took half a second.

The same study gives the same bytes: points are left out by a fixed random stream.
"""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from seatrial.analysis.cells import as_text
from seatrial.analysis.studies import Study
from seatrial.model.errors import UsageProblem
from seatrial.record.files import atomic_write
from seatrial.record.layout import FORMATS
from seatrial.report.drawing import STYLE, colour, head, legend_height, our_style, save, short
from seatrial.report.step_times import KINDS, WHOLE, Seconds, StepTimes, TimedStep, edges_of, step_times

POINTS_DRAWN = 20_000  # per step, all set-ups together; more take long to draw and show no more
BINS = 24
NICE = (1, 2, 2.5, 5, 10)
HOURS_FROM = 7200.0  # seconds; an axis that reaches further is in hours
_ROUND = tuple(step * 10**power for power in range(9) for step in (1, 2, 5))
_WIDTH, _ROW, _HEAD, _FOOT = 11.0, 1.45, 1.4, 0.55  # inches
_LEFT, _SPLIT, _GAP, _RIGHT, _PANEL = (
    0.82,
    7.82,
    0.22,
    10.72,
    0.95,
)  # inches: panels from left to right, and their height


def write_step_pictures(study: Study, kind: str, which: Sequence[str] = KINDS, notes: Sequence[str] = ()) -> list[Path]:
    """Writes those of the two pictures that `which` names; `notes` are printed in them.

    Where the stacks have no steps but the general ones, the second picture is a copy of the first.
    """
    if kind not in FORMATS:
        raise UsageProblem(f"no pictures in format '{kind}'", f"Choose one of {', '.join(FORMATS)}.")
    found = {name: times for name, times in step_times(study).items() if times.steps}
    alike = len({tuple((step.stage, *step.since) for step in times.steps) for times in found.values()}) == 1
    written: list[Path] = []
    with our_style():
        for name, times in found.items():
            target = study.out / f"{name}.{kind}"
            if name not in which:
                continue
            if alike and written:
                with atomic_write(target) as part:
                    shutil.copyfile(written[0], part)
            else:
                save(_steps_figure(study, times, "every step" if alike else _TITLES[name], notes), target)
            written.append(target)
    return written


_TITLES = {"general": "general steps", "detailed": "every step"}


@dataclass
class _Sheet:
    """Lines and areas of all panels, in inches: matplotlib draws one collection far faster than many small ones."""

    axes: Any
    grid: list[Any] = field(default_factory=list)
    edges: list[Any] = field(default_factory=list)
    areas: list[Any] = field(default_factory=list)
    colours: list[str] = field(default_factory=list)

    def draw(self) -> None:
        """Draws the collected lines and areas."""
        from matplotlib.collections import LineCollection, PolyCollection

        width = STYLE["grid.linewidth"]
        self.axes.add_collection(
            LineCollection(self.grid, colors=STYLE["grid.color"], linewidths=width, zorder=0.5), autolim=False
        )
        self.axes.add_collection(
            PolyCollection(self.areas, facecolors=self.colours, alpha=0.8, linewidths=0, zorder=1), autolim=False
        )
        self.axes.add_collection(
            LineCollection(self.edges, colors=STYLE["axes.edgecolor"], linewidths=width, zorder=2), autolim=False
        )

    def text(self, x: float, y: float, text: str, **how: Any) -> None:
        """Draws a text at a place in inches."""
        self.axes.text(x, y, text, **{"color": STYLE["xtick.color"], **how})


def _steps_figure(study: Study, times: StepTimes, which: str, notes: Sequence[str]) -> Any:
    from matplotlib.figure import Figure

    above = _HEAD + legend_height(times.setups)
    height = above + len(times.steps) * _ROW + _FOOT - (_ROW - _PANEL)
    figure = Figure(figsize=(_WIDTH, height))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, _WIDTH), ylim=(0, height))
    axes.set_axis_off()
    sheet = _Sheet(axes)
    at = np.concatenate([at for step in times.steps for points in step.points.values() for at in points.submitted])
    factor, unit = (1 / 3600, "hours") if np.max(at) >= HOURS_FROM else (1.0, "seconds")
    across = _Scale.over(float(np.min(at)) * factor, float(np.max(at)) * factor, _LEFT, _SPLIT, 0.015, most_ticks=7)
    cut, bottom = False, height - above
    for row, step in enumerate(times.steps):
        bottom = height - above - _PANEL - row * _ROW
        cut |= _draw_step(sheet, step, times.setups, bottom, across, factor)
    for place, label in across.ticks:
        sheet.text(place, bottom - 0.09, label, ha="center", va="top")
    below = {"ha": "center", "va": "top", "color": "#000000"}
    sheet.text(
        (_LEFT + _SPLIT) / 2, bottom - 0.28, f"submitted, {unit} after the first submission of its trial", **below
    )
    sheet.text((_SPLIT + _GAP + _RIGHT) / 2, bottom - 0.28, "workloads", **below)
    sheet.draw()
    title = f"{short(study.name)} on {study.on}: how long each step of a workload took ({which})"
    head(figure, height, title, _pooled(study, times, cut, notes), setups=times.setups, doubtful=study.doubtful)
    return figure


def _draw_step(
    sheet: _Sheet, step: TimedStep, setups: Sequence[str], bottom: float, across: _Scale, submitted_factor: float
) -> bool:
    """Draws one row; returns whether points were left out."""
    values = {setup: step.points[setup].joined() for setup in setups if setup in step.points}
    largest = max(float(np.max(np.abs(took))) for _, took in values.values())
    factor, unit = (1000.0, "ms") if largest < 1 else (1.0, "s") if largest < HOURS_FROM else (1 / 3600, "h")
    edges = edges_of([took * factor for _, took in values.values()], BINS)
    up = _Scale.over(float(edges[0]), float(edges[-1]), bottom, bottom + _PANEL, 0.05, most_ticks=4)
    since = f"  ({' or '.join(step.since)} → {step.stage})" if step.stage != WHOLE else ""
    title = f"{step.title}, {unit}: {step.about}{since}"
    sheet.text(_LEFT, bottom + _PANEL + 0.08, title, color="#222222", va="bottom")
    _frame(sheet, bottom, across, up)
    _draw_points(sheet, values, setups, lambda at: across(at * submitted_factor), lambda took: up(took * factor))
    counts = {setup: np.histogram(took * factor, edges)[0] for setup, (_, took) in values.items()}
    _draw_histograms(sheet, counts, up(edges), setups, bottom)
    return sum(len(took) for _, took in values.values()) > POINTS_DRAWN


def _frame(sheet: _Sheet, bottom: float, across: _Scale, up: _Scale) -> None:
    """The axes of a row, its grid and the labels of its times."""
    for begin, end in ((_LEFT, _SPLIT), (_SPLIT + _GAP, _RIGHT)):
        sheet.edges.append([(begin, bottom + _PANEL), (begin, bottom), (end, bottom)])
        for place, _ in up.ticks:
            sheet.grid.append([(begin, place), (end, place)])
            sheet.edges.append([(begin - 0.05, place), (begin, place)])
    for place, label in up.ticks:
        sheet.text(_LEFT - 0.09, place, label, ha="right", va="center_baseline")
    for place, _ in across.ticks:
        sheet.grid.append([(place, bottom), (place, bottom + _PANEL)])
        sheet.edges.append([(place, bottom - 0.05), (place, bottom)])


def _draw_points(
    sheet: _Sheet, values: dict[str, tuple[Seconds, Seconds]], setups: Sequence[str],
    across: Callable[[Seconds], Seconds], up: Callable[[Seconds], Seconds],
) -> None:  # fmt: skip
    from matplotlib.colors import ListedColormap

    submitted = np.concatenate([at for at, _ in values.values()])
    took = np.concatenate([took for _, took in values.values()])
    whose = np.concatenate([np.full(len(took), setups.index(setup)) for setup, (_, took) in values.items()])
    # In a fixed random order, or the last set-up would cover the others.
    shown = np.random.Generator(np.random.PCG64(0)).permutation(len(took))[:POINTS_DRAWN]
    area = 16 if len(shown) < 300 else 8 if len(shown) < 3000 else 3
    sheet.axes.scatter(
        across(submitted[shown]), up(took[shown]), c=whose[shown], s=area, linewidths=0, rasterized=True, zorder=3,
        cmap=ListedColormap([colour(n) for n in range(len(setups))]), vmin=-0.5, vmax=len(setups) - 0.5,
        alpha=0.8 if len(shown) < 3000 else 0.5,
    )  # fmt: skip


def _draw_histograms(
    sheet: _Sheet, counts: dict[str, Any], edges: Seconds, setups: Sequence[str], bottom: float
) -> None:
    """A lane for each set-up, all to one scale: overlapping histograms would hide each other."""
    largest = max(int(np.max(count)) for count in counts.values())
    lane = (_RIGHT - _SPLIT - _GAP) / len(setups)
    per_workload = lane / (largest * 1.15)
    # A label near the end of its lane would run into the next one's.
    nice = max(n for n in _ROUND if n <= max(largest * 0.75, 1))
    for place, setup in enumerate(setups):
        start = _SPLIT + _GAP + place * lane
        ticks = {start: "0"}
        if place == 0 or len(setups) <= 3:
            ticks[start + nice * per_workload] = f"{nice:,}"
        for at, label in ticks.items():
            sheet.text(at, bottom - 0.09, label, ha="center", va="top")
            sheet.grid.append([(at, bottom), (at, bottom + _PANEL)])
            sheet.edges.append([(at, bottom - 0.05), (at, bottom)])
        if setup in counts:
            reach = start + np.repeat(counts[setup], 2) * per_workload
            outline = np.column_stack([reach, np.repeat(edges, 2)[1:-1]])
            sheet.areas.append([(start, edges[0]), *outline, (start, edges[-1])])
            sheet.colours.append(colour(place))


@dataclass(frozen=True)
class _Scale:
    """From values to inches, with ticks."""

    low: float
    begin: float
    per_value: float
    ticks: Sequence[tuple[float, str]]

    def __call__(self, values: Seconds) -> Seconds:
        return self.begin + (values - self.low) * self.per_value

    @classmethod
    def over(cls, low: float, high: float, begin: float, end: float, margin: float, most_ticks: int) -> _Scale:
        """A scale with some margin at both ends."""
        from matplotlib.ticker import MaxNLocator

        if high - low < 1e-9 + abs(high) * 1e-9:
            high = low + 1
        low, high = low - (high - low) * margin, high + (high - low) * margin
        values = [float(v) for v in MaxNLocator(most_ticks, steps=NICE).tick_values(low, high) if low <= v <= high]
        step = min((b - a for a, b in itertools.pairwise(values)), default=1.0)
        decimals = next((n for n in range(12) if math.isclose(round(step, n), step, rel_tol=1e-6)), 12)
        per_value = (end - begin) / (high - low)
        return cls(low, begin, per_value, [(begin + (v - low) * per_value, f"{v:,.{decimals}f}") for v in values])


def _pooled(study: Study, times: StepTimes, cut: bool, picked: Sequence[str]) -> list[str]:
    """The lines below the title: what was measured, with caveats."""
    trials = study.trusted
    params: dict[str, list[str]] = {}
    for trial in trials:
        for name, value in trial.params.items():
            if as_text(value) not in params.setdefault(name, []):
                params[name].append(as_text(value))
    over = [f"{name} {', '.join(values)}" for name, values in params.items() if len(values) > 1]
    repeats = len({trial.document.get("repeat", 0) for trial in trials})
    over += [f"{repeats} repeats"] if repeats > 1 else []
    pooled = f", pooled over {' and '.join(over)}" if over else ""
    first = f"{_counted(times.workloads, 'workload')} in {_counted(times.trials, 'trial')}{pooled}"
    notes: list[str] = [*picked]
    unfinished = sum(trial.outcome != "completed" for trial in trials)
    if unfinished:
        notes.append(f"{unfinished} of them did not complete: only stages that were reached are shown")
    if times.left_out:
        notes.append(f"{times.left_out} more left out: not to be trusted")
    notes += [f"! not to be trusted: {', '.join(study.doubtful)}"] if study.doubtful else []
    if cut:
        notes.append(f"of each step {POINTS_DRAWN:,} points are drawn, picked at random; the histograms count all")
    return [first, "; ".join(notes)]


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
