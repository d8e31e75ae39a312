"""What a keeper is told to keep: the line of JSON it reads. Apart from the keeper, so that asking costs no imports."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from seatrial.clusters.local.components import Wish
from seatrial.model.control_plane import Override


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    name: str
    wish: Wish
    binaries: dict[str, Path]

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> Order:
        data: dict[str, Any] = json.loads(text)
        wish = data["wish"]
        wish["overrides"] = {
            name: Override(_path(o["binary"]), o["version"], _path(o["config"]), tuple(o["args"]))
            for name, o in (wish["overrides"] or {}).items()
        }
        return cls(data["name"], Wish(**wish), {name: Path(path) for name, path in data["binaries"].items()})


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None
