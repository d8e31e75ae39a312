"""Kubernetes' label selectors as text (`pool=batch,gpu in (a, b),!spot`), taken apart into what a pod's node affinity takes.

The server evaluates the text when we list nodes; a pod cannot carry the text, so it is parsed once, by Kubernetes' own rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PREFIX = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_KEY = rf"(?:{_PREFIX}/)?{_NAME}"
_VALUE = rf"({_NAME})?"
LONGEST_NAME = 63  # of a key without its prefix, and of a value
LONGEST_PREFIX = 253
_SET = re.compile(rf"(?P<key>{_KEY})\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL = re.compile(rf"(?P<key>{_KEY})\s*(?P<operator>==?|!=)\s*(?P<value>{_VALUE})")
_THERE = re.compile(rf"(?P<absent>!\s*)?(?P<key>{_KEY})")


def is_label_key(text: str) -> bool:
    """Whether Kubernetes takes it as the key of a label or taint."""
    prefix, _, name = text.rpartition("/")
    return bool(re.fullmatch(_KEY, text)) and len(name) <= LONGEST_NAME and len(prefix) <= LONGEST_PREFIX


def is_label_value(text: str) -> bool:
    """Whether Kubernetes takes it as the value of a label or taint."""
    return bool(re.fullmatch(_VALUE, text)) and len(text) <= LONGEST_NAME


@dataclass(frozen=True, slots=True)
class Term:
    """One requirement on a node's labels: `operator` is In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


def parse_selector(text: str) -> tuple[Term, ...]:
    """All its requirements. `ValueError` says what is wrong and what to write."""
    parts = [part.strip() for part in re.split(r",(?![^()]*\))", text)]
    if not any(parts):
        raise ValueError("an empty selector means every node; write labels like pool=batch")
    return tuple(_term(part) for part in parts)


def _term(text: str) -> Term:
    if match := _SET.fullmatch(text):
        values = tuple(value.strip() for value in match["values"].split(","))
        if all(values) and all(re.fullmatch(_VALUE, value) for value in values):
            return Term(match["key"], "In" if match["operator"] == "in" else "NotIn", values)
    elif match := _EQUAL.fullmatch(text):
        return Term(match["key"], "NotIn" if match["operator"] == "!=" else "In", (match["value"],))
    elif match := _THERE.fullmatch(text):
        return Term(match["key"], "DoesNotExist" if match["absent"] else "Exists")
    raise ValueError(f"'{text[:60]}' is not a label selector; write it like pool=batch, pool in (a, b), gpu or !spot")
