"""`seatrial report`: makes tables, pictures and the page again, from the study directory alone."""

from __future__ import annotations

from pathlib import Path

import typer

from seatrial.cli import gate_options
from seatrial.cli.output import OUT_ARGUMENT, OUT_OPTION, error_console, study_directory


def report(
    given: Path | None = OUT_ARGUMENT,
    out: Path | None = OUT_OPTION,
    show: bool = typer.Option(False, "--open", help="Show report.html in the browser."),
    baseline: Path | None = gate_options.BASELINE,
    junit: Path | None = gate_options.JUNIT,
    summary: Path | None = gate_options.SUMMARY,
) -> None:
    """Make the tables, pictures and report.html of a study again, and print its summary. With --baseline, --junit or --summary
    it also judges the study's gates, and ends with status 1 if a gate fails.

    Example: seatrial report -o out/many-small-jobs --open
    """
    import webbrowser

    from rich.console import Console

    from seatrial.analysis.gates import judge
    from seatrial.analysis.repeat_judging import FAILS
    from seatrial.analysis.studies import Study
    from seatrial.report.page import REPORT
    from seatrial.report.study_report import write_report
    from seatrial.report.terminal import summary_table
    from seatrial.study.study_directory import disk_problems

    out = study_directory(given, out)
    base = gate_options.check_options(baseline, junit, summary)
    with disk_problems(out):
        study = Study.open(out)
        files = write_report(study)
        summary_table(study, Console())
    for file in files:
        typer.echo(file)
    if show and not webbrowser.open((out / REPORT).absolute().as_uri()):
        typer.echo(f"no browser was found; open {out / REPORT} yourself", err=True)
    if baseline or junit or summary:
        verdicts = judge(study, base, gated=True)
        gate_options.report_verdicts(study, verdicts, error_console(), junit, summary)
        raise typer.Exit(int(any(verdict.state == FAILS for verdict in verdicts)))
