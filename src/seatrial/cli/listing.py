"""`seatrial stacks`, `scenarios` and `schema`: what there is to choose from."""

from __future__ import annotations

import json

import typer


def stacks() -> None:
    """List the stacks that can be put under test.

    Example: seatrial stacks
    """
    from rich.console import Console
    from rich.table import Table

    from seatrial import stacks as known
    from seatrial.model.settings import shown

    table = Table("stack", "what it is", "own stages", "own settings", box=None, pad_edge=False)
    for name in known.names():
        stack = known.find(name)
        plain = {stage.name for stage in known.find("default").stages}
        own = ", ".join(stage.name for stage in stack.stages if stage.name not in plain)
        settings = ", ".join(f"{s.component}.{s.name}={shown(s)}" for s in stack.settings)
        table.add_row(name, stack.about, own or "-", settings or "-")
    Console().print(table)


def scenarios() -> None:
    """List the scenarios that come with seatrial.

    Example: seatrial scenarios
    """
    from rich.console import Console
    from rich.table import Table

    from seatrial.scenario import shipped

    table = Table("scenario", "what it asks", box=None, pad_edge=False)
    for scenario in shipped():
        table.add_row(scenario.name, scenario.about)
    Console().print(table)


def schema() -> None:
    """Print a JSON Schema of scenario files, for editors.

    Example: seatrial schema > scenario.schema.json
    """
    from seatrial.scenario import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))
