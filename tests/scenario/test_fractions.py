"""Fractions of what Kubernetes counts in pieces are refused wherever an amount can be written."""
# ruff: noqa: E501

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.units import NotWhole, parse_quantity
from tests.scenario.support import NODES, mistakes, trials, with_steps, with_submit


def with_nodes(group: str) -> str:
    return with_steps("  - pause: 1s").replace(NODES, f"nodes: [{group}]\n")


# What is written → in which text, with which value.
WAYS_IN = {
    "requests": ("460m", "460m", with_submit("count: 1, duration: 1s, requests: {cpu: 1, nvidia.com/gpu: 460m}")),
    "declares": ("0.5", "0.5", with_submit("count: 1, duration: 1s, declares: {nvidia.com/gpu: 0.5}")),
    "a param": ('"${g}"', "0.5", "params: {g: 0.5}\n" + with_submit('count: 1, duration: 1s, requests: {nvidia.com/gpu: "${g}"}')),
    "a calculated param": ('"${g / 2}"', "1.5", "params: {g: 3}\n" + with_submit('count: 1, duration: 1s, requests: {nvidia.com/gpu: "${g / 2}"}')),
    "capacity": ("1.5", "1.5", with_nodes("{name: a, count: 1, capacity: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 1.5}}")),
    "pods of a node": ("1500m", "1500m", with_nodes("{name: a, count: 1, capacity: {cpu: 1, memory: 1Gi, pods: 1500m}}")),
    "nodes that join": ("1e-1", "0.1", with_steps("  - nodes: {add: {name: a, count: 1, capacity: {cpu: 1, memory: 1Gi, a.b/c: 1e-1}}}")),
    "an overlay": ("1m", "1m", with_submit("count: 1, duration: 1s, overlay: {spec: {template: {spec: {containers: [{name: a, resources: {limits: {a.b/c: 1m}}}]}}}}")),
    "an object of a load": ("0.1", "0.1", with_steps("  - create: {count: 1, objects: {apiVersion: v1, kind: Pod, spec: {containers: [{resources: {requests: {cpu: 1m, a.b/c: 0.1}}}]}}}")),
}  # fmt: skip


@pytest.mark.parametrize(("written", "value", "text"), WAYS_IN.values(), ids=WAYS_IN.keys())
def test_a_fraction_of_an_extended_resource_is_refused_at_its_place(written: str, value: str, text: str) -> None:
    found = mistakes(text)
    assert len(found) == 1, found
    place = text.rindex(written)
    line, column = text[:place].count("\n") + 1, place - text.rfind("\n", 0, place)
    assert found[0].startswith(f"s.yaml:{line}:{column}: '{value}' is not a whole number of ")
    assert "write a whole number: Kubernetes refuses fractions of it" in found[0]


def test_the_values_of_the_command_line_are_looked_at_too() -> None:
    text = "params: {g: 1}\n" + with_submit('count: 1, duration: 1s, requests: {nvidia.com/gpu: "${g}"}')
    assert trials(text)
    assert "'250m' is not a whole number" in mistakes(text, sets={"g": ["250m"]})[0]


@given(
    st.fractions(0, 1000, max_denominator=1000),
    st.sampled_from(["nvidia.com/gpu", "pods", "example.com/thing", "cpu", "memory", "storage", "hugepages-2Mi"]),
)
def test_only_cpu_and_bytes_have_fractions_and_whole_numbers_are_always_taken(amount: Fraction, resource: str) -> None:
    milli = Fraction(round(amount * 1000), 1000)
    text = f"{milli.numerator * 1000 // milli.denominator}m"
    if milli.denominator == 1 or resource in ("cpu", "memory", "storage", "hugepages-2Mi"):
        exact = milli * (1000 if resource == "cpu" else 1)
        assert 0 <= parse_quantity(text, resource) - exact < 1
    else:
        with pytest.raises(NotWhole):
            parse_quantity(text, resource)
