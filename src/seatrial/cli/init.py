"""`seatrial init`: a first scenario to edit."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import typer

from seatrial.model.errors import UsageProblem

DEFAULT = "scenario.yaml"


def init(
    where: str = typer.Argument(
        DEFAULT, metavar="[NAME|FILE]", help="Name of the scenario, or the file to write.", show_default=True
    ),
    source: str = typer.Option(
        "", "--from", metavar="SCENARIO", help="A copy of this shipped scenario instead of the commented one."
    ),
    force: bool = typer.Option(False, "--force", help="Overwrite the file."),
) -> None:
    """Write a commented scenario that can be run.

    Example: seatrial init my-load && seatrial run my-load.yaml
    """
    from seatrial.scenario.document import find

    target = Path(where if Path(where).suffix in (".yaml", ".yml") else f"{where}.yaml")
    text = find(source).read_text(encoding="utf-8") if source else _template(target.stem)
    try:
        with target.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageProblem(f"{target} exists already", "name another file, or overwrite it with --force") from None
    except OSError as error:
        raise UsageProblem(f"{target} cannot be written: {error.strerror}", "name another file") from None
    typer.echo(target)
    typer.echo(f"next: seatrial run {target}", err=True)


def _template(stem: str) -> str:
    """The commented scenario, named after its file, as Kubernetes allows names."""
    name = re.sub(r"[^a-z0-9-]+", "-", stem.lower()).strip("-")[:50].rstrip("-") or "scenario"
    text = files("seatrial.scenario").joinpath("templates", "scenario.yaml").read_text(encoding="utf-8")
    return text.replace("NAME", name, 1)
