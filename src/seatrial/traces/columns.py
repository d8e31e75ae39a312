"""The table that every format becomes: a row per job, with these columns. Our own Parquet files have the same names.

What a trace does not say is null. Times are nanoseconds; `submit_ns` counts from the beginning of the trace.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl


class TraceColumn(NamedTuple):
    """One column: its type in polars, and what it says."""

    kind: Any
    about: str


COLUMNS = {
    "line": TraceColumn(pl.UInt32, "line of the file, from 1 (row, for Parquet)"),
    "job": TraceColumn(pl.String, "name or number of the job in the trace"),
    "submit_ns": TraceColumn(pl.Int64, "when it was submitted, since the beginning of the trace"),
    "wait_ns": TraceColumn(pl.Int64, "how long it waited in the system that was recorded"),
    "duration_ns": TraceColumn(pl.Int64, "how long it ran"),
    "processors": TraceColumn(pl.Int64, "processors of the whole job; `pods` and `cpu_milli` are made from them"),
    "job_gpus": TraceColumn(pl.Int64, "GPUs of the whole job; `pods` and `gpu_milli` are made from them"),
    "pods": TraceColumn(pl.Int64, "number of pods; null: made from processors or job_gpus, else 1"),
    "cpu_milli": TraceColumn(pl.Int64, "millicores per pod"),
    "memory_bytes": TraceColumn(pl.Int64, "bytes per pod, or per processor where `processors` is given"),
    "gpu_milli": TraceColumn(pl.Int64, "thousandths of GPUs per pod: 500 is half a GPU, 2000 two"),
    "gpu_model": TraceColumn(pl.String, "accepted GPU models, separated by |"),
    "user": TraceColumn(pl.String, "who submitted it"),
    "group": TraceColumn(pl.String, "group, account or project of the user"),
    "queue": TraceColumn(pl.String, "queue of the system that was recorded"),
    "partition": TraceColumn(pl.String, "partition of the system that was recorded"),
    "class": TraceColumn(pl.String, "kind of workload: figures are grouped by it"),
    "priority": TraceColumn(pl.Int64, "priority; higher is first"),
    "gang": TraceColumn(pl.Boolean, "whether it runs only while all its pods run; null: as the format has it"),
    "after": TraceColumn(pl.String, "the job that had to end before this one was submitted"),
    "think_ns": TraceColumn(pl.Int64, "time from that job's end to this submission"),
    "outcome": TraceColumn(pl.String, "completed, failed or cancelled"),
    "censored": TraceColumn(pl.String, "part that a recording did not see: before, after, both or gap; null: nothing"),
}  # fmt: skip
# There before the recording began; had not ended at its end; both; gone when a gap in it ended.
BEFORE, AFTER, BOTH, GAP = "before", "after", "both", "gap"
FAULT = "fault"  # why a line is unusable; null: it is not

CUT = "cut off or mixed up"
NO_SUBMIT = "no submit time"
NEGATIVE = "negative duration"
NEGATIVE_AMOUNT = "negative amount"
FAULTS = (CUT, NO_SUBMIT, NEGATIVE, NEGATIVE_AMOUNT)  # lines that `strict` refuses


def completed(frame: pl.LazyFrame) -> pl.LazyFrame:
    """The frame with all columns in order and of their type; those it lacks are null."""
    there = frame.collect_schema().names()
    return frame.select(
        *(
            (pl.col(name) if name in there else pl.lit(None)).cast(column.kind).alias(name)
            for name, column in COLUMNS.items()
        ),
        (pl.col(FAULT) if FAULT in there else pl.lit(None, dtype=pl.String)).alias(FAULT),
    )
