"""A scenario as it was written: the way in from a file, and from the document that a `study.json` holds.

Reading stops at what cannot be read at all. Everything else that is wrong is found by `expand`, because only there it
is known which stacks there are and what `--set` makes of the params; so a user sees all mistakes in one go.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from seatrial.model.errors import Mistake, ScenarioProblem, UsageProblem
from seatrial.model.plan import Scalar
from seatrial.scenario import reading
from seatrial.scenario.params import Values, overridden, values_of
from seatrial.scenario.places import Source
from seatrial.scenario.shipped import find


@dataclass(frozen=True, slots=True)
class Scenario:
    """`document` is JSON-able and all that is needed to run it again; `text` is the file, empty if there was none."""

    name: str
    about: str
    params: Mapping[str, Values]
    source: Source
    text: str = ""

    @property
    def document(self) -> dict[str, Any]:
        return self.source.data

    @property
    def path(self) -> str:
        """The file as the user named it, or where the document came from."""
        return self.source.file


def read(where: str | Path) -> Scenario:
    """The scenario in a file, or one that comes with seatrial, by its name."""
    path = find(where)
    file = str(where) if path == Path(where) else path.name  # found by name: where it is installed is nobody's concern
    try:
        with path.open("rb") as stream:
            raw = stream.read(reading.LARGEST_FILE + 1)
    except IsADirectoryError:
        problem = Mistake(file, 0, 0, "is a directory", "name a scenario file in it")
        raise ScenarioProblem([problem]) from None
    except OSError as error:
        raise UsageProblem(
            f"{file}: {(error.strerror or str(error)).lower()}", "name a file that you can read"
        ) from None
    return from_text(reading.decode(raw, file), file)


def from_text(text: str, file: str) -> Scenario:
    """The scenario in a text; `file` is what its mistakes say."""
    return _scenario(reading.parse(text, file), text)


def from_document(document: Mapping[str, Any], origin: str) -> Scenario:
    """The scenario that `Scenario.document` was of; mistakes name `origin` and the path in the document."""
    return _scenario(Source(origin, dict(document)))


def node_list(where: Path) -> Scenario | None:
    """A file that is only a list of node groups, as a scenario that does nothing with them; None if it is no list."""
    try:
        groups = yaml.safe_load(where.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None  # `read` says what is wrong with it
    if not isinstance(groups, list):
        return None
    nothing = {"name": "nodes", "stacks": ["default"], "steps": [{"pause": "1s"}]}
    return from_document({**nothing, "nodes": groups}, str(where))


def override(scenario: Scenario, sets: Mapping[str, list[Scalar]]) -> Scenario:
    """The scenario with other params (`--set`). Raises UsageProblem for one that it does not have."""
    if not sets:
        return scenario
    params = overridden(scenario.params, sets)
    written = {name: values[0] if len(values) == 1 else list(values) for name, values in params.items()}
    data = {**scenario.document, "params": {**scenario.document.get("params", {}), **written}}
    return _scenario(dataclasses.replace(scenario.source, data=data), scenario.text)


def _scenario(source: Source, text: str = "") -> Scenario:
    name, about = source.data.get("name"), source.data.get("about")
    return Scenario(
        name if isinstance(name, str) else Path(source.file).stem,
        about if isinstance(about, str) else "",
        values_of(source.data.get("params")),
        source,
        text,
    )
