"""sizes.png: turnaround and run time by the size of workloads, set-ups side by side, as box plots.

One panel per size, one box per set-up with its name below it: colours only repeat what the names say. How many completed
stands above every box, because a set-up that completes three of twenty has a fine box too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from seatrial.analysis.sizes import Seconds, by_size
from seatrial.analysis.studies import Study
from seatrial.report.drawing import colour, head, marked, short

PANELS = 6  # sizes per row; more go into another pair of rows
MOST = 24  # sizes drawn; the table has all
LONGEST = 20  # letters of a set-up's name
WHATS = ("turnaround, s", "run time, s")
_PANEL, _ROW, _HEAD = 2.0, 2.1, 0.9  # inches
_LETTER = 0.068  # inches of a name below its box


@dataclass
class SizeTimes:
    """By the workloads of one size of one set-up: `of` has their turnarounds, then their run times."""

    submitted: int = 0
    of: tuple[list[Seconds], list[Seconds]] = field(default_factory=lambda: ([], []))


BySetup = dict[str, SizeTimes]


def sizes_figure(study: Study) -> Any | None:
    """None if all workloads have one size."""
    planned = {size for trial in study.trusted for phase in trial.phases.values() for size in phase.get("pods") or ()}
    sizes = _gathered(study) if len(planned) > 1 else {}
    if len(sizes) < 2:
        return None
    from matplotlib.figure import Figure

    setups = list(dict.fromkeys(trial.setup for trial in study.trusted))
    drawn = dict(list(sizes.items())[:MOST])
    across = min(len(drawn), PANELS)
    bands = -(-len(drawn) // across)
    boxes = max(1.0, len(setups) * 0.24 / _PANEL)  # wider panels where there are many set-ups
    width = max(7.5, 0.9 + across * _PANEL * boxes)
    labels = 0.3 + _LETTER * max(len(short(setup, LONGEST)) for setup in setups)
    height = _HEAD + bands * (2 * _ROW + labels)
    figure = Figure(figsize=(width, height))
    top: dict[str, float] = {what: _largest(drawn, place) for place, what in enumerate(WHATS)}
    for number, (size, taken) in enumerate(drawn.items()):
        band, column = divmod(number, across)
        for row, what in enumerate(WHATS):
            bottom = height - _HEAD - band * (2 * _ROW + labels) - (row + 1) * _ROW
            panel = (width - 0.9) / across
            place = (0.7 + column * panel, bottom + 0.1, panel - 0.12, _ROW - 0.38)
            axis = figure.add_axes((place[0] / width, place[1] / height, place[2] / width, place[3] / height))
            _draw(axis, [taken.get(setup) for setup in setups], row)
            axis.set_ylim(0, top[what] * (1.28 if row == 0 else 1.1))  # room for the counts
            axis.tick_params(labelleft=column == 0)
            if column == 0:
                axis.set_ylabel(what)
                axis.yaxis.set_label_coords(-0.52 / place[2], 0.5)
            if row == 0:
                axis.set_title(f"{size} pod{'s' if size > 1 else ''}", loc="left", fontsize=9, color="#222222")
            names = marked(setups, study.doubtful, LONGEST) if row == 1 else []
            axis.set_xticks(range(len(setups)), names or [""] * len(setups), rotation=90, fontsize=8)
            axis.set_xlim(-0.6, len(setups) - 0.4)
            axis.grid(axis="x", visible=False)
    head(
        figure, height, f"{short(study.name)} on {study.on}: by the size of workloads", _lines(study, sizes), setups=()
    )
    return figure


def _draw(axis: Any, taken: Sequence[SizeTimes | None], row: int) -> None:
    for place, one in enumerate(taken):
        if one is None:
            continue
        values = np.concatenate(one.of[row])
        if len(values):
            axis.boxplot(
                [values], positions=[place], widths=0.66, patch_artist=True,
                boxprops={"facecolor": colour(place), "alpha": 0.55, "linewidth": 0.8},
                medianprops={"color": "#000000", "linewidth": 1.4}, whiskerprops={"linewidth": 0.8},
                capprops={"linewidth": 0.8},
                flierprops={"marker": ".", "markersize": 3, "markerfacecolor": colour(place), "markeredgewidth": 0},
            )  # fmt: skip
        if row == 0:
            completed = len(values)
            count = str(completed) if completed == one.submitted else f"{completed}/{one.submitted}"
            axis.text(
                place, 1.0, count, transform=axis.get_xaxis_transform(), ha="center", va="top", fontsize=7,
                color="#222222" if completed == one.submitted else "#B00000",
                rotation=0 if len(taken) < 4 or len(count) < 4 else 90,
            )  # fmt: skip


def _gathered(study: Study) -> dict[int, BySetup]:
    """Size → times of each set-up, trials pooled; the smallest size first."""
    sizes: dict[int, BySetup] = {}
    for trial in study.trusted:
        for size, (submitted, *both) in by_size(study.lifecycle(trial)).items():
            taken = sizes.setdefault(size, {}).setdefault(trial.setup, SizeTimes())
            taken.submitted += submitted
            for values, more in zip(taken.of, both, strict=True):
                values.append(more)
    return dict(sorted(sizes.items()))


def _largest(sizes: Mapping[int, BySetup], row: int) -> float:
    parts = [part for setups in sizes.values() for taken in setups.values() for part in taken.of[row]]
    return max((float(np.max(part)) for part in parts if len(part)), default=0.0) or 1.0


def _lines(study: Study, sizes: Mapping[int, BySetup]) -> list[str]:
    trials = len(study.trusted)
    pooled = f"{trials} trials, those of a set-up pooled; " if trials > len({t.setup for t in study.trusted}) else ""
    more = f"; the smallest {MOST} of {len(sizes)} sizes are drawn" if len(sizes) > MOST else ""
    return [
        f"{pooled}boxes: quartiles and median; whiskers: to 1.5 times the box; dots: beyond{more}",
        "above the boxes: workloads completed, of how many if not all; only these have a turnaround",
    ]
