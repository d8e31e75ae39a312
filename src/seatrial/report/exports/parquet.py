"""Everything as Parquet: one file per table, trials told apart by a column, times in seconds as numbers.

A trial at a time goes through memory and becomes a file of its own; the files of all trials are then joined without being read
at once.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import polars as pl

from seatrial.analysis.stage_times import Lifecycle, order_of
from seatrial.analysis.studies import Study
from seatrial.analysis.tables import (
    FLAVOR,
    has_flavors,
    pods_columns,
    pods_parts,
    summary_frame,
    times_columns,
    times_parts,
)
from seatrial.analysis.team_tables import TeamTables, team_frame
from seatrial.analysis.trial_figures import Figures, figures_of
from seatrial.model.figures import CLASS, QUEUE
from seatrial.record import merging
from seatrial.record.files import atomic_write
from seatrial.record.layout import OBSERVED, OBSERVED_PODS

TEXT = ("trial", "workload", "setup", "stack", "phase", "pod", "node", FLAVOR)


def write_parquet(study: Study, folder: Path) -> list[Path]:
    """summary, queues, classes, times, pods and observed, and every other Parquet file of trials."""
    folder.mkdir(parents=True, exist_ok=True)
    stages, flavors = order_of(study.trials), has_flavors(study)
    rows: list[Figures] = []
    teams = TeamTables()
    with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as scratch:
        parts: dict[str, list[Path]] = {}

        def keep(table: str, frame: pl.DataFrame) -> None:
            path = Path(scratch) / f"{table}-{len(parts.setdefault(table, []))}.parquet"
            frame.write_parquet(path, compression="lz4")
            parts[table].append(path)

        for trial in study.trials:
            seen = study.lifecycle(trial)
            rows.append(figures_of(seen))
            for part in times_parts(seen, stages):
                keep("times", _typed(part, times_columns(stages)))
            for part in pods_parts(seen, flavors):
                keep("pods", _typed(part, pods_columns(flavors)))
            keep("observed", _observed(seen))
            for path in sorted(trial.directory.glob("*.parquet")):
                if path.name not in (OBSERVED, OBSERVED_PODS):
                    frame = pl.read_parquet(path, glob=False)
                    keep(path.stem, frame.select(pl.lit(trial.name).alias("trial"), pl.all()))
            teams.add(seen)
        written = [_whole(folder / "summary.parquet", summary_frame(rows).lazy())]
        for group, table in ((QUEUE, "queues"), (CLASS, "classes")):
            if teams.rows[group]:
                written.append(_whole(folder / f"{table}.parquet", team_frame(teams.rows[group], group).lazy()))
        for table, files in parts.items():
            frames = [pl.scan_parquet(file, glob=False) for file in files]
            written.append(_whole(folder / f"{table}.parquet", pl.concat(frames, how="diagonal_relaxed")))
    return written


def _whole(path: Path, frame: pl.LazyFrame) -> Path:
    with atomic_write(path) as part:
        frame.sink_parquet(part, compression="zstd")
    return path


def _typed(frame: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    """An empty column of one trial gets its type from the others."""
    types = {name: pl.String if name in TEXT else pl.Int64 if name == "size" else pl.Float64 for name in columns}
    return frame.select(pl.col(name).cast(types[name]) for name in columns)


def _observed(seen: Lifecycle) -> pl.DataFrame:
    """Every transition with names: workload, pod, stage, node, source."""
    trial = seen.trial
    part = merging.read(trial.directory, trial.stages, trial.errors_ns)
    observed = part.observed.with_columns(pl.col("object", "node", "stage", "source").cast(pl.Int64))
    stages = pl.DataFrame(
        {"stage": range(len(trial.stages)), "stage name": [s.name for s in trial.stages],
         "of pods": [s.of == "pod" for s in trial.stages]},
        schema={"stage": pl.Int64, "stage name": pl.String, "of pods": pl.Boolean},
    )  # fmt: skip
    sources = [str(source.get("name", "")) for source in trial.document.get("sources") or ()]
    pods = seen.pods.select(pl.col("pod").cast(pl.Int64), pl.col("workload").cast(pl.Int64).alias("of"), "name")
    workloads = seen.workloads.select(pl.col("number").cast(pl.Int64), pl.col("workload").alias("workload name"))
    of_pods = pl.col("of pods")
    return (
        observed.join(stages, on="stage", how="left", maintain_order="left")
        .with_columns(pl.when(of_pods).then("object").alias("pod"))
        .join(pods, on="pod", how="left", maintain_order="left")
        .with_columns(pl.when(of_pods).then("of").otherwise("object").alias("number"))
        .join(workloads, on="number", how="left", maintain_order="left")
        .select(
            pl.lit(trial.name).alias("trial"), (pl.col("at_ns") - seen.first_ns).truediv(1e9).alias("at_s"),
            pl.col("stage name").alias("stage"), pl.col("workload name").alias("workload"), pl.col("name").alias("pod"),
            _named("node", part.nodes), _named("source", sources),
        )
    )  # fmt: skip


def _named(column: str, names: list[str]) -> pl.Expr:
    numbers = dict(enumerate(names))
    return pl.col(column).replace_strict(numbers, default=None, return_dtype=pl.String).alias(column)
