"""`seatrial.toml` in the working directory: settings of submitting and measuring, for commands that have no scenario.

They are the settings that a scenario has under `settings`, checked by the same rules; a scenario's own override the file's.
Python's TOML reader keeps no line numbers, so a value is found again in the text by its table and its key.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any

from seatrial.model.errors import Mistake, ScenarioProblem, UsageProblem
from seatrial.model.plan import Scalar
from seatrial.model.settings import OWN
from seatrial.scenario.document import Scenario
from seatrial.scenario.scenario_settings import check_mapping, parsed
from seatrial.scenario.source import KeyPath, Place, Source

NAME = "seatrial.toml"
Settings = dict[str, dict[str, Scalar]]

_TABLE = re.compile(r"\s*\[\s*[\"']?([\w-]+)[\"']?\s*\]")
_KEY = re.compile(r"\s*[\"']?([\w-]+)[\"']?\s*=\s*")
_AT = re.compile(r"\s*\(at line (\d+), column (\d+)\)$")


def read_settings(directory: Path | None = None) -> Settings:
    """Component → setting → value as given in the file, durations in nanoseconds; empty without a file."""
    known = {(setting.component, setting.name): setting for setting in OWN}
    return {
        component: {name: parsed(known[component, name], value) for name, value in values.items()}
        for component, values in _written(directory).items()
    }


def with_settings_file(scenario: Scenario, directory: Path | None = None) -> Scenario:
    """The scenario with the file's settings added where it has none of its own: a study needs no other file."""
    written = _written(directory)
    given = scenario.document.get("settings", {})
    if not written or not isinstance(given, dict):
        return scenario
    merged = {**written, **given}
    for component in written:
        if isinstance(given.get(component), dict):
            merged[component] = {**written[component], **given[component]}
    data = {**scenario.document, "settings": merged}
    return dataclasses.replace(scenario, source=dataclasses.replace(scenario.source, data=data))


def _written(directory: Path | None) -> dict[str, dict[str, Any]]:
    """The content of the file, if all of it is valid."""
    path = (directory or Path()) / NAME
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"{path}: {error}", "make it a text file that you can read, or remove it") from None
    source = _source(str(path), text)
    mistakes = check_mapping(source, source.data, (), OWN, "", ())
    for component, values in source.data.items():
        if not isinstance(values, dict):
            remedy = "begin with a table, [measure] or [submit]"
            mistakes.append(source.mistake((component,), f"'{component}' is outside of any table", remedy))
    if mistakes:
        raise ScenarioProblem(mistakes)
    return source.data


def _source(file: str, text: str) -> Source:
    try:
        data: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT.search(str(error))
        row, column = (int(found[1]), int(found[2])) if found else (0, 0)
        what = f"not TOML: {_AT.sub('', str(error))}"
        raise ScenarioProblem([Mistake(file, row, column, what, 'put text in quotes, like "1ms"')]) from None
    for values in data.values():
        for name, value in values.items() if isinstance(values, dict) else ():
            if isinstance(value, list) and all(isinstance(item, str) for item in value):
                values[name] = ",".join(value)  # stages = ["queued", "admitted"]
    keys: dict[KeyPath, Place] = {}
    found_values: dict[KeyPath, Place] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if heading := _TABLE.match(line):
            table = (heading[1],)
            keys[table] = found_values[table] = (number, heading.start(1) + 1)
        elif key := _KEY.match(line):
            keys[*table, key[1]] = (number, key.start(1) + 1)
            found_values[*table, key[1]] = (number, key.end() + 1)
    return Source(file, data, found_values, keys)
