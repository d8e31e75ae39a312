"""general.png, detailed.png, totals.png and sizes.png: the pictures of a study.

The first two are those of Run:ai's scale test, with better clocks: a row per lifecycle step, left what the step took
over the time of submission, right how that is distributed. The third is total time over the one parameter that varies,
the fourth (in `boxes`) turnaround and run time by size.

The same study gives the same bytes: points are left out by a fixed stream.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seatrial.analysis.directory import StudyRecord, read_study
from seatrial.analysis.figures import as_text
from seatrial.analysis.lifecycle import lifecycle
from seatrial.analysis.tables import summary_rows
from seatrial.model.errors import UsageProblem
from seatrial.record.layout import FORMATS
from seatrial.report.boxes import sizes_figure
from seatrial.report.drawing import MARKERS, colour, head, legend_height, our_style, save, short
from seatrial.report.grouping import Group, grouped
from seatrial.report.load_picture import load_figure
from seatrial.report.step_times import KINDS, WHOLE, Counts, Read, Seconds, Step, StepTimes, edges_of, step_times

POINTS_DRAWN = 20_000  # per step, all set-ups together; more take long to draw and show no more
BINS = 24
NICE = (1, 2, 2.5, 5, 10)
_ROUND = tuple(step * 10**power for power in range(9) for step in (1, 2, 5))
_WIDTH, _ROW, _HEAD, _FOOT = 11.0, 1.45, 1.4, 0.65  # inches


def write_pictures(out: Path, kind: str = "png") -> list[Path]:
    """Writes the pictures of the study in `out`; those there is nothing to show in are left out."""
    written = write_steps(out, kind)
    study = read_study(out)
    with our_style():
        totals = _totals_figure(study, grouped(summary_rows(out)))
        if totals is not None:
            written.append(save(totals, out / f"totals.{kind}"))
        load = load_figure(study)
        if load is not None:
            written.append(save(load, out / f"api.{kind}"))
        sizes = sizes_figure(study)
        if sizes is not None:
            written.append(save(sizes, out / f"sizes.{kind}"))
    return written


def write_steps(
    out: Path, kind: str, which: Sequence[str] = KINDS, read: Read = lifecycle, notes: Sequence[str] = ()
) -> list[Path]:
    """Of the two pictures of steps those in `which`, of the workloads that `read` leaves; `notes` say in them what was picked."""
    if kind not in FORMATS:
        raise UsageProblem(f"no pictures in format '{kind}'", f"Choose one of {', '.join(FORMATS)}.")
    study = read_study(out)
    with our_style():
        return [
            save(_steps_figure(study, times, notes), out / f"{name}.{kind}")
            for name, times in step_times(study, read).items()
            if times.steps and name in which
        ]


def _steps_figure(study: StudyRecord, times: StepTimes, notes: Sequence[str] = ()) -> Any:
    from matplotlib.figure import Figure

    rows = len(times.steps)
    above = _HEAD + legend_height(times.setups)
    height = above + rows * _ROW + _FOOT
    figure = Figure(figsize=(_WIDTH, height))
    grid = figure.add_gridspec(
        rows, 2, width_ratios=(2.6, 1), left=0.075, right=0.975, top=1 - above / height, bottom=_FOOT / height,
        hspace=0.6, wspace=0.05,
    )  # fmt: skip
    cut, left, right = False, None, None
    for row, step in enumerate(times.steps):
        left = figure.add_subplot(grid[row, 0], sharex=left)
        right = figure.add_subplot(grid[row, 1], sharey=left)
        cut |= _draw_step(left, right, step, times.setups)
        left.tick_params(labelbottom=row == rows - 1)
        right.tick_params(labelleft=False)
    if left is not None and right is not None:
        left.set_xlabel("submitted, seconds after the first submission of its trial")
        right.set_xlabel("workloads")
    which = "the steps everyone knows" if times.kind == "general" else "every step the stacks have"
    title = f"{short(study.name)} on {study.on}: how long each step of a workload took ({which})"
    head(figure, height, title, _pooled(study, times, cut, notes), setups=times.setups, doubtful=study.doubtful)
    return figure


def _draw_step(left: Any, right: Any, step: Step, setups: Sequence[str]) -> bool:
    """Draws one row; returns whether there were more points than are worth drawing."""
    from matplotlib.colors import ListedColormap
    from matplotlib.ticker import MaxNLocator

    values = {setup: step.points[setup].joined() for setup in setups if setup in step.points}
    largest = max(float(np.max(np.abs(took))) for _, took in values.values())
    factor, unit = (1000.0, "ms") if largest < 1 else (1.0, "s")
    edges = edges_of([took * factor for _, took in values.values()], BINS)
    counts = {setup: np.histogram(took * factor, edges)[0] for setup, (_, took) in values.items()}
    _draw_histograms(right, counts, edges, setups)
    submitted = np.concatenate([at for at, _ in values.values()])
    took = np.concatenate([took for _, took in values.values()]) * factor
    whose = np.concatenate([np.full(len(took), setups.index(setup)) for setup, (_, took) in values.items()])
    # In a random but fixed order, or the last set-up would cover those before it.
    shown = np.random.Generator(np.random.PCG64(0)).permutation(len(took))[:POINTS_DRAWN]
    left.scatter(
        submitted[shown], took[shown], c=whose[shown], s=_marker_area(len(shown)), linewidths=0, rasterized=True,
        cmap=ListedColormap([colour(n) for n in range(len(setups))]), vmin=-0.5, vmax=len(setups) - 0.5,
        alpha=0.8 if len(shown) < 3000 else 0.5,
    )  # fmt: skip
    since = f"  ({' or '.join(step.since)} → {step.stage})" if step.stage != WHOLE else ""
    left.set_title(f"{step.stage.replace('_', ' ')}: {step.about}{since}", loc="left", fontsize=9, color="#222222")
    left.set_ylabel(unit)
    left.yaxis.set_label_coords(-0.062, 0.5)
    left.margins(x=0.015)
    left.yaxis.set_major_locator(MaxNLocator(4, steps=NICE))
    return len(took) > POINTS_DRAWN


def _draw_histograms(axis: Any, counts: Mapping[str, Counts], edges: Seconds, setups: Sequence[str]) -> None:
    """A lane for each set-up, all to one scale: drawn over each other they would hide what they should compare."""
    largest = max(int(np.max(count)) for count in counts.values())
    lane = largest * 1.15
    # A label near the end of its lane would run into the next one's.
    nice = max(n for n in _ROUND if n <= max(largest * 0.75, 1))
    ticks: dict[float, str] = {}
    for place, setup in enumerate(setups):
        start = place * lane
        ticks[start] = "0"
        if place == 0 or len(setups) <= 3:
            ticks[start + nice] = f"{nice:,}"
        if setup in counts:
            axis.stairs(
                counts[setup] + start, edges, baseline=start, orientation="horizontal", fill=True,
                color=colour(place), alpha=0.8,
            )  # fmt: skip
    axis.set_xticks(list(ticks), list(ticks.values()))
    axis.set_xlim(0, lane * len(setups))


def _marker_area(points: int) -> float:
    return 16 if points < 300 else 8 if points < 3000 else 3


def _pooled(study: StudyRecord, times: StepTimes, cut: bool, picked: Sequence[str]) -> list[str]:
    """The lines below the title: what was measured, and what a reader could be misled by."""
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
    first = f"{times.workloads:,} workloads in {times.trials} trial{'s' if times.trials != 1 else ''}{pooled}"
    notes: list[str] = [*picked]
    unfinished = sum(trial.outcome != "completed" for trial in trials)
    if unfinished:
        notes.append(f"{unfinished} of them did not complete: only the steps that were reached are shown")
    if times.left_out:
        notes.append(f"{times.left_out} more left out: not to be trusted")
    notes += [f"! not to be trusted: {', '.join(study.doubtful)}"] if study.doubtful else []
    if cut:
        notes.append(f"of each step {POINTS_DRAWN:,} points are drawn, picked at random; the histograms count all")
    return [first, "; ".join(notes)]


def _totals_figure(study: StudyRecord, groups: Sequence[Group]) -> Any | None:
    """Total time over the parameter, where exactly one varies and it is a number."""
    from matplotlib.figure import Figure

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
            if group.setup == setup and (total := group.if_all_completed("total_s")) is not None
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
    title = f"{short(study.name)} on {study.on}: from the first submission to the last completion"
    head(figure, height, title, [f"{of}{gap}"], setups=setups, markers=MARKERS, doubtful=study.doubtful)
    return figure


def _ticks(axis: Any, values: Sequence[float]) -> None:
    """Ticks where points are, as far as their labels have room; a logarithmic axis for what spans decades."""
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
