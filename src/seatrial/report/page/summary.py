"""The summary as a table, one row for all repeats of a set-up; and every trial by itself, folded away."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.analysis import figures as fig
from seatrial.report.columns import decimals_for
from seatrial.report.grouping import Group, Spread
from seatrial.report.page.answer import TOTAL
from seatrial.report.page.markup import Cell, Head, Html, badge, table, tag
from seatrial.report.page.view import Section, View, as_number, plural

TRIALS_SHOWN = 300

_FIGURES = (
    ("creation_per_s", "created /s", "workloads per second that the server showed", False),
    (
        "dispatch_per_s",
        "dispatched /s",
        "workloads per second that the queue let go, or whose pods were created",
        False,
    ),
    ("p50_s", "p50 s", "half of the workloads took at most so long from submitted to completed", True),
    ("p95_s", "p95 s", "95 of 100 workloads took at most so long from submitted to completed", True),
    ("p99_s", "p99 s", "99 of 100 workloads took at most so long from submitted to completed", True),
    ("cpu_util", "cpu used", "share of the nodes' cores that running containers had requested", False),
    ("gpu_util", "gpu used", "the same for GPUs", False),
    ("held_idle_s", "held idle, core-s", "core-seconds that gangs held before all their pods ran", False),
    ("requests", "requests", "requests that the load sent", False),
    ("rejected", "rejected", "of these, answered with 429: too many requests", False),
    ("errors", "errors", "of these, another failure or no answer", False),
    ("requests_per_s", "answered /s", "requests per second that were answered well", False),
    ("api_p50_s", "request p50 s", "half of the requests took at most so long, from when they were due", False),
    ("api_p99_s", "request p99 s", "99 of 100 requests took at most so long, from when they were due", False),
    ("heartbeat_gap_s", "heartbeat gap s", "longest time in which some node's lease was not renewed", False),
)


def summary(view: View) -> Section | None:
    groups = view.groups
    if not groups:
        return None
    heads = [Head("set-up", number=False)]
    columns: list[list[Cell]] = [
        [Cell((tag("b", group.setup), " ", badge(group.evidence)), group.setup) for group in groups]
    ]
    for name in view.values:
        values = [group.params[name] for group in groups]
        if any(values == [str(group.most(count)) for group in groups] for count in ("workloads", "pods")):
            continue  # the same figures twice
        heads.append(Head(name))
        columns.append([Cell(group.params[name], as_number(group.params[name])) for group in groups])
    if view.submits:
        one_pod_each = all(group.most("workloads") == group.most("pods") for group in groups)
        for name in ("workloads",) if one_pod_each else ("workloads", "pods"):
            heads.append(Head(name))
            columns.append([_whole(group.most(name)) for group in groups])
        heads.append(Head("total s", about=TOTAL.about + "; only if everything completed"))
        columns.append(_spreads([TOTAL.of(group) for group in groups]))
    heads.append(Head("completed", about="trials in which everything completed"))
    columns.append([_done(group) for group in groups])
    for figure, heading, about, only_whole in _FIGURES:
        spreads = [group.if_all_completed(figure) if only_whole else group.over_repeats(figure) for group in groups]
        if any(spread is not None and spread.mean for spread in spreads):
            heads.append(Head(heading, about=about))
            whole = figure in fig.WHOLE
            columns.append(_shares(spreads) if figure.endswith("_util") else _means(spreads, whole))
    caption = "Figures of every set-up. A heading sorts by its column."
    body = table(heads, list(zip(*columns, strict=True)), caption, "summary-table")
    return Section("summary", "Summary", "The figures", Html(body + _notes(view) + _every_trial(view)))


def _notes(view: View) -> Html:
    notes = ["Percentiles are of turnaround, from submitted to completed. "] if view.submits else []
    if any(group.completed < len(group.rows) for group in view.groups):
        notes.append("A set-up that did not complete everything has no total and no percentiles: it would look fast. ")
    if any(group.doubtful for group in view.groups):
        notes.append("! marks a set-up with trials that are not to be trusted; they are left out where it has others. ")
    return tag("p", *notes, class_="quiet")


def _every_trial(view: View) -> Html:
    heads = [
        Head("trial", number=False), Head("outcome", number=False), Head("completed"), Head("of"), Head("total s"),
        Head("p50 s"), Head("p95 s"), Head("p99 s"), Head("max s"), Head("trusted", number=False),
        Head("clog", number=False),
    ]  # fmt: skip
    rows = [_trial(row) for row in view.rows[:TRIALS_SHOWN]]
    cut = "" if len(view.rows) <= TRIALS_SHOWN else f", of which the first {TRIALS_SHOWN}; summary.csv has all"
    inner = table(heads, rows, "Every trial. A heading sorts by its column.")
    return tag("details", tag("summary", f"Every one of {plural(len(view.rows), 'trial')}{cut}"), inner)


def _trial(row: fig.Figures) -> list[Cell]:
    times = [row.get(name) for name in ("total_s", "p50_s", "p95_s", "p99_s", "max_s")]
    if row["total_s"] is None:
        times = [None] * len(times)
    return [
        Cell(str(row["trial"])),
        Cell(str(row["outcome"]), kind="" if row["outcome"] == "completed" else "bad"),
        _whole(int(row["completed"] or 0)),
        _whole(int(row["workloads"] or 0)),
        *(Cell("–" if not isinstance(at, int | float) else f"{at:,.2f}", _float(at)) for at in times),
        Cell("yes" if row["valid"] else "no", kind="" if row["valid"] else "bad"),
        Cell(str(row["clog"] or "")),
    ]


def _whole(count: int) -> Cell:
    return Cell(f"{count:,}", count)


def _done(group: Group) -> Cell:
    kind = "" if group.completed == len(group.rows) else "bad"
    mark = "! " if group.doubtful else ""
    return Cell(f"{mark}{group.completed} of {len(group.rows)}", group.completed / len(group.rows), kind)


def _spreads(spreads: Sequence[Spread | None]) -> list[Cell]:
    decimals = decimals_for([spread.mean for spread in spreads if spread])
    cells = []
    for spread in spreads:
        deviation = "" if spread is None or spread.deviation is None else f" ± {spread.deviation:.{decimals}f}"
        cells.append(Cell("–") if spread is None else Cell(f"{spread.mean:,.{decimals}f}{deviation}", spread.mean))
    return cells


def _means(spreads: Sequence[Spread | None], whole: bool = False) -> list[Cell]:
    decimals = 0 if whole else decimals_for([spread.mean for spread in spreads if spread])
    return [Cell("–") if spread is None else Cell(f"{spread.mean:,.{decimals}f}", spread.mean) for spread in spreads]


def _shares(spreads: Sequence[Spread | None]) -> list[Cell]:
    return [Cell("–") if spread is None else Cell(f"{spread.mean:.1%}", spread.mean) for spread in spreads]


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
