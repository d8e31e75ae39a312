"""The content of a study that the same scenario and seed must give again, whatever happened to the process."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any


def contents(out: Path) -> dict[str, Any]:
    """Every file of a study; of the JSON ones and the page all but `run`, where dates and durations stand."""
    found: dict[str, Any] = {}
    for path in sorted(out.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(out))
            if path.suffix == ".json":
                document = json.loads(path.read_text())
                assert document.pop("run"), f"{name} says when it ran"
                found[name] = document
            elif path.suffix == ".html":
                found[name], left_out = re.subn(r"<!--run-->.*?<!--/run-->", "", path.read_text(), flags=re.DOTALL)
                assert left_out, f"{name} says when it ran"
            else:
                found[name] = path.read_bytes()
    return found
