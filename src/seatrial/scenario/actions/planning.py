"""The parts of a kind of phase, and the context in which the phases of a set-up are planned.

One module here is one kind: its fields, its plan (a `Phase`), its action (`Phase.act`) and what that needs of a cluster
(`Phase.needs`, a protocol). The action is written against that protocol, so it imports no cluster and the module may stand below
the clusters: those import the plan from here. `steps` calls the actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from seatrial.model.errors import Mistake
from seatrial.model.fleet import Fleet
from seatrial.model.plan import NodeGroup, Phase, Setup
from seatrial.scenario.fields import FieldMistake
from seatrial.scenario.source import KeyPath, Source

P = TypeVar("P", bound=Phase)


@dataclass(frozen=True, slots=True)
class WrittenPhase:
    """A phase as written, once its fields are valid."""

    path: KeyPath
    name: str
    action: str
    fields: Any


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of phase. `actions`: the keys that a file names it by, and what each does."""

    actions: Mapping[str, str]
    fields: Any
    plan: Callable[[Planning, WrittenPhase], Phase]
    # Names that other fields may refer to, by what they name. It gets a phase's name, action and body as written, maybe wrong.
    names: Callable[[str, str, Mapping[str, Any]], Mapping[str, Sequence[str]]] = lambda *_: {}
    # Missing and superfluous fields of the body.
    contradictions: Callable[[str, Mapping[str, Any]], Sequence[FieldMistake]] = lambda *_: ()
    # Planned before the other phases of its step, which may refer to it.
    first: Callable[[Any], bool] = lambda _: False


class Planning:
    """Planning of one set-up's steps. A phase may only refer to phases of earlier steps and of its own."""

    def __init__(
        self, source: Source, written: Sequence[WrittenPhase], nodes: Sequence[NodeGroup], setup: Setup, namespaces: int
    ) -> None:
        self.source, self.setup, self.namespaces = source, setup.name, namespaces
        self.fleet: Fleet = setup.fleet
        self.written = written  # all phases of the scenario
        self.phases: dict[str, Phase] = {}  # those that are planned
        self.groups = {group.name: group for group in nodes}  # node groups at this point
        self.mistakes: list[Mistake] = []

    def planned(self, kind: type[P]) -> dict[str, P]:
        """The phases of a kind that are planned, by name."""
        return {name: phase for name, phase in self.phases.items() if isinstance(phase, kind)}

    def named(self, action: str) -> set[str]:
        """The names of all phases with this action, also of later ones."""
        return {phase.name for phase in self.written if phase.action == action}

    def wrong(self, path: KeyPath, what: str, remedy: str) -> None:
        """Keeps a mistake, so that all are reported together."""
        self.mistakes.append(self.source.mistake(path, what, remedy))
