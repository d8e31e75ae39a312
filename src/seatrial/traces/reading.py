"""Reads a trace of any format into one table, and says which of its lines are unusable and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from seatrial.traces import mapped_tables, own_format, swf
from seatrial.traces.columns import FAULT, FAULTS, NEGATIVE, NEGATIVE_AMOUNT, NO_SUBMIT, completed
from seatrial.traces.formats import COLUMNS_HINT, FORMATS, TraceFormat, recognised
from seatrial.traces.mapped_tables import MAPPED, Columns
from seatrial.traces.problem import TraceProblem

NAMED = 3  # lines of a kind that a message names
SECOND = 1_000_000_000
_AMOUNTS = ("processors", "job_gpus", "pods", "cpu_milli", "memory_bytes", "gpu_milli")


@dataclass(frozen=True)
class Trace:
    """A trace as read. `jobs`: the usable lines in the order of the file, `submit_ns` from the first submission on."""

    path: Path
    format: TraceFormat
    jobs: pl.DataFrame
    faulty: pl.DataFrame  # line, fault
    backwards: int  # lines with an earlier submission than the line before
    starts_at: int | None = None  # the first submission, as Unix time in ns, where the trace says
    header: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()  # what of the file is left out because of what it is

    def faults(self) -> list[str]:
        """`3 lines are cut off or mixed up (lines 7, 9 and 12)`, one per kind."""
        found = []
        for (fault,), rows in self.faulty.group_by(FAULT, maintain_order=True):
            lines = rows["line"].sort().to_list()
            found.append(f"{counted(len(lines), 'line')} left out: {fault} ({named_lines(lines)})")
        return found


def counted(count: int, noun: str) -> str:
    """`1 job`, `1,000 jobs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def named_lines(lines: list[int]) -> str:
    """`line 7`, `lines 7, 9, 12 and 5 more`."""
    shown = ", ".join(f"{line:,}" for line in lines[:NAMED])
    more = f" and {len(lines) - NAMED:,} more" if len(lines) > NAMED else ""
    return f"line{'' if len(lines) == 1 else 's'} {shown}{more}"


def fingerprint(path: Path) -> tuple[int, int]:
    """Size and time of the last change: a file that has the same is taken to be the same."""
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from None
    if path.is_dir():
        raise TraceProblem(f"{path} is a directory", "name a file in it")
    return found.st_size, found.st_mtime_ns


def _unreadable(path: Path, error: OSError) -> TraceProblem:
    return TraceProblem(f"{path.name}: {(error.strerror or str(error)).lower()}", "name a file that you can read")


def read(path: Path, named: str = "", columns: Columns | None = None, strict: bool = False) -> Trace:
    """`named`: the format, where it is not to be found out. `columns`: which column of a table is what."""
    before = fingerprint(path)
    try:
        kind = _format_of(path, named, columns or {})
        mapping = {**kind.columns, **(columns or {})}
        if not mapping and kind.scan is mapped_tables.scan:
            mapping = mapped_tables.own_names(mapped_tables.column_names(path))
        _check_columns(path, kind, mapping)
        frame = kind.scan(path, mapping).pipe(completed).pipe(_judged).collect(engine="streaming")
    except OSError as error:
        raise _unreadable(path, error) from None
    except pl.exceptions.PolarsError as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TraceProblem(
            f"{path.name} cannot be read as {kind.about}: {first}", "repair it, or name its `format`"
        ) from None
    if fingerprint(path) != before:
        raise TraceProblem(f"{path.name} changed while it was read", "wait until it is written, then try again")
    return _trace(path, kind, frame, strict)


def _format_of(path: Path, named: str, columns: Columns) -> TraceFormat:
    if not path.stat().st_size:
        raise TraceProblem(f"{path.name} is empty", "name a trace with jobs in it")
    if named and named not in FORMATS:
        raise TraceProblem(f"unknown format '{named}'", "", "format", named, FORMATS)
    if named:
        return FORMATS[named]
    return FORMATS["table"] if columns else recognised(path)


def _check_columns(path: Path, kind: TraceFormat, mapping: Columns) -> None:
    """The columns that a table must have."""
    if kind.scan is not mapped_tables.scan and not kind.columns:
        return
    there = mapped_tables.column_names(path)
    for field_name, (name, _) in mapping.items():
        if name not in there:
            option = "" if field_name in kind.columns else f"columns.{field_name}"
            raise TraceProblem(f"{path.name} has no column '{name}'", "", option, name, there)
    if "submit" not in mapping:
        raise TraceProblem(f"no column of {path.name} says when a job was submitted", COLUMNS_HINT, "columns")
    if "duration" not in mapping and not {"start", "end"} <= mapping.keys():
        what = f"no column of {path.name} says how long a job ran"
        raise TraceProblem(what, "map `duration`, or `start` and `end`", "columns")
    wrong = [one for one in mapping if one not in MAPPED]
    if wrong:
        raise TraceProblem(f"unknown field '{wrong[0]}'", "", "columns", wrong[0], MAPPED)


def _judged(frame: pl.LazyFrame) -> pl.LazyFrame:
    fault = (
        pl.when(pl.col("submit_ns").is_null())
        .then(pl.lit(NO_SUBMIT))
        .when(pl.col("duration_ns") < 0)
        .then(pl.lit(NEGATIVE))
        .when(pl.any_horizontal(pl.col(_AMOUNTS) < 0))
        .then(pl.lit(NEGATIVE_AMOUNT))
    )
    return frame.with_columns(pl.coalesce(FAULT, fault).alias(FAULT))


def _trace(path: Path, kind: TraceFormat, frame: pl.DataFrame, strict: bool) -> Trace:
    faulty = frame.filter(pl.col(FAULT).is_not_null()).select("line", FAULT)
    jobs = frame.filter(pl.col(FAULT).is_null()).drop(FAULT)
    if strict and faulty.height:
        first = faulty.sort("line").row(0, named=True)
        what = f"{path.name}:{first['line']}: {first[FAULT]}"
        more = f", and {faulty.height - 1:,} more such lines" if faulty.height > 1 else ""
        raise TraceProblem(what + more, "repair the lines, or leave out `strict`: they are then left out and counted")
    if not jobs.height:
        lines = f": {counted(faulty.height, 'line')}, all {FAULTS[0]} or without times" if faulty.height else ""
        raise TraceProblem(f"{path.name} has no jobs{lines}", "name a trace with jobs in it, or its `format`")
    backwards = int((jobs["submit_ns"].diff() < 0).sum())
    header: Mapping[str, Any] = {}
    starts_at: int | None = None
    first_submit = jobs["submit_ns"].min()
    assert isinstance(first_submit, int)
    if kind.name == "swf":
        header = swf.header_of(path)
        since = str(header.get("UnixStartTime", ""))
        starts_at = int(since) * SECOND + first_submit if since.isdigit() and int(since) else None
    elif kind.name == "seatrial":
        header = own_format.about(path)
        began = header.get("starts_at")
        starts_at = began + first_submit if isinstance(began, int) else None
    elif first_submit > LIKELY_UNIX:
        starts_at = first_submit
    jobs = jobs.with_columns(pl.col("submit_ns") - first_submit)
    return Trace(path, kind, jobs, faulty, backwards, starts_at, header, kind.remarks(path))


LIKELY_UNIX = 10**8 * SECOND  # March 1973: a larger number of seconds is a date, not an offset
assert set(FAULTS) >= {NO_SUBMIT, NEGATIVE}
