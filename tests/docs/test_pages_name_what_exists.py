"""A page that names a command, an option, a figure or a file of ours that is not there sends its reader astray."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from seatrial.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# What was true once stands in these.
HISTORY = {"CHANGELOG.md", "verified.md"}
CURRENT = [page for page in PAGES if page.name not in HISTORY]
TOP = get_command(app)

_FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
_OURS = re.compile(r"(?:src/seatrial|tests|benchmarks|scenarios|docs)/[\w./+-]+\.(?:py|yaml|md|js|json)\b")


def _code(page: Path) -> list[str]:
    """Lines of code on a page: of its blocks, and its inline code; a `#` begins a comment in a block."""
    text = page.read_text(encoding="utf-8")
    blocks = [
        line.partition(" #")[0] for block in _FENCE.findall(text) for line in block.replace("\\\n", " ").splitlines()
    ]
    return blocks + _SPAN.findall(_FENCE.sub("", text))


def _problem(words: list[str]) -> str | None:
    """What is wrong with `seatrial …`; None if every word and option of the command exists."""
    command: Any = TOP
    at = 0
    while hasattr(command, "commands") and at < len(words) and not words[at].startswith("-"):
        names = words[at].split("|")
        unknown = [name for name in names if re.fullmatch(r"[a-z-]+", name) and name not in command.commands]
        if unknown:
            return f"no command `{unknown[0]}`"
        if names[0] not in command.commands:
            return None  # a placeholder
        command, at = command.commands[names[0]], at + 1
    known = {"-h", "--help"} | {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    known |= {name for param in TOP.params for name in (*param.opts, *param.secondary_opts)}
    for word in words[at:]:
        option = re.match(r"\[?(--[a-z][a-z-]*|-[a-zA-Z])\b", word)
        if option and option[1] not in known:
            return f"no option {option[1]}"
    return None


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_and_option_on_a_page_exists(page: Path) -> None:
    wrong = []
    for line in _code(page):
        found = re.search(r"(?:^|[\s/$])seatrial ([a-z].*)", line)
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
