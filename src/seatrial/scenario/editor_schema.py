"""The JSON Schema of a scenario, for editors: completion, descriptions and red lines while writing.

pydantic describes a document whose params are filled in. In the file `${param}` is allowed wherever a value is, so
every field that does not take any text anyway takes it too. What pydantic adds for Python (titles, nulls, names of our
classes) is removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seatrial.scenario.schema import ScenarioFields

Schema = dict[str, Any]

_PARAM: Schema = {"type": "string", "pattern": r"\$\{.+\}", "description": "A param, as ${name}."}
_PARAM_REF: Schema = {"$ref": "#/$defs/Param"}
_NARROW = ("enum", "const", "pattern")  # text with one of these does not take ${param}
_AROUND = ("description", "default")  # what belongs to the field and not to one of its alternatives


def json_schema(stages: Sequence[str] = ()) -> Schema:
    """JSON Schema (2020-12) of the file as written. `stages`: of stacks, beside the standard ones."""
    written = ScenarioFields.model_json_schema()
    waits_for = written["$defs"]["WaitFields"]["properties"]["for"]
    waits_for["enum"] = list(dict.fromkeys([*waits_for["enum"], *stages]))
    definitions = {name.removesuffix("Fields"): _opened(part) for name, part in written.pop("$defs").items()}
    schema: Schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "seatrial scenario"}
    schema |= _opened(written)
    schema["properties"]["name"] = _plain(written["properties"]["name"])  # a scenario's name has no params
    return {**schema, "$defs": {**definitions, "Param": _PARAM}}


def _plain(schema: Schema) -> Schema:
    """Without what pydantic adds."""
    schema = {key: value for key, value in schema.items() if key != "title"}
    if "default" in schema and not isinstance(schema["default"], str | int | float):
        del schema["default"]  # None and empty containers say nothing
    return schema


def _opened(schema: Schema) -> Schema:
    """The same with `${param}` allowed wherever a value is."""
    schema = _plain(schema)
    if "$ref" in schema:
        schema["$ref"] = schema["$ref"].removesuffix("Fields")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            schema[key] = _opened(schema[key])
    for key in ("properties", "patternProperties"):
        if key in schema:
            schema[key] = {name: _opened(part) for name, part in schema[key].items()}
    if all(
        "$ref" in part for part in schema.get("oneOf", [{}])
    ):  # as pydantic writes alternatives with a discriminator
        schema["anyOf"] = schema.pop("oneOf")
    if "anyOf" in schema:
        alternatives = [_opened(part) for part in schema.pop("anyOf") if part != {"type": "null"}]
        return {**_either(alternatives), **schema}
    if schema.get("type") in ("integer", "number", "boolean") or any(key in schema for key in _NARROW):
        around = {key: schema.pop(key) for key in _AROUND if key in schema}
        return {"anyOf": [schema, _PARAM_REF], **around}
    return schema


def _either(parts: list[Schema]) -> Schema:
    """The alternatives in one flat list, `${param}` last, once, and only where no plain text is allowed anyway."""
    flat = [one for part in parts for one in part.get("anyOf", [part])]
    values = [one for one in flat if one != _PARAM_REF]
    if len(values) < len(flat) and {"type": "string"} not in values:
        values.append(_PARAM_REF)
    return {"anyOf": values} if len(values) > 1 else values[0]
