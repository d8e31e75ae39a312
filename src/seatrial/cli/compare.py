"""`seatrial compare`: differences between studies, or set-ups of one study, and whether they exceed noise."""

from __future__ import annotations

from pathlib import Path

import typer

from seatrial.cli.output import check_file
from seatrial.model.errors import UsageProblem


def compare(
    given: list[Path] = typer.Argument(
        None, metavar="[OUT…]", help="Study directories; the others are compared with the first.", show_default=False
    ),
    more: list[Path] = typer.Option(
        [],
        "-o",
        "--out",
        metavar="OUT",
        help="A study directory, before the arguments; repeatable.",
        show_default=False,
    ),
    setup: str = typer.Option(
        "", "--setup", metavar="A,B", help="Only these set-ups; of one study, the first is the base."
    ),
    figure: list[str] = typer.Option(
        [],
        "--figure",
        metavar="F",
        help="Test this figure, like p99_s(phase=prod), instead of the usual ones; repeatable.",
    ),
    anyway: bool = typer.Option(
        False, "--anyway", help="Compare even if not comparable; the result begins with a warning."
    ),
    everything: bool = typer.Option(False, "--all", help="Also figures that are shown but not tested."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
    markdown: Path | None = typer.Option(
        None, "--markdown", metavar="FILE", help="Write Markdown, for a pull request."
    ),
    html: Path | None = typer.Option(None, "--html", metavar="FILE", help="Write a page."),
    png: Path | None = typer.Option(None, "--png", metavar="FILE", help="Draw ratios and intervals."),
) -> None:
    """Compare studies, or set-ups of one study: differences, intervals, and whether they exceed noise.

    Example: seatrial compare out/before out/after --markdown comment.md
    """
    from rich.console import Console

    from seatrial.analysis.comparing import compare as compared
    from seatrial.analysis.studies import Study
    from seatrial.report import comparisons as shown
    from seatrial.report.page.comparison import comparison_page

    outs = [*more, *(given or ())]
    if not outs:
        raise UsageProblem("no study directory", "name one or more studies: seatrial compare OUT OUT")
    for option, target in (("--markdown", markdown), ("--html", html), ("--png", png)):
        check_file(option, target)
    setups = [part.strip() for part in setup.split(",") if part.strip()]
    found = compared([Study.open(out) for out in outs], setups, figure, anyway=anyway)
    if as_json:
        typer.echo(shown.as_json(found), nl=False)
    else:
        shown.print_comparisons(found, Console(), everything)
    for file, text in ((markdown, shown.markdown), (html, comparison_page)):
        if file is not None:
            file.write_text(text(found, everything), encoding="utf-8")
    if png is not None:
        shown.write_picture(found, png)
