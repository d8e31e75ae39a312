"""Below the summary: stalls, findings of audits, waits that timed out, and workloads by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from rich.console import Console

from seatrial.analysis.cells import as_text
from seatrial.analysis.sizes import SIZE_COUNTS, SIZE_TIMES
from seatrial.analysis.studies import Study
from seatrial.analysis.trial_figures import Figures, since_first_s
from seatrial.record.trial_record import TrialRecord
from seatrial.report.durations import clock, lasting
from seatrial.report.text_tables import Column, decimals_for, print_columns, print_line

SHOWN = 16  # lines of findings; trial.json has all
LEAST = "overtaken"  # common in queues that let small workloads pass: printed last, dropped first


def print_sizes(console: Console, table: pl.DataFrame, plus_minus: str) -> None:
    """Prints completions, turnaround and run time per size and set-up; nothing with a single size."""
    if table.is_empty():
        return
    params = [name for name in table.columns if name not in ("setup", "stack", *SIZE_COUNTS, *SIZE_TIMES)]
    rows = table.rows(named=True)
    columns = [
        Column("\nset-up", [str(row["setup"]) for row in rows], left=True),
        *(Column(f"\n{name}", [as_text(row[name]) for row in rows]) for name in params),
        Column("\nsize", [str(row["size"]) for row in rows]),
        Column("\ndone", [f"{row['completed']} of {row['submitted']}" for row in rows]),
    ]
    for name, heading in (("turnaround", "turnaround\nmean"), ("run", "run time\nmean")):
        columns.append(Column(heading, _spreads(rows, name, plus_minus)))
        columns.append(Column("\nn", [str(row[f"{name}_count"]) for row in rows]))
    print_line(console, "")
    print_line(console, f"by size: mean {plus_minus} standard deviation of n workloads, in seconds", "bold")
    print_columns(console, columns, [row["completed"] == row["submitted"] for row in rows])


def print_findings(console: Console, study: Study, rows: Sequence[Figures]) -> None:
    """Prints a line per set-up for stalls and for audits with findings, and for every wait that timed out and continued."""
    lines = findings(study, rows)
    for line in lines[:SHOWN]:
        print_line(console, line)
    if len(lines) > SHOWN:
        print_line(console, f"and {len(lines) - SHOWN} more like these: see stalls, audits and notes in trial.json")


def findings(study: Study, rows: Sequence[Figures]) -> list[str]:
    """The lines, the least important last."""
    audits = _audits(study)
    return [*_stalls(study, rows), *audits[False], *_notes(study, rows), *audits[True]]


def since_first(at_ns: Any, row: Figures, document: Mapping[str, Any]) -> str:
    """` at 12.0 s`, since the first submission; empty if unknown."""
    at = since_first_s(at_ns, row, document)
    return "" if at is None else f" at {lasting(at, decimals=1)}"


def _spreads(rows: Sequence[Mapping[str, Any]], name: str, plus_minus: str) -> list[str]:
    means = [row[f"{name}_mean_s"] for row in rows]
    decimals = decimals_for([mean for mean in means if mean is not None])
    cells = []
    for row, mean in zip(rows, means, strict=True):
        deviation = row[f"{name}_std_s"]
        cells.append("-" if mean is None else clock(mean, decimals, deviation, plus_minus))
    return cells


def _stalls(study: Study, rows: Sequence[Figures]) -> list[str]:
    """One line per set-up: how often, and the longest with its cause."""
    by_name = {str(row["trial"]): row for row in rows}
    found: dict[str, list[tuple[TrialRecord, Mapping[str, Any]]]] = {}
    for trial in study.trials:
        for stall in trial.document.get("stalls") or ():
            found.setdefault(trial.setup, []).append((trial, stall))
    lines = []
    for setup, stalls in found.items():
        trial, longest = max(stalls, key=lambda one: one[1]["until_ns"] - one[1]["from_ns"])
        row = by_name.get(trial.name, {})
        begin, end = (since_first_s(longest[key], row, trial.document) or 0.0 for key in ("from_ns", "until_ns"))
        often = f" {len(stalls)} times, the longest" if len(stalls) > 1 else ""
        ended = "" if longest.get("resolved", True) else ", until the next step or the end of the trial"
        lines.append(
            f"{setup}: stalled{often} {lasting(end - begin, decimals=0)} from {lasting(begin, decimals=1)} to "
            f"{lasting(end, decimals=1)} of {trial.name}{ended}: "
            f"{longest['kind']}: {longest['summary']}"
        )
    return lines


def _audits(study: Study) -> dict[bool, list[str]]:
    """A line per set-up and audit, over all repeats; True: the audits of `LEAST`."""
    counts: dict[tuple[str, str], list[int]] = {}
    words: dict[tuple[str, str], str] = {}
    for trial in study.trials:
        for finding in trial.document.get("audits") or ():
            key = (trial.setup, str(finding.get("audit")))
            counts.setdefault(key, []).append(int(finding.get("count") or 0))
            if finding.get("count"):
                words.setdefault(key, str(finding.get("finding") or finding.get("count")))
    lines: dict[bool, list[str]] = {False: [], True: []}
    for (setup, audit), found in counts.items():
        if any(found):
            times = f", in {sum(map(bool, found))} of {len(found)} trials, the first" if len(found) > 1 else ""
            lines[audit == LEAST].append(f"{setup}: {audit}{times}: {words[setup, audit]}")
    return lines


def _notes(study: Study, rows: Sequence[Figures]) -> list[str]:
    by_name = {str(row["trial"]): row for row in rows}
    return [
        f"{trial.name}{since_first(note.get('at_ns'), by_name.get(trial.name, {}), trial.document)}: {note.get('text')}"
        for trial in study.trials
        for note in trial.document.get("notes") or ()
    ]
