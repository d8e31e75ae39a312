"""Our own traces: Parquet with the columns of `columns.COLUMNS` (docs/traces.md); what else is known is in its metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from seatrial.traces import mapped_tables
from seatrial.traces.columns import COLUMNS
from seatrial.traces.problem import TraceProblem

VERSION = 1
KEY = "seatrial.trace"  # of the file's metadata: a JSON object
REQUIRED = ("submit_ns", "duration_ns")


def recognises(path: Path) -> bool:
    """Recognises our metadata, or our names of the two required columns."""
    if not mapped_tables.is_parquet(path):
        return False
    return bool(about(path)) or set(REQUIRED) <= set(mapped_tables.column_names(path))


def about(path: Path) -> dict[str, Any]:
    """`version`, `starts_at` (Unix time in ns of the trace's beginning) and whatever else the writer said; empty if nothing."""
    try:
        said = pl.read_parquet_metadata(path).get(KEY)
        found = json.loads(said) if said else {}
    except (pl.exceptions.PolarsError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def scan(path: Path) -> pl.LazyFrame:
    """The jobs. Columns that are not ours are ignored, ours of another type are refused."""
    if int(about(path).get("version", VERSION)) > VERSION:
        raise TraceProblem(f"{path.name} is of a later version than this seatrial reads", "upgrade seatrial")
    frame = pl.scan_parquet(path)
    kinds = frame.collect_schema()
    lacking = [name for name in REQUIRED if name not in kinds]
    if lacking:
        raise TraceProblem(
            f"{path.name} has no column '{lacking[0]}'", "see docs/traces.md for the columns of our format"
        )
    picked = []
    for name, column in COLUMNS.items():
        if name in kinds and name != "line":
            if not _same_kind(kinds[name], column.kind):
                what = f"column '{name}' of {path.name} is {kinds[name]}, not {column.kind()}"
                raise TraceProblem(what, "write it in that type")
            picked.append(pl.col(name).cast(column.kind))
    return frame.select(picked).with_row_index("line", offset=1)


def _same_kind(found: pl.DataType, wanted: Any) -> bool:
    if wanted == pl.String:
        return found in (pl.String, pl.Categorical, pl.Enum, pl.Null)
    return found in (pl.Null, wanted) or (found.is_integer() and wanted().is_integer())


def write(jobs: pl.DataFrame, path: Path, starts_at: int | None = None, said: Mapping[str, Any] | None = None) -> None:
    """Writes a trace. Columns that are all null are left out; `said` goes into the metadata."""
    kept = [
        name for name in COLUMNS if name in jobs.columns and name != "line" and jobs[name].null_count() < jobs.height
    ]
    names = list(dict.fromkeys([*REQUIRED, *kept]))
    frame = jobs.select(pl.col(name).cast(COLUMNS[name].kind) for name in names)
    metadata = {"version": VERSION, "starts_at": starts_at, **(said or {})}
    frame.write_parquet(path, metadata={KEY: json.dumps(metadata)})
