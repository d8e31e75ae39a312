"""The fields of a scenario: what may stand where. Editors get it as JSON Schema, and a test holds the docs to it.

These models see a document whose `${param}` are filled in. They check single values and what contradicts within one
mapping; what needs the rest of the scenario is checked in `building`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from seatrial.model.lifecycle import STANDARD
from seatrial.model.plan import Span
from seatrial.model.units import SECOND
from seatrial.scenario import notation
from seatrial.scenario.expressions import Expression, ExpressionProblem, figure_named
from seatrial.scenario.manifests import OverlayMap
from seatrial.scenario.notation import (
    AmountMap,
    CapacityMap,
    Count,
    Duration,
    Flag,
    Found,
    Known,
    LabelText,
    LastingDuration,
    ObjectName,
    ParamName,
    PlainName,
    Rate,
    ScalarValue,
    SelectorText,
    SpanText,
    TaintText,
    Text,
    TolerationText,
    choice,
    one_of,
    whole_number,
)
from seatrial.scenario.part import Part
from seatrial.scenario.requests import VERBS, Kinds, PhaseNames, RequestsPart, about_action

NODE_CHANGES = ("add", "remove", "cordon", "uncordon", "unready", "ready")
STAGES = tuple(stage.name for stage in STANDARD)
CONDITIONS = ("available", "pods-running", "pods-gone", "gone")  # of what create phases made
ACTIONS = ("submit", "wait", "pause", "nodes", *VERBS, "expect")
MOST_NODES = 1_000_000  # of a group; Kubernetes itself ends at 5,000
MOST_NAMESPACES = 10_000  # what upstream tests
LARGEST_SEED = 2**53  # what JSON readers keep exactly


def _expectation(value: Any, info: ValidationInfo) -> str:
    names = info.context.names if isinstance(info.context, Known) else {}
    texts = {name: names[name] for name in ("setup", "stack") if name in names}
    try:
        return Expression.parse(notation.text(value), names.get("figure"), texts).text
    except ExpressionProblem as problem:
        at = f" at its column {problem.column}" if problem.column > 1 else ""
        raise notation.wrong(f"{problem.message}{at}", problem.remedy) from None


def _figure(value: Any, info: ValidationInfo) -> str:
    names = info.context.names if isinstance(info.context, Known) else {}
    try:
        return figure_named(notation.text(value), names.get("figure"))
    except ExpressionProblem as problem:
        raise notation.wrong(problem.message, problem.remedy) from None


Condition = Annotated[str, BeforeValidator(_expectation)]


class PodDelays(Part):
    create: SpanText = Field(
        Span(), description="From bound to container being created: 1s, or 1s..3s for evenly between."
    )
    start: SpanText = Field(Span(), description="From container being created to running: 10s, or 5s..15s.")


class Group(Part):
    """Nodes that are alike."""

    name: ObjectName = Field(description="Nodes are called NAME-0, NAME-1 and so on.")
    count: Annotated[int, whole_number(1, MOST_NODES)] = Field(description="How many nodes.")
    capacity: CapacityMap = Field(
        description="What a node has: cpu and memory, pods (110 if not given), GPUs and so on."
    )
    labels: dict[str, LabelText] = Field({}, description="Labels of the nodes.")
    taints: list[TaintText] = Field([], description="Taints as key=value:Effect or key:Effect.")
    kubelet: Flag = Field(False, description="true: a kubelet runs containers; false: fake nodes that only play them.")
    pods: PodDelays = Field(PodDelays.model_construct(), description="How long a fake node takes to start a pod.")

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[Found]:
        if written.get("kubelet") is True and "pods" in written:
            return [Found("pods", "a kubelet takes the time it takes", "remove `pods`, or `kubelet: true`")]
        return []


class Existing(Part):
    """Nodes that are there already, on a cluster of a kubeconfig."""

    existing: SelectorText = Field(description="Label selector of nodes to place pods on; nothing is created.")


class ClientPart(Part):
    rate: Rate | None = Field(None, description="The most that the client submits per second, like 10/s.")


class EqualQps(Part):
    equal: float = Field(gt=0, description="Client QPS that every component gets.")


def _qps(value: Any) -> Any:
    if value in ("as shipped", "unlimited"):
        return value
    equal = value.get("equal") if isinstance(value, dict) and len(value) == 1 else None
    if isinstance(equal, int | float) and not isinstance(equal, bool) and equal > 0:
        return equal
    raise notation.wrong(f"{notation.shown(value)} is no choice of qps", "write as shipped, unlimited or {equal: 500}")


class SettingsPart(Part):
    """`qps`, and component → setting → value."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, dict[str, ScalarValue]]

    qps: Annotated[Any, BeforeValidator(_qps, json_schema_input_type=Literal["as shipped", "unlimited"] | EqualQps)] = (
        Field(None, description="Client QPS of all components: as shipped, unlimited, or {equal: 500}.")
    )


_DurationText = Annotated[str, Field(pattern=r"^[0-9.a-zµ]+$")]


class ComponentPart(Part):
    """A part of the control plane that a set-up brings itself."""

    binary: Text | None = Field(None, description="A program of your own instead of the one that is built.")
    version: Text | None = Field(None, description="Another version of it, built like the default one (`v1.36.2`).")
    config: Text | None = Field(None, description="A configuration file of your own.")
    args: list[Text] = Field([], description="Flags that win over all others, like `--v=4`.")

    @model_validator(mode="after")
    def _one_program(self) -> ComponentPart:
        if self.binary and self.version:
            raise notation.wrong("`binary` and `version` both say which program it is", "keep one of them")
        return self


class FlowObject(Part):
    """A priority level or a flow schema: its name, and its spec as flowcontrol.apiserver.k8s.io/v1 has it."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Any]

    name: ObjectName = Field(description="Name of the object.")


def _bearable(duration: int) -> int:
    if duration > 29 * SECOND:
        raise notation.wrong("the API server waits 30 s for a webhook at most", "write 29s or less")
    return duration


class DelayPart(Part):
    """How long requests are held inside the server, by a webhook of ours."""

    lasting: Annotated[LastingDuration, AfterValidator(_bearable)] = Field(
        alias="for", description="How long each request is held."
    )
    of: (
        Annotated[
            list[Annotated[Text, one_of("create", "create phase")]],
            BeforeValidator(notation.as_list, json_schema_input_type=str | list[str]),
        ]
        | None
    ) = Field(None, description="Create phases whose objects are held; all if not given.")
    webhook: Annotated[str, choice("kind of webhook", ("validating", "mutating"))] = Field(
        "validating", description="validating or mutating."
    )


def _delay(value: Any) -> Any:
    return value if isinstance(value, dict) else {"for": value}


class SetupPart(Part):
    """One of the things that a scenario compares."""

    stack: Annotated[Text, one_of("stack")] = Field(description="The stack under test; `seatrial stacks` lists them.")
    nodes: Annotated[Text, one_of("node entry", "entry of nodes")] | None = Field(
        None, description="Which entry of `nodes`; not needed where there is one."
    )
    client: ClientPart | None = Field(None, description="The submitting client, instead of the scenario's.")
    params: dict[Annotated[ParamName, one_of("param")], ScalarValue] = Field(
        {}, description="Values of its own for params of the scenario."
    )
    settings: SettingsPart | None = Field(None, description="Settings that win over the scenario's.")
    components: dict[str, ComponentPart] = Field(
        {}, description="What this set-up brings itself of a real control plane, by component."
    )
    priority_levels: list[FlowObject] = Field(
        [], alias="priority-levels", description="Priority levels beside those that the server has."
    )
    flow_schemas: list[FlowObject] = Field(
        [], alias="flow-schemas", description="Flow schemas beside those that the server has."
    )
    delay: Annotated[DelayPart, BeforeValidator(_delay, json_schema_input_type=_DurationText | DelayPart)] | None = (
        Field(None, description="Holds the load's own writes inside the server: 500ms, or {for, of, webhook}.")
    )


class SubmitPart(Part):
    """Workloads to submit."""

    name: ObjectName | None = Field(
        None, description="Name of the phase; workloads are called NAME-0, NAME-1 and so on."
    )
    count: Count | None = Field(None, description="How many workloads.")
    pods: Count | None = Field(None, description="Pods of each workload (1 if not given).")
    sizes: list[Count] | None = Field(
        None, min_length=1, description="Pods of the workloads, in turn: a mix instead of `pods`."
    )
    each: Count | None = Field(None, description="How many workloads of each size, instead of `count`.")
    order: Annotated[str, choice("order", ("given", "shuffled"))] = Field(
        "given", description="Whether sizes come as listed or shuffled."
    )
    duration: Duration = Field(description="How long each pod runs.")
    requests: AmountMap = Field({}, description="What each pod asks for; amounts of 0 are left out.")
    gang: Flag = Field(False, description="true: it runs only while all its pods run.")
    declares: AmountMap | None = Field(None, description="What a queue is told per pod, if not what the pods ask for.")
    overlay: OverlayMap | None = Field(
        None, description="Any other fields of the Job's manifest: metadata, spec. Lists replace lists."
    )
    selector: dict[str, LabelText] = Field({}, description="Node labels that must match.")
    affinity: dict[str, list[LabelText]] = Field({}, description="Node label → the values that will do.")
    tolerations: list[TolerationText] | None = Field(
        None, description="As key=value:Effect, key:Effect, key or *. Not given: the taints of all nodes; []: none."
    )
    priority: Annotated[int, whole_number(-(2**31))] = Field(0, description="Priority of the pods.")
    spread: Flag = Field(False, description="true: pods of a workload rather stand on different nodes.")
    rate: Rate | None = Field(
        None, description="Workloads per second, like 10/s; without any pace, as fast as the client may."
    )
    arrival: Annotated[str, choice("arrival", ("even", "poisson"))] = Field(
        "even", description="With `rate`: evenly, or at random."
    )
    burst: Count | None = Field(None, description="So many at once, every `every`.")
    every: LastingDuration | None = Field(None, description="With `burst`: time from one burst to the next.")
    parallel: Count | None = Field(None, description="So many at once, the next round when all are answered.")
    delay: Duration | None = Field(
        None, description="With `parallel`: least time from the start of a round to the next."
    )

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[Found]:
        return [*_about_sizes(written), *_about_pace(written)]


def _about_sizes(written: Mapping[str, Any]) -> list[Found]:
    found = []
    if "sizes" not in written:
        if "count" not in written:
            found.append(Found("", "submit needs 'count'", "add how many workloads, like count: 10"))
        found += [
            Found(key, f"'{key}' goes with 'sizes'", "remove it, or list sizes: [1, 2, 4]")
            for key in ("each", "order")
            if key in written
        ]
    else:
        if "pods" in written:
            found.append(Found("pods", "'pods' and 'sizes' contradict each other", "remove one of them"))
        if "count" in written and "each" in written:
            found.append(Found("each", "'each' and 'count' contradict each other", "remove one of them"))
    return found


def _about_pace(written: Mapping[str, Any]) -> list[Found]:
    paces = [key for key in ("rate", "burst", "parallel") if key in written]
    found = [Found(key, f"'{key}' and '{paces[0]}' contradict each other", "choose one pace") for key in paces[1:]]
    for key, partner in (("arrival", "rate"), ("every", "burst"), ("delay", "parallel")):
        if key in written and partner not in written:
            found.append(Found(key, f"'{key}' goes with '{partner}'", f"add '{partner}' or remove '{key}'"))
    if "burst" in written and "every" not in written:
        found.append(Found("burst", "'burst' needs 'every'", "add the time between bursts, like every: 5s"))
    return found


# Stacks bring stages of their own, like Kueue's quota_reserved: those are listed by `seatrial stacks`.
StageName = Annotated[Text, one_of("stage"), WithJsonSchema({"enum": [*STAGES, *CONDITIONS]})]


class WaitPart(Part):
    """Wait until workloads have reached a stage, or until what was created is in a state."""

    name: ObjectName | None = Field(None, description="Name of the phase.")
    stage: StageName = Field(
        alias="for",
        description="The stage to wait for, maybe of a stack's own; or available, pods-running, pods-gone, gone.",
    )
    of: PhaseNames | None = Field(
        None, description="Submit phases whose workloads count, or create phases; all so far if not given."
    )
    kinds: Kinds | None = Field(None, description="For `gone`: only objects of these kinds.")
    count: Count | None = Field(None, description="So many workloads instead of all.")
    timeout: LastingDuration = Field("1h", validate_default=True, description="When to give up (1h if not given).")
    otherwise: Annotated[str, choice("way to go", ("end", "go-on"))] = Field(
        "end", description="When time is up or the trial clogs: end the trial, or note it and go on."
    )


class PausePart(Part):
    """Do nothing for a while."""

    name: ObjectName | None = Field(None, description="Name of the phase.")
    duration: LastingDuration = Field(description="How long.")


GroupName = Annotated[Text, one_of("node group")]


class NodesPart(Part):
    """Change the nodes while the run goes on: one of add, remove, cordon, uncordon, unready, ready."""

    name: ObjectName | None = Field(None, description="Name of the phase.")
    add: Group | None = Field(None, description="A group of nodes that joins.")
    remove: GroupName | None = Field(None, description="The group whose nodes go.")
    cordon: GroupName | None = Field(None, description="The group whose nodes take no more pods.")
    uncordon: GroupName | None = Field(None, description="The group whose nodes take pods again.")
    unready: GroupName | None = Field(None, description="The group whose nodes become NotReady.")
    ready: GroupName | None = Field(None, description="The group whose nodes become Ready again.")
    count: Count | None = Field(None, description="So many of its nodes, the first ones; all if not given.")

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[Found]:
        changes = [key for key in NODE_CHANGES if key in written]
        if not changes:
            return [Found("", "nothing to do with the nodes", f"write one of {', '.join(NODE_CHANGES)}")]
        found = [Found(key, f"'{key}' and '{changes[0]}' in one phase", "make two phases") for key in changes[1:]]
        if "add" in written and "count" in written:
            found.append(Found("count", "'count' does not go with 'add'", "write it into the group"))
        return found


def _pause(value: Any) -> Any:
    return value if isinstance(value, dict) else {"duration": value}


class PhasePart(Part):
    """One action."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    submit: SubmitPart | None = Field(None, description="Submit workloads.")
    wait: WaitPart | None = Field(None, description="Wait until workloads have reached a stage.")
    pause: Annotated[PausePart, BeforeValidator(_pause, json_schema_input_type=_DurationText | PausePart)] | None = (
        Field(None, description="Do nothing for a while: 10s, or {duration: 10s}.")
    )
    nodes: NodesPart | None = Field(None, description="Add or remove nodes, or change whether they take pods.")
    create: RequestsPart | None = Field(None, description="Create objects.")
    update: RequestsPart | None = Field(None, description="Replace objects.")
    patch: RequestsPart | None = Field(None, description="Patch objects.")
    get: RequestsPart | None = Field(None, description="Get objects.")
    list_: RequestsPart | None = Field(None, alias="list", description="List objects.")
    watch: RequestsPart | None = Field(None, description="Watch objects.")
    delete: RequestsPart | None = Field(None, description="Delete workloads or objects.")
    delete_collection: RequestsPart | None = Field(
        None, alias="delete-collection", description="Delete all objects of a kind with one request per namespace."
    )
    expect: (
        Annotated[list[Condition], BeforeValidator(notation.as_list, json_schema_input_type=str | list[str])] | None
    ) = Field(None, description="Expectations looked at now; a false one fails the trial here.")

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[Found]:
        actions = [action for action in written if action in ACTIONS]
        if not written:
            return [Found("", "a phase without an action", f"write one of {', '.join(ACTIONS)}")]
        return [
            Found(action, f"'{action}' and '{actions[0]}' in one phase", "begin a new step: put `- ` before it")
            for action in actions[1:]
        ] + [
            one
            for action, body in written.items()
            if action in VERBS and isinstance(body, dict)
            for one in about_action(action, body)
        ]


def body_of(part: PhasePart) -> tuple[str, Any]:
    """The action as written and what it says."""
    fields = type(part).model_fields
    return next(
        (field.alias or name, body) for name, field in fields.items() if (body := getattr(part, name)) is not None
    )


def phase_name(action: str, number: int) -> str:
    """What a phase without a name is called: by its action and its position among all phases, from 1."""
    return f"{action}-{number}"


StepPart = Annotated[
    list[PhasePart],
    Field(min_length=1),
    BeforeValidator(notation.as_list, json_schema_input_type=PhasePart | list[PhasePart]),
]


def _entries(value: Any) -> Any:
    """A plain list of groups, or `existing` alone, is the one entry of a mapping."""
    alone = isinstance(value, list) or (isinstance(value, dict) and isinstance(value.get("existing"), str))
    return {"": value} if alone else value


def _kind_of_entry(value: Any) -> str:
    """In brackets, so that they are taken for no key of the file when pydantic puts them into the place of an error."""
    return "(existing)" if isinstance(value, dict) and "existing" in value else "(groups)"


Groups = Annotated[list[Group], Field(min_length=1)]
Entry = Annotated[
    Annotated[Groups, Tag("(groups)")] | Annotated[Existing, Tag("(existing)")], Discriminator(_kind_of_entry)
]
NodeEntries = Annotated[
    dict[str, Entry],
    Field(min_length=1),
    BeforeValidator(_entries, json_schema_input_type=Groups | Existing | dict[str, Groups | Existing]),
]
ParamValues = Annotated[
    list[ScalarValue],
    Field(min_length=1),
    BeforeValidator(notation.as_list, json_schema_input_type=ScalarValue | list[ScalarValue]),
]


_STACKS_OR_SETUPS: dict[str, Any] = {"oneOf": [{"required": ["stacks"]}, {"required": ["setups"]}]}


class ScenarioPart(Part):
    """A scenario of seatrial."""

    model_config = ConfigDict(json_schema_extra=_STACKS_OR_SETUPS)

    name: PlainName = Field(description="Name of the scenario.")
    about: Text = Field("", description="The question it answers, in a sentence.")
    params: dict[ParamName, ParamValues] = Field(
        {}, description="Values to use as ${name}; a list makes one trial per value."
    )
    nodes: NodeEntries = Field(description="Groups of nodes, or {existing: SELECTOR}, or name → one of both.")
    stacks: Annotated[list[Annotated[Text, one_of("stack")]], Field(min_length=1)] | None = Field(
        None, description="Stacks to compare on the same nodes: short for one set-up per stack."
    )
    setups: Annotated[dict[PlainName, SetupPart], Field(min_length=1)] | None = Field(
        None, description="What is compared: name → nodes, stack, client, settings."
    )
    settings: SettingsPart | None = Field(None, description="Settings of components, for all set-ups.")
    client: ClientPart | None = Field(None, description="The submitting client, for all set-ups.")
    namespaces: Annotated[int, whole_number(1, MOST_NAMESPACES)] | None = Field(
        None, description="So many namespaces are made before the steps, for what create phases make."
    )
    steps: Annotated[list[StepPart], Field(min_length=1)] = Field(
        description="What happens, one step after another; the phases of a step run side by side."
    )
    repeat: Annotated[int, whole_number(1, 10_000)] = Field(1, description="How often each trial is repeated.")
    seed: Annotated[int, whole_number(0, LARGEST_SEED)] = Field(1, description="Seed of everything random.")
    answer: Annotated[
        list[Annotated[str, BeforeValidator(_figure)]],
        BeforeValidator(notation.as_list, json_schema_input_type=str | list[str]),
    ] = Field([], description="The figures that answer the question of `about`, the most telling first.")
    expect: Annotated[list[Condition], BeforeValidator(notation.as_list, json_schema_input_type=str | list[str])] = (
        Field([], description="What must hold at the end, over all repeats, like completed == submitted.")
    )

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[Found]:
        if "stacks" in written and "setups" in written:
            return [Found("stacks", "'stacks' and 'setups' contradict each other", "write the stacks as set-ups")]
        if "stacks" not in written and "setups" not in written:
            return [Found("", "the scenario has neither 'stacks' nor 'setups'", "add stacks: [default]")]
        stacks = written["stacks"] if isinstance(written.get("stacks"), list) else []
        return [
            Found("stacks", f"'{stack}' stands twice", "list each stack once")
            for number, stack in enumerate(stacks)
            if stack in stacks[:number]
        ]
