"""When somebody watched, and when nobody did: one file per process that observes, appended line by line.

A process that is killed cannot say so. So each says once a second that all is well (`well_ns`), and what lies between the last
word of one and the first of the next is a gap like any other. Times are nanoseconds since the trial's epoch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from seatrial.model.units import SECOND
from seatrial.record.segments import Appended

BEAT = SECOND
SLACK = 2 * BEAT + BEAT // 2  # between two beats that belong together: one may be late, none is missing


class Line(msgspec.Struct, omit_defaults=True):
    """One of: all is well at `well_ns`; nothing could arrive from `from_ns` to `to_ns`; a workload was `gone` at `to_ns`, and
    nobody had seen it end."""

    well_ns: int | None = None
    behind_ns: int = 0  # with that: the longest so far that an event waited for us after it had arrived
    from_ns: int | None = None
    to_ns: int | None = None
    what: str = ""  # the kind of objects; empty: all
    reason: str = ""
    missed: bool = False  # transitions may be missing; otherwise they came, but late
    gone: str = ""


class Gaps:
    """Where one process writes. There is no file before there is something to say: a single look has no gaps."""

    def __init__(self, directory: Path, writer: str) -> None:
        self._path = directory / f"gaps-{writer}.jsonl"
        self._held: list[Line] = []

    def add(self, *lines: Line) -> None:
        """What cannot be written now is kept, and written with what is added next."""
        self._held += lines
        if not self._held:
            return
        file = Appended(self._path)
        try:
            file.append(b"".join(msgspec.json.encode(line) + b"\n" for line in self._held))
        finally:
            os.close(file.descriptor)
        self._held.clear()

    def remove(self) -> None:
        """What it says stands elsewhere now."""
        self._path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Watched:
    """What all processes together say."""

    spans: Sequence[
        tuple[int, int]
    ]  # in which at least one watched everything; none: nobody followed, there are only samples
    told: Sequence[Line]  # gaps that a process knew of
    gone: frozenset[str]
    behind_ns: int = 0  # the longest that an event waited to be handled

    def unwatched(self, begin: int, end: int) -> list[tuple[int, int]]:
        """The stretches between the two in which nobody watched."""
        found, at = [], begin
        for first, last in self.spans:
            if first > at:
                found.append((at, min(first, end)))
            at = max(at, last)
        if at < end:
            found.append((at, end))
        return [(first, last) for first, last in found if last > first]


def read(directory: Path) -> Watched:
    """Lines that a crash or a full disk tore are left out."""
    spans: list[tuple[int, int]] = []
    told: list[Line] = []
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


def _lines(data: bytes) -> Iterable[Line]:
    decode = msgspec.json.Decoder(Line).decode
    for line in data.splitlines():
        try:
            yield decode(line)
        except msgspec.MsgspecError:
            continue


def _runs(beats: Sequence[int]) -> list[tuple[int, int]]:
    """Stretches of beats that follow each other closely."""
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
