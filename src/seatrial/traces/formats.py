"""The formats that are read, how a file of each is recognised by its content, and what is peculiar to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from seatrial.traces import mapped_tables, own_format, simkube, slurm, swf
from seatrial.traces.mapped_tables import Columns
from seatrial.traces.problem import TraceProblem

COLUMNS_HINT = "say which column is what: columns: {submit: …, duration: …} (`inspect`: --column submit=…)"


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """`rigid`: a job's pods run only together. `sized`: a job without processors is of unknown size. `columns`: which column of
    the file is what, where the format fixes it."""

    name: str
    about: str
    recognises: Callable[[Path], bool]
    scan: Callable[[Path, Columns], pl.LazyFrame]
    rigid: bool = False
    sized: bool = False
    columns: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    remarks: Callable[[Path], tuple[str, ...]] = lambda _: ()  # what of a file is left out by design


def _has(*names: str) -> Callable[[Path], bool]:
    def recognises(path: Path) -> bool:
        return not mapped_tables.is_parquet(path) and set(names) <= set(mapped_tables.column_names(path))

    return recognises


def _openb(path: Path, _: Columns) -> pl.LazyFrame:
    """A pod that was never scheduled has no start: its life from creation to deletion stands for its duration."""
    table = mapped_tables.scan(path, OPENB_COLUMNS)
    share = mapped_tables.scan(path, {"gpus": ("gpu_milli", "milli")}).select(pl.col("gpu_milli").alias("share"))
    both = pl.concat([table, share], how="horizontal")
    lived = pl.col("end_ns") - pl.coalesce("start_ns", "submit_ns")
    whole = pl.col("gpu_milli") // 1000
    per_gpu = pl.when(whole == 1).then(pl.col("share").fill_null(1000)).otherwise(1000)
    return both.with_columns(lived.alias("duration_ns"), (whole * per_gpu).alias("gpu_milli"))


OPENB_COLUMNS: Columns = {
    "job": ("name", ""), "submit": ("creation_time", "s"), "start": ("scheduled_time", "s"), "end": ("deletion_time", "s"),
    "cpu": ("cpu_milli", "milli"), "memory": ("memory_mib", "MiB"), "gpus": ("num_gpu", ""), "gpu-model": ("gpu_spec", ""),
    "class": ("qos", ""),
}  # fmt: skip
PHILLY_COLUMNS: Columns = {
    "submit": ("timestamp", ""), "duration": ("duration", "s"), "job-gpus": ("num_gpus", ""), "queue": ("cluster", ""),
}  # fmt: skip


def _is_swf(path: Path) -> bool:
    """A header, or a first line of 18 numbers."""
    first = mapped_tables.first_line(path).strip()
    if first.startswith(";"):
        return True
    return bool(re.fullmatch(r"(-?\d+(\.\d+)?\s+){17}-?\d+(\.\d+)?", first))


FORMATS = {
    one.name: one
    for one in (
        TraceFormat("seatrial", "seatrial's own Parquet", own_format.recognises, lambda path, _: own_format.scan(path)),
        TraceFormat(
            "sktrace", "SimKube's .sktrace (version 2)", simkube.recognises, lambda path, _: simkube.scan(path),
            remarks=simkube.remarks,
        ),
        TraceFormat("swf", "Standard Workload Format", _is_swf, lambda path, _: swf.scan(path), rigid=True, sized=True),
        TraceFormat(
            "sacct", "output of Slurm's sacct -P", slurm.recognises, lambda path, _: slurm.scan(path), rigid=True, sized=True,
        ),
        TraceFormat(
            "openb", "pods of Alibaba's GPU cluster (2023)", _has("cpu_milli", "gpu_milli", "creation_time", "deletion_time"),
            _openb, columns=OPENB_COLUMNS,
        ),
        TraceFormat(
            "philly", "jobs of Microsoft's Philly as a table", _has("timestamp", "duration", "num_gpus", "cluster"),
            mapped_tables.scan, rigid=True, columns=PHILLY_COLUMNS,
        ),
        TraceFormat("table", "a table with columns of its own", lambda _: False, mapped_tables.scan),
    )
}  # fmt: skip


def recognised(path: Path) -> TraceFormat:
    """The format of a file by its content. A table whose columns are called like our fields needs no mapping."""
    for one in FORMATS.values():
        if one.recognises(path):
            return one
    names = mapped_tables.column_names(path)
    if len(names) > 1 and "submit" in mapped_tables.own_names(names):
        return FORMATS["table"]
    known = ", ".join(FORMATS)
    if len(names) > 1 and all(re.match(r"[A-Za-z_]", name.strip()) for name in names):
        listed = ", ".join(names[:12]) + (" …" if len(names) > 12 else "")
        raise TraceProblem(f"{path.name} is a table of an unknown layout, with the columns {listed}", COLUMNS_HINT)
    raise TraceProblem(f"{path.name} is in no known format", f"known are {known}; {COLUMNS_HINT}, or name the `format`")
