"""The `seatrial` command: its parts, and the one place where an error becomes a message and an exit status."""

from __future__ import annotations

import os
import sys

import typer

from seatrial import __version__
from seatrial.cli import clean, compare, doctor, export, listing, plot, report, run, sample, serve, submit
from seatrial.cli.cluster import cluster_app
from seatrial.model.errors import SeatrialError

app = typer.Typer(
    name="seatrial",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Puts a Kubernetes batch stack under load and says how it behaves.\n\nExample: seatrial run many-small-jobs",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"seatrial {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    del version


app.command("run")(run.run)
app.command("submit")(submit.submit)
app.command("templates")(submit.templates)
app.command("sample")(sample.sample)
app.command("plot")(plot.plot)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("export")(export.export)
app.command("serve")(serve.serve)
app.command("stacks")(listing.stacks)
app.command("scenarios")(listing.scenarios)
app.command("schema")(listing.schema)
app.command("doctor")(doctor.doctor)
app.command("clean")(clean.clean)
app.add_typer(cluster_app, name="cluster")


def main() -> None:
    try:
        app()
    except SeatrialError as error:
        for line in error.lines():
            print(f"seatrial: {line}" if line is error.message else f"  {line}", file=sys.stderr)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        print("seatrial: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong. Python would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
