"""`seatrial report`: tables and pictures again, from the study directory alone."""

from __future__ import annotations

from pathlib import Path

import typer


def report(
    out: Path = typer.Argument(..., metavar="OUT", help="A study directory, as `seatrial run -o OUT` made it."),
) -> None:
    """Make the tables and pictures of a study again, and print its summary.

    Example: seatrial report out/many-small-jobs
    """
    from rich.console import Console

    from seatrial.report.terminal import summary_table
    from seatrial.report.writing import write_report

    files = write_report(out)
    summary_table(out, Console())
    for file in files:
        typer.echo(file)
