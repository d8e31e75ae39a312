"""The directory of a recording: made or taken up again, locked while it is written, sealed into a trace at its end.

`-o DIR` has the trace in DIR/trace.parquet. `-o FILE.parquet` has it in FILE.parquet, and the recording in FILE.parquet.recording
beside it.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from seatrial import __version__
from seatrial.clusters.supervision.directories import cannot_write, make_directory, salts_root
from seatrial.kube import Access
from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.units import SECOND
from seatrial.record import gaps, recordings
from seatrial.record.files import atomic_write
from seatrial.record.locks import Locked, hold
from seatrial.record.recorded_trace import trace_of
from seatrial.record.recordings import RECORDING, TRACE, RecordingFile
from seatrial.traces import own_format

SUFFIX = ".parquet"
SALT_BYTES = 32
BACK = 2 * SECOND  # a clock that is behind the last heartbeat by more was set back


@dataclass(frozen=True, slots=True)
class Places:
    """Paths of a recording and its trace."""

    directory: Path
    trace: Path


def places(out: Path) -> Places:
    """The places that `-o OUT` means."""
    if out.suffix == SUFFIX and not out.is_dir():
        return Places(out.with_name(f"{out.name}.recording"), out)
    if out.suffix and out.suffix != SUFFIX and not out.is_dir() and out.suffix in (".sktrace", ".csv", ".swf", ".json"):
        raise UsageProblem(
            f"-o {out}: a recording is written as a directory or as {SUFFIX}",
            f"record into {out.with_suffix(SUFFIX)}; `seatrial export` turns it into other formats",
        )
    return Places(out, out / TRACE)


@contextmanager
def opened(where: Places, wanted: RecordingFile) -> Iterator[RecordingFile]:
    """The recording that goes on there, or a new one with what is `wanted`; locked until the end."""
    _refuse_foreign(where, wanted)
    try:
        where.directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupProblem(f"-o {where.directory}: {error.strerror}", "give -o another place") from None
    try:
        with hold(where.directory):
            found = recordings.about(where.directory)
            if found is None:
                recordings.begin(where.directory, wanted)
                found = wanted
            yield found
    except Locked as locked:
        who = f"process {locked.pid}" if locked.pid else "another process"
        raise SetupProblem(
            f"{who} is recording into {where.directory}", "end it with Ctrl-C, or give -o another place"
        ) from None


def _refuse_foreign(where: Places, wanted: RecordingFile) -> None:
    """Raises if OUT is something else, or the recording of something else."""
    if where.directory.is_file():
        raise UsageProblem(f"{where.directory} is a file", f"give -o a directory, or a file that ends in {SUFFIX}")
    found = recordings.about(where.directory) if where.directory.is_dir() else None
    if found is None:
        if where.trace.exists():
            raise UsageProblem(f"{where.trace} exists already and is no recording's", "give -o another place")
        if where.directory.is_dir() and any(one.name != f"{RECORDING}.part" for one in where.directory.iterdir()):
            raise UsageProblem(f"{where.directory} is not empty and holds no recording", "give -o another place")
        return
    differs = [
        what
        for what, one, other in (
            ("cluster", found.cluster, wanted.cluster),
            ("namespace", found.namespace, wanted.namespace),
            ("choice of --anonymise", found.anonymised, wanted.anonymised),
            ("choice of labels", found.labels, wanted.labels),
        )
        if one != other and not (what == "cluster" and not one)
    ]
    if differs:
        raise UsageProblem(
            f"{where.directory} holds another recording: its {' and '.join(differs)} differ{'s' * (len(differs) == 1)}",
            "give -o another place, or the same options to continue it",
        )


def fingerprint(access: Access) -> str:
    """A hash that identifies a cluster by address and authority of its server."""
    return hashlib.blake2b(access.server.encode() + b"\0" + access.authority, digest_size=16).hexdigest()


def new_recording(access: Access, namespace: str, anonymised: bool, labels: dict[str, str]) -> RecordingFile:
    """The description of a recording that begins now."""
    return RecordingFile(
        time.time_ns(), fingerprint(access), namespace, anonymised, secrets.token_hex(8) if anonymised else "",
        "" if anonymised else access.server, labels, __version__,
    )  # fmt: skip


def salt_of(about: RecordingFile, fresh: bool) -> bytes:
    """The salt of a recording, from the user's own directory. A `fresh` one, of which nothing is written yet, gets it now. Empty
    where names stay."""
    if not about.anonymised:
        return b""
    path = salts_root() / about.salt
    try:
        if fresh and not path.exists():
            make_directory(path.parent, "the salt of a recording")
            with atomic_write(path) as part:
                part.touch(mode=0o600)
                part.write_bytes(secrets.token_bytes(SALT_BYTES))
        salt = path.read_bytes()
    except FileNotFoundError:
        salt = b""
    except OSError as error:
        raise cannot_write(path, "the salt of a recording", error) from None
    if len(salt) != SALT_BYTES:
        raise SetupProblem(
            f"the salt of this recording is not on this machine ({path})",
            "continue it where it was begun, or record into another place: the names of both would not fit together",
        )
    return salt


def last_beat(directory: Path) -> int:
    """The last time at which certainly nothing was missed, in ns since the recording's beginning; 0: never."""
    spans = gaps.read(directory).spans
    return max((end for _, end in spans), default=0)


def refuse_clock_set_back(about: RecordingFile, directory: Path) -> None:
    """Raises if this machine's clock is before the last heartbeat: times of before and after would not fit together."""
    behind = about.began_ns + last_beat(directory) - time.time_ns()
    if behind > BACK:
        raise SetupProblem(
            f"the clock of this machine is {behind / SECOND:.0f} s before the end of the recording in {directory}",
            "set it by NTP (`timedatectl`) and start again, or give -o another place",
        )


@dataclass(frozen=True, slots=True)
class Sealed:
    """A trace that was made of a recording. `notes`: what it does not have, for whom it concerns."""

    jobs: pl.DataFrame
    until_ns: int
    notes: tuple[str, ...]


def assemble(directory: Path, about: RecordingFile) -> tuple[Sealed, dict[str, Any]]:
    """The trace of all that was recorded so far, and what its metadata says."""
    lines, notes = recordings.read_lines(directory)
    jobs = trace_of(lines)
    watched = gaps.read(directory)
    until = max((end for _, end in watched.spans), default=0)
    missed = watched.unwatched(0, until)
    long = [(begin, end) for begin, end in missed if end - begin > gaps.SLACK]
    if long:
        total = sum(end - begin for begin, end in long) / SECOND
        notes.append(
            f"not watched {len(long)} time{'s' * (len(long) > 1)}, {total:.0f} s in all: workloads "
            "that came and went meanwhile are missing, "
            "and times of changes are known to a second"
        )
    notes += censored_notes(jobs)
    said = {
        "recorded": {
            "from_ns": about.began_ns, "until_ns": about.began_ns + until, "anonymised": about.anonymised,
            "namespace": about.namespace if not about.anonymised else "", "not_watched_ns": long, "seatrial": __version__,
        }
    }  # fmt: skip
    return Sealed(jobs, until, tuple(notes)), said


def censored_notes(jobs: pl.DataFrame) -> list[str]:
    """How much of the trace is unknown because the recording did not see it."""
    counts = dict(jobs["censored"].drop_nulls().value_counts().iter_rows())
    before, after, gap = (
        counts.get("before", 0) + counts.get("both", 0),
        counts.get("after", 0) + counts.get("both", 0),
        counts.get("gap", 0),
    )
    words = (
        (before, "there before the recording began: due at its beginning, with an unknown wait"),
        (after, "had not ended when it ended: of unknown duration"),
        (gap, "gone after a time that was not watched: of unknown duration"),
    )
    return [f"{count:,} workload{'s' * (count > 1)} {what}" for count, what in words if count]


def seal(where: Places, about: RecordingFile) -> Sealed:
    """Writes the trace. The recording stays, so that it can go on."""
    sealed, said = assemble(where.directory, about)
    with atomic_write(where.trace) as part:
        own_format.write(sealed.jobs, part, about.began_ns, said)
    return sealed
