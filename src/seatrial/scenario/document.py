"""A scenario as it was written, read from a file or from the document in a `study.json`.

Reading stops only at what cannot be read at all. All other mistakes are found by `expand`, which knows the stacks and the values of
`--set`, so that they are reported together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

import seatrial
from seatrial.model.errors import Mistake, ScenarioProblem, UsageProblem
from seatrial.model.plan import Scalar
from seatrial.scenario import yaml_reader
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.params import Values, overridden, values_of
from seatrial.scenario.source import Source


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
        """The content of the file as plain data."""
        return self.source.data

    @property
    def path(self) -> str:
        """The file as the user named it, or where the document came from."""
        return self.source.file


class Shipped(NamedTuple):
    """A built-in scenario."""

    name: str
    about: str
    path: Path


def shipped() -> list[Shipped]:
    """All built-in scenarios."""
    return [Shipped(name, read(path).about, path) for name, path in shipped_files().items()]


def shipped_files() -> dict[str, Path]:
    """Name → file, in the installed package or at the root of the checkout. Names are those of files: a look-up reads none."""
    package = Path(seatrial.__file__).parent
    installed = package / "shipped"
    folder = installed if installed.is_dir() else package.parent.parent / "scenarios"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find(where: str | Path) -> Path:
    """A file as given, else the scenario of that name that comes with seatrial.

    A directory of the same name (the output of the last run, most likely) does not hide it.
    """
    path = Path(where)
    known = shipped_files()
    try:
        if path.exists() and not (path.is_dir() and str(where) in known):
            return path
    except OSError as error:
        raise _unreadable(str(where), error) from None
    if str(where) in known:
        return known[str(where)]
    remedy = remedy_for(path.stem, known)
    raise UsageProblem(f"{where}: no such file, and no built-in scenario of that name", remedy)


def _unreadable(file: str, error: OSError) -> UsageProblem:
    return UsageProblem(f"{file}: {(error.strerror or str(error)).lower()}", "name a file that you can read")


def read(where: str | Path) -> Scenario:
    """The scenario in a file, or a built-in one by its name."""
    path = find(where)
    file = str(where) if path == Path(where) else path.name  # found by name, not by path
    try:
        with path.open("rb") as stream:
            raw = stream.read(yaml_reader.LARGEST_FILE + 1)
    except IsADirectoryError:
        problem = Mistake(file, 0, 0, "is a directory", "name a scenario file in it")
        raise ScenarioProblem([problem]) from None
    except OSError as error:
        raise _unreadable(file, error) from None
    return from_text(yaml_reader.decode(raw, file), file)


def from_text(text: str, file: str) -> Scenario:
    """The scenario in a text; `file` is the name that mistakes give."""
    return _scenario(yaml_reader.parse(text, file), text)


def from_document(document: Mapping[str, Any], origin: str) -> Scenario:
    """The scenario of a `Scenario.document`; mistakes give `origin` and the path in the document."""
    return _scenario(Source(origin, dict(document)))


def node_list(where: Path) -> Scenario | None:
    """A file that is only a list of node groups, as a scenario that does nothing with them; None if it is not a list."""
    try:
        groups = yaml.safe_load(where.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None  # `read` reports it
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
