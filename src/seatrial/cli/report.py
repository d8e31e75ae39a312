"""`seatrial report`: tables and pictures again, from the study directory alone."""

from __future__ import annotations

from pathlib import Path

import typer

from seatrial.cli import judging


def report(
    out: Path = typer.Argument(..., metavar="OUT", help="A study directory, as `seatrial run -o OUT` made it."),
    baseline: Path | None = judging.BASELINE,
    junit: Path | None = judging.JUNIT,
    summary: Path | None = judging.SUMMARY,
) -> None:
    """Make the tables and pictures of a study again, and print its summary. With one of the options it also judges the study's
    gates, and ends with status 1 if one does not hold.

    Example: seatrial report out/many-small-jobs --baseline out/last-week --junit gates.xml
    """
    from rich.console import Console

    from seatrial.analysis.gates import FAILS, judge
    from seatrial.report.terminal import summary_table
    from seatrial.report.writing import write_report

    judging.check(baseline)
    files = write_report(out)
    summary_table(out, Console())
    for file in files:
        typer.echo(file)
    if baseline or junit or summary:
        verdicts = judge(out, baseline)
        judging.tell(out, verdicts, Console(stderr=True, highlight=False), junit, summary)
        raise typer.Exit(int(any(verdict.state == FAILS for verdict in verdicts)))
