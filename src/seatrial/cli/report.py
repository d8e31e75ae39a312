"""`seatrial report`: tables, pictures and the page again, from the study directory alone."""

from __future__ import annotations

from pathlib import Path

import typer


def report(
    out: Path = typer.Argument(..., metavar="OUT", help="A study directory, as `seatrial run -o OUT` made it."),
    show: bool = typer.Option(False, "--open", help="Show report.html in the browser."),
) -> None:
    """Make the tables, pictures and report.html of a study again, and print its summary.

    Example: seatrial report out/many-small-jobs --open
    """
    import webbrowser

    from rich.console import Console

    from seatrial.report.page import REPORT
    from seatrial.report.terminal import summary_table
    from seatrial.report.writing import write_report

    files = write_report(out)
    summary_table(out, Console())
    for file in files:
        typer.echo(file)
    if show and not webbrowser.open((out / REPORT).absolute().as_uri()):
        typer.echo(f"no browser was found; open {out / REPORT} yourself", err=True)
