"""Reads `submitted.jsonl` while somebody else still writes it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from seatrial.record.submissions import NAME


class Submitted(msgspec.Struct):
    """What a sampler needs to know of a line."""

    workload: str
    number: int
    phase: str
    pods: int
    at_ns: int
    refused: str = ""


class Tail:
    """`read` gives the lines that are new. A submission that goes on may have taken lines out: then all come again."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self._place = 0
        self._file = 0
        self._decode = msgspec.json.Decoder(Submitted).decode

    def read(self) -> list[Submitted]:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return []
        if found.st_ino != self._file or found.st_size < self._place:
            self._file, self._place = found.st_ino, 0
        with self._path.open("rb") as file:
            file.seek(self._place)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._place += len(whole)
        return [line for text in whole.splitlines() if (line := self._read(text)) is not None]

    def _read(self, text: bytes) -> Submitted | None:
        try:
            return self._decode(text)
        except msgspec.MsgspecError:
            return None
