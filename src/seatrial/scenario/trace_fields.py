"""The fields of a submit that replays a trace, and what they become: `TraceOptions` of the readers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from seatrial.scenario.field_types import Count, Duration, Flag, Text, choice, duration, positive_duration
from seatrial.scenario.fields import FieldMistake, Fields, KnownNames, alone, shown, wrong
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.queue_fields import HIGHEST_PRIORITY, LOWEST_PRIORITY
from seatrial.traces.options import BY, EACH, FRACTIONS, OTHERS, ROUND_UP, NameMap, TraceOptions, TraceSample

FORMAT_NAMES = ("seatrial", "sktrace", "swf", "sacct", "openb", "philly", "table")
LARGEST_FACTOR = 1e6
# What a trace says of every workload, or what only a made-up load has.
NOT_WITH_A_TRACE = (
    "count", "pods", "sizes", "each", "order", "duration", "declares", "rate", "arrival", "burst", "every", "parallel", "delay",
)  # fmt: skip


def factor(value: Any) -> float:
    """A number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(f"{shown(value)} is not a factor", "write a number above 0, like 2 or 0.5")
    if not 1 / LARGEST_FACTOR <= value <= LARGEST_FACTOR:
        raise wrong(f"{shown(value)} cannot be a factor", "write a number from 0.000001 to 1000000")
    return float(value)


def speed(value: Any) -> float | int:
    """A factor, or for `fit into 1h` the nanoseconds that all arrivals must fit into."""
    if isinstance(value, str) and (fit := re.fullmatch(r"\s*fit\s+into\s+(\S+)\s*", value)):
        return positive_duration(fit[1])
    try:
        return factor(value)
    except PydanticCustomError as error:
        context = error.context or {}
        raise wrong(context["what"], f"{context['remedy']}, or fit into 1h") from None


def moment(value: Any) -> int | str:
    """A time since the trace's beginning, or a date."""
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d", value):
        return value
    nanoseconds: int = duration(value)
    return nanoseconds


def share_of_jobs(value: Any) -> float:
    """Above 0, at most 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise wrong(f"{shown(value)} is not a share", "write a number above 0, at most 1, like 0.1")
    return float(value)


def mapped_column(value: Any) -> tuple[str, str]:
    """`started`, or `{column: started, unit: ms}`."""
    if isinstance(value, str) and value:
        return value, ""
    if isinstance(value, dict) and value.keys() <= {"column", "unit"} and isinstance(value.get("column"), str):
        return value["column"], str(value.get("unit", ""))
    raise wrong(f"{shown(value)} is not a column", "write its name, or {column: NAME, unit: ms}")


def mapped_columns(value: Any) -> dict[str, tuple[str, str]]:
    """Field → column of the file and its unit."""
    from seatrial.traces.mapped_tables import MAPPED  # polars: imported once a scenario has a trace

    if not isinstance(value, dict) or not value:
        raise wrong(f"{shown(value)} is no mapping of columns", "write it like {submit: arrived_at, duration: runtime}")
    found = {}
    for field, column in value.items():
        if field not in MAPPED:
            raise wrong(f"unknown field '{field}' of a trace", remedy_for(field, MAPPED))
        name, unit = mapped_column(column)
        units = MAPPED[field].units
        if unit and unit not in units:
            raise wrong(f"unknown unit '{unit}' of {field}", remedy_for(unit, filter(None, units)))
        found[field] = name, unit
    return found


_FACTOR = {"type": "number", "exclusiveMinimum": 0}
Factor = Annotated[float, BeforeValidator(factor), WithJsonSchema(_FACTOR)]
Speed = Annotated[
    Any,
    BeforeValidator(speed),
    WithJsonSchema({"anyOf": [_FACTOR, {"type": "string", "pattern": r"^\s*fit\s+into\s+\S+\s*$"}]}),
]
Moment = Annotated[
    Any, BeforeValidator(moment), WithJsonSchema({"type": "string", "examples": ["2d", "2017-10-09T07:00"]})
]
ShareOfJobs = Annotated[
    float, BeforeValidator(share_of_jobs), WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1})
]
_COLUMN = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {"column": {"type": "string"}, "unit": {"type": "string"}},
            "required": ["column"],
        },
    ]
}
ColumnMap = Annotated[
    Any,
    BeforeValidator(mapped_columns),
    WithJsonSchema({"type": "object", "additionalProperties": _COLUMN, "minProperties": 1}),
]
By = Annotated[str, choice("column of a trace", BY)]


def queue_targets(value: Any, info: ValidationInfo) -> Any:
    """Value of the trace → queue of the scenario; `*` is every other value, for which `each` spreads them."""
    known = info.context.names.get("queue") if isinstance(info.context, KnownNames) else None
    if not isinstance(value, dict) or not value:
        raise wrong(f"{shown(value)} is not a mapping of names", "write it like {batch: red, '*': blue}")
    for name, queue in value.items():
        spread = name == OTHERS and queue == EACH
        if not isinstance(queue, str) or (known is not None and queue not in known and not spread):
            raise wrong(f"unknown queue {shown(queue)}", remedy_for(str(queue), list(known or ())))
    return {str(name): queue for name, queue in value.items()}


def priority_targets(value: Any) -> Any:
    """Value of the trace → priority."""
    if not isinstance(value, dict) or not value:
        raise wrong(f"{shown(value)} is not a mapping of names", "write it like {LS: 100, '*': 0}")
    for number in value.values():
        good = isinstance(number, int) and not isinstance(number, bool)
        if not good or not LOWEST_PRIORITY <= number <= HIGHEST_PRIORITY:
            raise wrong(f"{shown(number)} is not a priority", "write a whole number, like 100")
    return {str(name): number for name, number in value.items()}


_TEXTS = WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1})
_NUMBERS = WithJsonSchema({"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1})


class QueueMapFields(Fields):
    """The mapping of jobs to queues."""

    by: By = Field("queue", description="Column of the trace: queue, partition, user, group or class.")
    to: Annotated[Any, BeforeValidator(queue_targets), _TEXTS] = Field(
        description="Its value → queue of the scenario; '*' is every other value, '*': each spreads them over the queues."
    )


class PriorityMapFields(Fields):
    """The mapping of jobs to priorities."""

    by: By = Field("class", description="Column of the trace: queue, partition, user, group or class.")
    to: Annotated[Any, BeforeValidator(priority_targets), _NUMBERS] = Field(
        description="Its value → priority; '*' is every other value (0 if not given)."
    )


class NameMapFields(Fields):
    """The mapping of a trace's names."""

    queue: QueueMapFields | None = Field(
        None, description="Which jobs go to which queue: {by: partition, to: {long: red}}."
    )
    priority: PriorityMapFields | None = Field(None, description="Priorities: {by: class, to: {LS: 100, '*': 0}}.")
    label: By | None = Field(
        None, alias="class", description="Column that figures are grouped by: user, queue and so on."
    )
    processors_per_pod: Count = Field(
        1, alias="processors-per-pod", description="Processors of a pod, where the trace has processors per job."
    )
    gpus_per_pod: Count = Field(8, alias="gpus-per-pod", description="GPUs of a pod, where the trace has GPUs per job.")
    share_nodes: Flag = Field(
        True, alias="share-nodes", description="false: every pod takes all `processors-per-pod`, even of a smaller job."
    )


class SampleFields(Fields):
    """A share of a trace."""

    share: ShareOfJobs = Field(description="Above 0, at most 1.")
    by: Annotated[str, choice("way to sample", ("job", "user"))] = Field(
        "job", description="job: each by itself; user: all jobs of this share of the users."
    )
    seed: Annotated[int, Field(ge=0)] = Field(1, description="The same seed keeps the same jobs.")


class ScaleFields(Fields):
    """Larger or longer jobs than those of the trace."""

    sizes: Factor = Field(1.0, description="Pods of every job × this, rounded, at least 1.")
    durations: Factor = Field(1.0, description="Durations × this.")


class UnknownFields(Fields):
    """Values for fields that the trace does not know."""

    duration: Duration | None = Field(None, description="Of jobs of unknown duration; not given: they are left out.")
    size: Count | None = Field(None, description="Processors of jobs of unknown size; not given: they are left out.")


class TraceFields(Fields):
    """A trace to replay."""

    trace: Text | None = Field(
        None,
        description="File of a trace to replay, relative to the scenario; count, pods, durations and times are its own.",
    )
    format: Annotated[str, choice("format", FORMAT_NAMES)] | None = Field(
        None, description="Format of the trace, if it is not to be found out by its content."
    )
    columns: ColumnMap | None = Field(
        None, description="For a CSV or Parquet file of any layout: field → column, or {column: NAME, unit: ms}."
    )
    strict: Flag = Field(False, description="true: refuse a trace with unusable lines instead of leaving those out.")
    speed: Speed | None = Field(
        None, description="Factor by which arrivals and durations are faster, or `fit into 1h`."
    )
    since: Moment | None = Field(
        None, alias="from", description="Begin here: a time since the trace's beginning, or a date."
    )
    until: Moment | None = Field(None, description="End before this: a time since the trace's beginning, or a date.")
    head: Count | None = Field(None, description="Only the first jobs.")
    sample: SampleFields | None = Field(None, description="A share of the jobs or users: {share: 0.1, by: user}.")
    scale: ScaleFields | None = Field(None, description="Larger or longer jobs: {sizes: 2, durations: 0.5}.")
    map: NameMapFields | None = Field(None, description="Mapping of queues, users and processors of the trace.")
    fractions: Annotated[str, choice("way with fractions", FRACTIONS)] = Field(
        ROUND_UP, description="Fractions of a GPU become: up (a whole GPU), milli (nvidia.com/gpu-milli) or drop."
    )
    think: Flag = Field(
        False, description="true: a job that follows another waits for its end and the think time of the trace."
    )
    unknown: UnknownFields | None = Field(None, description="Values for unknown fields: {duration: 1h, size: 1}.")

    @classmethod
    def of_traces(cls, written: Mapping[str, Any]) -> list[FieldMistake]:
        """Rejects fields that contradict a trace, or need one."""
        options = [field.alias or name for name, field in TraceFields.model_fields.items() if name != "trace"]
        if "trace" not in written:
            return alone(written, **dict.fromkeys(options, "trace"))
        found = [
            FieldMistake(key, f"'{key}' and 'trace' contradict each other: the trace says it", f"remove `{key}`")
            for key in NOT_WITH_A_TRACE
            if key in written
        ]
        mapped = written["map"] if isinstance(written.get("map"), dict) else {}
        if "queue" in written and "queue" in mapped:
            what = "'queue' and 'map: {queue: …}' contradict each other"
            found.append(FieldMistake("queue", what, "remove one of them"))
        return found


def trace_options(fields: TraceFields, queues: tuple[str, ...], queue: str, gang: bool | None) -> TraceOptions:
    """For the readers. `queues`: those of the scenario; `queue`: the one that all jobs go to, or empty."""
    names = fields.map or NameMapFields.model_construct()
    sample = fields.sample
    scale = fields.scale or ScaleFields.model_construct()
    unknown = fields.unknown or UnknownFields.model_construct()
    speed = 1.0 if fields.speed is None else fields.speed
    return TraceOptions(
        format=fields.format or "",
        columns=tuple((field, *column) for field, column in (fields.columns or {}).items()),
        strict=fields.strict,
        speed=speed if isinstance(speed, float) else 1.0,
        into=speed if isinstance(speed, int) else 0,
        since=fields.since,
        until=fields.until,
        head=fields.head or 0,
        sample=TraceSample(sample.share, sample.by, sample.seed) if sample else TraceSample(),
        sizes=scale.sizes,
        durations=scale.durations,
        queue=NameMap(names.queue.by, tuple(names.queue.to.items())) if names.queue else None,
        classes=NameMap(names.label) if names.label else None,
        priority=NameMap(names.priority.by, tuple((k, str(v)) for k, v in names.priority.to.items()))
        if names.priority
        else None,
        queues=queues,
        fixed_queue=queue,
        processors_per_pod=names.processors_per_pod,
        gpus_per_pod=names.gpus_per_pod,
        share_nodes=names.share_nodes,
        think=fields.think,
        fractions=fields.fractions,
        unknown_duration=-1 if unknown.duration is None else unknown.duration,
        unknown_size=unknown.size or 0,
        gang=gang,
    )
