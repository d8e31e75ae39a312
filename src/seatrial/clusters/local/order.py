"""What a keeper is told to keep: the line of JSON it reads. Apart from the keeper, so that asking costs no imports."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from seatrial.clusters.local.components import Wish
from seatrial.model.control_plane import Override
from seatrial.model.plan import NodeGroup, to_json


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    name: str
    wish: Wish
    binaries: dict[str, Path]
    stack: str = "default"
    nodes: tuple[NodeGroup, ...] = ()  # noted, not made

    def to_json(self) -> str:
        return json.dumps(to_json(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Order:
        data: dict[str, Any] = json.loads(text)
        wish = data["wish"]
        wish["overrides"] = {
            name: Override(_path(o["binary"]), o["version"], _path(o["config"]), tuple(o["args"]))
            for name, o in (wish["overrides"] or {}).items()
        }
        binaries = {name: Path(path) for name, path in data["binaries"].items()}
        return cls(data["name"], Wish(**wish), binaries, data["stack"], groups_from(data["nodes"]))


def groups_from(data: Any) -> tuple[NodeGroup, ...]:
    import msgspec

    return msgspec.convert(data, tuple[NodeGroup, ...])


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None
