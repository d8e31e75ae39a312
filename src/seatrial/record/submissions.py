"""`submitted.jsonl`: one line per workload, appended as it is submitted."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from seatrial.model.errors import SetupProblem
from seatrial.model.plan import Workload
from seatrial.model.units import SECOND

NAME = "submitted.jsonl"


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


_decode = msgspec.json.Decoder(_Line).decode


class Submissions:
    """`flush` hands the lines to `write(2)`: after every workload on a real cluster, in batches on the simulator."""

    def __init__(self, directory: Path) -> None:
        self._file = os.open(directory / NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._encode = msgspec.json.Encoder().encode
        self._lines: list[bytes] = []

    def add(self, number: int, workload: Workload, at: int, refused: str = "", error: int = 0) -> None:
        line = _Line(
            workload.name, number, workload.phase, workload.index, workload.pods, workload.duration / SECOND, at, refused,
            error,
        )  # fmt: skip
        self._lines.append(self._encode(line))
        if len(self._lines) >= 4096:
            self.flush()

    def flush(self) -> None:
        """On a full disk only whole lines: one that is half there would be lost with the next."""
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
        self.flush()
        os.close(self._file)


@dataclass(frozen=True, slots=True)
class Done:
    """What earlier processes of a submission left: indices that need no sending, those of them that were refused (index →
    why), and whether the last line was torn by a crash."""

    indices: frozenset[int] = frozenset()
    refused: Mapping[int, str] = field(default_factory=dict)
    torn: bool = False


def take_up(directory: Path, again_if_refused: bool = False) -> Done:
    """What is done so far, from a file that can be appended to afterwards: a torn last line is cut off it, and the lines of
    what is to be sent again are taken out."""
    path = directory / NAME
    data = path.read_bytes() if path.exists() else b""
    lines = data.splitlines(keepends=True)
    torn = bool(lines) and not _whole(lines[-1])
    kept = lines[:-1] if torn else lines
    try:
        read_lines = [(line, _decode(line)) for line in kept]
    except msgspec.MsgspecError as error:
        raise SetupProblem(
            f"{path} is damaged before its last line: {error}", "take it from a backup, or submit into another OUT"
        ) from error
    if again_if_refused:
        read_lines = [(line, said) for line, said in read_lines if not said.refused]
    whole = b"".join(line for line, _ in read_lines)
    if whole != data:
        part = path.with_name(path.name + ".part")
        part.write_bytes(whole)
        part.replace(path)
    refused = {said.index: said.refused for _, said in read_lines if said.refused}
    return Done(frozenset(said.index for _, said in read_lines), refused, torn)


def _whole(line: bytes) -> bool:
    """Ends, and is JSON: a machine that crashed may have left a line of zeros."""
    try:
        _decode(line)
    except msgspec.MsgspecError:
        return False
    return line.endswith(b"\n")


def read(directory: Path) -> list[dict[str, Any]]:
    """Every line that was written whole; a torn last one is left out."""
    path = directory / NAME
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    return [json.loads(line) for line in lines[:-1]]
