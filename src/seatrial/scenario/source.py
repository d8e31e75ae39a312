"""A document and the line and column of every value in it, for messages.

The document is plain data (it is written into `study.json`), so the places are kept beside it, by path. A document that comes
from a `study.json` has no places; its mistakes give the path instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seatrial.model.errors import Mistake

KeyPath = tuple[str | int, ...]
Place = tuple[int, int]  # line and column, from 1


@dataclass(frozen=True, slots=True)
class Source:
    """A document and the places of its values and keys. `mistakes`: found while reading, reported with all others."""

    file: str
    data: dict[str, Any]
    values: Mapping[KeyPath, Place] = field(default_factory=dict)
    keys: Mapping[KeyPath, Place] = field(default_factory=dict)
    mistakes: tuple[Mistake, ...] = ()

    def place(self, path: KeyPath, *, key: bool = False) -> Place:
        """Line and column of the value at `path` (or its key), or of its parent; (0, 0) if unknown."""
        if key and path in self.keys:
            return self.keys[path]
        for end in range(len(path), -1, -1):
            if path[:end] in self.values:
                return self.values[path[:end]]
        return (0, 0)

    def at(self, path: KeyPath) -> str:
        """`file:line:column`, or the file and the path."""
        line, column = self.place(path)
        return f"{self.file}:{line}:{column}" if line else f"{self.file}: {spelled(path)}"

    def mistake(self, path: KeyPath, what: str, remedy: str = "", *, key: bool = False) -> Mistake:
        """A mistake at this place."""
        line, column = self.place(path, key=key)
        where = "" if line else f"{spelled(path)}: "
        return Mistake(self.file, line, column, one_line(where + what), one_line(remedy))


def one_line(text: str) -> str:
    """Text of a user without line breaks and terminal codes."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def spelled(path: KeyPath) -> str:
    """`steps[0].submit.count`"""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "the scenario"


def real_path(data: Any, loc: Sequence[str | int]) -> KeyPath:
    """The parts of a pydantic location that are keys of the document: those that validators add are not."""
    path: list[str | int] = []
    for part in loc:
        in_list = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if in_list or (isinstance(data, dict) and part in data):
            data = data[part]
            path.append(part)
    return tuple(path)


def value_at(data: Any, path: KeyPath) -> Any:
    """The value at a path that exists."""
    for part in path:
        data = data[part]
    return data
