"""Types of single values: durations, quantities, rates, spans, taints, names.

A type converts the text to the integer or plain data of the plan, and describes itself to editors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from seatrial.model.plan import Scalar, Span, Taint, Toleration
from seatrial.model.selectors import LONGEST_NAME, is_label_key, is_label_value, parse_selector
from seatrial.model.units import HOUR, parse_duration, parse_quantity, parse_rate
from seatrial.scenario.fields import FieldMistake, several, shown, wrong
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.yaml_scalars import spell

LONGEST_TEXT = 100  # of a duration, quantity or rate
LONGEST_DURATION = 3650 * 24 * HOUR  # ten years; times are 64-bit nanoseconds and are added up
LARGEST_AMOUNT = 2**62
OBJECT_NAME = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"  # a DNS label
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_DURATION_PATTERN = r"^0$|^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d))+$"
_SPAN_PATTERN = r"^[0-9.a-zµ]+(\s*\.\.\s*[0-9.a-zµ]+)?$"
_QUANTITY_PATTERN = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?([numkMGTPE]|[KMGTPE]i)?$"
_RATE_PATTERN = r"^[0-9]+(\.[0-9]+)?\s*/\s*(s|m|h)$"


def _text(value: Any, example: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or len(str(value)) > LONGEST_TEXT:
        raise wrong(f"{shown(value)} is not allowed here", f"write it like {example}")
    return str(value)


def _of_units(parse: Callable[[str], Any], text: str) -> Any:
    """The parsers of `units` raise `what; remedy` as one sentence."""
    try:
        return parse(text)
    except ValueError as error:
        what, _, remedy = str(error).partition("; ")
        raise wrong(what, remedy) from None


def duration(value: Any) -> int:
    """`1m30s` in nanoseconds."""
    nanoseconds: int = _of_units(parse_duration, _text(value, "10s, 1m30s or 250ms"))
    if nanoseconds > LONGEST_DURATION:
        raise wrong(f"{shown(value)} is longer than ten years", "times are 64-bit nanoseconds; write a shorter one")
    return nanoseconds


def positive_duration(value: Any) -> int:
    """The same, above zero."""
    nanoseconds = duration(value)
    if not nanoseconds:
        raise wrong(f"{shown(value)} takes no time", "write a duration above zero, like 10s")
    return nanoseconds


def span(value: Any) -> Span:
    """`1s` is always one second, `1s..3s` evenly between one and three."""
    least, dots, most = _text(value, "1s or 1s..3s").partition("..")
    low = duration(least.strip())
    high = duration(most.strip()) if dots else low
    if high < low:
        raise wrong(f"{shown(value)} ends before it begins", f"write {most.strip()}..{least.strip()}")
    return Span(low, high)


def rate(value: Any) -> float:
    """`30/m` per second."""
    per_s: float = _of_units(parse_rate, _text(value, "10/s, 0.5/s or 30/m"))
    return per_s


def amounts(value: Any) -> dict[str, int]:
    """Resource → integer amount. Zero amounts stay: their meaning depends on the field."""
    if not isinstance(value, dict):
        raise wrong("amounts are a mapping", "write it like {cpu: 500m, memory: 1Gi}")
    found: list[FieldMistake] = []
    result: dict[str, int] = {}
    for resource, text in value.items():
        try:
            result[resource] = quantity(text, resource)
        except PydanticCustomError as error:
            context = error.context or {}
            found.append(FieldMistake(resource, context["what"], context["remedy"]))
    if found:
        raise several(found)
    return result


def capacity(value: Any) -> dict[str, int]:
    """The amounts of a node; CPU and memory are required."""
    found = [
        FieldMistake("", f"capacity has no {resource}", f"add it, like {resource}: {example}")
        for resource, example in (("cpu", "8"), ("memory", "32Gi"))
        if isinstance(value, dict) and (resource not in value or value[resource] in (0, "0"))
    ]
    try:
        result = amounts(value)
    except PydanticCustomError as error:
        raise several([*found, *(error.context or {})["found"]]) if error.type == "several" else error from None
    if found:
        raise several(found)
    return result


def quantity(value: Any, resource: str) -> int:
    """An amount of a resource as Kubernetes writes it."""
    text = _text(value, "500m, 2, 50M or 256Gi")
    amount: int = _of_units(lambda text: parse_quantity(text, resource), text)
    if amount > LARGEST_AMOUNT:
        raise wrong(f"{shown(value)} of {resource} is more than 64 bits hold", "write a smaller amount")
    return amount


def taint(value: Any) -> Taint:
    """`key=value:Effect` or `key:Effect`"""
    key, colon, effect = (value if isinstance(value, str) else "").rpartition(":")
    if not colon or not key.partition("=")[0]:
        raise wrong(f"{shown(value)} is not a taint", "write it like key=value:NoSchedule or key:NoSchedule")
    name, _, content = key.partition("=")
    return Taint(label_key(name), _label_value(content), _effect(effect))


def toleration(value: Any) -> Toleration:
    """`*`, `key`, `key:Effect`, `key=value`, `key=value:Effect`"""
    if value == "*":
        return Toleration()
    key, colon, effect = (value if isinstance(value, str) else "").partition(":")
    name, equals, content = key.partition("=")
    if not name or (colon and not effect):
        raise wrong(
            f"{shown(value)} is not a toleration", 'write it like key=value:NoSchedule, key:NoSchedule, key or "*"'
        )
    operator = "Equal" if equals else "Exists"
    return Toleration(label_key(name), operator, _label_value(content), _effect(effect) if colon else "")


def selector(value: Any) -> str:
    """A label selector, kept as written, for the API server."""
    if not isinstance(value, str):
        raise wrong(f"{shown(value)} is not a label selector", 'write it in quotes, like "pool=batch,!spot"')
    _of_units(parse_selector, value)
    return value


def _effect(effect: str) -> str:
    if effect not in EFFECTS:
        raise wrong(f"unknown effect '{effect}'", remedy_for(effect, EFFECTS))
    return effect


EXEMPT = "system:masters"
LARGEST_PAYLOAD = 1_000_000  # etcd takes requests of 1.5 MiB


def user_name(value: Any) -> str:
    """Of a user or group. An identity that Priority & Fairness exempts would measure nothing."""
    if not isinstance(value, str) or not re.fullmatch(r"[-A-Za-z0-9:._@]{1,100}", value):
        raise wrong(f"{shown(value)} cannot be a user or group", "use letters, digits and : - . _ @")
    if value == EXEMPT:
        raise wrong(
            f"a load never runs as {EXEMPT}: the server exempts it from Priority & Fairness", "choose another group"
        )
    return value


def payload(value: Any) -> int:
    """The size of a payload in bytes."""
    size = quantity(value, "memory")
    if not 0 < size <= LARGEST_PAYLOAD:
        raise wrong(
            f"{shown(value)} is not the size of a payload", f"write at least 1 and at most {LARGEST_PAYLOAD // 1000}k"
        )
    return size


def label(value: Any) -> str:
    """Labels are text; whole numbers and booleans are taken as written, 1.10 is not (it would become 1.1)."""
    if isinstance(value, str):
        return _label_value(value)
    if isinstance(value, int):
        return _label_value(spell(value))
    raise wrong(f"{shown(value)} is not a label's text", "put it in quotes")


def label_key(value: Any) -> str:
    """The key of a label or taint, as the API server takes it: `zone` or `example.com/zone`."""
    if isinstance(value, str) and is_label_key(value):
        return value
    remedy = f"use at most {LONGEST_NAME} letters, digits and - _ . as in zone or example.com/zone"
    raise wrong(f"{shown(value)} cannot be the key of a label or taint", remedy)


def _label_value(value: str) -> str:
    if is_label_value(value):
        return value
    remedy = f"use at most {LONGEST_NAME} letters, digits and - _ . with a letter or digit at both ends"
    raise wrong(f"{shown(value)} cannot be the value of a label or taint", remedy)


def scalar(value: Any) -> Scalar:
    """Any single value."""
    if not isinstance(value, str | int | float):
        raise wrong(f"{shown(value)} is not allowed here", "write one number, text, true or false")
    return value


def whole(value: Any) -> Any:
    """A whole number, with a message of ours instead of pydantic's."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(f"{shown(value)} is not a whole number", "write one like 10")
    return value


def bounded(value: Any, least: int, most: int) -> int:
    """A whole number in bounds."""
    number: int = whole(value)
    if number < least:
        raise wrong(f"{number} is less than {least}", f"write {least} or more")
    if number > most:
        raise wrong(f"{number} is more than {most}", f"write {most} or less")
    return number


def whole_number(least: int, most: int = 2**31 - 1) -> BeforeValidator:
    """A whole number in bounds, as a type."""
    return BeforeValidator(
        lambda value: bounded(value, least, most), json_schema_input_type=Annotated[int, Field(ge=least, le=most)]
    )


def name_like(pattern: str, longest: int, remedy: str) -> BeforeValidator:
    """A name that becomes part of object names, labels or directories."""

    def check(value: Any) -> Any:
        if not isinstance(value, str) or len(value) > longest or not re.fullmatch(pattern, value):
            raise wrong(f"{shown(value)} cannot be a name here", remedy)
        return value

    as_text = Annotated[str, Field(pattern=f"^{pattern}$", max_length=longest)]
    return BeforeValidator(check, json_schema_input_type=as_text)


def choice(word: str, options: Sequence[str]) -> BeforeValidator:
    """One of a few words."""

    def check(value: Any) -> Any:
        if value not in options:
            raise wrong(f"unknown {word} {shown(value)}", remedy_for(str(value), options))
        return value

    as_word = Annotated[str, Field(json_schema_extra={"enum": list(options)})]
    return BeforeValidator(check, json_schema_input_type=as_word)


def text(value: Any) -> Any:
    """Text, which numbers are not."""
    if not isinstance(value, str):
        raise wrong(f"{shown(value)} is not text", "put it in quotes")
    return value


def flag(value: Any) -> Any:
    """True or false."""
    if not isinstance(value, bool):
        raise wrong(f"{shown(value)} is neither true nor false", "write true or false")
    return value


def _string(pattern: str, *examples: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": list(examples)})


ONE_AMOUNT = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": _QUANTITY_PATTERN}]}

Duration = Annotated[int, BeforeValidator(duration), _string(_DURATION_PATTERN, "10s", "1m30s", "250ms")]
LastingDuration = Annotated[int, BeforeValidator(positive_duration), _string(_DURATION_PATTERN, "10s", "1m30s")]
DurationText = Annotated[str, Field(pattern=r"^[0-9.a-zµ]+$")]  # beside a mapping
SpanText = Annotated[Any, BeforeValidator(span), _string(_SPAN_PATTERN, "1s", "1s..3s")]
Rate = Annotated[float, BeforeValidator(rate), _string(_RATE_PATTERN, "10/s", "30/m")]
_AMOUNTS = {"type": "object", "additionalProperties": ONE_AMOUNT, "examples": [{"cpu": 1, "memory": "2Gi"}]}
AmountMap = Annotated[dict[str, int], BeforeValidator(amounts), WithJsonSchema(_AMOUNTS)]
CapacityMap = Annotated[
    dict[str, int], BeforeValidator(capacity), WithJsonSchema({**_AMOUNTS, "required": ["cpu", "memory"]})
]
PayloadSize = Annotated[int, BeforeValidator(payload), WithJsonSchema(ONE_AMOUNT)]
UserName = Annotated[str, BeforeValidator(user_name), _string("^[-A-Za-z0-9:._@]+$", "tenant-a")]
TaintText = Annotated[Any, BeforeValidator(taint), _string("^[^:=]+(=[^:]*)?:.+$", "key=value:NoSchedule")]
TolerationText = Annotated[Any, BeforeValidator(toleration), _string("^.+$", "key=value:NoSchedule", "key", "*")]
SelectorText = Annotated[str, BeforeValidator(selector), _string("^.+$", "pool=batch", "pool in (a, b),!spot")]
LabelKey = Annotated[str, BeforeValidator(label_key), WithJsonSchema({"type": "string"})]
LabelText = Annotated[str, BeforeValidator(label), WithJsonSchema({"type": ["string", "integer", "boolean"]})]
ScalarValue = Annotated[Any, BeforeValidator(scalar), WithJsonSchema({"type": ["string", "number", "boolean"]})]
Text = Annotated[str, BeforeValidator(text)]
Flag = Annotated[bool, BeforeValidator(flag)]
Count = Annotated[int, whole_number(1)]
ObjectName = Annotated[
    str,
    name_like(OBJECT_NAME, 40, "use at most 40 of a-z, 0-9 and -; Kubernetes objects are named after it"),
]
PlainName = Annotated[str, name_like("[A-Za-z0-9][-A-Za-z0-9+._]*", 60, "use at most 60 letters, digits and + - . _")]
ParamName = Annotated[
    str, name_like("[A-Za-z_][A-Za-z0-9_]*", 40, "use letters, digits and _, so that `expect` can name it")
]
