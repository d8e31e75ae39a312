"""Durations of each stage over the time of submission, and their distribution, of trials that can be trusted.

Dots are a sample if there are many; histograms count all.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from seatrial.report.page.markup import chart
from seatrial.report.page.packing import pack, unit_for
from seatrial.report.page.view import Combination, PageSection, View, in_words
from seatrial.report.step_times import WHOLE, Seconds, TimedStep, edges_of, step_times

DOTS = 150_000  # on the whole page
DOTS_OF_ONE = 4_000  # of one set-up in one step
BINS = 30


def steps(view: View) -> PageSection | None:
    """The section; None if no stage was reached."""
    found = {chosen: _steps(view, chosen) for chosen in view.charted}
    cells = sum(len(step.points) for rows in found.values() for step in rows)
    if not cells:
        return None
    most = max(min(DOTS // cells, DOTS_OF_ONE), 50)
    columns: dict[str, npt.NDArray[np.int32]] = {}
    rows: list[list[dict[str, Any]]] = []
    cut = 0
    for place, chosen in enumerate(view.charted):
        rows.append([_row(step, f"{place}.{number}", most, columns) for number, step in enumerate(found[chosen])])
        cut = max(cut, *(len(points.joined()[0]) for step in found[chosen] for points in step.points.values()), 0)
    data = {
        "combinations": [in_words(chosen) for chosen in view.charted],
        "chosen": view.charted.index(view.largest),
        "rows": rows,
        "packed": pack(columns),
    }
    sample = f"At most {most:,} random workloads per set-up are drawn; histograms count all." if cut > most else ""
    left_out = len(view.study.trials) - len(view.study.trusted)
    doubt = f"Trials that are not to be trusted are left out: {left_out}." if left_out else ""
    return PageSection(
        "steps", "Stages", "Duration of every stage",
        chart(
            "steps", data, "A dot is a workload: its submission time and the duration of the stage",
            "Right: distribution, all set-ups to one scale.", sample, doubt, view.left_out,
        ),
    )  # fmt: skip


def _steps(view: View, chosen: Combination) -> list[TimedStep]:
    trials = view.trusted_at(chosen)
    if not trials:
        return []
    return list(step_times(dataclasses.replace(view.study, trials=tuple(trials)))["detailed"].steps)


def _row(step: TimedStep, key: str, most: int, columns: dict[str, npt.NDArray[np.int32]]) -> dict[str, Any]:
    values = {setup: points.joined() for setup, points in step.points.items()}
    longest = max(float(np.max(np.abs(took))) for _, took in values.values())
    last = max(float(np.max(at)) for at, _ in values.values())
    # Durations of a minute may differ by less than a millisecond.
    unit, unit_at = (1e-5 if longest < 1e4 else unit_for(longest)), unit_for(last)
    edges = edges_of([took for _, took in values.values()], BINS)
    of = []
    for number, (setup, (at, took)) in enumerate(values.items()):
        picked = _picked(at, most)
        columns[f"{key}.{number}.at"] = np.round(at[picked] / unit_at).astype(np.int32)
        columns[f"{key}.{number}.took"] = np.round(took[picked] / unit).astype(np.int32)
        counts = np.histogram(took, edges)[0]
        of.append({"setup": setup, "n": len(took), "median": float(np.median(took)), "counts": counts.tolist()})
    since = f"{' or '.join(step.since)} → {step.stage}".replace("_", " ") if step.stage != WHOLE else ""
    return {
        "stage": step.title,
        "about": step.about,
        "since": since,
        "key": key,
        "unit": unit,
        "unit_at": unit_at,
        "low": float(edges[0]),
        "high": float(edges[-1]),
        "of": of,
    }


def _picked(at: Seconds, most: int) -> npt.NDArray[np.intp]:
    """A fixed random sample, in the order of submission."""
    order = np.argsort(at, kind="stable")
    if len(order) <= most:
        return order
    return order[np.sort(np.random.Generator(np.random.PCG64(0)).choice(len(order), most, replace=False))]
