"""`pause`: does nothing for a while."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from seatrial.model.interfaces import RunningTrial
from seatrial.model.plan import Phase
from seatrial.model.units import SECOND
from seatrial.scenario.actions.planning import Kind
from seatrial.scenario.field_types import DurationText, LastingDuration, ObjectName
from seatrial.scenario.fields import Fields


class PauseFields(Fields):
    """Do nothing for a while."""

    name: ObjectName | None = Field(None, description="Name of the phase.")
    duration: LastingDuration = Field(description="How long.")


@dataclass(frozen=True, slots=True)
class Pause(Phase):
    """Waits for `duration` nanoseconds."""

    duration: int

    async def act(self, run: RunningTrial, cluster: object) -> None:  # noqa: ARG002
        await asyncio.sleep(self.duration / SECOND)


def _fields(value: Any) -> Any:
    return value if isinstance(value, dict) else {"duration": value}


KIND = Kind(
    {"pause": "Do nothing for a while: 10s, or {duration: 10s}."},
    Annotated[PauseFields, BeforeValidator(_fields, json_schema_input_type=DurationText | PauseFields)],
    lambda _, phase: Pause(phase.name, phase.fields.duration),
)
