"""The summary after a run, as a table: like the published ones, with what a reader needs in order to believe it.

What does not fit goes to the line above the table (the date) or below it (why something did not complete).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from seatrial.analysis import figures as fig
from seatrial.analysis.directory import (
    CUT_OFF,
    DAMAGED,
    REAL,
    UNVERIFIED,
    VERIFIED,
    StudyRecord,
    TrialRecord,
    read_study,
)
from seatrial.analysis.tables import size_table, summary_rows
from seatrial.report.answers import answers, with_answers
from seatrial.report.columns import Column, decimals_for, print_columns, width
from seatrial.report.details import print_findings, print_sizes, since_first
from seatrial.report.grouping import NOT_HELD, Group, Spread, grouped
from seatrial.report.load import print_load
from seatrial.report.printing import print_line

NOTES_SHOWN = 8
SUMMARISED = {"total_s", "creation_per_s", "dispatch_per_s", "p50_s", "p95_s", "p99_s"}
AS = {REAL: "real", VERIFIED: "model", UNVERIFIED: "model?"}


def summary_table(out: Path, console: Console) -> None:
    """Prints the summary of the study in `out`."""
    study = read_study(out)
    rows = with_answers(study, summary_rows(out))
    if not rows:
        print_line(console, f"{study.name} on {study.on}: no trial was begun")
        for note in study.notes[:NOTES_SHOWN]:
            print_line(console, note, "yellow")
        return
    groups = grouped(rows)
    plus_minus = "±" if console.encoding.startswith("utf") else "+-"
    columns = _columns(study, groups, plus_minus)
    dates = sorted(set(columns[0].cells))
    date_above = len(dates) == 1 and console.is_terminal and width(console, columns, 1) > console.width
    shown = columns[1:] if date_above else columns
    print_line(console, _title(study, rows, dates[0] if date_above else ""), "bold")
    if study.unfinished:
        print_line(console, study.unfinished, "yellow")
    _print_answer(console, study, groups)
    if any(row["workloads"] for row in rows):
        print_line(console, "times in seconds; p50, p95, p99: of turnaround, from submitted to completed", "dim")
        print_columns(console, shown, [group.completed == len(group.rows) for group in groups])
    for setup in dict.fromkeys(group.setup for group in groups if group.unverified):
        print_line(console, f"{setup}: {NOT_HELD}, so it is not ranked", "yellow")
    _explain(console, study, rows, groups)
    print_findings(console, study, rows)
    print_load(console, study)
    print_sizes(console, size_table(out), plus_minus)


def _print_answer(console: Console, study: StudyRecord, groups: Sequence[Group]) -> None:
    """The figures that the scenario names as its answer, but for those that are columns of the summary anyway."""
    found = answers(study, groups)
    if not found.keys() - (SUMMARISED if any(group.most("workloads") for group in groups) else ()):
        return
    columns = [Column("set-up", [group.setup for group in groups], left=True)]
    columns += [Column(name, [group.params[name] for group in groups]) for name in groups[0].params]
    columns += [Column(figure, [one.shown for one in of]) for figure, of in found.items()]
    about = str((study.document.get("scenario") or {}).get("about") or "")
    print_line(console, about or "the answer, by the figures that the scenario names")
    print_columns(console, columns, [not any(of[n].doubtful for of in found.values()) for n in range(len(groups))])
    print_line(console, "")


def _columns(study: StudyRecord, groups: Sequence[Group], plus_minus: str) -> list[Column]:
    dates = {trial.name: _date(trial) for trial in study.trials}
    columns = [Column("\ndate", [dates.get(str(group.rows[0]["trial"]), "") for group in groups], left=True)]
    columns.append(Column("\nset-up", [group.setup for group in groups], left=True))
    columns.append(Column("\nas", [AS[group.evidence] for group in groups], left=True))
    for name in groups[0].params:
        values = [group.params[name] for group in groups]
        if not any(values == [str(group.most(count)) for group in groups] for count in ("workloads", "pods")):
            columns.append(Column(f"\n{name}", values))
    columns.append(Column("\njobs", [str(group.most("workloads")) for group in groups]))
    columns.append(Column("\npods", [str(group.most("pods")) for group in groups]))
    columns.append(Column("total\ntime", _totals(groups, plus_minus)))
    columns.append(Column("\ndone", [f"{group.completed} of {len(group.rows)}" for group in groups]))
    columns.append(Column("created\n/s", _means([group.over_repeats("creation_per_s") for group in groups])))
    columns.append(Column("dispatched\n/s", _means([group.over_repeats("dispatch_per_s") for group in groups])))
    for percent in (50, 95, 99):
        columns.append(Column(f"\np{percent}", _means([group.if_all_completed(f"p{percent}_s") for group in groups])))
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


def _title(study: StudyRecord, rows: Sequence[fig.Figures], date: str) -> str:
    repeats = len({row["repeat"] for row in rows})
    over = f"mean and standard deviation over {repeats} repeats" if repeats > 1 else "one repeat"
    return ", ".join(part for part in (f"{study.name} on {study.on}", date, over) if part)


def _explain(console: Console, study: StudyRecord, rows: Sequence[fig.Figures], groups: Sequence[Group]) -> None:
    """Below the table: what did not complete, what is not to be trusted, what is missing."""
    trials = {trial.name: trial for trial in study.trials}
    notes = [note for note in study.notes if note != study.unfinished]
    for row in rows:
        trial = trials.get(str(row["trial"]))
        if row["outcome"] == DAMAGED:
            continue  # the study's notes say which file; what is left of it says nothing
        if row["total_s"] is None and (row["workloads"] or row["outcome"] != "completed"):
            ended = row["outcome"] if row["outcome"] != "completed" else "ended"
            asked = f"{row['requests']} requests sent" if row.get("requests") else ""
            done = f"{row['completed']} of {row['workloads']} workloads completed" if row["workloads"] else asked
            when, why = _why(trial, row) if trial else ("", "")
            notes.append(f"{row['trial']} {ended}{when} with {done}{f': {why}' if why else ''}")
        if not row["valid"] and trial and trial.outcome != CUT_OFF:
            notes.append(f"! {row['trial']} is not to be trusted: {'; '.join(trial.reasons)}")
    if any(g.doubtful and len(g.trusted) < len(g.rows) for g in groups):
        notes.append("! rows leave out the repeats that are not to be trusted, where there are others")
    for note in notes[:NOTES_SHOWN]:
        print_line(console, note, "yellow")
    if len(notes) > NOTES_SHOWN:
        more = len(notes) - NOTES_SHOWN
        print_line(console, f"and {more} more like these: see outcome and valid in summary.csv", "yellow")


def _why(trial: TrialRecord, row: fig.Figures) -> tuple[str, str]:
    """When and why it did not complete: the diagnosis of a clog, else the detail."""
    clog = trial.document.get("clog") or {}
    if row["outcome"] == "clogged" and clog.get("kind"):
        return since_first(clog.get("at_ns"), row, trial.document), f"{clog['kind']}: {clog.get('summary', '')}"
    return "", str(trial.document.get("detail") or "")
