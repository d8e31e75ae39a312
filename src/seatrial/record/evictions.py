"""Evictions of a trial: one JSON line per eviction, and one per admission after it; the ledger's stages have first admissions only.

Lines are part of a segment while a trial runs, and `evictions.parquet` once it is sealed. Several processes may see the same event
(a run, samples), or learn later for whom it was: lines of one workload, event and `key` are one event, the earliest counts, and a
known `by`. A source gives the key: the time
in the object, the pod's uid. In the simulator there is none: nothing is seen twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import polars as pl

EVICTED, READMITTED = "evicted", "readmitted"
_SCHEMA = {"at_ns": pl.Int64, "workload": pl.Int32, "event": pl.String, "reason": pl.String, "by": pl.Int32,
           "message": pl.String, "key": pl.String}  # fmt: skip
NO_EVICTIONS = pl.DataFrame(schema=_SCHEMA)


class _Line(msgspec.Struct):
    at_ns: int
    workload: int
    event: str
    reason: str = ""  # of model.fleet.REASONS
    by: int = -1  # the workload that gets its place
    message: str = ""
    key: str = ""


_encode = msgspec.json.Encoder().encode


def eviction_line(at: int, workload: int, reason: str, by: int, message: str, key: str) -> bytes:
    """A workload lost its place."""
    return _encode(_Line(at, workload, EVICTED, reason, by, message, key)) + b"\n"


def readmission_line(at: int, workload: int, key: str) -> bytes:
    """A workload that was evicted has a place again."""
    return _encode(_Line(at, workload, READMITTED, key=key)) + b"\n"


def read_lines(lines: Sequence[str]) -> pl.DataFrame:
    """One row per event: at_ns, workload, event, reason, by, message, key."""
    if not lines:
        return NO_EVICTIONS
    frame = pl.read_ndjson("\n".join(lines).encode(), schema=_SCHEMA)
    return merge_evictions([frame]) if (frame["key"] != "").any() else frame


def merge_evictions(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """All events in the order of time, those with a key once."""
    frame = pl.concat(parts).sort("at_ns", maintain_order=True)
    one = ["workload", "event", "key"]
    keyed = frame.filter(pl.col("key") != "").with_columns(by=pl.col("by").max().over(one))
    keyed = keyed.unique(one, keep="first", maintain_order=True)
    return pl.concat([frame.filter(pl.col("key") == ""), keyed]).sort("at_ns", maintain_order=True)
