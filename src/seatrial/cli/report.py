"""`seatrial report`: tables, pictures and the page again, from the study directory alone."""

from __future__ import annotations

from pathlib import Path

import typer

from seatrial.cli import judging


def report(
    out: Path = typer.Argument(..., metavar="OUT", help="A study directory, as `seatrial run -o OUT` made it."),
    show: bool = typer.Option(False, "--open", help="Show report.html in the browser."),
    baseline: Path | None = judging.BASELINE,
    junit: Path | None = judging.JUNIT,
    summary: Path | None = judging.SUMMARY,
) -> None:
    """Make the tables, pictures and report.html of a study again, and print its summary. With --baseline, --junit or --summary
    it also judges the study's gates, and ends with status 1 if one does not hold.

    Example: seatrial report out/many-small-jobs --open
    """
    import webbrowser

    from rich.console import Console

    from seatrial.analysis.gates import FAILS, judge
    from seatrial.report.page import REPORT
    from seatrial.report.terminal import summary_table
    from seatrial.report.writing import write_report
    from seatrial.study.directory import disk_problems

    judging.check(baseline, junit, summary)
    with disk_problems(out):
        files = write_report(out)
        summary_table(out, Console())
    for file in files:
        typer.echo(file)
    if show and not webbrowser.open((out / REPORT).absolute().as_uri()):
        typer.echo(f"no browser was found; open {out / REPORT} yourself", err=True)
    if baseline or junit or summary:
        verdicts = judge(out, baseline, gated=True)
        judging.tell(out, verdicts, Console(stderr=True, highlight=False), junit, summary)
        raise typer.Exit(int(any(verdict.state == FAILS for verdict in verdicts)))
