"""The schema for editors and the page about the language say what the code does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from seatrial import stacks
from seatrial.model.lifecycle import STANDARD
from seatrial.model.settings import CONTROL_PLANE
from seatrial.scenario.document import from_text, read, shipped
from seatrial.scenario.editor_schema import json_schema
from seatrial.scenario.expression_grammar import OUTCOMES
from tests.scenario.json_schema_subset import accepts
from tests.scenario.support import SMALL, with_steps

SCHEMA = json_schema()
PAGE = (Path(__file__).parents[2] / "docs" / "scenario.md").read_text(encoding="utf-8")
SMALL_DOCUMENT = from_text(SMALL, "s.yaml").document

PARTS: dict[str, dict[str, Any]] = {"": SCHEMA, **{n: part for n, part in SCHEMA["$defs"].items() if n != "Param"}}
# Where the page describes each part of the schema; kinds of steps have headings of their own names.
HEADINGS = dict(zip(PARTS, PARTS, strict=True)) | {
    "": "The top level", "NodeGroup": "Node groups", "ExistingNodes": "Existing nodes", "PodDelays": "Pod delays",
    "Setup": "Set-ups", "Component": "Components", "EqualQps": "Equal QPS", "Phase": "Phases", "As": "Identities",
    "FlowObject": "Flow objects", "Delay": "Delays", "Queue": "Queues", "Cohort": "Cohorts", "Flavor": "Flavors",
    "Distribution": "Distributions", "NodeTrace": "Nodes of a file", "Runtime": "Runtime of a kubelet",
}  # fmt: skip


def section(heading: str) -> str:
    [text] = re.findall(rf"^#+ {heading}\n(.*?)(?=^#+ |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return str(text)


def test_every_part_of_the_schema_has_its_place_on_the_page() -> None:
    assert PARTS.keys() == HEADINGS.keys()
    assert all(section(heading) for heading in HEADINGS.values())


@pytest.mark.parametrize("part", PARTS)
def test_every_field_is_on_the_page_and_has_a_description(part: str) -> None:
    fields = PARTS[part]["properties"]
    missing = [name for name in fields if f"`{name}`" not in section(HEADINGS[part])]
    assert not missing, f"write about {missing} under '{HEADINGS[part]}' in docs/scenario.md"
    assert all(field.get("description") for field in fields.values())


@pytest.mark.parametrize("part", PARTS)
def test_every_field_on_the_page_exists(part: str) -> None:
    rows = re.findall(r"^\| `([\w-]+)` \|", section(HEADINGS[part]), re.MULTILINE)
    assert set(rows) == set(PARTS[part]["properties"])


def test_the_page_names_every_stage_outcome_and_component() -> None:
    assert all(f"`{stage.name}`" in section("Wait") for stage in STANDARD)
    assert all(f'`"{outcome}"`' in section("Expectations") for outcome in OUTCOMES)
    assert all(f"`{setting.component}`" in section("Settings") for setting in CONTROL_PLANE)


def test_the_schema_is_plain_json_without_traces_of_python() -> None:
    text = json.dumps(SCHEMA)
    assert "Fields" not in text
    assert '"null"' not in text
    references = set(re.findall(r'"#/\$defs/(\w+)"', text))
    assert references == SCHEMA["$defs"].keys()


def test_what_comes_with_seatrial_fits_the_schema() -> None:
    for scenario in shipped():
        assert accepts(SCHEMA, read(scenario.path).document)


def leaves(part: dict[str, Any]) -> list[str]:
    """Fields that hold a value and not a mapping or a list."""
    names = []
    for name, field in part["properties"].items():
        alternatives = field.get("anyOf", [field])
        if any(one.get("type") not in ("object", "array", None) or "enum" in one for one in alternatives):
            names.append(name)
    return names


@pytest.mark.parametrize(
    ("part", "field"),
    [(part, field) for part in PARTS for field in leaves(PARTS[part]) if (part, field) != ("", "name")],
)
def test_a_param_may_stand_wherever_a_value_stands(part: str, field: str) -> None:
    assert accepts(SCHEMA, "${x}", PARTS[part]["properties"][field])


@pytest.mark.parametrize(
    "wrong",
    [
        SMALL + "repaet: 3\n",
        SMALL + "repeat: 0\n",
        SMALL + "repeat: often\n",
        SMALL + "client: {rate: 10}\n",
        SMALL + "setups: {a: {stack: default}}\n",
        SMALL.replace("stacks: [default]\n", ""),
        SMALL.replace("cpu: 4, ", ""),
        SMALL.replace("count: 2", "count: two"),
        with_steps("  - {submit: {count: 1, duration: 10}}"),
        with_steps("  - {submit: {count: 1, duration: 10s}, pause: 1s}"),
        with_steps("  - wait: {for: complete}"),
        'name: "${x}"\n' + SMALL[12:],
    ],
)
def test_an_editor_sees_the_common_mistakes(wrong: str) -> None:
    assert accepts(SCHEMA, SMALL_DOCUMENT)
    assert not accepts(SCHEMA, from_text(wrong, "s.yaml").document)


def test_an_editor_knows_the_stages_of_the_stacks_that_are_installed() -> None:
    waiting = from_text(with_steps("  - wait: {for: quota_reserved}"), "s.yaml").document
    assert accepts(json_schema(stacks.stages()), waiting)
    assert not accepts(SCHEMA, waiting)
