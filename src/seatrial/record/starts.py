"""Pods that came of created objects: `starts.parquet` has `pod`, `phase`, and when each was created, scheduled, running and gone
(`created_ns` …, since the trial's epoch; empty where it was not seen so)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from seatrial.record.segments import write_whole

STARTS = "starts.parquet"
_TIMES = ("created_ns", "scheduled_ns", "running_ns", "gone_ns")


def write_starts(directory: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """No file where there were none."""
    if rows:
        table = pl.DataFrame(rows, schema_overrides=dict.fromkeys(_TIMES, pl.Int64), infer_schema_length=None)
        write_whole(directory / STARTS, lambda path: table.write_parquet(path, statistics=False))
