"""The top level of a scenario: which keys a file may have. Editors get it as JSON Schema, and a test compares the docs with it.

The models see a document whose `${param}` are filled in. They check single values and what contradicts within one mapping; what
needs the rest of the scenario is checked while the steps are planned (`actions/planning.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from seatrial.scenario.actions import PhaseFields
from seatrial.scenario.actions.expect import Expectations, FigureNames
from seatrial.scenario.field_types import ParamName, PlainName, ScalarValue, Text, whole_number
from seatrial.scenario.fields import FieldMistake, Fields, alone, as_list, one_of
from seatrial.scenario.node_groups import NodeEntries
from seatrial.scenario.queue_fields import Cohorts, Flavors, PreemptionFields, Priorities, Queues
from seatrial.scenario.setups import ClientFields, SettingsFields, SetupFields

MOST_NAMESPACES = 10_000  # what upstream tests
LARGEST_SEED = 2**53  # what JSON readers keep exactly

Step = Annotated[
    list[PhaseFields],
    Field(min_length=1),
    BeforeValidator(as_list, json_schema_input_type=PhaseFields | list[PhaseFields]),
]
ParamValues = Annotated[
    list[ScalarValue],
    Field(min_length=1),
    BeforeValidator(as_list, json_schema_input_type=ScalarValue | list[ScalarValue]),
]
_STACKS_OR_SETUPS: dict[str, Any] = {"oneOf": [{"required": ["stacks"]}, {"required": ["setups"]}]}


class ScenarioFields(Fields):
    """A scenario of seatrial."""

    model_config = ConfigDict(json_schema_extra=_STACKS_OR_SETUPS)

    name: PlainName = Field(description="Name of the scenario.")
    about: Text = Field("", description="The question that the scenario answers, in a sentence.")
    params: dict[ParamName, ParamValues] = Field(
        {}, description="Values to use as ${name}; a list makes one trial per value."
    )
    nodes: NodeEntries = Field(
        description="Groups of nodes, {trace: FILE}, {existing: SELECTOR}, or name → one of these."
    )
    stacks: Annotated[list[Annotated[Text, one_of("stack")]], Field(min_length=1)] | None = Field(
        None, description="Stacks to compare on the same nodes: short for one set-up per stack."
    )
    setups: Annotated[dict[PlainName, SetupFields], Field(min_length=1)] | None = Field(
        None, description="Set-ups to compare: name → nodes, stack, client, settings."
    )
    flavors: Flavors | None = Field(None, description="Kinds of nodes that quotas are of: name → {nodes: GROUP}.")
    priorities: Priorities | None = Field(None, description="Names of priorities: name → value.")
    queues: Queues | None = Field(None, description="Who shares the nodes: name → quota, cohort, borrow, lend, weight.")
    cohorts: Cohorts | None = Field(None, description="Cohorts with a quota or a parent: name → quota, parent, weight.")
    preemption: PreemptionFields | None = Field(None, description="Who may evict whom, for all set-ups.")
    settings: SettingsFields | None = Field(None, description="Settings of components, for all set-ups.")
    client: ClientFields | None = Field(None, description="The submitting client, for all set-ups.")
    namespaces: Annotated[int, whole_number(1, MOST_NAMESPACES)] | None = Field(
        None, description="Number of namespaces created before the steps, for objects of create phases."
    )
    steps: Annotated[list[Step], Field(min_length=1)] = Field(
        description="Steps, run one after another; the phases of a step run in parallel."
    )
    repeat: Annotated[int, whole_number(1, 10_000)] = Field(1, description="Repeats of each trial.")
    seed: Annotated[int, whole_number(0, LARGEST_SEED)] = Field(1, description="Random seed.")
    answer: FigureNames = Field(
        [], description="The figures that answer the question of `about`, the most important first."
    )
    expect: Expectations = Field(
        [], description="Expectations at the end, over all repeats, like completed == submitted."
    )

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[FieldMistake]:
        if "stacks" in written and "setups" in written:
            what = "'stacks' and 'setups' contradict each other"
            return [FieldMistake("stacks", what, "write the stacks as set-ups")]
        if "stacks" not in written and "setups" not in written:
            return [FieldMistake("", "the scenario has neither 'stacks' nor 'setups'", "add stacks: [default]")]
        found = alone(written, flavors="queues", cohorts="queues", preemption="queues")
        stacks = written["stacks"] if isinstance(written.get("stacks"), list) else []
        return found + [
            FieldMistake("stacks", f"'{stack}' is listed twice", "list each stack once")
            for number, stack in enumerate(stacks)
            if stack in stacks[:number]
        ]
