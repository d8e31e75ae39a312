"""`seatrial record` on disk: what was seen of a cluster's jobs and pods, a line each time something of them became known.

`recording.json` says of which cluster the recording is and when it began. `seen-*.jsonl` has the lines, one file per process;
`write(2)` per batch, and a reader leaves out a torn last line, so `kill -9` loses nothing that was handed over. Lines may be
written again by the next process: they are merged by uid, where the smallest error wins, then the earliest time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from seatrial.model.errors import SetupProblem
from seatrial.record.files import AppendOnly, write_json
from seatrial.record.submissions import whole_lines

RECORDING, TRACE = "recording.json", "trace.parquet"
RECORDING_FORMAT = 1
JOB, POD = "job", "pod"  # what a line is about
BOUND, STARTED, ENDED, GONE = "bound", "started", "ended", "gone"  # stages; empty: the line describes the object
UNSEEN = "unseen"  # outcome of what was gone when a gap ended


class SeenLine(msgspec.Struct, omit_defaults=True):
    """An object when it was first seen, `at_ns` being its creation; or a stage that it reached. `error_ns`: how far off it may be.

    Amounts are per pod; `pods` is how many a Job has at a time. `root`: the object that the pod or Job belongs to.
    """

    uid: str
    of: str = POD
    stage: str = ""
    at_ns: int = 0  # since the beginning of the recording
    error_ns: int = 0
    outcome: str = ""  # of `ended`: completed or failed; of `gone`: empty, or unseen
    root: str = ""
    kind: str = ""  # of the root
    name: str = ""  # of the root
    group: str = ""  # namespace
    user: str = ""
    queue: str = ""
    class_name: str = msgspec.field(default="", name="class")
    priority: int | None = None
    pods: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu_milli: int = 0
    gpu_model: str = ""
    gang: bool = False


_decode = msgspec.json.Decoder(SeenLine).decode


class RecordingFile(msgspec.Struct):
    """`recording.json`."""

    began_ns: int  # Unix time
    cluster: str  # fingerprint of server and authority
    namespace: str = ""  # empty: all of them
    anonymised: bool = True
    salt: str = ""  # which salt of this machine; never the salt itself
    server: str = ""  # empty where anonymised
    labels: dict[str, str] = {}  # column of the trace → label that it is read from
    seatrial: str = ""
    format: int = RECORDING_FORMAT


class Journal:
    """The lines of one process. What cannot be written is kept for the next `flush`."""

    def __init__(self, directory: Path, writer: str) -> None:
        self._path = directory / f"seen-{writer}.jsonl"
        self._held: list[SeenLine] = []
        self._file: AppendOnly | None = None
        self._encode = msgspec.json.Encoder().encode

    @property
    def held(self) -> int:
        """Lines that are not written yet."""
        return len(self._held)

    def add(self, lines: Iterable[SeenLine]) -> None:
        """Lines for the next `flush`."""
        self._held += lines

    def flush(self) -> None:
        """Hands all lines to `write(2)`. The file is made with the first one."""
        if not self._held:
            return
        if self._file is None:
            self._file = AppendOnly(self._path)
        self._file.append(b"".join(self._encode(line) + b"\n" for line in self._held))
        self._held.clear()

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def begin(directory: Path, about: RecordingFile) -> None:
    """Writes recording.json."""
    write_json(directory / RECORDING, msgspec.to_builtins(about))


def about(directory: Path) -> RecordingFile | None:
    """The content of recording.json; None if the directory holds no recording."""
    path = directory / RECORDING
    try:
        found = msgspec.json.decode(path.read_bytes(), type=RecordingFile)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise SetupProblem(f"{path} is damaged: {error}", "restore it, or give -o another directory") from None
    if found.format > RECORDING_FORMAT:
        raise SetupProblem(f"{path} is of a later version of seatrial", "upgrade seatrial")
    return found


def journals(directory: Path) -> list[Path]:
    """The files of all processes, in the order of their names."""
    return sorted(directory.glob("seen-*.jsonl"))


def read_lines(directory: Path) -> tuple[list[SeenLine], list[str]]:
    """All lines of all processes, and notes on those that cannot be read: half a line is the mark of a crash, others of damage."""
    found: list[SeenLine] = []
    notes: list[str] = []
    for path in journals(directory):
        whole, _ = whole_lines(path)  # a torn last line was never handed over, and is found again in the cluster
        bad = 0
        for line in whole.splitlines():
            try:
                found.append(_decode(line))
            except msgspec.MsgspecError:
                bad += 1
        if bad:
            notes.append(f"{bad} damaged line{'' if bad == 1 else 's'} of {path.name} left out")
    return found, notes


def columns(lines: Sequence[SeenLine]) -> dict[str, list[Any]]:
    """The lines as columns, by the names of their fields."""
    return {name: [getattr(line, name) for line in lines] for name in SeenLine.__struct_fields__}
