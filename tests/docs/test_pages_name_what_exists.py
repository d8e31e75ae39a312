"""A page that names a command, an option, a field, a figure or a file of ours that is not there sends its reader astray."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from seatrial import stacks
from seatrial.analysis.stage_times import FIRST_RUNNING
from seatrial.cli.main import app
from seatrial.model.figures import FIGURES
from seatrial.model.lifecycle import STANDARD
from seatrial.model.settings import CONTROL_PLANE, OWN
from seatrial.scenario.document import from_document, from_text
from seatrial.scenario.editor_schema import json_schema
from seatrial.scenario.expansion import expand
from tests.scenario.json_schema_subset import accepts
from tests.scenario.support import SMALL

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# What was true once stands in these.
HISTORY = {"CHANGELOG.md", "verified.md"}
CURRENT = [page for page in PAGES if page.name not in HISTORY]
TOP = get_command(app)
SCHEMA = json_schema(stacks.stages())
SETTINGS = {name: stacks.find(name).settings for name in stacks.names()}
EVERY_SETTING = [*CONTROL_PLANE, *OWN, *(setting for settings in SETTINGS.values() for setting in settings)]

# Options and keys of other programs that pages name.
OPTIONS_OF_OTHERS = {
    "--v", "--max-requests-inflight", "--node-monitor-grace-period", "--permit-port-sharing", "--runtime-config",
    "--use-service-account-credentials", "--update-pod-eviction-condition", "--backofftime", "--dependency", "--begin",
    "--leaks",
}  # fmt: skip
KEYS_OF_OTHERS = {"suspend", "medium", "num-cpus", "feature-gates", "turnstile", "places"}
KEYS_OF_STUDIES = {"set_up"}
METRICS_OF_OTHERS = ("apiserver_", "kubelet_", "scheduler_")

_FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
_KEY = re.compile(r'(?:^|[{,]\s*)"?([a-z][a-z0-9_-]*)"?: ')
_EXPRESSION = re.compile(r"^([a-z]\w*)(?:\([^)]*\))? (?:==|<=|>=|!=|<|>) \S+$")
_OURS = re.compile(r"(?:src/seatrial|tests|benchmarks|scenarios|docs)/[\w./+-]+\.(?:py|yaml|md|js|json)\b")


def _code(page: Path) -> list[str]:
    """Lines of code on a page: of its blocks, and its inline code; a `#` begins a comment in a block."""
    text = page.read_text(encoding="utf-8")
    blocks = [
        line.partition(" #")[0] for block in _FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()
    ]
    return blocks + _SPAN.findall(_FENCE.sub("", text))


def _spans(page: Path) -> list[str]:
    """The inline code of a page."""
    return _SPAN.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))


def _inner(command: Any) -> Iterator[Any]:
    yield command
    for sub in getattr(command, "commands", {}).values():
        yield from _inner(sub)


def _options(*commands: Any) -> set[str]:
    return {"-h", "--help"} | {
        name for command in commands for param in command.params for name in (*param.opts, *param.secondary_opts)
    }


def _problem(words: list[str]) -> str | None:
    """What is wrong with `seatrial …`; None if every word and option of the command exists."""
    command: Any = TOP
    at = next((place for place, word in enumerate(words) if word not in _options(TOP)), 0)
    while hasattr(command, "commands") and at < len(words) and not words[at].startswith("-"):
        names = words[at].split("|")
        unknown = [name for name in names if re.fullmatch(r"[a-z-]+", name) and name not in command.commands]
        if unknown:
            return f"no command `{unknown[0]}`"
        if names[0] not in command.commands:
            return None  # a placeholder
        command, at = command.commands[names[0]], at + 1
    known = _options(command, TOP)
    for word in words[at:]:
        option = re.match(r"\[?(--[a-z][a-z-]*|-[a-zA-Z])\b", word)
        if option and option[1] not in known:
            return f"no option {option[1]}"
    return None


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_and_option_on_a_page_exists(page: Path) -> None:
    wrong = []
    for line in _code(page):
        found = re.search(r"(?:^|[\s/$])seatrial ((?:[a-z]|--?[a-z]).*)", line)
        if found:
            command = re.split(r" [|>&]|;|\)", found[1])[0]
            try:
                words = shlex.split(command)
            except ValueError:
                words = command.split()
            if problem := _problem(words):
                wrong.append(f"{line.strip()}: {problem}")
    assert not wrong


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_of_ours_on_a_page_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = sorted({name for name in _OURS.findall(text) if "NAME" not in name and not (ROOT / name).exists()})
    assert not missing


def test_every_command_that_a_message_of_ours_names_has_its_options() -> None:
    wrong = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)
            for named in re.findall(r"\bseatrial ([a-z][^`\n'|;),]*)", text):
                words = named.split()
                if words[0] in TOP.commands and (problem := _problem(words)):  # type: ignore[attr-defined]
                    wrong.append(f"{path.name}:{node.lineno}: seatrial {named}: {problem}")  # type: ignore[attr-defined]
    assert not wrong


def test_every_option_on_a_page_is_one_of_a_command_or_of_another_program() -> None:
    known = _options(*_inner(TOP)) | OPTIONS_OF_OTHERS
    known |= {flag for setting in EVERY_SETTING for flag in re.findall(r"--[\w-]+", setting.about)}
    named = (
        (page.name, span, re.match(r"(--[a-z][\w-]*|-[a-zA-Z]\b(?!-))", span))
        for page in CURRENT
        for span in _spans(page)
    )
    assert not [(page, span) for page, span, option in named if option and option[1] not in known]


def test_every_target_of_make_on_a_page_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        (page.name, name) for page in CURRENT for line in _code(page) for name in re.findall(r"^make ([a-z]+)", line)
    }
    assert named and not [(page, name) for page, name in named if name not in targets]


SCENARIOS = [
    pytest.param(block, id=f"{page.relative_to(ROOT)}-{number}")
    for page in CURRENT
    for number, block in enumerate(
        re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    )
]


@pytest.mark.parametrize("text", SCENARIOS)
def test_every_scenario_on_a_page_and_every_part_of_one_is_sound(text: str) -> None:
    part = yaml.safe_load(text)
    small = from_text(SMALL, "small.yaml").document
    document = {key: value for key, value in small.items() if not (key == "stacks" and "setups" in part)} | part
    assert expand(from_document(document, "page.md"), on="sim", stacks=SETTINGS)
    assert accepts(SCHEMA, document)


def _fields(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _fields(inner)


def test_every_key_on_a_page_is_a_field_of_a_scenario_or_of_another_program() -> None:
    """`reclaim: any` in a line of text. Keys with capitals, dots and slashes are those of Kubernetes."""
    known = set(_fields(SCHEMA)) | SETTINGS.keys() | KEYS_OF_OTHERS | KEYS_OF_STUDIES
    known |= {name for setting in EVERY_SETTING for name in (setting.component, setting.name)}
    named = {
        (page.name, span, key)
        for page in CURRENT
        for span in _spans(page)
        for key in _KEY.findall(f"{span} ")
        if "…" not in span
    }
    assert not [one for one in named if one[2] not in known]


def test_every_figure_on_a_page_exists() -> None:
    """In an expression (`evicted > 0`), and by its form (`wait_mean_s`): a figure, a column, or a name that the code has."""
    code = set(re.findall(r"\w+", "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))))
    stages = {stage.name for stage in STANDARD} | set(stacks.stages()) | {FIRST_RUNNING}
    of_stages = {f"{stage}{end}" for stage in stages for end in ("_s", "_delta_s")}

    def unknown(name: str) -> bool:
        scraped = name.startswith(METRICS_OF_OTHERS) or f"apiserver_flowcontrol_{name.removesuffix('_max')}" in code
        return not (name in code or name in FIGURES or name in of_stages or scraped)

    spans = [(page.name, span) for page in CURRENT for span in _spans(page)]
    named = [(page, span) for page, span in spans if re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+", span)]
    judged = [(page, found[1]) for page, span in spans if (found := _EXPRESSION.match(span))]
    assert named and not [one for one in named if unknown(one[1])]
    assert judged and not [one for one in judged if one[1] not in {*FIGURES, "len"}]


def test_the_map_has_every_package_and_names_modules_that_its_packages_have() -> None:
    table = (
        (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("| package |")[2].partition("\n\n")[0]
    )
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE))
    source = ROOT / "src" / "seatrial"
    assert rows.keys() == {path.parent.name for path in source.glob("*/__init__.py")}
    wrong = []
    for package, text in rows.items():
        files = {path.relative_to(source / package).as_posix() for path in (source / package).rglob("*")}
        for name in re.findall(r"`([\w/*]+(?:\.py|/))`", text):
            pattern = re.compile(f"(.*/)?{re.escape(name.rstrip('/')).replace(re.escape('*'), '.*')}")
            if not any(pattern.fullmatch(file) for file in files):
                wrong.append((package, name))
    assert not wrong
