"""`submitted.jsonl`: one line per workload, appended as it is submitted."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec

from seatrial.model.plan import Workload
from seatrial.model.units import SECOND

NAME = "submitted.jsonl"


class _Line(msgspec.Struct):
    workload: str
    number: int
    phase: str
    index: int
    pods: int
    duration_s: float
    at_ns: int


class Submissions:
    """`flush` hands the lines to `write(2)`: after every workload on a real cluster, in batches on the simulator."""

    def __init__(self, directory: Path) -> None:
        self._file = os.open(directory / NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._encode = msgspec.json.Encoder().encode
        self._lines: list[bytes] = []

    def add(self, number: int, workload: Workload, at: int) -> None:
        line = _Line(
            workload.name, number, workload.phase, workload.index, workload.pods, workload.duration / SECOND, at
        )
        self._lines.append(self._encode(line))
        if len(self._lines) >= 4096:
            self.flush()

    def flush(self) -> None:
        if self._lines:
            data = memoryview(b"\n".join(self._lines) + b"\n")
            while data:
                data = data[os.write(self._file, data) :]
            self._lines.clear()

    def close(self) -> None:
        self.flush()
        os.close(self._file)


def read(directory: Path) -> list[dict[str, Any]]:
    """Every line that was written whole; a torn last one is left out."""
    path = directory / NAME
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    return [json.loads(line) for line in lines[:-1]]
