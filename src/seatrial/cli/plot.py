"""`seatrial plot`: times.csv and a picture of a study, finished or not."""

from __future__ import annotations

from pathlib import Path

import typer

from seatrial.cli.output import OUT_ARGUMENT, OUT_OPTION, print_lines, progress_console, study_directory
from seatrial.model.errors import UsageProblem

SHOWN = 8  # reasons
PLOTS = ("general", "detailed")


def plot(
    given: Path | None = OUT_ARGUMENT,
    out: Path | None = OUT_OPTION,
    which: str = typer.Option(
        "general",
        "--plot",
        metavar="KIND",
        help="general: the stages that all stacks share; detailed: all stages of the stack.",
    ),
    skip_errors: bool = typer.Option(
        True,
        "--skip-errors/--keep-errors",
        help="Leave workloads with impossible times out of the picture, or keep them.",
    ),
    head: int = typer.Option(0, "--head", metavar="N", min=0, help="Only the first N workloads of each trial."),
    tail: int = typer.Option(0, "--tail", metavar="N", min=0, help="Only the last N workloads of each trial."),
    kind: str = typer.Option("png", "--format", metavar="FORMAT", help="png, svg or pdf."),
) -> None:
    """Write times.csv and a picture of the duration of each stage, from everything observed so far.

    Workloads with impossible times (a stage before its predecessor, an unseen stage) are listed with the reason;
    errors.csv has all of them.

    Example: seatrial plot -o out/load --plot detailed --tail 500
    """
    from seatrial.report.plotting import Choice, by_reason
    from seatrial.report.plotting import plot as draw
    from seatrial.study.study_directory import disk_problems

    out = study_directory(given, out)
    if which not in PLOTS:
        raise UsageProblem(f"--plot {which}: unknown picture", f"choose {' or '.join(PLOTS)}")
    with disk_problems(out):
        done = draw(out, which, kind, Choice(head, tail, skip_errors))
    words = progress_console()
    print_lines(words, done.notes)
    if done.errors.height:
        words.print(
            f"{done.errors.height} workloads have impossible times and are {'left out' if skip_errors else 'kept'}:"
        )
        for reason, count, example in by_reason(done.errors)[:SHOWN]:
            words.print(f"  {count} × {reason}, such as {example}", soft_wrap=True, markup=False)
    for file in done.files:
        typer.echo(file)
