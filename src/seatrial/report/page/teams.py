"""Queues and classes: a table of each, what every queue held over time against its quota, waits by class, and who evicted whom.

Pictures are of the params that say most, a panel for each set-up, of its first repeat that can be trusted: what set-ups differ in
(reclaiming on and off) shows side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from seatrial.analysis.fair_shares import FleetUse, QuotaPool
from seatrial.analysis.holdings import held_spans, waits_ns
from seatrial.analysis.stage_times import Lifecycle
from seatrial.analysis.team_figures import divided, members
from seatrial.model.figures import CLASS, FIGURES, GROUPS, QUEUE
from seatrial.model.units import SECOND
from seatrial.record.evictions import EVICTED
from seatrial.record.trial_record import TrialRecord
from seatrial.report.page.markup import Cell, Heading, Html, chart, join, table, tag
from seatrial.report.page.view import PageSection, View, in_words, plural
from seatrial.report.team_lines import TeamLine, cells_of, heading, shown_figures, shown_lines, team_lines

COLUMNS = 300  # of a picture over time
QUEUES = 8  # in a picture; the others are drawn as one
PANELS = 12
ROWS = 40  # workloads in the picture of evictions
QUANTILES = 100
MEMBERS = 60  # of a set-up in a table
_HYPHEN = "\N{NON-BREAKING HYPHEN}"
_UNITS = {"cpu": (1000, "cores"), "memory": (2**30, "GiB")}


def teams(view: View) -> PageSection | None:
    """The section; None for a study without queues, classes and evictions."""
    tables = [(group, team_lines(view.study, group)) for group in (QUEUE, CLASS)]
    trials = _first_of_each(view)
    parts = [
        *(_table(group, lines) for group, lines in tables if lines),
        _usage(view, trials),
        _waits(view) if any(lines for _, lines in tables) else None,
        _evictions(view, trials),
    ]
    found = [part for part in parts if part is not None]
    return PageSection("teams", "Teams", "Queues and classes", join(*found)) if found else None


def _first_of_each(view: View) -> list[TrialRecord]:
    """One trial of every set-up, with the largest params."""
    found: dict[str, TrialRecord] = {}
    for trial in view.trusted_at(view.largest) if view.groups else ():
        found.setdefault(trial.setup, trial)
    return [found[setup] for setup in view.setups if setup in found]


def _table(group: str, lines: Sequence[TeamLine]) -> Html:
    shown, left_out = shown_lines(lines, MEMBERS)
    names = shown_figures(shown)
    params = [Heading("with", number=False)] if any(line.params for line in shown) else []
    heads = [
        Heading("set-up", number=False), *params, Heading(group, number=False), Heading("completed"),
        *(Heading(heading(name).strip().replace("\n", " ").replace("-", _HYPHEN), about=FIGURES[name].about) for name in names),
    ]  # fmt: skip
    columns = {name: cells_of(name, [line.means.get(name) for line in shown], "–") for name in names}
    rows = []
    for place, line in enumerate(shown):
        done = f"{line.means['completed'] or 0:,.0f} of {line.means['submitted'] or 0:,.0f}"
        rows.append([
            Cell(tag("b", line.setup), line.setup), *(Cell(line.params, kind="keep") for _ in params),
            Cell(line.member, kind="keep"),
            Cell(done, line.means["completed"], "" if line.done else "bad"),
            *(Cell(columns[name][place], line.means.get(name)) for name in names),
        ])  # fmt: skip
    note = (
        f" {plural(left_out, *_NAMES[group])} with shorter waits left out: {GROUPS[group]}.csv has all."
        if left_out
        else ""
    )
    return join(
        tag("p", f"By {group}, means over repeats. A wait ends when the workload first has its place; times in seconds.{note}"),
        table(heads, rows, f"Figures of every {group}. A heading sorts by its column.", f"{GROUPS[group]}-table"),
    )  # fmt: skip


_NAMES = {QUEUE: ("queue", "queues"), CLASS: ("class", "classes")}


# usage over time


def _usage(view: View, trials: Sequence[TrialRecord]) -> Html | None:
    panels = [panel for trial in trials if trial.fleet.queues for panel in _panels(view.study.lifecycle(trial))]
    if not panels:
        return None
    several = f"The first {PANELS} of {len(panels)} panels." if len(panels) > PANELS else ""
    folded = any("others" in panel["queues"] for panel in panels)
    return chart(
        "usage", {"panels": panels[:PANELS], "end": max(panel["end"] for panel in panels[:PANELS])},
        "Usage of each queue over time, against its quota",
        "Stacked. A broken line divides the quotas of two queues: colour beyond it is borrowed. The dotted line is "
        "the demand of all queues. Marks below are evictions, in the colour of the evicted queue.",
        f"The {QUEUES} queues with the largest usage; the others share a colour." if folded else "", several, view.left_out,
    )  # fmt: skip


def _panels(seen: Lifecycle) -> list[dict[str, Any]]:
    use = FleetUse(seen, seen.end_ns)
    pools = [pool for pool in use.pools if pool.contended]
    return [_panel(seen, pool, len(pools) > 1) for pool in pools]


def _panel(seen: Lifecycle, pool: QuotaPool, several: bool) -> dict[str, Any]:
    resource = pool.contended
    per, unit = _UNITS.get(resource, (1, resource))
    edges = np.linspace(pool.moments[0], pool.moments[-1], COLUMNS + 1)
    used = _binned(pool, pool.used(resource), edges) / per
    wanted = _binned(pool, pool.wanted(resource), edges).sum(axis=0) / per
    names = [queue.name for queue in pool.queues]
    quota = pool.nominal(resource) / per
    if len(names) > QUEUES:
        most = np.sort(np.argsort(-used.sum(axis=1), kind="stable")[:QUEUES])
        rest = np.setdiff1d(np.arange(len(names)), most)
        used = np.vstack((used[most], used[rest].sum(axis=0)))
        quota = np.append(quota[most], quota[rest].sum())
        names = [*(names[place] for place in most.tolist()), "others"]
    place = {name: number for number, name in enumerate(names)}
    lost = _lost_by(seen, {queue.name for queue in pool.queues})
    cohort = f"{pool.name} · " if several else ""
    return {
        "title": f"{seen.trial.setup} · {cohort}{resource}" if several or resource != "cpu" else seen.trial.setup,
        "unit": unit,
        "end": (pool.moments[-1] - pool.moments[0]) / SECOND,
        "queues": names,
        "used": [[float(f"{value:.4g}") for value in row] for row in used.tolist()],
        "quota": [float(f"{value:.6g}") for value in quota.tolist()],
        "size": pool.size(resource) / per,
        "wanted": [float(f"{value:.4g}") for value in wanted.tolist()],
        "evictions": [[round(at, 3), place.get(name, len(names) - 1)] for at, name in lost],
    }


def _binned(pool: QuotaPool, values: Any, edges: Any) -> Any:
    """Mean of each row between edges."""
    lasting = np.diff(pool.moments).astype(float)
    sums = np.concatenate((np.zeros((len(values), 1)), np.cumsum(values * lasting, axis=1)), axis=1)
    moments = pool.moments.astype(float)
    return np.array([np.diff(np.interp(edges, moments, row)) for row in sums]) / np.diff(edges)


def _lost_by(seen: Lifecycle, queues: set[str]) -> list[tuple[float, str]]:
    """Second and queue of every eviction, thinned out to what a picture can show."""
    numbers = seen.workloads.select(pl.col("number").alias("workload"), pl.col("queue").fill_null("").alias("queue"))
    gone = seen.evictions.filter(pl.col("event") == EVICTED).join(numbers, on="workload", how="inner")
    rows = gone.filter(pl.col("queue").is_in(list(queues))).select("at_ns", "queue").rows()
    return [((at - seen.first_ns) / SECOND, name) for at, name in rows[:: max(1, len(rows) // 2000)]]


# waits


def _waits(view: View) -> Html | None:
    panels = []
    for setup in view.setups:
        waits: dict[str, list[np.ndarray[Any, Any]]] = {}
        for trial in view.trusted_at(view.largest):
            if trial.setup == setup:
                for name, part in divided(view.study.lifecycle(trial), CLASS).items():
                    waits.setdefault(name, []).append(waits_ns(part).to_numpy())
        if waits:
            series = [{"name": name, "points": _distribution(np.concatenate(of))} for name, of in waits.items()]
            panels.append({"title": setup, "series": [one for one in series if one["points"]]})
    if not any(panel["series"] for panel in panels):
        return None
    data = {
        "x": {"label": "wait for a place", "time": True},
        "y": {"label": "workloads that had their place by then, %"},
        "plain": True,
        "panels": panels[:PANELS],
    }
    return chart(
        "lines", data, "Waits by class",
        "A line is the share of a class's workloads that had their place after a given time. The further left, the shorter the "
        "waits. All repeats.",
        f"With {in_words(view.largest)}." if view.largest else "",
    )  # fmt: skip


def _distribution(waits: Any) -> list[dict[str, float]]:
    waits = np.sort(waits) / SECOND
    if not len(waits):
        return []
    ranks = np.unique(np.linspace(0, len(waits) - 1, min(QUANTILES, len(waits))).round().astype(int))
    points = [
        {"x": float(f"{waits[rank]:.6g}"), "y": round(100 * (rank + 1) / len(waits), 2)} for rank in ranks.tolist()
    ]
    return [{"x": points[0]["x"], "y": 0.0}, *points]


# evictions


def _evictions(view: View, trials: Sequence[TrialRecord]) -> Html | None:
    panels = [panel for trial in trials if (panel := _moves(view.study.lifecycle(trial))) is not None]
    if not panels:
        return None
    cut = max(panel["of"] for panel in panels)
    return chart(
        "evictions", {
            "panels": panels[:PANELS], "begin": min(panel["begin"] for panel in panels[:PANELS]),
            "end": max(panel["end"] for panel in panels[:PANELS]),
        },
        "Evictions",
        "A bar is a workload in its place, in the colour of its queue or class. An arrow goes from the evicted workload "
        "to its preemptor; a cross is an eviction without a known preemptor.",
        f"The first {ROWS} of up to {cut} workloads with evictions." if cut > ROWS else "",
        view.left_out,
    )  # fmt: skip


def _moves(seen: Lifecycle) -> dict[str, Any] | None:
    gone = seen.evictions.filter(pl.col("event") == EVICTED).select("at_ns", "workload", "by", "reason").rows()
    row_of = {number: row for row, number in enumerate(seen.workloads["number"].to_list())}
    gone = [one for one in gone if one[1] in row_of]
    if not gone:
        return None
    involved = list(dict.fromkeys(number for _, loser, by, _ in gone for number in (loser, by) if number in row_of))
    group = QUEUE if seen.trial.fleet.queues else CLASS
    of = members(seen, group).to_list()
    kinds = list(dict.fromkeys(of))
    kept = sorted(involved[:ROWS], key=lambda number: (kinds.index(of[row_of[number]]), number))
    rows = {number: place for place, number in enumerate(kept)}
    spans: dict[int, list[list[float]]] = {number: [] for number in kept}
    held, numbers = held_spans(seen), seen.workloads["number"].to_numpy()
    for row, since, until in zip(held.row.tolist(), held.since.tolist(), held.until.tolist(), strict=True):
        if int(numbers[row]) in spans:
            spans[int(numbers[row])].append([round((at - seen.first_ns) / SECOND, 3) for at in (since, until)])
    times = [at for of_one in spans.values() for span in of_one for at in span] or [0.0, 1.0]
    return {
        "title": seen.trial.setup,
        "begin": min(times),
        "end": max(times),
        "of": len(involved),
        "kinds": kinds,
        "rows": [
            {"name": str(seen.workloads["workload"][row_of[n]]), "kind": kinds.index(of[row_of[n]]), "spans": _joined(spans[n])}
            for n in kept
        ],
        "moves": [
            {"at": round((at - seen.first_ns) / SECOND, 3), "from": rows[loser], "to": rows.get(by, -1), "reason": reason}
            for at, loser, by, reason in gone
            if loser in rows
        ],
    }  # fmt: skip


def _joined(spans: list[list[float]]) -> list[list[float]]:
    """Spans of the pods of one workload as one, where they overlap or touch."""
    found: list[list[float]] = []
    for since, until in sorted(spans):
        if found and since <= found[-1][1]:
            found[-1][1] = max(found[-1][1], until)
        else:
            found.append([since, until])
    return found
