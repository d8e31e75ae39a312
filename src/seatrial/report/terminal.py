"""The summary after a run, as a table: like the published ones, with what a reader needs in order to believe it.

It must read as well in a terminal of 80 columns as in a pipe, a log or `grep`: one line per row, no boxes, nothing cut.
What does not fit goes to the line above the table (the date) or below it (why something did not complete).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from seatrial.analysis import figures as fig
from seatrial.analysis.directory import StudyRecord, TrialRecord, read_study
from seatrial.analysis.tables import summary_rows
from seatrial.report.grouping import Group, Spread, grouped
from seatrial.report.printing import print_line, printable

NOTES_SHOWN = 8
_UNBOUND = 10_000  # columns: wider than any table of ours


@dataclass(frozen=True)
class _Column:
    heading: str
    cells: Sequence[str]
    left: bool = False


def summary_table(out: Path, console: Console) -> None:
    """Prints the summary of the study in `out`."""
    study = read_study(out)
    rows = summary_rows(out)
    if not rows:
        print_line(console, f"{study.name} on {study.on}: no trial was begun")
        return
    groups = grouped(rows)
    columns = _columns(study, groups, "±" if console.encoding.startswith("utf") else "+-")
    dates = sorted(set(columns[0].cells))
    date_above = len(dates) == 1 and console.is_terminal and _width(console, columns, 1) > console.width
    shown = columns[1:] if date_above else columns
    print_line(console, _title(study, rows, dates[0] if date_above else ""), "bold")
    print_line(console, "times in seconds; p50, p95, p99: of turnaround, from submitted to completed", "dim")
    _print(console, shown, groups)
    _explain(console, study, rows, groups)


def decimals_for(values: Sequence[float]) -> int:
    """So many that the largest shows three digits and the smallest two."""
    sizes = [abs(value) for value in values if value]
    decimals = 1 if max(sizes, default=10) >= 9.995 else 2 if max(sizes) >= 0.9995 else 3
    return max(decimals, 2) if min(sizes, default=1) < 0.995 else decimals


def _columns(study: StudyRecord, groups: Sequence[Group], plus_minus: str) -> list[_Column]:
    dates = {trial.name: _date(trial) for trial in study.trials}
    columns = [_Column("\ndate", [dates.get(str(group.rows[0]["trial"]), "") for group in groups], left=True)]
    columns.append(_Column("\nset-up", [group.setup for group in groups], left=True))
    for name in groups[0].params:
        values = [group.params[name] for group in groups]
        if not any(values == [str(group.most(count)) for group in groups] for count in ("workloads", "pods")):
            columns.append(_Column(f"\n{name}", values))
    columns.append(_Column("\njobs", [str(group.most("workloads")) for group in groups]))
    columns.append(_Column("\npods", [str(group.most("pods")) for group in groups]))
    columns.append(_Column("total\ntime", _totals(groups, plus_minus)))
    columns.append(_Column("\ndone", [f"{group.completed} of {len(group.rows)}" for group in groups]))
    columns.append(_Column("created\n/s", _means([group.over_repeats("creation_per_s") for group in groups])))
    columns.append(_Column("dispatched\n/s", _means([group.over_repeats("dispatch_per_s") for group in groups])))
    for percent in (50, 95, 99):
        columns.append(_Column(f"\np{percent}", _means([group.if_all_completed(f"p{percent}_s") for group in groups])))
    return columns


def _totals(groups: Sequence[Group], plus_minus: str) -> list[str]:
    totals = [group.if_all_completed("total_s") for group in groups]
    decimals = decimals_for([total.mean for total in totals if total])
    cells: list[str] = []
    for group, total in zip(groups, totals, strict=True):
        mean = "-" if total is None else f"{total.mean:.{decimals}f}"
        deviation = f" {plus_minus} {total.deviation:.{decimals}f}" if total and total.deviation is not None else ""
        cells.append(f"{'! ' if group.doubtful else ''}{mean}{deviation}")
    return cells


def _means(figures: Sequence[Spread | None]) -> list[str]:
    decimals = decimals_for([figure.mean for figure in figures if figure])
    return ["-" if figure is None else f"{figure.mean:.{decimals}f}" for figure in figures]


def _date(trial: TrialRecord) -> str:
    return str((trial.document.get("run") or {}).get("started", ""))[:10]


def _print(console: Console, columns: Sequence[_Column], groups: Sequence[Group]) -> None:
    if console.is_terminal:
        console.print(_table(columns, groups, 1 if _width(console, columns, 2) > console.width else 2))
        return
    # A console that is no terminal takes itself for 80 columns wide and would fold the cells.
    wide = Console(file=StringIO(), width=_UNBOUND)
    with wide.capture() as text:
        wide.print(_table(columns, groups, 2))
    for line in text.get().splitlines():
        print_line(console, line.rstrip())


def _table(columns: Sequence[_Column], groups: Sequence[Group], gap: int) -> Table:
    headings = (
        Column(printable(c.heading), justify="left" if c.left else "right", vertical="bottom", no_wrap=not c.left)
        for c in columns
    )
    table = Table(*headings, box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for place, group in enumerate(groups):
        style = "" if group.completed == len(group.rows) else "yellow"
        table.add_row(*(printable(column.cells[place]) for column in columns), style=style)
    return table


def _width(console: Console, columns: Sequence[_Column], gap: int) -> int:
    table = _table(columns, [], gap)
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*(printable(cell) for cell in cells))
    return console.measure(table, options=console.options.update(max_width=_UNBOUND)).maximum


def _title(study: StudyRecord, rows: Sequence[fig.Figures], date: str) -> str:
    repeats = len({row["repeat"] for row in rows})
    over = f"mean and standard deviation over {repeats} repeats" if repeats > 1 else "one repeat"
    return ", ".join(part for part in (f"{study.name} on {study.on}", date, over) if part)


def _explain(console: Console, study: StudyRecord, rows: Sequence[fig.Figures], groups: Sequence[Group]) -> None:
    """Below the table: what did not complete, what is not to be trusted, what is missing."""
    trials = {trial.name: trial for trial in study.trials}
    notes: list[str] = []
    for row in rows:
        trial = trials.get(str(row["trial"]))
        detail = str(trial.document.get("detail") or "") if trial else ""
        if row["total_s"] is None:
            ended = row["outcome"] if row["outcome"] != "completed" else "ended"
            because = f": {detail}" if detail else ""
            done = f"{row['completed']} of {row['workloads']} workloads completed"
            notes.append(f"{row['trial']} {ended} with {done}{because}")
        if not row["valid"] and trial and not trial.cut_off:
            notes.append(f"! {row['trial']} is not to be trusted: {'; '.join(trial.reasons)}")
    if any(g.doubtful and len(g.trusted) < len(g.rows) for g in groups):
        notes.append("! rows leave out the repeats that are not to be trusted")
    notes += study.notes
    for note in notes[:NOTES_SHOWN]:
        print_line(console, note, "yellow")
    if len(notes) > NOTES_SHOWN:
        more = len(notes) - NOTES_SHOWN
        print_line(console, f"and {more} more like these: see outcome and valid in summary.csv", "yellow")
