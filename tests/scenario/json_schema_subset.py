"""As much of JSON Schema as our schema uses: enough to hold it against files without another dependency.

A keyword that is not here is an error, so that the schema cannot say something that nobody checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
}
_SAYS_NOTHING = {"$schema", "$defs", "title", "description", "default", "examples"}


def accepts(root: Schema, value: Any, schema: Schema | None = None) -> bool:
    schema = root if schema is None else schema
    return all(_holds(root, schema, key, said, value) for key, said in schema.items() if key not in _SAYS_NOTHING)


def _holds(root: Schema, schema: Schema, key: str, said: Any, value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match key:
        case "$ref":
            return accepts(root, value, root["$defs"][said.removeprefix("#/$defs/")])
        case "anyOf":
            return any(accepts(root, value, part) for part in said)
        case "oneOf":
            return sum(accepts(root, value, part) for part in said) == 1
        case "type":
            return any(_TYPES[kind](value) for kind in ([said] if isinstance(said, str) else said))
        case "enum":
            return value in said
        case "pattern":
            return not isinstance(value, str) or re.search(said, value) is not None
        case "maxLength":
            return not isinstance(value, str) or len(value) <= said
        case "minimum":
            return not number or value >= said
        case "exclusiveMinimum":
            return not number or value > said
        case "maximum":
            return not number or value <= said
        case _:
            return _holds_inside(root, schema, key, said, value)


def _holds_inside(root: Schema, schema: Schema, key: str, said: Any, value: Any) -> bool:
    items = value if isinstance(value, list) else []
    fields = value if isinstance(value, dict) else {}
    match key:
        case "items":
            return all(accepts(root, item, said) for item in items)
        case "minItems":
            return not isinstance(value, list) or len(items) >= said
        case "minProperties":
            return not isinstance(value, dict) or len(fields) >= said
        case "maxProperties":
            return not isinstance(value, dict) or len(fields) <= said
        case "required":
            return not isinstance(value, dict) or all(name in fields for name in said)
        case "propertyNames":
            return all(accepts(root, name, said) for name in fields)
        case "properties":
            return all(accepts(root, fields[name], part) for name, part in said.items() if name in fields)
        case "patternProperties":
            return all(
                accepts(root, fields[n], part) for pat, part in said.items() for n in fields if re.search(pat, n)
            )
        case "additionalProperties":
            others = [name for name in fields if name not in schema.get("properties", {})]
            return not others if said is False else said is True or all(accepts(root, fields[n], said) for n in others)
    raise AssertionError(f"the schema has a keyword that the tests do not know: {key}")
