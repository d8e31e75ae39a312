"""Teams of a scenario: queues with quotas, cohorts, flavors, rules of preemption; what a user writes, close to Kueue's words.

A mapping checks what can be said of it alone; what needs other parts of the file is checked in `fleet_planning`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from seatrial.model.fleet import ANY, LOWER, LOWER_OR_NEWER, NEVER
from seatrial.scenario.field_types import (
    OBJECT_NAME,
    ONE_AMOUNT,
    Flag,
    ObjectName,
    Text,
    amounts,
    bounded,
    choice,
    name_like,
    quantity,
    whole_number,
)
from seatrial.scenario.fields import FieldMistake, Fields, KnownNames, alone, one_of, several, shown, wrong
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.params import MOST_ALIKE, REFERENCE

EACH = "each"  # `queue: each`: the same load in every queue
NONE = "none"
HIGHEST_PRIORITY = 1_000_000_000  # of a PriorityClass; Kubernetes keeps what is above for its own
LOWEST_PRIORITY = -(2**31)
LARGEST_WEIGHT = 1_000_000

Priority = Annotated[int, whole_number(LOWEST_PRIORITY, HIGHEST_PRIORITY)]


def _known(info: ValidationInfo, kind: str) -> list[str] | None:
    found = info.context.names.get(kind) if isinstance(info.context, KnownNames) else None
    return None if found is None else list(found)


def queue_entry_name(value: Any) -> Any:
    """The name of a queue or cohort; `${i}` in it is a number."""
    if isinstance(value, str):
        name = REFERENCE.sub("0", value)
        if name == EACH:
            raise wrong("a queue cannot be called 'each'", "`queue: each` means every queue; choose another name")
        if not re.fullmatch(OBJECT_NAME, name) or len(name) > 40:
            raise wrong(
                f"{shown(value)} cannot be the name of a queue or a cohort",
                "use at most 40 of a-z, 0-9 and -, with ${i} for the number where there is a `count`",
            )
    return value


def quota(value: Any, info: ValidationInfo) -> dict[str, dict[str, int]]:
    """Flavor → resource → amount. Without flavors: of the only flavor, else of all nodes (the flavor "")."""
    if not isinstance(value, dict):
        raise wrong(f"{shown(value)} is not a quota", "write it like {cpu: 64, nvidia.com/gpu: 16}")
    if not value:
        raise wrong("an empty quota", "write it like {cpu: 64}")
    flavors = _known(info, "flavor")
    nested = [key for key, amount in value.items() if isinstance(amount, dict)]
    if not nested:
        return {flavors[0] if flavors and len(flavors) == 1 else "": amounts(value)}
    found = [
        FieldMistake(key, f"'{key}' is not an amount per resource", "write every flavor as {cpu: 64}")
        for key in value
        if key not in nested
    ]
    for flavor in nested:
        if flavors is not None and flavor not in flavors:
            remedy = remedy_for(flavor, flavors) if flavors else "add `flavors:` to the scenario, or write {cpu: 64}"
            found.append(FieldMistake(flavor, f"unknown flavor '{flavor}'", remedy))
    if found:
        raise several(found)
    return {flavor: _amounts_in(flavor, value[flavor]) for flavor in nested}


def _amounts_in(flavor: str, value: Any) -> dict[str, int]:
    try:
        return amounts(value)
    except PydanticCustomError as error:
        context = error.context or {}
        raise several(
            [FieldMistake(flavor, one.what, one.remedy, (one.key, *one.inside)) for one in context["found"]]
        ) from None


def limit(value: Any) -> Any:
    """`none`, `any`, an amount, or these per resource (or per flavor and resource). `fleet_planning` reads it against the quota."""
    if isinstance(value, dict):
        return value
    if value not in (NONE, ANY):
        try:
            quantity(value, "cpu")
        except PydanticCustomError:
            raise wrong(f"{shown(value)} is not a limit", "write none, any, an amount, or {cpu: 32}") from None
    return value


def weight(value: Any) -> float:
    """Checks a weight of a share."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong(f"{shown(value)} is not a weight", "write a number above 0, like 1 or 2.5")
    if not 0 < value <= LARGEST_WEIGHT:
        raise wrong(f"{shown(value)} cannot be a weight", f"write a number above 0, at most {LARGEST_WEIGHT:,}")
    return float(value)


_WEIGHT = WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": LARGEST_WEIGHT})
_LIMIT = {"anyOf": [{"enum": [NONE, ANY]}, *ONE_AMOUNT["anyOf"], {"type": "object"}]}
Weight = Annotated[float, BeforeValidator(weight), _WEIGHT]
Limit = Annotated[Any, BeforeValidator(limit), WithJsonSchema(_LIMIT)]
QuotaMap = Annotated[
    dict[str, dict[str, int]],
    BeforeValidator(quota),
    WithJsonSchema({"type": "object", "additionalProperties": {"anyOf": [*ONE_AMOUNT["anyOf"], {"type": "object"}]}}),
]
QueueEntryName = Annotated[str, BeforeValidator(queue_entry_name)]
Alike = Annotated[int, whole_number(1, MOST_ALIKE)]
ClassName = Annotated[
    str,
    name_like("[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", 60, "use at most 60 letters, digits and - . _ between them"),
]


def queue_name(value: Any, info: ValidationInfo) -> Any:
    """A queue of the scenario, or `each`."""
    known = _known(info, "queue")
    if not isinstance(value, str):
        raise wrong(f"{shown(value)} is not the name of a queue", "write the name of a queue, or each")
    if known is not None and value not in known and not any("${" in name for name in known):  # those are mistakes
        if not known:
            what = "each of which queues?" if value == EACH else f"unknown queue '{value}'"
            raise wrong(what, "add `queues:` to the scenario, or remove `queue`")
        if value != EACH:
            raise wrong(f"unknown queue '{value}'", remedy_for(value, [*known, EACH]))
    return value


def priority(value: Any, info: ValidationInfo) -> Any:
    """A number, or a name of `priorities`."""
    if isinstance(value, str):
        known = _known(info, "priority")
        if known is not None and value not in known:
            remedy = remedy_for(value, known) if known else "write a number, or add `priorities:` to the scenario"
            raise wrong(f"unknown priority '{value}'", remedy)
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(f"{shown(value)} is not a priority", "write a whole number, or a name of `priorities`")
    return bounded(value, LOWEST_PRIORITY, HIGHEST_PRIORITY)


_PRIORITY = {
    "anyOf": [{"type": "integer", "minimum": LOWEST_PRIORITY, "maximum": HIGHEST_PRIORITY}, {"type": "string"}]
}
PriorityOrName = Annotated[Any, BeforeValidator(priority), WithJsonSchema(_PRIORITY)]
QueueReference = Annotated[str, BeforeValidator(queue_name)]


def _without(written: Mapping[str, Any], partner: str, word: str, *keys: str) -> list[FieldMistake]:
    return [
        FieldMistake(key, f"'{key}' without a {word}: no queue to {key} {preposition}", remedy)
        for key, preposition in (("borrow", "from"), ("lend", "to"))
        if key in keys and key in written and partner not in written and written[key] != NONE
        for remedy in (f"add `{partner}:`, or remove `{key}`",)
    ]


class FlavorFields(Fields):
    """One kind of nodes with its own quotas."""

    nodes: Annotated[Text, one_of("node group")] = Field(description="The node group of this flavor.")


class QueueFields(Fields):
    """A team's place in a stack."""

    count: Alike | None = Field(
        None, description="Number of identical queues; `${i}` in the name and in values is 0, 1 …"
    )
    quota: QuotaMap = Field(
        description="The quota: resource → amount, or flavor → resource → amount in the order of trying."
    )
    cohort: QueueEntryName | None = Field(None, description="Queues of a cohort lend each other unused quota.")
    borrow: Limit = Field(ANY, description="Limit of use beyond its quota: none, any, an amount, or {cpu: 32}.")
    lend: Limit = Field(ANY, description="Limit of its quota that others may use: none, any, an amount, or {cpu: 32}.")
    weight: Weight = Field(1.0, description="Its weight in fair sharing.")
    borrow_first: Flag = Field(
        True, alias="borrow-first", description="Borrows in a flavor before it tries the next (whenCanBorrow)."
    )
    preempt_first: Flag = Field(
        False, alias="preempt-first", description="Preempts in a flavor before it tries the next (whenCanPreempt)."
    )

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[FieldMistake]:
        return _without(written, "cohort", "cohort", "borrow", "lend")


class CohortFields(Fields):
    """A cohort with a quota or a parent of its own."""

    count: Alike | None = Field(
        None, description="Number of identical cohorts; `${i}` in the name and in values is 0, 1 …"
    )
    quota: QuotaMap | None = Field(None, description="Quota for its queues in addition to their own.")
    parent: QueueEntryName | None = Field(None, description="The cohort that this one is part of.")
    borrow: Limit = Field(
        ANY, description="Limit of use beyond its own and its queues' quotas: none, any, an amount, or {cpu: 32}."
    )
    lend: Limit = Field(
        ANY, description="Limit of its own quota that others may use: none, any, an amount, or {cpu: 32}."
    )
    weight: Weight = Field(1.0, description="Its weight in fair sharing.")

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[FieldMistake]:
        found = _without(written, "parent", "parent", "borrow", "lend")
        wrong_already = {mistake.key for mistake in found}
        return found + [m for m in alone(written, borrow="quota", lend="quota") if m.key not in wrong_already]


class PreemptionFields(Fields):
    """Rules of preemption."""

    within_queue: Annotated[str, choice("rule", (NEVER, LOWER, LOWER_OR_NEWER))] = Field(
        NEVER,
        alias="within-queue",
        description="Which workloads of its own queue a workload may evict: never, lower-priority, lower-or-newer-equal-priority.",
    )
    reclaim: Annotated[str, choice("rule", (NEVER, LOWER, ANY))] = Field(
        NEVER,
        description="Which workloads of borrowing queues it may evict to reclaim its queue's quota: never, lower-priority, any.",
    )
    while_borrowing: Annotated[str, choice("rule", (NEVER, LOWER))] = Field(
        NEVER,
        alias="while-borrowing",
        description="Which workloads of other queues it may evict while its own queue borrows: never, lower-priority.",
    )
    while_borrowing_up_to: PriorityOrName | None = Field(
        None,
        alias="while-borrowing-up-to",
        description="With `while-borrowing`: only workloads of at most this priority, by name or number.",
    )
    fair_sharing: Flag = Field(
        False, alias="fair-sharing", description="Whether the queue with the smallest share by weight goes first."
    )


Queues = Annotated[dict[QueueEntryName, QueueFields], Field(min_length=1)]
Cohorts = Annotated[dict[QueueEntryName, CohortFields], Field(min_length=1)]
Flavors = Annotated[dict[ObjectName, FlavorFields], Field(min_length=1)]
Priorities = Annotated[dict[ObjectName, Priority], Field(min_length=1)]
