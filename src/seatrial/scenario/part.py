"""What every mapping of a scenario has in common: keys that are known, values that stay what they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo, model_validator

from seatrial.scenario.notation import Found, Known


class Part(BaseModel):
    """A mapping of the file. Unknown keys are mistakes, values are never converted on the quiet."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _remember(cls, data: Any, info: ValidationInfo) -> Any:
        if isinstance(info.context, Known):
            info.context.owners[id(data)] = cls if isinstance(data, dict) else None
        return data

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[Found]:  # noqa: ARG003
        """What in this mapping does not go together. It sees the mapping as written, because pydantic stops at the
        values and a user wants to hear everything at once."""
        return []
