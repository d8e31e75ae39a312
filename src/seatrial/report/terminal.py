"""The summary after a run as a table, with the date in the line above it and causes of failures below."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from rich.console import Console

from seatrial.analysis.searched_studies import searches_of
from seatrial.analysis.studies import Study
from seatrial.analysis.tables import size_table
from seatrial.analysis.trial_figures import Figures
from seatrial.model.figures import FIGURES, LEFT_OUT_FIRST, ON_TERMINAL, RATE, RATIO, TIME, Figure
from seatrial.record.trial_record import CUT_OFF, DAMAGED, REAL, UNVERIFIED, VERIFIED, TrialRecord
from seatrial.report.answer_figures import answers, with_answers
from seatrial.report.durations import clock
from seatrial.report.grouping import NOT_CHECKED, Group, Spread, grouped
from seatrial.report.replay_lines import print_replays
from seatrial.report.request_tables import print_load
from seatrial.report.search_results import print_search
from seatrial.report.summary_details import print_findings, print_sizes, since_first
from seatrial.report.team_lines import print_teams
from seatrial.report.text_tables import Column, decimals_for, print_columns, print_line, width

NOTES_SHOWN = 8
AS = {REAL: "real", VERIFIED: "model", UNVERIFIED: "model?"}


def summary_table(study: Study, console: Console) -> None:
    """Prints the summary of the study."""
    rows = with_answers(study)
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
    shown = _fitting(console, columns[1:] if date_above else columns)
    print_line(console, _title(study, rows, dates[0] if date_above else ""), "bold")
    if study.unfinished:
        print_line(console, study.unfinished, "yellow")
    searches = searches_of(study)
    if searches is not None:
        print_search(searches, searches.rows, console)
    _print_answer(console, study, groups)
    if any(row["workloads"] for row in rows):
        print_line(console, "times in seconds; p50, p95, p99: of turnaround, from submitted to completed", "dim")
        print_columns(console, shown, [group.completed == len(group.rows) for group in groups])
    for setup in dict.fromkeys(group.setup for group in groups if group.unverified):
        print_line(console, f"{setup}: {NOT_CHECKED}, so it is not ranked", "yellow")
    _explain(console, study, rows, groups)
    print_findings(console, study, rows)
    print_load(console, study)
    print_teams(console, study)
    print_replays(console, study)
    print_sizes(console, size_table(study), plus_minus)


def _print_answer(console: Console, study: Study, groups: Sequence[Group]) -> None:
    """Prints the figures that the scenario names as its answer, except columns of the summary."""
    found = answers(study, groups)
    shown = {"total_s", *(name for name in ON_TERMINAL if FIGURES[name].kind != RATIO)}  # ratios are not always columns
    if not found.keys() - (shown if any(group.most("workloads") for group in groups) else ()):
        return
    columns = [Column("set-up", [group.setup for group in groups], left=True)]
    columns += [Column(name, [group.params[name] for group in groups]) for name in groups[0].params]
    columns += [Column(figure, [one.shown for one in of]) for figure, of in found.items()]
    about = str((study.document.get("scenario") or {}).get("about") or "")
    print_line(console, about or "the figures that the scenario names as its answer")
    print_columns(console, columns, [not any(of[n].doubtful for of in found.values()) for n in range(len(groups))])
    print_line(console, "")


def _fitting(console: Console, columns: Sequence[Column]) -> list[Column]:
    """Drops the least important columns on a narrow terminal; summary.csv has them."""
    shown = list(columns)
    for heading in (_heading(FIGURES[name]) for name in LEFT_OUT_FIRST):
        if not console.is_terminal or width(console, shown, 1) <= console.width:
            break
        shown = [column for column in shown if column.heading != heading]
    return shown


def _columns(study: Study, groups: Sequence[Group], plus_minus: str) -> list[Column]:
    dates = {trial.name: _date(trial) for trial in study.trials}
    before = [Column("\ndate", [dates.get(str(group.rows[0]["trial"]), "") for group in groups], left=True)]
    before.append(Column("\nset-up", [group.setup for group in groups], left=True))
    before.append(Column("\nas", [AS[group.evidence] for group in groups], left=True))
    columns = [Column("\njobs", [str(group.most("workloads")) for group in groups])]
    columns.append(Column("\npods", [str(group.most("pods")) for group in groups]))
    columns.append(Column(_heading(FIGURES["total_s"]), _totals(groups, plus_minus)))
    columns.append(Column("\ndone", [f"{group.completed} of {len(group.rows)}" for group in groups]))
    gpus = any(of is not None and of.mean for of in (group.of("gpu_util") for group in groups))
    for figure in (FIGURES[name] for name in ON_TERMINAL):
        if figure.kind != RATIO or gpus:
            columns.append(Column(_heading(figure), _cells(figure, [group.of(figure.name) for group in groups])))
    return [*before, *_params(groups, {column.heading for column in (*before, *columns)}), *columns]


def _params(groups: Sequence[Group], taken: Container[str]) -> Iterator[Column]:
    """The params that vary, except those that repeat a count; named as in summary.csv if another column has the name."""
    for name in groups[0].params:
        values = [group.params[name] for group in groups]
        if not any(values == [str(group.most(count)) for group in groups] for count in ("workloads", "pods")):
            yield Column(f"\nparam_{name}" if f"\n{name}" in taken else f"\n{name}", values)


def _heading(figure: Figure) -> str:
    """On two lines, without the unit of times, which is in the line above the table."""
    if figure.kind == RATE:
        return f"{figure.heading}\n{figure.unit}"
    first, _, last = figure.heading.rpartition(" ")
    return f"{first}\n{last}"


def _totals(groups: Sequence[Group], plus_minus: str) -> list[str]:
    totals = [group.of("total_s") for group in groups]
    decimals = decimals_for([total.mean for total in totals if total])
    cells: list[str] = []
    for group, total in zip(groups, totals, strict=True):
        shown = "-" if total is None else clock(total.mean, decimals, total.deviation, plus_minus)
        cells.append(f"{'! ' if group.doubtful else ''}{shown}")
    return cells


def _cells(figure: Figure, spreads: Sequence[Spread | None]) -> list[str]:
    decimals = decimals_for([spread.mean for spread in spreads if spread])
    if figure.kind == RATIO:
        return ["-" if spread is None else f"{spread.mean:.0%}" for spread in spreads]
    if figure.kind == TIME:
        return ["-" if spread is None else clock(spread.mean, decimals) for spread in spreads]
    return ["-" if spread is None else f"{spread.mean:.{decimals}f}" for spread in spreads]


def _date(trial: TrialRecord) -> str:
    return str((trial.document.get("run") or {}).get("started", ""))[:10]


def _title(study: Study, rows: Sequence[Figures], date: str) -> str:
    repeats = len({row["repeat"] for row in rows})
    over = f"mean and standard deviation over {repeats} repeats" if repeats > 1 else "one repeat"
    return ", ".join(part for part in (f"{study.name} on {study.on}", date, over) if part)


def _explain(console: Console, study: Study, rows: Sequence[Figures], groups: Sequence[Group]) -> None:
    """Prints below the table what did not complete, is not to be trusted, or is missing."""
    trials = {trial.name: trial for trial in study.trials}
    notes = [note for note in study.notes if note != study.unfinished]
    for row in rows:
        trial = trials.get(str(row["trial"]))
        if row["outcome"] == DAMAGED:
            continue  # the study's notes name the file; its other figures mean nothing
        if row["total_s"] is None and (row["workloads"] or row["outcome"] != "completed"):
            ended = row["outcome"] if row["outcome"] != "completed" else "ended"
            asked = f"{row['requests']} requests sent" if row.get("requests") else ""
            done = f"{row['completed']} of {row['workloads']} workloads completed" if row["workloads"] else asked
            when, why = _why(trial, row) if trial else ("", "")
            notes.append(f"{row['trial']} {ended}{when} with {done}{f': {why}' if why else ''}")
        if not row["valid"] and trial and trial.outcome != CUT_OFF:
            notes.append(f"! {row['trial']} is not to be trusted: {'; '.join(trial.reasons)}")
    if any(g.doubtful and len(g.trusted) < len(g.rows) for g in groups):
        notes.append("! rows leave out repeats that are not to be trusted, if there are others")
    for note in notes[:NOTES_SHOWN]:
        print_line(console, note, "yellow")
    if len(notes) > NOTES_SHOWN:
        more = len(notes) - NOTES_SHOWN
        print_line(console, f"and {more} more like these: see outcome and valid in summary.csv", "yellow")


def _why(trial: TrialRecord, row: Figures) -> tuple[str, str]:
    """When and why it did not complete: the diagnosis of a clog, else the detail."""
    clog = trial.document.get("clog") or {}
    if row["outcome"] == "clogged" and clog.get("kind"):
        return since_first(clog.get("at_ns"), row, trial.document), f"{clog['kind']}: {clog.get('summary', '')}"
    return "", str(trial.document.get("detail") or "")
