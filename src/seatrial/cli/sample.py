"""`seatrial sample`: what became of the workloads in a study, as often as one likes."""

from __future__ import annotations

from pathlib import Path

import typer


def sample(
    out: Path = typer.Option(..., "-o", "--out", metavar="OUT", help="A study, as `seatrial submit -o OUT` made it."),
    follow: bool = typer.Option(
        False, "--follow", help="Go on watching until everything is over, or Ctrl-C; times are then to the millisecond."
    ),
    project: str = typer.Option(
        "", "--project", metavar="P", help="Make sure that OUT was submitted to this namespace or queue."
    ),
) -> None:
    """Look at the workloads of a study in their cluster, and say which are in which stage.

    As often as one likes, while they are submitted or after. What is seen is merged with what is known: no time gets lost
    or worse, also when the object is gone by now. A single look knows whole seconds, `--follow` milliseconds.

    Example: seatrial sample -o out/load --follow
    """
    from rich.console import Console

    from seatrial.report.staging import LiveLine, stage_table
    from seatrial.study.interrupting import interruption
    from seatrial.study.sampling import sample as look

    words = Console(stderr=True, highlight=False)
    interruption.listen()
    with LiveLine(words) as line:
        result = look(out, follow=follow, project=project, told=line.update)
    stage_table(out, Console())
    for note in result.notes:
        words.print(note, soft_wrap=True, markup=False)
    if result.interrupted:
        words.print(f"interrupted; what was seen is in {out}", soft_wrap=True, markup=False)
        raise typer.Exit(130)
