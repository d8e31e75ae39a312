"""What every mapping of a scenario has in common: known keys, values that are never converted, mistakes in our own words.

`Fields` is the base of all mappings. A value that is wrong raises `wrong`; a check of a mapping returns `FieldMistake`s, so that
all mistakes of a file are reported together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.yaml_scalars import spell


@dataclass(frozen=True, slots=True)
class FieldMistake:
    """A mistake in a mapping: `key` is the entry it is about, `inside` the path from there."""

    key: str
    what: str
    remedy: str = ""
    inside: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names that a value may refer to, by what they name. It is pydantic's context.

    What is absent is not checked. `owners` is filled while validating: by identity, the class that a mapping was read as. It
    serves to suggest keys and to look for contradictions.
    """

    names: Mapping[str, Iterable[str]]
    owners: dict[int, Any] = field(default_factory=dict)


class Fields(BaseModel):
    """A mapping of the file. Unknown keys are rejected, values are never converted silently."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _remember(cls, data: Any, info: ValidationInfo) -> Any:
        if isinstance(info.context, KnownNames):
            info.context.owners[id(data)] = cls if isinstance(data, dict) else None
        return data

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[FieldMistake]:  # noqa: ARG003
        """Entries that do not go together. The mapping is as written: pydantic stops at wrong values, and all mistakes are to be
        reported together."""
        return []


def wrong(what: str, remedy: str = "") -> PydanticCustomError:
    """A mistake in one value."""
    return PydanticCustomError("wrong", "{what}", {"what": what, "remedy": remedy})


def several(found: Iterable[FieldMistake]) -> PydanticCustomError:
    """All mistakes that one check of a mapping found."""
    return PydanticCustomError("several", "several mistakes", {"found": list(found)})


def contradictory(written: Mapping[str, Any], *pairs: tuple[str, str]) -> list[FieldMistake]:
    """Entries that exclude each other; the second of a pair is the mistake."""
    return [
        FieldMistake(second, f"'{second}' and '{first}' contradict each other", "remove one of them")
        for first, second in pairs
        if first in written and second in written
    ]


def alone(written: Mapping[str, Any], **partners: str) -> list[FieldMistake]:
    """Entries that need a partner which is not there."""
    return [
        FieldMistake(key, f"'{key}' goes with '{partner}'", f"add '{partner}' or remove '{key}'")
        for key, partner in partners.items()
        if key in written and partner not in written
    ]


def one_of(kind: str, word: str = "") -> AfterValidator:
    """The text must be a name that `KnownNames` has for this kind."""

    def check(name: str, info: ValidationInfo) -> str:
        known = info.context.names.get(kind) if isinstance(info.context, KnownNames) else None
        if known is not None and name not in known:
            raise wrong(f"unknown {word or kind} '{name}'", remedy_for(name, known))
        return name

    return AfterValidator(check)


def shown(value: Any) -> str:
    """A value in a message: short, and as YAML has it."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = spell(value)
    return f"'{text if len(text) <= 40 else text[:37] + '...'}'"


def as_list(value: Any) -> Any:
    """A single value where a list is allowed is a list of one."""
    return value if isinstance(value, list) else [value]
