"""`submitted.jsonl`: one line per workload, appended as it is submitted; how it is written, taken up again, followed and read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from seatrial.model.errors import SetupProblem
from seatrial.model.plan import Workload
from seatrial.model.units import SECOND
from seatrial.record.files import atomic_write
from seatrial.record.layout import SUBMITTED

SMALL = 1 << 16  # bytes of submitted.jsonl, some 600 workloads
_SCHEMA = {
    "workload": pl.String, "number": pl.Int32, "phase": pl.String, "pods": pl.Int32, "at_ns": pl.Int64,
    "refused": pl.String, "error_ns": pl.Int64, "queue": pl.String, "class": pl.String, "priority": pl.Int32,
    "index": pl.Int32, "shape": pl.String, "trace_wait_s": pl.Float64,
}  # fmt: skip
_ATTRIBUTES = {"class": "class_name"}  # columns whose name is a keyword


class _Line(msgspec.Struct, omit_defaults=True):
    workload: str
    number: int
    phase: str
    index: int
    pods: int
    duration_s: float
    at_ns: int
    refused: str = ""  # why the server did not take it
    error_ns: int = 0  # how far `at_ns` may be off
    queue: str = ""
    class_name: str = msgspec.field(default="", name="class")  # empty: the phase
    priority: int = 0
    shape: str = ""  # of its pods, where the phase has several
    trace_wait_s: float | None = None  # of a replayed trace: how long it waited in the recorded system


class SubmittedLine(msgspec.Struct):
    """A line as readers see it."""

    workload: str
    number: int
    phase: str
    pods: int
    at_ns: int
    refused: str | None = None
    error_ns: int | None = None
    queue: str | None = None
    class_name: str | None = msgspec.field(default=None, name="class")
    priority: int | None = None
    index: int | None = None
    shape: str | None = None
    trace_wait_s: float | None = None


_decode = msgspec.json.Decoder(_Line).decode
_reader = msgspec.json.Decoder(SubmittedLine)


class Submissions:
    """`flush` hands the lines to `write(2)`: after every workload on a real cluster, in batches on the simulator."""

    def __init__(self, directory: Path) -> None:
        self._file = os.open(directory / SUBMITTED, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._encode = msgspec.json.Encoder().encode
        self._lines: list[bytes] = []

    def add(self, number: int, workload: Workload, at: int, refused: str = "", error: int = 0) -> None:
        """The line of one workload that was sent at `at`, nanoseconds since the trial's epoch."""
        line = _Line(
            workload.name, number, workload.phase, workload.index, workload.pods, workload.duration / SECOND, at, refused,
            error, workload.queue, workload.class_name, workload.shape.priority, workload.shape.name,
            workload.trace_wait / SECOND if workload.trace_wait >= 0 else None,
        )  # fmt: skip
        self._lines.append(self._encode(line))
        if len(self._lines) >= 4096:
            self.flush()

    def flush(self) -> None:
        """On a full disk only whole lines: half a line would spoil the next one too."""
        if self._lines:
            lines = b"\n".join(self._lines) + b"\n"
            before, written = os.fstat(self._file).st_size, 0
            try:
                while written < len(lines):
                    written += os.write(self._file, memoryview(lines)[written:])
            except OSError:
                os.ftruncate(self._file, before + lines.rfind(b"\n", 0, written) + 1)
                raise
            finally:
                self._lines.clear()

    def close(self) -> None:
        """Flushes and closes."""
        self.flush()
        os.close(self._file)


@dataclass(frozen=True, slots=True)
class Done:
    """What earlier processes of a submission left: indices that need no sending, those of them that were refused (index →
    why), and whether the last line was torn by a crash."""

    indices: frozenset[int] = frozenset()
    refused: Mapping[int, str] = field(default_factory=dict)
    torn: bool = False


def take_up(directory: Path, retry_refused: bool = False) -> Done:
    """Takes over what earlier processes did. Removes a torn last line, and with `retry_refused` the lines of refused workloads, so
    that the file can be appended to."""
    path = directory / SUBMITTED
    data = path.read_bytes() if path.exists() else b""
    lines = data.splitlines(keepends=True)
    torn = bool(lines) and not _is_whole(lines[-1])
    kept = lines[:-1] if torn else lines
    try:
        read = [(line, _decode(line)) for line in kept]
    except msgspec.MsgspecError as error:
        raise SetupProblem(
            f"{path} is damaged before its last line: {error}", "restore it from a backup, or submit into another OUT"
        ) from error
    if retry_refused:
        read = [(line, said) for line, said in read if not said.refused]
    whole = b"".join(line for line, _ in read)
    if whole != data:
        with atomic_write(path) as part:
            part.write_bytes(whole)
    refused = {said.index: said.refused for _, said in read if said.refused}
    return Done(frozenset(said.index for _, said in read), refused, torn)


def _is_whole(line: bytes) -> bool:
    """It ends, and is JSON: a machine that crashed may have left a line of zeros."""
    try:
        _decode(line)
    except msgspec.MsgspecError:
        return False
    return line.endswith(b"\n")


class Tail:
    """Follows the file while another process writes it. `read` returns new lines; all of them again if lines were removed."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / SUBMITTED
        self._offset = 0
        self._inode = 0

    def read(self) -> list[SubmittedLine]:
        """The lines since the last call, without those that are not valid."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return []
        if found.st_ino != self._inode or found.st_size < self._offset:
            self._inode, self._offset = found.st_ino, 0
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        lines = []
        for text in whole.splitlines():
            try:
                lines.append(_reader.decode(text))
            except msgspec.MsgspecError:
                continue
        return lines


@dataclass(frozen=True)
class SubmittedTable:
    """The workloads of a trial in the order of their numbers; `note` says what was left out."""

    frame: pl.DataFrame
    note: str = ""
    first_ns: int = 0  # the first submission


NOTHING_SUBMITTED = SubmittedTable(pl.DataFrame(schema=_SCHEMA))


def read_submitted(directory: Path) -> SubmittedTable:
    """All lines but one that a crash tore."""
    path = directory / SUBMITTED
    whole, note = whole_lines(path)
    if not whole:
        return replace(NOTHING_SUBMITTED, note=note)
    try:
        frame = _small(whole) if len(whole) <= SMALL else pl.read_ndjson(whole, schema=_SCHEMA)
    except pl.exceptions.PolarsError as error:
        raise SetupProblem(
            f"{path} is damaged before its last line: {error}", "Remove the damaged lines, or leave this trial out."
        ) from error
    if (np.diff(frame["number"].to_numpy()) <= 0).any():
        frame = frame.sort("number", maintain_order=True)
        frame = frame.filter(pl.col("number").ne_missing(pl.col("number").shift()))
    first = frame["at_ns"].min()
    return SubmittedTable(frame, note, int(first) if isinstance(first, int) else 0)


def _small(lines: bytes) -> pl.DataFrame:
    """As `pl.read_ndjson`, which takes a millisecond to begin; it also reads lines for which msgspec is too strict."""
    try:
        read = _reader.decode_lines(lines)
    except msgspec.MsgspecError:
        return pl.read_ndjson(lines, schema=_SCHEMA)
    return pl.DataFrame(
        [
            pl.Series(name, [getattr(line, _ATTRIBUTES.get(name, name)) for line in read], dtype=kind)
            for name, kind in _SCHEMA.items()
        ]
    )


def whole_lines(path: Path) -> tuple[bytes, str]:
    """The lines of a file without a last one that is not JSON, and a note on that."""
    data = path.read_bytes() if path.is_file() else b""
    whole = data[: data.rfind(b"\n") + 1]
    start = whole.rfind(b"\n", 0, -1) + 1
    if whole and not _is_json(whole[start:]):
        whole = whole[:start]
    torn = len(whole) < len(data)
    return whole, f"the last line of {path.name} was torn by a crash and is left out" if torn else ""


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
