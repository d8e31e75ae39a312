"""The API server under load: requests and answers per identity, and the measurements of server and machine over time."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from seatrial.analysis.api_load import COUNTED, MEASUREMENTS, PERCENTILES, ApiLoad, measurements
from seatrial.analysis.api_tables import by_identity
from seatrial.analysis.cells import called, labels
from seatrial.model.doubts import COUNTS, TIMES
from seatrial.model.figures import FIGURES
from seatrial.record.trial_record import TrialRecord
from seatrial.report.page.markup import Cell, Heading, Html, chart, join, table, tag
from seatrial.report.page.view import PageSection, View

POINTS = 240  # points per line; more are averaged


def requests(view: View) -> PageSection | None:
    """The section; None for a study without requests."""
    trials = [trial for trial in view.study.trusted if ApiLoad(trial).there]
    if not trials:
        return None
    return PageSection("api", "API server", "The API server under load", join(_identities(trials), _measured(trials)))


def _identities(trials: list[TrialRecord]) -> Html:
    """A row per set-up, params and identity; figures are means over runs."""
    lines = by_identity(trials)
    params = [Heading("with", number=False)] if any(line.params for line in lines) else []
    about = "from due to the whole answer, of successful requests"
    heads = [
        Heading("set-up", number=False), *params, Heading("who", number=False),
        *(Heading(FIGURES[name].title, about=FIGURES[name].about) for name in COUNTED),
        *(Heading(f"p{percent} ms", about=about) for percent in PERCENTILES),
    ]  # fmt: skip
    rows = []
    for line in lines:
        times = [line.means[f"api_p{percent}_s"] for percent in PERCENTILES]
        rows.append([
            Cell(("! " if line.doubtful else None, tag("b", line.setup)), line.setup), *(Cell(line.params) for _ in params),
            Cell(line.who), *(_count(name, line.means[name] or 0, COUNTS in line.doubtful) for name in COUNTED),
            *(_time(at, TIMES in line.doubtful) for at in times),
        ])  # fmt: skip
    doubts = [tag("li", f"{trial.name}: {'; '.join(trial.reasons)}") for trial in trials if not trial.valid]
    return join(
        tag("p", "Requests by identity, means over runs. Rejected: answered with 429."),
        tag("p", "! marks figures that are not to be trusted:", tag("ul", doubts)) if doubts else None,
        table(heads, rows, "Requests by set-up and identity. A heading sorts by its column."),
    )


def _count(name: str, count: float, doubtful: bool) -> Cell:
    kind = "bad" if doubtful or (count and name in ("rejected", "errors")) else ""
    return Cell(f"{'! ' if doubtful else ''}{count:,.0f}", count, kind)


def _time(at: float | None, doubtful: bool) -> Cell:
    return (
        Cell("–") if at is None else Cell(f"{'! ' if doubtful else ''}{at * 1000:,.1f}", at, "bad" if doubtful else "")
    )


def _measured(trials: list[TrialRecord]) -> Html | None:
    params = labels(trials)
    panels: dict[str, list[dict[str, Any]]] = {name: [] for name in MEASUREMENTS}
    for trial in trials:
        for (name,), rows in measurements(ApiLoad(trial)).group_by("measurement", maintain_order=True):
            points = _thinned(rows)
            panels.setdefault(str(name), []).append({"name": called(trial.setup, params[trial.name]), "points": points})
    drawn = [
        {"title": titled, "y": titled, "series": panels[name]}
        for name, unit in MEASUREMENTS.items()
        for titled in (f"{name}, {unit}" if unit else name,)
        if panels[name]
    ]
    if not drawn:
        return None
    data = {"x": {"label": "since the first request", "time": True}, "y": {"label": ""}, "plain": True, "panels": drawn}
    return chart(
        "lines", data, "Server and machine while requests were sent",
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
