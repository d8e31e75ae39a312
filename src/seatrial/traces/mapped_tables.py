"""CSV and Parquet files of any layout: `columns` says which column is what. Read lazily, and only the columns that are named."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from seatrial.traces.columns import CUT
from seatrial.traces.problem import TraceProblem

SECOND = 1_000_000_000
TIME_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND}
CPU_UNITS = {"cores": 1000, "milli": 1}
GPU_UNITS = {"gpus": 1000, "milli": 1}
MEMORY_UNITS = {
    "bytes": 1, "kB": 1000, "MB": 1000**2, "GB": 1000**3, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
}  # fmt: skip
WHOLE = {"": 1}
_OVER = "columns beyond the header"
PEEKED = 1000  # rows by which it is decided whether times are dates


@dataclass(frozen=True, slots=True)
class MappedField:
    """A field that `columns` may map: the column of ours that it becomes, and its units, the first of which is the default."""

    column: str
    units: Mapping[str, int]
    about: str


TIMES = {"submit": "when it was submitted", "start": "when it started", "end": "when it ended"}
MAPPED = {
    **{name: MappedField(f"{name}_ns", {"s": SECOND, **TIME_UNITS}, f"{about}: a number, or date and time")
       for name, about in TIMES.items()},
    "duration": MappedField("duration_ns", {"s": SECOND, **TIME_UNITS}, "how long it ran, instead of start and end"),
    "wait": MappedField("wait_ns", {"s": SECOND, **TIME_UNITS}, "how long it waited, instead of start"),
    "think": MappedField("think_ns", {"s": SECOND, **TIME_UNITS}, "time from the end of the job in `after` to the submission"),
    "pods": MappedField("pods", WHOLE, "number of pods"),
    "processors": MappedField("processors", WHOLE, "processors of the whole job, instead of pods and cpu"),
    "job-gpus": MappedField("job_gpus", WHOLE, "GPUs of the whole job, instead of pods and gpus"),
    "cpu": MappedField("cpu_milli", CPU_UNITS, "cores per pod"),
    "memory": MappedField("memory_bytes", MEMORY_UNITS, "memory per pod (per processor, with `processors`)"),
    "gpus": MappedField("gpu_milli", GPU_UNITS, "GPUs per pod; 0.5 is half of one"),
    "priority": MappedField("priority", WHOLE, "priority; higher is first"),
    **{name: MappedField(name.replace("-", "_"), {}, about) for name, about in (
        ("job", "name or number of the job"), ("user", "who submitted it"), ("group", "group, account or project"),
        ("queue", "queue"), ("partition", "partition"), ("class", "kind of workload, by which figures are grouped"),
        ("gpu-model", "accepted GPU models, separated by |"), ("after", "the job that had to end first"),
        ("outcome", "completed, failed or cancelled"),
    )},
}  # fmt: skip
Columns = Mapping[str, tuple[str, str]]  # field → column of the file, unit (empty: the default)


def own_names(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The columns of a file that are called like a field."""
    there = set(names)
    return {field: (field, "") for field in MAPPED if field in there}


def is_parquet(path: Path) -> bool:
    """Recognises Parquet by its first bytes."""
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def column_names(path: Path) -> list[str]:
    """Column names of a CSV or Parquet file."""
    if is_parquet(path):
        try:
            return pl.scan_parquet(path).collect_schema().names()
        except pl.exceptions.PolarsError as error:
            raise TraceProblem(f"{path.name} is damaged: {_first_line(error)}", "get the file again") from None
    try:
        return next(csv.reader([first_line(path)], delimiter=separator(path)), [])
    except csv.Error:  # a lone carriage return: of a binary file, or of a table with the lines of another century
        return [first_line(path)]


def first_line(path: Path) -> str:
    """The first line of a text file, also of a gzipped one."""
    try:
        with path.open("rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            line = (gzip.GzipFile(fileobj=plain) if packed else plain).readline(1 << 20)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceProblem(f"{path.name} is damaged: {error}", "get the file again") from None
    return line.decode("utf-8-sig", "replace").rstrip("\r\n")


def separator(path: Path) -> str:
    """The sign that stands most often in the first line."""
    line = first_line(path)
    return max(",;\t|", key=line.count)


def scan(path: Path, columns: Columns) -> pl.LazyFrame:
    """The rows of a file in our columns. `start` and `end` become wait and duration."""
    raw = _raw(path)
    kinds = raw.collect_schema()
    picked: list[pl.Expr] = [pl.col("line").cast(pl.UInt32)]
    unreadable: list[pl.Expr] = []
    for field, (name, unit) in columns.items():
        mapped = MAPPED[field]
        if not mapped.units:
            picked.append(_text(name, kinds[name]).alias(mapped.column))
            continue
        factor = mapped.units[unit] if unit else next(iter(mapped.units.values()))
        value = _time(raw, name, kinds[name], factor) if field in TIMES else _number(name, kinds[name], factor)
        picked.append(value.alias(mapped.column))
        unreadable.append(_said(name, kinds[name]) & value.is_null())
    if _OVER in kinds:
        unreadable.append(pl.col(_OVER).is_not_null())
    mixed = pl.any_horizontal(unreadable) if unreadable else pl.lit(False)
    table = raw.select(*picked, pl.when(mixed).then(pl.lit(CUT)).alias("fault"))
    return _with_spans(table, columns)


def _with_spans(table: pl.LazyFrame, columns: Columns) -> pl.LazyFrame:
    more = []
    if "start" in columns and "wait" not in columns and "submit" in columns:
        more.append((pl.col("start_ns") - pl.col("submit_ns")).alias("wait_ns"))
    if "duration" not in columns and {"start", "end"} <= columns.keys():
        more.append((pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns"))
    return table.with_columns(more)


def _raw(path: Path) -> pl.LazyFrame:
    if is_parquet(path):
        return pl.scan_parquet(path).with_row_index("line", offset=1)
    names = column_names(path)
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise TraceProblem(f"{path.name} has two columns called '{twice[0]}'", "rename one of them")
    schema = {**dict.fromkeys(names, pl.String), _OVER: pl.String}
    return pl.scan_csv(
        path, has_header=False, skip_lines=1, separator=separator(path), schema=schema, encoding="utf8-lossy",
        truncate_ragged_lines=True, missing_columns="insert", row_index_name="line", row_index_offset=2,
    )  # fmt: skip


def _said(name: str, kind: pl.DataType) -> pl.Expr:
    """Whether a value is there."""
    return _text(name, kind).is_not_null()


def _text(name: str, kind: pl.DataType) -> pl.Expr:
    value = pl.col(name).cast(pl.String).str.strip_chars() if kind == pl.String else pl.col(name).cast(pl.String)
    return pl.when(~value.is_in(["", "-1", "null", "NULL", "None", "nan", "NaN", "Unknown"])).then(value)


def _number(name: str, kind: pl.DataType, factor: int) -> pl.Expr:
    """Whole numbers after the unit; what is no finite number is null. −1 is unknown, as in SWF."""
    if kind == pl.Duration:
        return pl.col(name).dt.total_nanoseconds()
    value = _text(name, kind).cast(pl.Float64, strict=False)
    value = pl.when(value.is_finite() & (value.abs() * factor < 2**62)).then(value)
    return (value * factor).round().cast(pl.Int64, strict=False)


def _time(raw: pl.LazyFrame, name: str, kind: pl.DataType, factor: int) -> pl.Expr:
    """Nanoseconds, of a number or of a date."""
    if kind.is_temporal() and kind != pl.Duration:
        return pl.col(name).dt.epoch("ns")
    if kind == pl.String:
        some = raw.select(_text(name, kind).alias("t")).drop_nulls().head(PEEKED)
        numbers = some.select(pl.col("t").cast(pl.Float64, strict=False).is_not_null().mean()).collect().item()
        if numbers is not None and numbers < 0.5:
            return dates(_text(name, kind))
    return _number(name, kind, factor)


def dates(text: pl.Expr) -> pl.Expr:
    """`2017-10-09 07:01:55`, `2017-10-09T07:01:55.5Z`, `2017-10-09 07:01:55+02:00`; without a zone it is UTC."""
    text = text.str.replace("T", " ")
    zone = text.str.extract_groups(r"([+-])(\d\d):?(\d\d)$").struct.rename_fields(["sign", "hours", "minutes"])
    hours, minutes = (zone.struct.field(part).cast(pl.Int64) for part in ("hours", "minutes"))
    east = pl.when(zone.struct.field("sign") == "-").then(-1).otherwise(1)
    offset = (east * (hours * 60 + minutes) * 60 * SECOND).fill_null(0)
    plain = text.str.replace(r"\s*(Z|[+-]\d\d:?\d\d)$", "")
    # A bare date ends like a zone: only after a time is it one.
    plain, offset = (
        pl.when(text.str.contains(":")).then(part).otherwise(other)
        for part, other in ((plain, text), (offset, pl.lit(0)))
    )
    formats = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%Y/%m/%d %H:%M:%S%.f")
    found = pl.coalesce(plain.str.to_datetime(one, strict=False, time_unit="ns") for one in formats)
    return found.dt.epoch("ns") - offset


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
