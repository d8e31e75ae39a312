"""What must hold for any input: our errors and no others, and the same file gives the same trials."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seatrial.model.errors import ScenarioProblem, SeatrialError
from seatrial.model.units import format_duration, format_quantity, parse_duration, parse_quantity, parse_rate
from seatrial.scenario.actions import ACTIONS
from seatrial.scenario.actions.submit_workloads import SubmitFields
from seatrial.scenario.actions.wait import WaitFields
from seatrial.scenario.document import from_document, from_text
from seatrial.scenario.expansion import expand
from seatrial.scenario.queue_fields import CohortFields, QueueFields
from seatrial.scenario.schema import ScenarioFields
from seatrial.scenario.yaml_reader import decode
from tests.scenario.support import SMALL, STACKS

KEYS = sorted(
    {*ScenarioFields.model_fields, *SubmitFields.model_fields, *WaitFields.model_fields, *ACTIONS, "for", "add", "x"}
)
WORDS = [
    "default",
    "mcad",
    "completed",
    "1s",
    "10/s",
    "5m",
    "1Gi",
    "${x}",
    "a=b:NoSchedule",
    "*",
    "as shipped",
    "fake",
    "",
]
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=5)
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)
documents = st.dictionaries(st.sampled_from(KEYS), values, max_size=8)


def attempt(document: dict[str, Any]) -> None:
    try:
        expand(from_document(document, "study.json"), on="sim", stacks=STACKS)
    except SeatrialError as problem:
        assert problem.message


@given(documents)
def test_any_document_is_a_scenario_or_our_problem(document: dict[str, Any]) -> None:
    attempt(document)


@given(st.sampled_from([*ScenarioFields.model_fields]), values)
def test_a_sound_scenario_with_one_odd_field_is_a_scenario_or_our_problem(field: str, value: Any) -> None:
    attempt({**from_text(SMALL, "s.yaml").document, field: value})


@given(st.dictionaries(st.sampled_from([*SubmitFields.model_fields]), values, max_size=5))
def test_a_sound_scenario_with_an_odd_submit_is_a_scenario_or_our_problem(fields: dict[str, Any]) -> None:
    sound = {"count": 1, "duration": "1s"}
    attempt({**from_text(SMALL, "s.yaml").document, "steps": [{"submit": {**sound, **fields}}]})


TEAM_KEYS = [
    "red", "cq-${i}", "${x}", "a", "cpu", "memory", "fake", "nodes", "within-queue", "reclaim", "while-borrowing", "fair-sharing",
    "while-borrowing-up-to", "lognormal", "exponential", "choice", "empirical", "median", "sigma", "mean", "most", "file", "column",
    "1", "1s", *QueueFields.model_fields, *CohortFields.model_fields,
]  # fmt: skip
TEAM_WORDS = [
    "red",
    "a",
    "each",
    "any",
    "none",
    "never",
    "lower-priority",
    "${i}",
    "co-${i // 2}",
    "1..8",
    "1s..2s",
    "2",
]
team_values = st.recursive(
    leaves | st.sampled_from(TEAM_WORDS) | st.integers(0, 5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(TEAM_KEYS), inner, max_size=4),
    max_leaves=12,
)
TEAMS = {
    "flavors": {"a": {"nodes": "fake"}},
    "priorities": {"batch": 5},
    "queues": {"red": {"quota": {"cpu": 1}, "cohort": "all"}, "cq-${i}": {"count": 3, "quota": {"cpu": "${i}"}}},
    "cohorts": {"all": {"parent": "a"}},
    "preemption": {"reclaim": "any"},
    "steps": [{"submit": {"count": 1, "duration": "1s", "queue": "red"}}],
}


@given(st.sampled_from([*TEAMS][:-1]), team_values)
def test_sound_teams_with_one_odd_part_are_a_scenario_or_our_problem(part: str, value: Any) -> None:
    attempt({**from_text(SMALL, "s.yaml").document, **TEAMS, part: value})


@given(
    st.dictionaries(st.sampled_from([*QueueFields.model_fields, "borrow-first"]), team_values, max_size=4),
    st.dictionaries(st.sampled_from([*CohortFields.model_fields]), team_values, max_size=3),
    st.dictionaries(
        st.sampled_from(["queue", "class", "priority", "checkpoint", "duration", "pods"]), team_values, max_size=3
    ),
    st.booleans(),
)
def test_sound_teams_with_odd_fields_are_a_scenario_or_our_problem(
    queue: dict[str, Any], cohort: dict[str, Any], submit: dict[str, Any], many: bool
) -> None:
    name = "cq-${i}" if many else "red"
    sound = {"quota": {"cpu": 1}, "cohort": "all", **({"count": 2} if many else {})}
    odd = {
        "queues": {name: {**sound, **queue}},
        "cohorts": {"all": cohort},
        "steps": [{"submit": {"count": 1, "duration": "1s", "queue": "each", **submit}}],
    }
    attempt({**from_text(SMALL, "s.yaml").document, **odd})


@given(st.text() | documents.map(yaml.safe_dump) | st.text(alphabet="a:-[]{}&*!|>'\"%@`#,? \n\t"))
@example("%YAML 9.9\n---\na: b")
@example("a: !<x> b")
@example("? a")
@example("&a a: *a")
def test_any_text_is_read_or_our_problem_and_every_mistake_has_one_line(text: str) -> None:
    try:
        expand(from_text(text, "s.yaml"), on="sim", stacks=STACKS)
    except ScenarioProblem as problem:
        lines = problem.message.split("\n")
        assert len(lines) == len(problem.mistakes)
        assert all(line.startswith("s.yaml") and line.endswith(")") for line in lines)


@given(st.binary())
def test_any_bytes_are_text_or_our_problem(raw: bytes) -> None:
    try:
        from_text(decode(raw, "s.yaml"), "s.yaml")
    except SeatrialError as problem:
        assert problem.message.startswith("s.yaml")


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from(sorted(STACKS)), min_size=1, max_size=3, unique=True),
    st.integers(1, 3),
)
@settings(max_examples=25)
def test_the_same_file_gives_the_same_trials(jobs: list[int], stacks: list[str], repeat: int) -> None:
    text = (
        SMALL.replace("[default]", str(stacks)).replace("count: 3", 'count: "${jobs}"') + f"params: {{jobs: {jobs}}}\n"
    )
    first = expand(from_text(text, "s.yaml"), on="sim", stacks=STACKS, repeat=repeat)
    assert first == expand(from_text(text, "s.yaml"), on="sim", stacks=STACKS, repeat=repeat)
    assert len(first) == len(jobs) * len(stacks) * repeat
    assert [trial.number for trial in first] == list(range(1, len(first) + 1))


@given(st.integers(0, 10**18))
def test_a_duration_that_we_write_is_read_back_exactly(nanoseconds: int) -> None:
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds


@given(st.integers(0, 2**62), st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "pods", "ephemeral-storage"]))
def test_a_quantity_that_we_write_is_read_back_exactly(amount: int, resource: str) -> None:
    assert parse_quantity(format_quantity(amount, resource), resource) == amount


@given(st.floats(0.001, 1e6).map(lambda number: f"{number:.3f}"), st.sampled_from([("s", 1), ("m", 60), ("h", 3600)]))
def test_a_rate_is_per_second(number: str, unit: tuple[str, int]) -> None:
    assert parse_rate(f"{number}/{unit[0]}") == float(number) / unit[1]
