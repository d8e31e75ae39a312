"""`gaps-*.jsonl`: when a trial was observed and when it was not, one file per observing process.

A killed process cannot report its end. So each appends a heartbeat every second (`well_ns`); the time between the last heartbeat of
one process and the first of the next is a gap. Times are nanoseconds since the trial's epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from seatrial.model.units import SECOND
from seatrial.record.files import AppendOnly

BEAT = SECOND
SLACK = 2 * BEAT + BEAT // 2  # most between two heartbeats without a gap: one may be late


class GapLine(msgspec.Struct, omit_defaults=True):
    """A heartbeat at `well_ns`; a gap from `from_ns` to `to_ns`; or a workload `gone` at `to_ns` before it was seen to end."""

    well_ns: int | None = None
    behind_ns: int = 0  # with a heartbeat: the longest so far that an event waited to be handled
    from_ns: int | None = None
    to_ns: int | None = None
    what: str = ""  # kind of objects; empty: all
    reason: str = ""
    missed: bool = False  # transitions may be missing; otherwise they came late
    gone: str = ""


class Gaps:
    """The file of one process, created with its first line: a single sample has none."""

    def __init__(self, directory: Path, writer: str) -> None:
        self._path = directory / f"gaps-{writer}.jsonl"
        self._held: list[GapLine] = []

    def add(self, *lines: GapLine) -> None:
        """Appends lines; lines that could not be written are kept for the next call."""
        self._held += lines
        if not self._held:
            return
        file = AppendOnly(self._path)
        try:
            file.append(b"".join(msgspec.json.encode(line) + b"\n" for line in self._held))
        finally:
            file.close()
        self._held.clear()

    def remove(self) -> None:
        """Removes the file once its content is recorded elsewhere."""
        self._path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Watched:
    """The gap files of all processes together."""

    spans: Sequence[tuple[int, int]]  # in which at least one process watched everything; none: there are only samples
    told: Sequence[GapLine]  # gaps that processes reported
    gone: frozenset[str]
    behind_ns: int = 0  # the longest that an event waited to be handled

    def unwatched(self, begin: int, end: int) -> list[tuple[int, int]]:
        """The spans between `begin` and `end` in which no process watched."""
        found, at = [], begin
        for first, last in self.spans:
            if first > at:
                found.append((at, min(first, end)))
            at = max(at, last)
        if at < end:
            found.append((at, end))
        return [(first, last) for first, last in found if last > first]


def read(directory: Path) -> Watched:
    """Reads the gap files of a trial, without lines that a crash or a full disk tore."""
    spans: list[tuple[int, int]] = []
    told: list[GapLine] = []
    gone: set[str] = set()
    behind = 0
    for path in sorted(directory.glob("gaps-*.jsonl")):
        lines = list(_lines(path.read_bytes()))
        own = [line for line in lines if line.from_ns is not None]
        told += own
        gone |= {line.gone for line in lines if line.gone}
        behind = max([behind, *(line.behind_ns for line in lines)])
        beats = [line.well_ns for line in lines if line.well_ns is not None]
        spans += _without(_runs(beats), [(line.from_ns or 0, line.to_ns or 0) for line in own])
    return Watched(_union(spans), told, frozenset(gone), behind)


def _lines(data: bytes) -> Iterable[GapLine]:
    decode = msgspec.json.Decoder(GapLine).decode
    for line in data.splitlines():
        try:
            yield decode(line)
        except msgspec.MsgspecError:
            continue


def _runs(beats: Sequence[int]) -> list[tuple[int, int]]:
    """Spans of heartbeats without a gap."""
    runs: list[tuple[int, int]] = []
    for beat in beats:
        if runs and beat - runs[-1][1] <= SLACK:
            runs[-1] = (runs[-1][0], max(beat, runs[-1][1]))
        else:
            runs.append((beat, beat))
    return runs


def _without(spans: list[tuple[int, int]], holes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    for begin, end in holes:
        pieces = [piece for first, last in spans for piece in ((first, min(last, begin)), (max(first, end), last))]
        spans = [(first, last) for first, last in pieces if last >= first]
    return spans


def _union(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined
