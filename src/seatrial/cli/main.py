"""The `seatrial` command: its parts, and the one place where an error becomes a message and an exit status."""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from seatrial import __version__
from seatrial.cli import (
    clean,
    compare,
    doctor,
    export,
    find,
    init,
    listing,
    plot,
    report,
    run,
    sample,
    serve,
    submit,
    validate,
)
from seatrial.cli.cluster import cluster_app
from seatrial.cli.output import QUIET, VERBOSE, set_volume, with_volume
from seatrial.cli.record import record_app
from seatrial.cli.traces import traces_app
from seatrial.model.errors import SeatrialError

app = typer.Typer(
    name="seatrial",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Put a Kubernetes batch stack under load and measure how it behaves.\n\nExample: seatrial run many-small-jobs",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"seatrial {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    verbose: int = VERBOSE,
    quiet: bool = QUIET,
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    del version
    set_volume(verbose, quiet)


_COMMANDS: dict[str, Callable[..., None]] = {
    "init": init.init,
    "validate": validate.validate,
    "run": run.run,
    "find": find.find,
    "report": report.report,
    "compare": compare.compare,
    "export": export.export,
    "serve": serve.serve,
    "submit": submit.submit,
    "templates": submit.templates,
    "sample": sample.sample,
    "plot": plot.plot,
    "clean": clean.clean,
    "stacks": listing.stacks,
    "scenarios": listing.scenarios,
    "schema": listing.schema,
    "doctor": doctor.doctor,
}
_GROUPS = {"cluster": cluster_app, "record": record_app, "traces": traces_app}


def _first_sentence(text: str | None) -> str:
    """For the list of commands, whose texts click would cut off."""
    return f"{' '.join((text or '').split()).partition('. ')[0].rstrip('.')}."


for _name, _command in _COMMANDS.items():
    app.command(_name, short_help=_first_sentence(_command.__doc__))(with_volume(_command))
for _name, _group in _GROUPS.items():
    for _one in _group.registered_commands:
        _one.short_help = _first_sentence(_one.callback.__doc__)
    app.add_typer(_group, name=_name, short_help=_first_sentence(_group.info.help))


def main() -> None:
    """Runs the command line; errors become messages and exit statuses."""
    try:
        app()
    except SeatrialError as error:
        for line in error.lines():
            print(f"seatrial: {line}" if line is error.message else f"  {line}", file=sys.stderr)
        sys.exit(error.exit_status)
