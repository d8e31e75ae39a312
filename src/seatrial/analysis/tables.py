"""times.csv, pods.csv and summary.csv of a study, written trial by trial.

A trial may have a million workloads and a study hundreds of trials, so only one trial is in memory at a time, and its
rows become text a slice at a time. A reader never meets half a table: each is written beside its place and moved there
when it is whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import polars as pl

from seatrial.analysis import figures as fig
from seatrial.analysis.api_tables import write_api_tables
from seatrial.analysis.directory import TRIAL, StudyRecord, TrialRecord, read_study
from seatrial.analysis.lifecycle import FIRST_RUNNING, Lifecycle, deltas, lifecycle, order_of
from seatrial.analysis.sizes import SIZE_COUNTS, SIZE_TIMES, OfSize, Sizes, sizes_frame
from seatrial.model.lifecycle import COMPLETED, FINISHED, LOST, PODS_CREATED, RUNNING, SCHEDULED, SUBMITTED
from seatrial.model.units import SECOND
from seatrial.record.layout import PODS, SIZES, SUMMARY, TIMES

DECIMALS = 6
_SLICE = 100_000  # rows turned into seconds and text at a time

_POD_COLUMNS = {
    "created_s": PODS_CREATED, "bound_s": SCHEDULED, "started_s": RUNNING, "finished_s": FINISHED, "lost_s": LOST,
}  # fmt: skip


def write_tables(out: Path) -> list[Path]:
    """Writes the tables of the study in `out` again from its trials; sizes.csv only where there is more than one size."""
    study = read_study(out)
    stages = order_of(study.trials)
    rows: list[fig.Figures] = []
    sizes, trusted = Sizes(), {trial.name for trial in study.trusted}
    with ExitStack() as files:
        times = files.enter_context(whole_file(out / TIMES))
        pods = files.enter_context(whole_file(out / PODS))
        summary = files.enter_context(whole_file(out / SUMMARY))
        times.write(_header(times_columns(stages)))
        pods.write(_header(pods_columns()))
        for trial in study.trials:
            seen = lifecycle(trial)
            rows.append(fig.figures_of(seen))
            if trial.name in trusted:
                sizes.add(seen)
            for part in times_parts(seen, stages):
                part.write_csv(times, include_header=False, float_precision=DECIMALS)
            for part in pods_parts(seen):
                part.write_csv(pods, include_header=False, float_precision=DECIMALS)
        summary_frame(rows).write_csv(summary, float_precision=DECIMALS)
        written = _write_sizes(out / SIZES, sizes.rows())
    return [out / TIMES, out / PODS, out / SUMMARY, *written, *write_api_tables(out, study)]


def _write_sizes(path: Path, rows: Sequence[OfSize]) -> list[Path]:
    if not rows:
        path.unlink(missing_ok=True)  # an older version of the study may have had it
        return []
    with whole_file(path) as file:
        sizes_frame(rows).write_csv(file, float_precision=DECIMALS)
    return [path]


def size_table(out: Path) -> pl.DataFrame:
    """What sizes.csv has, if need be worked out again; no rows where all workloads are of one size."""
    study = read_study(out)
    if _is_fresh(out / SUMMARY, study):  # written with the others, last
        if not (out / SIZES).is_file():
            return pl.DataFrame()
        text = pl.read_csv(out / SIZES, infer_schema=False)
        return text.with_columns(pl.col(SIZE_TIMES).cast(pl.Float64), pl.col(SIZE_COUNTS).cast(pl.Int64))
    sizes = Sizes()
    for trial in study.trusted:
        sizes.add(lifecycle(trial))
    return sizes_frame(sizes.rows())


def summary_rows(out: Path) -> list[fig.Figures]:
    """One row of figures per trial: from summary.csv where that is newer than all trials, else worked out again."""
    study = read_study(out)
    if _is_fresh(out / SUMMARY, study):
        frame = pl.read_csv(out / SUMMARY, infer_schema=False)
        if frame.height == len(study.trials) and set(frame.columns) >= fig.FIXED:  # not of a version that knew fewer
            return [_typed(row) for row in frame.rows(named=True)]
    return [fig.figures_of(lifecycle(trial)) for trial in study.trials]


def summary_frame(rows: Sequence[fig.Figures]) -> pl.DataFrame:
    """The rows as a table; parameters that not all trials have are empty in the others."""
    params = list(dict.fromkeys(name for row in rows for name in row if name not in fig.FIXED))
    columns = [*fig.BEFORE, *params, *fig.AFTER, *fig.MORE]
    series: list[pl.Series] = []
    for name in columns:
        values = [row.get(name) for row in rows]
        if name == "valid":
            series.append(pl.Series(name, values, dtype=pl.Boolean))
        elif name in fig.WHOLE:
            series.append(pl.Series(name, values, dtype=pl.Int64))
        elif name in fig.TEXT or name in params:
            series.append(
                pl.Series(name, [None if value is None else fig.as_text(value) for value in values], dtype=pl.String)
            )
        else:
            series.append(pl.Series(name, values, dtype=pl.Float64))
    return pl.DataFrame(series)


def times_columns(stages: Sequence[str]) -> list[str]:
    """Columns of times.csv: what it is, its stages up to completion, what follows from them, the rest, the deltas."""
    cut = list(stages).index(COMPLETED.name) + 1
    return [
        "trial", "workload", "setup", "stack", "size",
        *(f"{name}_s" for name in stages[:cut]), "turnaround_s", "run_s",
        f"{FIRST_RUNNING}_s", *(f"{name}_s" for name in stages[cut:]), "phase",
        *(f"{name}_delta_s" for name in stages[1:]),
    ]  # fmt: skip


def pods_columns() -> list[str]:
    *times, lost = _POD_COLUMNS
    return ["trial", "workload", "pod", "node", *times, "time_to_start_s", lost]


def times_parts(seen: Lifecycle, stages: Sequence[str]) -> Iterator[pl.DataFrame]:
    """times.csv of one trial, in parts; a stage that its stack lacks is empty."""
    columns = times_columns(stages)
    trial = seen.trial
    for part in seen.workloads.iter_slices(_SLICE):
        present = [name for name in (*stages, FIRST_RUNNING) if name in part.columns]
        yield part.select(
            pl.lit(trial.name).alias("trial"), "workload", pl.lit(trial.setup).alias("setup"),
            pl.lit(trial.stack).alias("stack"), pl.col("pods").alias("size"), "phase",
            *(_seconds(pl.col(name) - seen.first_ns, name) for name in present),
            *(_seconds(delta, delta.meta.output_name()) for delta in deltas(part, stages)),
            _seconds(_difference(part, COMPLETED.name, SUBMITTED.name), "turnaround"),
            _seconds(_difference(part, FINISHED.name, RUNNING.name), "run"),
        ).pipe(_with_all, columns)  # fmt: skip


def pods_parts(seen: Lifecycle) -> Iterator[pl.DataFrame]:
    """pods.csv of one trial, in parts."""
    nodes = pl.DataFrame({"node name": seen.nodes}, schema={"node name": pl.String}).with_row_index("node")
    nodes = nodes.with_columns(pl.col("node").cast(pl.Int32))
    workloads = seen.workloads.select(pl.col("number").alias("workload"), pl.col("workload").alias("of"))
    named = seen.pods.join(workloads, on="workload", how="left", maintain_order="left")
    named = named.join(nodes, on="node", how="left", maintain_order="left")
    for part in named.iter_slices(_SLICE):
        times = {column: stage.name for column, stage in _POD_COLUMNS.items() if stage.name in part.columns}
        yield part.select(
            pl.lit(seen.trial.name).alias("trial"), pl.col("of").alias("workload"), pl.col("name").alias("pod"),
            pl.col("node name").alias("node"),
            *((pl.col(stage) - seen.first_ns).truediv(SECOND).alias(column) for column, stage in times.items()),
            _seconds(_difference(part, RUNNING.name, SCHEDULED.name), "time_to_start"),
        ).pipe(_with_all, pods_columns())  # fmt: skip


def _seconds(nanoseconds: pl.Expr, name: str) -> pl.Expr:
    return nanoseconds.truediv(SECOND).alias(f"{name}_s")


def _difference(frame: pl.DataFrame, later: str, earlier: str) -> pl.Expr:
    if later in frame.columns and earlier in frame.columns:
        return pl.col(later) - pl.col(earlier)
    return pl.lit(None, dtype=pl.Int64)


def _with_all(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    missing = [pl.lit(None, dtype=pl.Float64).alias(name) for name in columns if name not in frame.columns]
    return frame.with_columns(missing).select(columns)


def _header(columns: Sequence[str]) -> bytes:
    return pl.DataFrame(schema=dict.fromkeys(columns, pl.String)).write_csv().encode()


def _typed(row: dict[str, str | None]) -> fig.Figures:
    """A row of summary.csv as `figures` gave it; parameters stay text."""
    typed: fig.Figures = {}
    for name, text in row.items():
        if text is None or name in fig.TEXT or name not in fig.FIXED:
            typed[name] = text
        elif name == "valid":
            typed[name] = text == "true"
        else:
            typed[name] = int(text) if name in fig.WHOLE else float(text)
    return typed


def _is_fresh(table: Path, study: StudyRecord) -> bool:
    """It is there, and newer than every trial."""
    return table.is_file() and all(table.stat().st_mtime_ns >= _written(trial) for trial in study.trials)


def _written(trial: TrialRecord) -> int:
    return (trial.directory / TRIAL).stat().st_mtime_ns


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its place only when all of it is written."""
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
