"""api.png: the seven measurements over time on shared axes, set-ups in their colours, every run a thin line around their mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from seatrial.analysis.api_load import MEASUREMENTS, ApiLoad, measurements
from seatrial.analysis.api_tables import Difference, api_table, differences, in_order
from seatrial.analysis.cells import called, labels
from seatrial.analysis.studies import Study
from seatrial.record.trial_record import TrialRecord
from seatrial.report.drawing import colour, head, legend_height, short
from seatrial.report.text_tables import signed_percent, three_digits

POINTS = 400  # of a curve
_WIDTH, _ROW, _HEAD, _FOOT = 11.0, 1.35, 1.25, 0.55  # inches

Curve = tuple[Any, Any]  # seconds, values


def load_figure(study: Study) -> Any | None:
    """None for a study without requests."""
    from matplotlib.figure import Figure

    trials = [trial for trial in study.trusted if ApiLoad(trial).there]
    if not trials:
        return None
    curves = _curves(trials)
    shown = [name for name in MEASUREMENTS if name in curves]
    setups = in_order(trials)
    params = labels(trials)
    doubtful = [called(trial.setup, params[trial.name]) for trial in trials if not trial.valid]
    found = [one for one in differences(api_table(trials)) if one.statistic == "mean"]
    above = _HEAD + legend_height(setups)
    height = above + len(shown) * _ROW + _FOOT
    figure = Figure(figsize=(_WIDTH, height))
    grid = figure.add_gridspec(
        len(shown), 1, left=0.075, right=0.72, top=1 - above / height, bottom=_FOOT / height, hspace=0.42
    )
    axis = None
    for row, name in enumerate(shown):
        axis = figure.add_subplot(grid[row, 0], sharex=axis)
        _draw(axis, curves[name], setups)
        unit = MEASUREMENTS[name]
        axis.set_title(f"{name}{f', {unit}' if unit else ''}", loc="left", fontsize=9, color="#222222")
        axis.tick_params(labelbottom=row == len(shown) - 1)
        axis.set_ylim(bottom=0)
        _say(axis, [one for one in found if one.measurement == name])
    if axis is not None:
        axis.set_xlabel("seconds since the first request of the trial")
    runs = f"{len(trials)} runs" if len(trials) > 1 else "one run"
    about = f"{runs}; thin lines: runs; thick lines: their mean; right: the mean of a run, and its difference"
    title = f"{short(study.name)} on {study.on}: the API server under load"
    head(figure, height, title, [about], setups=setups, doubtful=doubtful)
    return figure


def _curves(trials: Sequence[TrialRecord]) -> dict[str, dict[str, list[Curve]]]:
    """Measurement → set-up (and cell) → a curve per run."""
    params = labels(trials)
    found: dict[str, dict[str, list[Curve]]] = {}
    for trial in trials:
        for (name,), rows in measurements(ApiLoad(trial)).group_by("measurement", maintain_order=True):
            curve = (rows["at_s"].to_numpy(), rows["value"].to_numpy())
            found.setdefault(str(name), {}).setdefault(called(trial.setup, params[trial.name]), []).append(curve)
    return found


def _draw(axis: Any, curves: dict[str, list[Curve]], setups: Sequence[str]) -> None:
    for place, setup in enumerate(setups):
        runs = [_thinned(*curve) for curve in curves.get(setup, ())]
        for at, value in runs:
            axis.plot(
                at,
                value,
                color=colour(place),
                linewidth=0.7 if len(runs) > 1 else 1.4,
                alpha=0.55 if len(runs) > 1 else 1,
            )
        if len(runs) > 1:
            at = np.linspace(0, min(float(run[0][-1]) for run in runs), POINTS)
            values = np.array([np.interp(at, *run) for run in runs])
            axis.plot(at, values.mean(axis=0), color=colour(place), linewidth=1.8)
            axis.fill_between(at, values.min(axis=0), values.max(axis=0), color=colour(place), alpha=0.12, linewidth=0)


def _thinned(at: Any, value: Any) -> Curve:
    """Means of neighbours if there are more points than pixels."""
    if len(at) <= POINTS:
        return at, value
    pieces = [piece for piece in np.array_split(np.arange(len(at)), POINTS) if len(piece)]
    return np.array([at[piece].mean() for piece in pieces]), np.array([value[piece].mean() for piece in pieces])


def _say(axis: Any, found: Sequence[Difference]) -> None:
    """Prints the table's row of this measurement beside the curves."""
    lines = []
    for one in found[:3]:
        percent = "" if one.percent is None else f" ({signed_percent(one.percent)} %)"
        lines += [one.params] if one.params else []
        lines.append(
            f"{short(one.baseline, 14)} {three_digits(one.of_baseline)}, "
            f"{short(one.setup, 14)} {three_digits(one.of_setup)}{percent}"
        )
        noise = {True: "larger than the noise", False: "within the noise", None: "too few runs to tell"}
        lines.append(f"   {noise[one.larger_than_noise] if one.valid else 'not to be trusted'}")
    axis.text(1.02, 0.95, "\n".join(lines), transform=axis.transAxes, fontsize=8, va="top", color="#333333")
