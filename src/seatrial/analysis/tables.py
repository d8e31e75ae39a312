"""All CSV tables of a study, written trial by trial.

A trial may have a million workloads and a study hundreds of trials, so one trial is in memory at a time, and its rows become text a
slice at a time. Tables are written atomically: a reader never sees half of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
import polars as pl

from seatrial.analysis.api_tables import write_api_tables
from seatrial.analysis.cells import as_text
from seatrial.analysis.sizes import SIZE_COUNTS, SIZE_TIMES, OfSize, Sizes, sizes_frame
from seatrial.analysis.stage_times import FIRST_RUNNING, Lifecycle, deltas, order_of
from seatrial.analysis.studies import EVICTED, Study
from seatrial.analysis.team_tables import TeamTables
from seatrial.analysis.trial_figures import Figures
from seatrial.model.figures import COUNT, FIGURES, FLAG, TEXT, columns
from seatrial.model.lifecycle import COMPLETED, FINISHED, LOST, PODS_CREATED, RUNNING, SCHEDULED, SUBMITTED
from seatrial.model.units import SECOND
from seatrial.record.files import atomic_write
from seatrial.record.layout import PODS, SIZES, SUMMARY, TIMES

DECIMALS = 6
_TYPES = {FLAG: pl.Boolean, COUNT: pl.Int64, TEXT: pl.String}
FLAVOR = "flavor"
_SLICE = 100_000  # rows turned into seconds and text at a time

_POD_COLUMNS = {
    "created_s": PODS_CREATED, "bound_s": SCHEDULED, "started_s": RUNNING, "finished_s": FINISHED, "lost_s": LOST,
}  # fmt: skip


def write_tables(study: Study) -> list[Path]:
    """Writes the tables of the study from its trials; sizes.csv only if there is more than one size."""
    out = study.out
    stages, flavors = order_of(study.trials), has_flavors(study)
    rows: list[Figures] = []
    sizes, teams, trusted = Sizes(), TeamTables(), {trial.name for trial in study.trusted}
    with ExitStack() as files:
        times = files.enter_context(_rows(out / TIMES, times_columns(stages), lambda table: _times(table, stages)))
        pods = files.enter_context(_rows(out / PODS, pods_columns(flavors), lambda table: _pods(table, flavors)))
        summary = files.enter_context(whole_file(out / SUMMARY))
        for trial in study.trials:
            seen = study.lifecycle(trial)
            rows.append(study.figures(trial))
            teams.add(seen)
            if trial.name in trusted:
                sizes.add(seen)
            times.add(seen, seen.workloads)
            pods.add(seen, named_pods(seen))
        summary_frame(rows).write_csv(summary, float_precision=DECIMALS)
        written = [*_write_sizes(out / SIZES, sizes.rows()), *teams.write(out)]
    return [out / TIMES, out / PODS, out / SUMMARY, *written, *write_api_tables(study)]


Shape = Callable[[pl.DataFrame], pl.DataFrame]  # tables of trials → rows of a file


class _Rows:
    """Rows of a CSV file, written in batches: a table operation costs 0.2 ms, and a study may have a thousand tiny trials."""

    def __init__(self, file: IO[bytes], columns: Sequence[str], shape: Shape) -> None:
        self._file, self._shape = file, shape
        self._held: list[tuple[Lifecycle, pl.DataFrame]] = []
        self._rows = 0
        file.write(_header(columns))

    def add(self, seen: Lifecycle, table: pl.DataFrame) -> None:
        """The next trial's table. Trials with the same columns are written together."""
        if self._held and (self._rows + table.height > _SLICE or self._held[0][1].columns != table.columns):
            self.flush()
        self._held.append((seen, table))
        self._rows += table.height

    def flush(self) -> None:
        """Writes what is held."""
        for part in _parts(self._held):
            self._shape(part).write_csv(self._file, include_header=False, float_precision=DECIMALS)
        self._held, self._rows = [], 0


@contextmanager
def _rows(path: Path, columns: Sequence[str], shape: Shape) -> Iterator[_Rows]:
    with whole_file(path) as file:
        rows = _Rows(file, columns, shape)
        yield rows
        rows.flush()


def _parts(held: Sequence[tuple[Lifecycle, pl.DataFrame]]) -> Iterator[pl.DataFrame]:
    """The tables of several trials concatenated, each row with its trial; a large one in slices."""
    if not held:
        return
    whole = pl.concat([table for _, table in held])
    trial = np.repeat(np.arange(len(held)), [table.height for _, table in held])
    of = [seen for seen, _ in held]
    names = {"trial": [seen.trial.name for seen in of], "setup": [seen.trial.setup for seen in of],
             "stack": [seen.trial.stack for seen in of]}  # fmt: skip
    texts = {name: pl.Series(name, values, dtype=pl.String) for name, values in names.items()}
    firsts = np.array([seen.first_ns for seen in of], dtype=np.int64)
    for begin in range(0, whole.height, _SLICE):
        here = trial[begin : begin + _SLICE]
        columns = [values.gather(here) for values in texts.values()]
        yield whole[begin : begin + _SLICE].hstack([*columns, pl.Series("first_ns", firsts[here])])


def _write_sizes(path: Path, rows: Sequence[OfSize]) -> list[Path]:
    if not rows:
        path.unlink(missing_ok=True)  # an older version of the study may have had it
        return []
    with whole_file(path) as file:
        sizes_frame(rows).write_csv(file, float_precision=DECIMALS)
    return [path]


def size_table(study: Study) -> pl.DataFrame:
    """The content of sizes.csv, computed if need be; empty if all workloads are of one size."""
    if study.is_tabled():
        if not (study.out / SIZES).is_file():
            return pl.DataFrame()
        text = pl.read_csv(study.out / SIZES, infer_schema=False)
        return text.with_columns(pl.col(SIZE_TIMES).cast(pl.Float64), pl.col(SIZE_COUNTS).cast(pl.Int64))
    sizes = Sizes()
    for trial in study.trusted:
        sizes.add(study.lifecycle(trial))
    return sizes_frame(sizes.rows())


def summary_frame(rows: Sequence[Figures]) -> pl.DataFrame:
    """summary.csv; a param that a trial lacks is empty."""
    params = list(dict.fromkeys(name for row in rows for name in row if name not in FIGURES))
    series: list[pl.Series] = []
    for name in columns(params, shared=any(EVICTED in row for row in rows)):
        values = [row.get(name) for row in rows]
        kind = _TYPES.get(FIGURES[name].kind, pl.Float64) if name in FIGURES else pl.String
        if kind == pl.String:
            values = [None if value is None else as_text(value) for value in values]
        series.append(pl.Series(name, values, dtype=kind))
    return pl.DataFrame(series)


def times_columns(stages: Sequence[str]) -> list[str]:
    """Columns of times.csv: labels, stages up to completion, times that follow from them, other stages, deltas."""
    cut = list(stages).index(COMPLETED.name) + 1
    return [
        "trial", "workload", "setup", "stack", "size",
        *(f"{name}_s" for name in stages[:cut]), "turnaround_s", "run_s",
        f"{FIRST_RUNNING}_s", *(f"{name}_s" for name in stages[cut:]), "phase",
        *(f"{name}_delta_s" for name in stages[1:]),
    ]  # fmt: skip


def has_flavors(study: Study) -> bool:
    """Whether the study has quotas by flavor: pods.csv then has the flavor of each pod."""
    return any(trial.fleet.flavors for trial in study.trials)


def pods_columns(flavors: bool) -> list[str]:
    """Columns of pods.csv."""
    *times, lost = _POD_COLUMNS
    return ["trial", "workload", "pod", "node", *times, "time_to_start_s", lost, *([FLAVOR] if flavors else [])]


def times_parts(seen: Lifecycle, stages: Sequence[str]) -> Iterator[pl.DataFrame]:
    """times.csv of one trial, in parts; a stage that its stack lacks is empty."""
    return (_times(part, stages) for part in _parts([(seen, seen.workloads)]))


def _times(part: pl.DataFrame, stages: Sequence[str]) -> pl.DataFrame:
    present = [name for name in (*stages, FIRST_RUNNING) if name in part.columns]
    return part.select(
        "trial", "workload", "setup", "stack", pl.col("pods").alias("size"), "phase",
        *(_seconds(pl.col(name) - pl.col("first_ns"), name) for name in present),
        *(_seconds(delta, delta.meta.output_name()) for delta in deltas(part, stages)),
        _seconds(_difference(part, COMPLETED.name, SUBMITTED.name), "turnaround"),
        _seconds(_difference(part, FINISHED.name, RUNNING.name), "run"),
    ).pipe(_with_all, times_columns(stages))  # fmt: skip


def pods_parts(seen: Lifecycle, flavors: bool) -> Iterator[pl.DataFrame]:
    """pods.csv of one trial, in parts."""
    return (_pods(part, flavors) for part in _parts([(seen, named_pods(seen))]))


def named_pods(seen: Lifecycle) -> pl.DataFrame:
    """The pods with the names of their workloads (`of`) and nodes (`node name`), and with their flavors if there are any."""
    numbers = seen.workloads["number"].to_numpy()
    row = np.full(int(numbers.max(initial=-1)) + 1, -1)
    row[numbers] = np.arange(len(numbers))
    workload = seen.pods["workload"].to_numpy()
    known = (workload >= 0) & (workload < len(row))
    of = np.where(known, row[np.where(known, workload, 0)], -1) if len(row) else np.full(len(workload), -1)
    node = seen.pods["node"].fill_null(-1).to_numpy()
    named = [_gathered(seen.workloads["workload"], of).alias("of"),
             _gathered(pl.Series(seen.nodes, dtype=pl.String), node).alias("node name")]  # fmt: skip
    if seen.trial.fleet.flavors:
        named.append(_gathered(_flavors(seen), node).alias(FLAVOR))
    return seen.pods.hstack(named)


def _flavors(seen: Lifecycle) -> pl.Series:
    """The flavor of every node. A pod admitted in a flavor can only be bound to the nodes of its group, which are called
    GROUP-NUMBER; nodes of several flavors, or of none, have none."""
    flavors = seen.trial.fleet.flavors
    groups = Counter(flavor.nodes for flavor in flavors)
    of = {flavor.nodes: flavor.name for flavor in flavors if groups[flavor.nodes] == 1}
    every = of.get("") if len(flavors) == 1 else None
    return pl.Series([every or of.get(node.rpartition("-")[0]) for node in seen.nodes], dtype=pl.String)


def _gathered(names: pl.Series, places: npt.NDArray[np.int64]) -> pl.Series:
    """The names at these places, null where there is none."""
    there = (places >= 0) & (places < len(names))
    if there.all():
        return names.gather(places)
    return names.gather(pl.Series(places, dtype=pl.Int64).set(pl.Series(~there), None))


def _pods(part: pl.DataFrame, flavors: bool) -> pl.DataFrame:
    times = {column: stage.name for column, stage in _POD_COLUMNS.items() if stage.name in part.columns}
    return part.select(
        "trial", pl.col("of").alias("workload"), pl.col("name").alias("pod"), pl.col("node name").alias("node"),
        *(_seconds(pl.col(stage) - pl.col("first_ns"), column.removesuffix("_s")) for column, stage in times.items()),
        _seconds(_difference(part, RUNNING.name, SCHEDULED.name), "time_to_start"),
        *([FLAVOR] if flavors and FLAVOR in part.columns else []),
    ).pipe(_with_all, pods_columns(flavors))  # fmt: skip


def _seconds(nanoseconds: pl.Expr, name: str) -> pl.Expr:
    """Multiplies: polars divides a table of one row differently from a longer one, so rounding would depend on the length."""
    return (nanoseconds.cast(pl.Float64) * (1 / SECOND)).alias(f"{name}_s")


def _difference(frame: pl.DataFrame, later: str, earlier: str) -> pl.Expr:
    if later in frame.columns and earlier in frame.columns:
        return pl.col(later) - pl.col(earlier)
    return pl.lit(None, dtype=pl.Int64)


def _with_all(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    missing = [pl.lit(None, dtype=pl.Float64).alias(name) for name in columns if name not in frame.columns]
    return frame.with_columns(missing).select(columns)


def _header(columns: Sequence[str]) -> bytes:
    return pl.DataFrame(schema=dict.fromkeys(columns, pl.String)).write_csv().encode()


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that is written atomically."""
    with atomic_write(path) as part, part.open("wb") as file:
        yield file
