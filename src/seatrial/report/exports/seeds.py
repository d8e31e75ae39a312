"""Tables in the form of the published experiments that seatrial began with, one per set-up.

As there, date and tester are in the first row only and the cluster in the second; total time is the mean over repeats in whole
seconds.
"""

from __future__ import annotations

import datetime
import statistics
from pathlib import Path

from seatrial.analysis.studies import Study
from seatrial.record.files import atomic_write
from seatrial.record.trial_record import TrialRecord
from seatrial.report.comparisons import escaped
from seatrial.report.grouping import Group, grouped

HEADINGS = ("Date", "Tester", "Jobs", "Pods", "Total time to complete (s)")


def write_seeds(study: Study, path: Path, tester: str = "") -> Path:
    """Writes the tables and returns their path."""
    with atomic_write(path) as part:
        part.write_text(tables(study, tester), encoding="utf-8")
    return path


def tables(study: Study, tester: str = "") -> str:
    """The tables as Markdown."""
    groups = grouped(study.rows)
    trials = {trial.name: trial for trial in study.trials}
    setups = list(dict.fromkeys(group.setup for group in groups))
    return "\n".join(
        _table(setup, [group for group in groups if group.setup == setup], trials, tester) for setup in setups
    )


def _table(setup: str, groups: list[Group], trials: dict[str, TrialRecord], tester: str) -> str:
    first = trials[str(groups[0].rows[0]["trial"])]
    info = _cluster(first)
    rows = [[*HEADINGS, f"Cluster Info ({setup})"]]
    for place, group in enumerate(groups):
        begin = [_date(first), tester] if place == 0 else ["", ""]
        about = info if place == min(1, len(groups) - 1) else ""
        rows.append([*begin, str(group.most("workloads")), str(group.most("pods")), _total(group), about])
    cells = [[escaped(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = [f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |" for row in cells]
    lines.insert(1, f"|{'|'.join('-' * (width + 2) for width in widths)}|")
    return "\n".join([*lines, ""])


def _total(group: Group) -> str:
    """Total time; outcome and completions of a set-up that did not complete."""
    totals = [float(row["total_s"]) for row in group.trusted if isinstance(row["total_s"], int | float)]
    if group.completed == len(group.rows) and totals:
        return str(round(statistics.fmean(totals)))
    return f"{group.rows[0]['outcome']}, {group.rows[0]['completed']} of {group.rows[0]['workloads']} completed"


def _date(trial: TrialRecord) -> str:
    """The date as in the published tables: 3-Jul."""
    try:
        at = datetime.datetime.fromisoformat(str((trial.document.get("run") or {}).get("started", "")))
    except ValueError:
        return ""
    return f"{at.day}-{at:%b}"


def _cluster(trial: TrialRecord) -> str:
    nodes = sum(int(group.get("count", 0)) for group in trial.document.get("nodes") or ())
    with_stack = "" if trial.stack == "default" else f", {trial.stack}"
    phases = trial.phases.values()
    spec = [
        word
        for word, has in (
            ("node affinity", any(phase.get("selector") or phase.get("affinity") for phase in phases)),
            ("tolerations", any(phase.get("tolerations") for phase in phases)),
        )
        if has
    ]
    job = f", job spec has {' and '.join(spec)}" if spec else ""
    return f"{trial.document.get('on', '')}{with_stack} with {nodes} nodes{job}"
