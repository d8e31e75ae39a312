"""Set-ups of a scenario: what a user writes of the stack, its settings and the control plane it runs on."""

from __future__ import annotations

import pathlib
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from seatrial.model.plan import ComponentOverride, Delay, FlowObject
from seatrial.model.units import SECOND
from seatrial.scenario.field_types import (
    Count,
    DurationText,
    LastingDuration,
    ObjectName,
    ParamName,
    Rate,
    ScalarValue,
    Text,
    choice,
)
from seatrial.scenario.fields import Fields, as_list, one_of, shown, wrong
from seatrial.scenario.queue_fields import PreemptionFields
from seatrial.scenario.source import KeyPath, Source

LONGEST_DELAY = 29 * SECOND


class ClientFields(Fields):
    """The submitting client."""

    rate: Rate | None = Field(None, description="The client's limit on submissions per second, like 10/s.")
    machines: Count = Field(1, description="Machines of a Ray (--ray) that send requests and workloads together.")


class EqualQps(Fields):
    """The same client QPS for all components."""

    equal: float = Field(gt=0, description="Client QPS that every component gets.")


def _qps(value: Any) -> Any:
    if value in ("as shipped", "unlimited"):
        return value
    equal = value.get("equal") if isinstance(value, dict) and len(value) == 1 else None
    if isinstance(equal, int | float) and not isinstance(equal, bool) and equal > 0:
        return equal
    raise wrong(f"{shown(value)} is not a choice of qps", "write as shipped, unlimited or {equal: 500}")


class SettingsFields(Fields):
    """`qps`, and component → setting → value."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, dict[str, ScalarValue]]

    qps: Annotated[Any, BeforeValidator(_qps, json_schema_input_type=Literal["as shipped", "unlimited"] | EqualQps)] = (
        Field(None, description="Client QPS of all components: as shipped, unlimited, or {equal: 500}.")
    )


class ComponentFields(Fields):
    """A component of the control plane that a set-up replaces or reconfigures."""

    binary: Text | None = Field(None, description="Your own program instead of the built one.")
    version: Text | None = Field(None, description="Another version of it, built like the default one (`v1.36.2`).")
    config: Text | None = Field(None, description="A configuration file of your own.")
    args: list[Text] = Field([], description="Flags that override all others, like `--v=4`.")

    @model_validator(mode="after")
    def _one_program(self) -> ComponentFields:
        if self.binary and self.version:
            raise wrong("`binary` and `version` contradict each other", "keep one of them")
        return self

    def override(self, source: Source, path: KeyPath) -> ComponentOverride:
        """Relative files are looked up from the folder of the scenario."""
        folder = pathlib.Path(source.file).parent
        binary, config = (str(folder / given) if given else "" for given in (self.binary, self.config))
        return ComponentOverride(binary, self.version or "", config, tuple(self.args), source.at(path))


class FlowObjectFields(Fields):
    """A priority level or a flow schema: its name, and its spec as flowcontrol.apiserver.k8s.io/v1 has it."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Any]

    name: ObjectName = Field(description="Name of the object.")

    def flow_object(self) -> FlowObject:
        """The name and the spec apart."""
        return FlowObject(self.name, dict(self.__pydantic_extra__ or {}))


def _below_webhook_timeout(duration: int) -> int:
    if duration > LONGEST_DELAY:
        raise wrong("the API server waits 30 s for a webhook at most", "write 29s or less")
    return duration


class DelayFields(Fields):
    """How long requests are held inside the server, by a webhook of ours."""

    lasting: Annotated[LastingDuration, AfterValidator(_below_webhook_timeout)] = Field(
        alias="for", description="How long each request is held."
    )
    of: (
        Annotated[
            list[Annotated[Text, one_of("create", "create phase")]],
            BeforeValidator(as_list, json_schema_input_type=str | list[str]),
        ]
        | None
    ) = Field(None, description="Create phases whose objects are held; all if not given.")
    webhook: Annotated[str, choice("kind of webhook", ("validating", "mutating"))] = Field(
        "validating", description="validating or mutating."
    )

    def delay(self) -> Delay:
        """The delay of the plan."""
        return Delay(self.lasting, tuple(self.of or ()), self.webhook)


def _delay(value: Any) -> Any:
    return value if isinstance(value, dict) else {"for": value}


class SetupFields(Fields):
    """A set-up of the comparison."""

    stack: Annotated[Text, one_of("stack")] = Field(description="The stack under test; `seatrial stacks` lists them.")
    nodes: Annotated[Text, one_of("node entry", "entry of nodes")] | None = Field(
        None, description="The entry of `nodes`; not needed if there is only one."
    )
    client: ClientFields | None = Field(None, description="The submitting client, instead of the scenario's.")
    params: dict[Annotated[ParamName, one_of("param")], ScalarValue] = Field(
        {}, description="Values of params for this set-up alone."
    )
    settings: SettingsFields | None = Field(None, description="Settings that override the scenario's.")
    preemption: PreemptionFields | None = Field(None, description="Who may evict whom; overrides the scenario's.")
    components: dict[str, ComponentFields] = Field(
        {}, description="Components of a real control plane that this set-up replaces or reconfigures."
    )
    priority_levels: list[FlowObjectFields] = Field(
        [], alias="priority-levels", description="Priority levels, in addition to the server's."
    )
    flow_schemas: list[FlowObjectFields] = Field(
        [], alias="flow-schemas", description="Flow schemas, in addition to the server's."
    )
    delay: Annotated[DelayFields, BeforeValidator(_delay, json_schema_input_type=DurationText | DelayFields)] | None = (
        Field(None, description="Holds the load's own writes inside the server: 500ms, or {for, of, webhook}.")
    )
