"""`seatrial sample`: observes the workloads of a study in their cluster."""

from __future__ import annotations

from pathlib import Path

import typer

from seatrial.cli.output import OUT_ARGUMENT, OUT_OPTION, error_console, print_lines, progress_console, study_directory


def sample(
    given: Path | None = OUT_ARGUMENT,
    out: Path | None = OUT_OPTION,
    follow: bool = typer.Option(
        False, "--follow", help="Watch until all workloads have ended, or Ctrl-C; times are then exact to milliseconds."
    ),
    project: str = typer.Option(
        "", "--project", metavar="P", help="Refuse unless OUT was submitted to this namespace or queue."
    ),
) -> None:
    """Show which workloads of a study are in which stage.

    Run it as often as you like, during submission or later. What it observes is merged with what is known: a time is never lost
    or made less precise, even if the object is gone. A single sample has whole seconds, `--follow` milliseconds.

    Example: seatrial sample -o out/load --follow
    """
    from rich.console import Console

    from seatrial.analysis.studies import Study
    from seatrial.report.stage_table import LiveLine, stage_table
    from seatrial.study.interruption import interruption
    from seatrial.study.study_sampling import sample as look

    out = study_directory(given, out)
    words = progress_console()
    interruption.listen()
    with LiveLine(words) as line:
        result = look(out, follow=follow, project=project, told=line.update)
    stage_table(Study.open(out), Console())
    print_lines(words, result.notes)
    if result.interrupted:
        error_console().print(f"interrupted; what was seen is in {out}", soft_wrap=True, markup=False)
        raise typer.Exit(130)
