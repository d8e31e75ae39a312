"""Observations on disk: packed records while running, one Parquet file once sealed.

A record costs 0.23 µs to pack (a JSON line 4.6 µs). A segment belongs to one process, and a reader cuts a torn tail by its size,
so `kill -9` loses at most what was not yet handed to `write(2)`. Names of pods and nodes are in text files beside it, one line
each, in the order of their numbers. The process holds a lock on its segment, so others can see whether it still grows.

The sealed table has one row per transition: `at_ns` (since the trial's epoch), `stage` (index into the stages in trial.json),
`object` (number of the workload or pod, as the stage says), `node` (−1: none), `detail` (how far off this one time may be, in
ms; 0: as its source says), `source`. Pods have a table of their own: `pod`, `workload`, `name`, `uid`; nodes have their names.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from seatrial.record.evictions import NO_EVICTIONS, read_lines
from seatrial.record.files import AppendOnly, atomic_write
from seatrial.record.layout import EVICTIONS, OBSERVED, OBSERVED_NODES, OBSERVED_PODS

RECORD = struct.Struct("<qihhii")  # at, object, stage, source, node, detail
DTYPE = np.dtype(
    [("at_ns", "<i8"), ("object", "<i4"), ("stage", "<i2"), ("source", "<i2"), ("node", "<i4"), ("detail", "<i4")]
)
KINDS = ("observed", "pods", "nodes", "evictions")
FEW = 200  # lines for which Python is quicker than an expression


@dataclass(frozen=True)
class Observations:
    """Transitions, and the pods and nodes that their numbers stand for: of one process, or sealed."""

    observed: pl.DataFrame
    pods: pl.DataFrame
    nodes: list[str]
    evictions: pl.DataFrame = field(default_factory=lambda: NO_EVICTIONS)


def writer_name() -> str:
    """Unique name for the files of one process; a process id alone may be reused."""
    return f"{os.getpid()}-{time.time_ns():x}"


class Segment:
    """The segment of one process. Nothing is buffered: `write` is `write(2)`."""

    def __init__(self, directory: Path, writer: str = "") -> None:
        self.directory, self.writer = directory, writer or writer_name()
        self._files = {kind: AppendOnly(directory / f"{kind}-{self.writer}.seg") for kind in KINDS}
        fcntl.flock(self._files["observed"].descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, kind: str, data: bytes | bytearray) -> None:
        """Appends to the file of a kind (`KINDS`)."""
        self._files[kind].append(data)

    def close(self) -> None:
        """Closes the files, which releases the lock."""
        for file in self._files.values():
            file.close()


def put_in_place(path: Path, table: pl.DataFrame, of: Iterable[Path]) -> None:
    """Writes the table as Parquet, unless it is empty, and removes the files that it was made of."""
    if table.height:
        with atomic_write(path) as beside:
            table.write_parquet(beside, statistics=False)
    for part in of:
        part.unlink()


def sealed(directory: Path) -> Observations | None:
    """The sealed observations. Transitions are read first, as they are written last: names read after them are complete."""
    if not (directory / OBSERVED).exists():
        return None
    observed = pl.read_parquet(directory / OBSERVED, glob=False)
    nodes = (directory / OBSERVED_NODES).read_text().splitlines() if (directory / OBSERVED_NODES).exists() else []
    pods = pl.read_parquet(directory / OBSERVED_PODS, glob=False)
    if "uid" not in pods.columns:  # of an earlier version
        pods = pods.with_columns(pl.lit("").alias("uid"))
    evictions = pl.read_parquet(directory / EVICTIONS, glob=False) if (directory / EVICTIONS).exists() else NO_EVICTIONS
    return Observations(observed, pods, nodes, evictions)


def read_segment(directory: Path, writer: str) -> Observations | None:
    """What a process has written so far, without a torn tail; None if it was sealed meanwhile. Names are read last, as they are
    written before the records that use them."""
    data, pods, nodes, evictions = (_read(directory / f"{kind}-{writer}.seg") for kind in KINDS)
    if data is None:
        return None
    records = np.frombuffer(data[: len(data) // DTYPE.itemsize * DTYPE.itemsize], dtype=DTYPE)
    observed = pl.DataFrame({name: np.ascontiguousarray(records[name]) for name in DTYPE.names or ()})
    return Observations(
        observed, _pods(_lines(pods or b"")), _lines(nodes or b""), read_lines(_lines(evictions or b""))
    )


def writers(directory: Path) -> list[str]:
    """The writers of all segments."""
    found = (path.name for path in directory.glob("observed-*.seg"))
    return sorted(name.removeprefix("observed-").removesuffix(".seg") for name in found)


def remove_segment(directory: Path, writer: str) -> None:
    """Removes the files of a segment."""
    for kind in KINDS:
        (directory / f"{kind}-{writer}.seg").unlink(missing_ok=True)


def write_sealed(directory: Path, part: Observations) -> None:
    """Writes transitions last: until then the old ones are read with the new names, which begin with the old."""
    with atomic_write(directory / OBSERVED_PODS) as path:
        part.pods.write_parquet(path, compression="lz4", statistics=False)
    with atomic_write(directory / OBSERVED_NODES) as path:
        path.write_text("".join(f"{name}\n" for name in part.nodes))
    if part.evictions.height:
        with atomic_write(directory / EVICTIONS) as path:
            part.evictions.write_parquet(path, compression="lz4", statistics=False)
    with atomic_write(directory / OBSERVED) as path:
        part.observed.write_parquet(path, compression="lz4", statistics=False)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _lines(data: bytes) -> list[str]:
    return data[: data.rfind(b"\n") + 1].decode(errors="replace").splitlines()


def _pods(lines: list[str]) -> pl.DataFrame:
    if len(lines) <= FEW:
        rows = [(*line.split("\t", 2), "")[:3] for line in lines]
        return pl.DataFrame([
            pl.Series("pod", range(len(rows)), dtype=pl.Int32),
            pl.Series("workload", [int(row[0]) for row in rows], dtype=pl.Int32),
            pl.Series("name", [row[1] for row in rows], dtype=pl.String),
            pl.Series("uid", [row[2] for row in rows], dtype=pl.String),
        ])  # fmt: skip
    frame = pl.DataFrame({"line": lines}, schema={"line": pl.String})
    parts = pl.col("line").str.splitn("\t", 3).struct.rename_fields(["workload", "name", "uid"])
    return (
        frame.select(parts.alias("part")).unnest("part")
        .select(pl.int_range(pl.len(), dtype=pl.Int32).alias("pod"), pl.col("workload").cast(pl.Int32), "name",
                pl.col("uid").fill_null(""))
    )  # fmt: skip
