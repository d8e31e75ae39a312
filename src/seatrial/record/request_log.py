"""Requests of a load: packed records while a trial runs, one Parquet table once sealed, as in `segments`.

A row is one attempt of a request. `requests.parquet` has

- `at_ns`: when it was due, since the trial's epoch; `sent_ns`: when it was written; `took_ns`: from due to the whole answer
- `verb`, `resource`: in the words of the audit log (`deletecollection`, `pods/status`)
- `identity`, `phase`: who sent it, and in which phase; a component's request has no phase
- `code`: of the answer, 0 where none came; `reason`: of a failure, else empty; `retry_after_s`: what a 429 asked for, −1: nothing
- `attempt`: 1, or more for what was sent again
- `seen_by`: `client`, or `server` for what only the server's audit log tells (requests of components and nodes)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from seatrial.record.files import AppendOnly, atomic_write
from seatrial.record.layout import REQUESTS, STARTS
from seatrial.record.segments import put_in_place, writer_name

RECORD = struct.Struct("<qqqhhhhhhhhf")
DTYPE = np.dtype(
    [
        ("at_ns", "<i8"), ("sent_ns", "<i8"), ("took_ns", "<i8"), ("verb", "<i2"), ("resource", "<i2"),
        ("identity", "<i2"), ("code", "<i2"), ("reason", "<i2"), ("attempt", "<i2"), ("phase", "<i2"),
        ("seen_by", "<i2"), ("retry_after_s", "<f4"),
    ]
)  # fmt: skip
NAMED = ("verb", "resource", "identity", "reason", "phase", "seen_by")  # numbers of names
COLUMNS = (
    "at_ns", "sent_ns", "took_ns", "verb", "resource", "identity", "code", "reason", "retry_after_s", "attempt", "phase",
    "seen_by",
)  # fmt: skip
CLIENT, SERVER = "client", "server"
AT_ONCE = 2000  # records handed to `write(2)` together
MOST_NAMES = 2**15 - 1


class RequestLog:
    """The files of one process: records, and the names that their numbers stand for."""

    def __init__(self, directory: Path, writer: str = "") -> None:
        name = writer or writer_name()
        self._records = AppendOnly(directory / f"requests-{name}.seg")
        self._names = AppendOnly(directory / f"requests-{name}.names")
        self._numbers: dict[str, int] = {}
        self._held = bytearray()
        self.count = 0

    def number(self, name: str) -> int:
        """The number of a verb, resource, identity, reason or phase."""
        known = self._numbers.get(name)
        if known is None:
            if len(self._numbers) >= MOST_NAMES:
                return self.number("(other)")
            known = self._numbers[name] = len(self._numbers)
            line = name.replace("\n", " ").replace("\r", " ")
            self._names.append(f"{line}\n".encode())
        return known

    def add(
        self, at: int, sent: int, took: int, verb: int, resource: int, identity: int, code: int, reason: int,
        retry_after: float, attempt: int, phase: int, seen_by: int,
    ) -> None:  # fmt: skip
        """One request; names as `number` gave them, times in nanoseconds since the trial's epoch."""
        self._held += RECORD.pack(
            at, sent, took, verb, resource, identity, code, reason, min(attempt, 32767), phase, seen_by, retry_after
        )
        self.count += 1
        if len(self._held) >= AT_ONCE * RECORD.size:
            self.flush()

    def flush(self) -> None:
        """Hands the records to `write(2)`."""
        if self._held:
            self._records.append(self._held)
            self._held.clear()

    def close(self) -> None:
        """Flushes and closes the files."""
        self.flush()
        self._records.close()
        self._names.close()


def requests(directory: Path) -> pl.DataFrame:
    """All requests of a trial in the order they were due, sealed or not; empty without any."""
    if (directory / REQUESTS).exists():
        return pl.read_parquet(directory / REQUESTS, glob=False)
    return _joined(_segment(path) for path in sorted(directory.glob("requests-*.seg")))


def _segment(path: Path) -> pl.DataFrame:
    data = path.read_bytes()
    records = np.frombuffer(data[: len(data) // DTYPE.itemsize * DTYPE.itemsize], dtype=DTYPE)
    text = path.with_suffix(".names").read_bytes().decode(errors="replace")
    names = pl.Series("name", text[: text.rfind("\n") + 1].split("\n")[:-1], dtype=pl.String)
    columns = {name: pl.Series(name, np.ascontiguousarray(records[name])) for name in DTYPE.names or ()}
    for name in NAMED:
        columns[name] = names.gather(columns[name].cast(pl.UInt32)).alias(name)
    return pl.DataFrame(columns).select(COLUMNS)


def _joined(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    kinds = {"code": pl.Int16, "attempt": pl.Int16, "retry_after_s": pl.Float32, **dict.fromkeys(NAMED, pl.String)}
    schema = {name: kinds.get(name, pl.Int64) for name in COLUMNS}
    return pl.concat([pl.DataFrame(schema=schema), *frames]).sort("at_ns", maintain_order=True)


def seal(directory: Path) -> None:
    """Writes Parquet, then removes the segments."""
    segments = sorted(directory.glob("requests-*.seg"))
    if segments:
        put_in_place(directory / REQUESTS, requests(directory), [*segments, *directory.glob("requests-*.names")])


_START_TIMES = ("created_ns", "scheduled_ns", "running_ns", "gone_ns")


def write_starts(directory: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Pods of created objects: `starts.parquet` has `pod`, `phase`, and when each was created, scheduled, running and gone
    (`created_ns` …, since the trial's epoch; empty where that was not observed). No file without pods."""
    if rows:
        table = pl.DataFrame(rows, schema_overrides=dict.fromkeys(_START_TIMES, pl.Int64), infer_schema_length=None)
        with atomic_write(directory / STARTS) as path:
            table.write_parquet(path, statistics=False)
