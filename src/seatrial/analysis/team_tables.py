"""queues.csv and classes.csv: one row per trial and queue, and one per trial and class.

queues.csv exists where a set-up has queues; classes.csv there too, and where a submit names a class. Columns are those figures of
`model.figures` that can be asked by queue or by class.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from seatrial.analysis.cells import as_text, param_column
from seatrial.analysis.stage_times import Lifecycle
from seatrial.analysis.studies import Study
from seatrial.analysis.team_figures import names_classes
from seatrial.analysis.trial_figures import FUNCTIONS, Sample, part_of
from seatrial.model.figures import CLASS, COUNT, FIGURES, QUEUE, TEXT
from seatrial.record.files import atomic_write
from seatrial.record.layout import CLASSES, QUEUES

FILES = {QUEUE: QUEUES, CLASS: CLASSES}
DECIMALS = 6
LABELS = ("trial", "setup", "stack", "repeat")
OF_QUEUES = ("cohort", "weight", "contended")  # of a queue itself; `contended`: the resource that its shares are of
Row = dict[str, Any]


def figures_by(group: str) -> list[str]:
    """The figures that a row has."""
    return [figure.name for figure in FIGURES.values() if group in figure.groups]


class TeamTables:
    """The rows of both tables, gathered trial by trial."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {QUEUE: [], CLASS: []}

    def add(self, seen: Lifecycle) -> None:
        """The next trial."""
        queues = seen.trial.fleet.queues
        if not queues and not names_classes(seen):
            return
        whole = Sample(seen.trial, seen)
        for queue in queues:
            use = whole.fleet.queues[queue.name]
            own = {"cohort": queue.cohort, "weight": queue.weight, "contended": use.resource}
            self.rows[QUEUE].append(_row(whole, QUEUE, queue.name, own))
        for name in whole.divided(CLASS):
            self.rows[CLASS].append(_row(whole, CLASS, name, {}))

    def write(self, out: Path) -> list[Path]:
        """Writes those that have rows; removes what an earlier version of the study had."""
        written = []
        for group, name in FILES.items():
            path = out / name
            if not self.rows[group]:
                path.unlink(missing_ok=True)
                continue
            with atomic_write(path) as part:
                team_frame(self.rows[group], group).write_csv(part, float_precision=DECIMALS)
            written.append(path)
        return written


def _row(whole: Sample, group: str, member: str, own: Row) -> Row:
    trial, part = whole.trial, part_of(whole, group, member)
    return {
        "trial": trial.name, "setup": trial.setup, "stack": trial.stack, "repeat": int(trial.document.get("repeat", 0)),
        **{param_column(name): as_text(value) for name, value in trial.params.items()},
        group: member, **own, **{name: FUNCTIONS[name](part) for name in figures_by(group)},
    }  # fmt: skip


def team_frame(rows: Sequence[Row], group: str) -> pl.DataFrame:
    """The rows as the file has them; a param that a trial lacks is empty."""
    figures = figures_by(group)
    known = {*LABELS, group, *OF_QUEUES, *figures}
    params = list(dict.fromkeys(name for row in rows for name in row if name not in known))
    columns = [*LABELS, *params, group, *(OF_QUEUES if group == QUEUE else ()), *figures]
    return pl.DataFrame([pl.Series(name, [row.get(name) for row in rows], dtype=_type(name)) for name in columns])


def _type(name: str) -> type[pl.DataType]:
    kind = FIGURES[name].kind if name in FIGURES else TEXT
    return pl.Int64 if kind == COUNT else pl.String if kind == TEXT and name != "weight" else pl.Float64


def team_rows(study: Study, group: str) -> list[Row]:
    """The rows of queues.csv or classes.csv, computed if need be."""
    if study.is_tabled():
        path = study.out / FILES[group]
        frame = pl.read_csv(path, infer_schema=False) if path.is_file() else pl.DataFrame()
        if set(frame.columns) >= set(figures_by(group)) or not path.is_file():  # not of a version that knew fewer
            return frame.with_columns(pl.col(name).cast(_type(name)) for name in frame.columns).rows(named=True)
    tables = TeamTables()
    for trial in study.trials:
        tables.add(study.lifecycle(trial))
    return tables.rows[group]
