"""Atomic and append-only writes: a reader never sees a partial file, even after `kill -9` of the writer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from seatrial.record.layout import PART


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yields a path beside `path`. What the block writes there replaces `path` at its end; after an error it is removed."""
    part = path.with_name(path.name + PART)
    try:
        yield part
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Indented, as `json.dumps` writes it, ten times as fast; only json can escape half a surrogate pair."""
    try:
        text = msgspec.json.format(msgspec.json.encode(value), indent=1)
    except UnicodeEncodeError:
        text = json.dumps(value, indent=1).encode()
    with atomic_write(path) as part:
        part.write_bytes(text + b"\n")


class AppendOnly:
    """A file to which data is appended whole or not at all while the process lives: a disk may be full for a while."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._size = os.fstat(self.descriptor).st_size

    def append(self, data: bytes | bytearray) -> None:
        """Hands the data to `write(2)`; after an error the file is as before."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self.descriptor, view) :]
        except OSError:
            os.ftruncate(self.descriptor, self._size)
            raise
        self._size += len(data)

    def close(self) -> None:
        """Closes the file; all data was written before."""
        os.close(self.descriptor)
