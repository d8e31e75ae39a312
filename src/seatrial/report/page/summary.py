"""The summary as a table, one row for all repeats of a set-up; and every trial by itself, folded away."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.analysis.trial_figures import Figures
from seatrial.model.figures import COUNT, FIGURES, RATIO, TIME, Figure
from seatrial.report.durations import clock
from seatrial.report.grouping import Group, Spread
from seatrial.report.page.markup import Cell, Heading, Html, badge, table, tag
from seatrial.report.page.view import PageSection, View, as_number, plural
from seatrial.report.text_tables import decimals_for

TRIALS_SHOWN = 300

_OF_A_TRIAL = ("total_s", "p50_s", "p95_s", "p99_s", "max_s")


def summary(view: View) -> PageSection | None:
    """The section; None without trials."""
    groups = view.groups
    if not groups:
        return None
    heads = [Heading("set-up", number=False)]
    columns: list[list[Cell]] = [
        [Cell((tag("b", group.setup), " ", badge(group.evidence)), group.setup) for group in groups]
    ]
    for name in view.values:
        values = [group.params[name] for group in groups]
        if any(values == [str(group.most(count)) for group in groups] for count in ("workloads", "pods")):
            continue  # the same figures twice
        heads.append(Heading(name))
        columns.append([Cell(group.params[name], as_number(group.params[name])) for group in groups])
    if view.submits:
        one_pod_each = all(group.most("workloads") == group.most("pods") for group in groups)
        for name in ("workloads",) if one_pod_each else ("workloads", "pods"):
            heads.append(Heading(name))
            columns.append([_whole(group.most(name)) for group in groups])
        total = FIGURES["total_s"]
        heads.append(Heading(total.title, about=f"{total.about}; only if everything completed"))
        columns.append(_spreads([group.of(total.name) for group in groups]))
    heads.append(Heading("completed", about="trials in which every workload completed"))
    columns.append([_done(group) for group in groups])
    for figure in (one for one in FIGURES.values() if one.heading and one.name != "total_s"):
        spreads = [group.of(figure.name) for group in groups]
        if any(spread is not None and spread.mean for spread in spreads):
            heads.append(Heading(figure.title, about=figure.about))
            columns.append(_cells(figure, spreads))
    caption = "Figures of every set-up. A heading sorts by its column."
    body = table(heads, list(zip(*columns, strict=True)), caption, "summary-table")
    return PageSection("summary", "Summary", "The figures", Html(body + _notes(view) + _every_trial(view)))


def _notes(view: View) -> Html:
    notes = ["Percentiles are of turnaround, from submitted to completed. "] if view.submits else []
    if any(group.completed < len(group.rows) for group in view.groups):
        notes.append(
            "A set-up with workloads that did not complete has no total and no percentiles, which would flatter it. "
        )
    if any(group.doubtful for group in view.groups):
        notes.append("! marks a set-up with trials that are not to be trusted; they are left out if it has others. ")
    return tag("p", *notes, class_="quiet")


def _every_trial(view: View) -> Html:
    heads = [
        Heading("trial", number=False), Heading("outcome", number=False), Heading("completed"), Heading("of"),
        *(Heading(FIGURES[name].title, about=FIGURES[name].about) for name in _OF_A_TRIAL), Heading("trusted", number=False),
        Heading("clog", number=False),
    ]  # fmt: skip
    rows = [_trial(row) for row in view.rows[:TRIALS_SHOWN]]
    cut = "" if len(view.rows) <= TRIALS_SHOWN else f", of which the first {TRIALS_SHOWN}; summary.csv has all"
    inner = table(heads, rows, "Every trial. A heading sorts by its column.")
    return tag("details", tag("summary", f"All {plural(len(view.rows), 'trial')}{cut}"), inner)


def _trial(row: Figures) -> list[Cell]:
    times = [row.get(name) for name in _OF_A_TRIAL]
    if row["total_s"] is None:
        times = [None] * len(times)
    return [
        Cell(str(row["trial"])),
        Cell(str(row["outcome"]), kind="" if row["outcome"] == "completed" else "bad"),
        _whole(int(row["completed"] or 0)),
        _whole(int(row["workloads"] or 0)),
        *(Cell("–" if not isinstance(at, int | float) else clock(at, 2), _float(at)) for at in times),
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
        cells.append(Cell("–") if spread is None else Cell(clock(spread.mean, decimals, spread.deviation), spread.mean))
    return cells


def _cells(figure: Figure, spreads: Sequence[Spread | None]) -> list[Cell]:
    decimals = 0 if figure.kind == COUNT else decimals_for([spread.mean for spread in spreads if spread])
    return [
        Cell("–") if spread is None else Cell(_shown(figure, spread.mean, decimals), spread.mean) for spread in spreads
    ]


def _shown(figure: Figure, value: float, decimals: int) -> str:
    if figure.kind == RATIO:
        return f"{value:.1%}"
    return clock(value, decimals) if figure.kind == TIME else f"{value:,.{decimals}f}"


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None
