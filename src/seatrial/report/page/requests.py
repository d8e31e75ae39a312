"""The API server under load: who asked for how much and what became of it, and what server and machine went through meanwhile."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import polars as pl

from seatrial.analysis.api import COUNTED, MEASUREMENTS, PERCENTILES, Load, measurements, of_identities
from seatrial.analysis.directory import TrialRecord
from seatrial.report.page.markup import Cell, Head, Html, chart, join, table, tag
from seatrial.report.page.view import Section, View

POINTS = 240  # of one line; more of them are joined to means


def requests(view: View) -> Section | None:
    """Nothing for a study that sent no requests of its own."""
    trials = [trial for trial in view.study.trusted if Load(trial).there]
    if not trials:
        return None
    return Section("api", "API server", "The API server under load", join(_identities(trials), _measured(trials)))


def _identities(trials: list[TrialRecord]) -> Html:
    """A row for everyone who sent something in a set-up; figures are means over runs."""
    found: dict[tuple[str, str], list[dict[str, float | None]]] = {}
    for trial in trials:
        runs: dict[str, dict[str, float | None]] = {}
        for figure, value in of_identities(trial).items():
            name, _, identity = figure.partition("(")
            runs.setdefault(identity.removesuffix(")"), {})[name] = value
        for identity, figures in runs.items():
            found.setdefault((trial.setup, identity), []).append(figures)
    about = "from when it was due to the whole answer, of those that were answered well"
    heads = [
        Head("set-up", number=False), Head("who", number=False), Head("requests"),
        Head("rejected", about="answered with 429: too many requests"), Head("sent again"),
        Head("errors", about="another failure, or no answer"), *(Head(f"p{percent} ms", about=about) for percent in PERCENTILES),
    ]  # fmt: skip
    rows = []
    setups = list(dict.fromkeys(setup for setup, _ in found))
    for (setup, identity), of_runs in sorted(found.items(), key=lambda one: (setups.index(one[0][0]), one[0][1])):
        counts = {name: _mean([run.get(name) for run in of_runs]) for name in COUNTED}
        times = [_mean([run.get(f"api_p{percent}_s") for run in of_runs]) for percent in PERCENTILES]
        rows.append([
            Cell(tag("b", setup), setup), Cell(identity), *(_count(name, count) for name, count in counts.items()),
            *(Cell("–" if at is None else f"{at * 1000:,.1f}", at) for at in times),
        ])  # fmt: skip
    return join(
        tag("p", "What everyone asked of the server, means over runs. Rejected is what the server refused with 429."),
        table(heads, rows, "Requests by set-up and identity. A heading sorts by its column."),
    )


def _count(name: str, count: float | None) -> Cell:
    kind = "bad" if count and name in ("rejected", "errors") else ""
    return Cell("–" if count is None else f"{count:,.0f}", count, kind)


def _measured(trials: list[TrialRecord]) -> Html | None:
    panels: dict[str, list[dict[str, Any]]] = {name: [] for name in MEASUREMENTS}
    for trial in trials:
        for (name,), rows in measurements(Load(trial)).group_by("measurement", maintain_order=True):
            points = _thinned(rows)
            panels.setdefault(str(name), []).append({"name": trial.setup, "points": points})
    drawn = [
        {"title": name, "y": f"{name}{f', {unit}' if unit else ''}", "series": panels[name]}
        for name, unit in MEASUREMENTS.items()
        if panels[name]
    ]
    if not drawn:
        return None
    data = {"x": {"label": "since the first request", "time": True}, "y": {"label": ""}, "plain": True, "panels": drawn}
    return chart(
        "lines", data, "What the server and the machine went through while requests were sent",
        "A line for every run. Rate, duration, requests in flight and rejected are the server's own counts; where it was not asked "
        "they come from the requests.",
    )  # fmt: skip


def _thinned(rows: pl.DataFrame) -> list[dict[str, Any]]:
    at, value = rows["at_s"].to_numpy(), rows["value"].to_numpy()
    parts = min(POINTS, len(at))
    return [
        {"x": round(float(np.mean(a)), 3), "y": float(np.mean(v))}
        for a, v in zip(np.array_split(at, parts), np.array_split(value, parts), strict=True)
    ]


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
