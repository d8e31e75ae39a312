"""Where in the file a value stands. A mistake that says line and column is corrected in seconds, others are not.

The document itself is plain data (it goes into `study.json` as it is), so the places are kept beside it, by path. A
document that comes out of a `study.json` has no places; its mistakes name the path instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seatrial.model.errors import Mistake

Path = tuple[str | int, ...]
Place = tuple[int, int]  # line and column, from 1


@dataclass(frozen=True, slots=True)
class Source:
    """A document and where everything in it was written. `mistakes` are those found while reading that can wait."""

    file: str
    data: dict[str, Any]
    values: Mapping[Path, Place] = field(default_factory=dict)
    keys: Mapping[Path, Place] = field(default_factory=dict)
    mistakes: tuple[Mistake, ...] = ()

    def place(self, path: Path, *, key: bool = False) -> Place:
        """Of the value at `path` (or its key), or of the nearest thing around it; (0, 0) if nothing is known."""
        if key and path in self.keys:
            return self.keys[path]
        for end in range(len(path), -1, -1):
            if path[:end] in self.values:
                return self.values[path[:end]]
        return (0, 0)

    def at(self, path: Path) -> str:
        line, column = self.place(path)
        return f"{self.file}:{line}:{column}" if line else f"{self.file}: {spelled(path)}"

    def mistake(self, path: Path, what: str, remedy: str = "", *, key: bool = False) -> Mistake:
        line, column = self.place(path, key=key)
        where = "" if line else f"{spelled(path)}: "
        return Mistake(self.file, line, column, one_line(where + what), one_line(remedy))


def one_line(text: str) -> str:
    """What a user wrote may hold line breaks and terminal codes; a message must not."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def spelled(path: Path) -> str:
    """`steps[0].submit.count`"""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "the scenario"


def real_path(data: Any, loc: Sequence[str | int]) -> Path:
    """The part of a pydantic location that exists in the document; wrappings made while validating do not."""
    path: list[str | int] = []
    for part in loc:
        in_list = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if in_list or (isinstance(data, dict) and part in data):
            data = data[part]
            path.append(part)
    return tuple(path)


def value_at(data: Any, path: Path) -> Any:
    for part in path:
        data = data[part]
    return data
