"""What `run` and `report` share about gates: the options, and telling how they came out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from seatrial.cli.targets import check_file

if TYPE_CHECKING:
    from rich.console import Console

    from seatrial.analysis.gates import Verdict

BASELINE: Any = typer.Option(None, "--baseline", metavar="OUT", help="The study that `baseline` in `expect` means.")
JUNIT: Any = typer.Option(None, "--junit", metavar="FILE", help="Write what holds and what does not as JUnit XML.")
SUMMARY: Any = typer.Option(
    None, "--summary", metavar="FILE", help="Append the same as short Markdown, e.g. to $GITHUB_STEP_SUMMARY."
)


def check(baseline: Path | None, junit: Path | None, summary: Path | None) -> None:
    """A baseline that is none, or a file that cannot be written, is said before anything is run."""
    check_file("--junit", junit)
    check_file("--summary", summary)
    if baseline is not None:
        from seatrial.analysis.directory import read_study

        read_study(baseline)


def tell(
    out: Path, verdicts: Sequence[Verdict], words: Console, junit: Path | None = None, summary: Path | None = None
) -> None:
    """Everything that does not simply hold, a line each, and the files that were asked for."""
    from seatrial.analysis.directory import read_study
    from seatrial.report import gates

    gates.print_gates(verdicts, words)
    if junit is not None:
        gates.write_junit(verdicts, read_study(out), junit)
    if summary is not None:
        gates.add_summary(verdicts, read_study(out), summary)
