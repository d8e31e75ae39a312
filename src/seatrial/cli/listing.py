"""`seatrial stacks`, `scenarios` and `schema`: what there is to choose from."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from seatrial.cli.output import print_wrapped

if TYPE_CHECKING:
    from seatrial.model.interfaces import Stack

WORD_WIDTH = 16


def stacks(
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List the stacks: where each runs, what it needs, how it was verified.

    Example: seatrial stacks
    """
    from seatrial import stacks as known
    from seatrial.model.errors import SetupProblem

    found: list[dict[str, Any]] = []
    for name in known.names():
        try:
            found.append(_described(known.find(name), known.find("default")))
        except SetupProblem as problem:  # one broken package must not hide the others
            found.append({"name": name, "about": problem.message, "broken": problem.remedy})
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    for number, stack in enumerate(found):
        _show(stack, first=number == 0)


def _described(stack: Stack, plain: Stack) -> dict[str, Any]:
    """The description of a stack for `seatrial stacks`, with its own stages and settings."""
    from seatrial.model.settings import shown
    from seatrial.stacks import model_verified

    usual = {stage.name for stage in plain.stages}
    return {
        "name": stack.name,
        "about": stack.about,
        "runs_on": list(stack.runs_on),
        "needs": stack.needs,
        "verified": stack.verified,
        "model_verified": model_verified(stack),
        "stages": [
            {"name": stage.name, "of": stage.of, "about": stage.about}
            for stage in stack.stages
            if stage.name not in usual
        ],
        "settings": [
            {"component": setting.component, "name": setting.name, "default": shown(setting), "about": setting.about}
            for setting in stack.settings
        ],
    }


def _show(stack: Mapping[str, Any], *, first: bool) -> None:
    """Prints a paragraph per stack, a line per fact."""
    if not first and sys.stdout.isatty():
        typer.echo()
    _fact(stack["name"], stack["about"], indent="")
    if "broken" in stack:
        _fact("", stack["broken"])
        return
    _fact("runs on", ", ".join(stack["runs_on"]) or "not said")
    _fact("needs", stack["needs"] or "not said")
    _fact("verified", stack["verified"] or "not said")
    if not stack["model_verified"]:
        _fact("model", "not checked enough against the real stack: reports mark it and do not rank it")
    if stack["stages"]:
        _fact("stages", ", ".join(stage["name"] for stage in stack["stages"]))
    if stack["settings"]:
        _fact("settings", ", ".join(f"{s['component']}.{s['name']}={s['default']}" for s in stack["settings"]))


def _fact(word: str, text: str, indent: str = "  ") -> None:
    print_wrapped(f"{indent + word:<{WORD_WIDTH}} {' '.join(text.split())}", WORD_WIDTH + 1)


def scenarios() -> None:
    """List the built-in scenarios.

    Example: seatrial scenarios
    """
    from seatrial.scenario.document import shipped

    found = list(shipped())
    width = max(len(scenario.name) for scenario in found) + 2
    for scenario in found:
        print_wrapped(f"{scenario.name:<{width}}{scenario.about}", width)


def schema() -> None:
    """Print a JSON Schema of scenario files, for editors.

    Example: seatrial schema > scenario.schema.json
    """
    from seatrial import stacks
    from seatrial.scenario.editor_schema import json_schema

    typer.echo(json.dumps(json_schema(stacks.stages()), indent=2))
