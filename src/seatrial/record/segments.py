"""Observations on disk: packed records while running, one Parquet file once sealed.

A record costs 0.23 µs to pack (a JSON line 4.6 µs). A segment belongs to one writing process, and a reader cuts a torn tail by
its size, so `kill -9` loses at most what was not yet handed to `write(2)`. Names (pods and nodes) stand in text files beside
it, one line each, in the order of their numbers. The process holds a lock on its segment; the kernel takes that back however
the process ends, so anyone can see whether a segment still grows.

The sealed table has one row per transition: `at_ns` (since the trial's epoch), `stage` (index into the stages in trial.json),
`object` (number of the workload or pod, as the stage says), `node` (−1: none), `detail` (how far off this one time may be, in
ms; 0: as its source says), `source`. Pods have a table of their own: `pod`, `workload`, `name`, `uid`; nodes have their names.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

RECORD = struct.Struct("<qihhii")  # at, object, stage, source, node, detail
DTYPE = np.dtype(
    [("at_ns", "<i8"), ("object", "<i4"), ("stage", "<i2"), ("source", "<i2"), ("node", "<i4"), ("detail", "<i4")]
)
OBSERVED = "observed.parquet"
PODS = "pods.parquet"
NODES = "nodes.txt"
KINDS = ("observed", "pods", "nodes")
FEW = 200  # lines for which Python is quicker than an expression


@dataclass(frozen=True)
class Part:
    """What one process saw, or what was sealed: transitions, and the pods and nodes that the numbers in them stand for."""

    observed: pl.DataFrame
    pods: pl.DataFrame
    nodes: list[str]


def writer_name() -> str:
    """Of the files that one process appends to. Process ids come again: numbers of pods would then mean two things."""
    return f"{os.getpid()}-{time.time_ns():x}"


class Segment:
    """Where one process appends its records and names. Nothing is buffered below this class: `write` is `write(2)`."""

    def __init__(self, directory: Path, writer: str = "") -> None:
        self.directory, self.writer = directory, writer or writer_name()
        self._files = {kind: Appended(directory / f"{kind}-{self.writer}.seg") for kind in KINDS}
        fcntl.flock(self._files["observed"].descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, kind: str, data: bytes | bytearray) -> None:
        self._files[kind].append(data)

    def close(self) -> None:
        for file in self._files.values():
            os.close(file.descriptor)


def put_in_place(path: Path, table: pl.DataFrame, of: Iterable[Path]) -> None:
    """The table as Parquet instead of the files that it was made of. Nothing is written where it is empty."""
    if table.height:
        write_whole(path, lambda beside: table.write_parquet(beside, statistics=False))
    for part in of:
        part.unlink()


class Appended:
    """A file that has all of what was appended or nothing of it, as long as we live: a disk may be full only for a while."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._size = os.fstat(self.descriptor).st_size

    def append(self, data: bytes | bytearray) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self.descriptor, view) :]
        except OSError:
            os.ftruncate(self.descriptor, self._size)
            raise
        self._size += len(data)


def sealed(directory: Path) -> Part | None:
    """Transitions first: whoever seals writes them last, so the names that are read after them have all of theirs."""
    if not (directory / OBSERVED).exists():
        return None
    observed = pl.read_parquet(directory / OBSERVED, glob=False)
    nodes = (directory / NODES).read_text().splitlines() if (directory / NODES).exists() else []
    pods = pl.read_parquet(directory / PODS, glob=False)
    if "uid" not in pods.columns:  # of an earlier version
        pods = pods.with_columns(pl.lit("").alias("uid"))
    return Part(observed, pods, nodes)


def read_segment(directory: Path, writer: str) -> Part | None:
    """What a process has written so far, without a torn tail; None if somebody has sealed it meanwhile.

    Names are written before the records that use them, so they are read after those.
    """
    data, pods, nodes = (_read(directory / f"{kind}-{writer}.seg") for kind in KINDS)
    if data is None:
        return None
    records = np.frombuffer(data[: len(data) // DTYPE.itemsize * DTYPE.itemsize], dtype=DTYPE)
    observed = pl.DataFrame({name: np.ascontiguousarray(records[name]) for name in DTYPE.names or ()})
    return Part(observed, _pods(_lines(pods or b"")), _lines(nodes or b""))


def writers(directory: Path) -> list[str]:
    """Whose segments are there."""
    found = (path.name for path in directory.glob("observed-*.seg"))
    return sorted(name.removeprefix("observed-").removesuffix(".seg") for name in found)


def remove_segment(directory: Path, writer: str) -> None:
    for kind in KINDS:
        (directory / f"{kind}-{writer}.seg").unlink(missing_ok=True)


def write_sealed(directory: Path, part: Part) -> None:
    """Each file whole or not at all, the transitions last: until then the old ones go with the new names, which begin with all
    of theirs."""
    write_whole(directory / PODS, lambda path: part.pods.write_parquet(path, compression="lz4", statistics=False))
    write_whole(directory / NODES, lambda path: path.write_text("".join(f"{name}\n" for name in part.nodes)))
    table = part.observed
    write_whole(directory / OBSERVED, lambda path: table.write_parquet(path, compression="lz4", statistics=False))


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


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """The file is there whole, or not at all."""
    part = path.with_name(path.name + ".part")
    try:
        write(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
