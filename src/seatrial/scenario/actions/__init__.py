"""The kinds of phases that a step may have. A new kind is a module here and a line in `KINDS`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, Field, create_model

from seatrial.model.errors import Mistake
from seatrial.model.plan import NodeGroup, Setup, Step
from seatrial.scenario.actions import (
    change_nodes,
    delete_workloads,
    expect,
    pause,
    send_requests,
    submit_workloads,
    wait,
)
from seatrial.scenario.actions.planning import Kind, Planning, WrittenPhase
from seatrial.scenario.fields import FieldMistake, Fields
from seatrial.scenario.source import KeyPath, Source

KINDS = (
    submit_workloads.KIND,
    wait.KIND,
    pause.KIND,
    change_nodes.KIND,
    send_requests.KIND,
    delete_workloads.KIND,
    expect.KIND,
)
ACTIONS: Mapping[str, Kind] = {action: kind for kind in KINDS for action in kind.actions}


class _OneAction(Fields):
    """One action."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[FieldMistake]:
        actions = [action for action in written if action in ACTIONS]
        if not written:
            return [FieldMistake("", "a phase without an action", f"write one of {', '.join(ACTIONS)}")]
        return [
            FieldMistake(action, f"'{action}' and '{actions[0]}' in one phase", "begin a new step: put `- ` before it")
            for action in actions[1:]
        ] + [
            mistake
            for action in actions
            if isinstance(written[action], dict)
            for mistake in ACTIONS[action].contradictions(action, written[action])
        ]

    def body(self) -> tuple[str, Any]:
        """The action as written, and its fields."""
        fields = type(self).model_fields
        return next(
            (field.alias or name, body) for name, field in fields.items() if (body := getattr(self, name)) is not None
        )


if TYPE_CHECKING:
    PhaseFields = _OneAction
else:
    PhaseFields = create_model(
        "PhaseFields",
        __base__=_OneAction,
        __doc__=_OneAction.__doc__,
        **{
            action.replace("-", "_"): (
                kind.fields | None,
                Field(None, alias=action if "-" in action else None, description=about),
            )
            for kind in KINDS
            for action, about in kind.actions.items()
        },
    )


def phase_name(action: str, number: int) -> str:
    """The default name of a phase: its action and its position among all phases, from 1."""
    return f"{action}-{number}"


def plan_steps(
    source: Source, steps: Sequence[Sequence[PhaseFields]], nodes: Sequence[NodeGroup], setup: Setup, namespaces: int
) -> tuple[tuple[Step, ...], list[Mistake]]:
    """The steps of a set-up, and their mistakes."""
    written = _written(source, steps)
    planning = Planning(source, [phase for step in written for phase in step], nodes, setup, namespaces)
    return tuple(_plan_step(planning, step) for step in written), planning.mistakes


def _written(source: Source, steps: Sequence[Sequence[PhaseFields]]) -> list[list[WrittenPhase]]:
    numbers = count(1)
    result = []
    for number, step in enumerate(steps):
        several = isinstance(source.data["steps"][number], list)
        phases = []
        for position, phase in enumerate(step):
            action, fields = phase.body()
            path: KeyPath = ("steps", number, *((position,) if several else ()), action)
            named = phase_name(action, next(numbers))
            phases.append(WrittenPhase(path, getattr(fields, "name", None) or named, action, fields))
        result.append(phases)
    return result


def _plan_step(planning: Planning, step: Sequence[WrittenPhase]) -> Step:
    for phase in sorted(step, key=lambda phase: not ACTIONS[phase.action].first(phase.fields)):
        planning.phases[phase.name] = ACTIONS[phase.action].plan(planning, phase)
    return tuple(planning.phases[phase.name] for phase in step)
