"""Gates in `run` and `report`: options and output."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from seatrial.cli.output import check_file

if TYPE_CHECKING:
    from rich.console import Console

    from seatrial.analysis.gates import Verdict
    from seatrial.analysis.studies import Study

BASELINE: Any = typer.Option(None, "--baseline", metavar="OUT", help="The study that `baseline` in `expect` refers to.")
JUNIT: Any = typer.Option(None, "--junit", metavar="FILE", help="Write the verdicts as JUnit XML.")
SUMMARY: Any = typer.Option(
    None, "--summary", metavar="FILE", help="Append the verdicts as short Markdown, e.g. to $GITHUB_STEP_SUMMARY."
)


def check_options(baseline: Path | None, junit: Path | None, summary: Path | None) -> Study | None:
    """The baseline. Raises before the run if it is not a study, or if a file cannot be written."""
    check_file("--junit", junit)
    check_file("--summary", summary)
    if baseline is None:
        return None
    from seatrial.analysis.studies import Study

    return Study.open(baseline)


def report_verdicts(
    study: Study | None,
    verdicts: Sequence[Verdict],
    words: Console,
    junit: Path | None = None,
    summary: Path | None = None,
) -> None:
    """Prints gates that do not simply hold, and writes the files."""
    from seatrial.report import gate_results

    gate_results.print_gates(verdicts, words)
    if junit is not None and study is not None:
        gate_results.write_junit(verdicts, study, junit)
    if summary is not None and study is not None:
        gate_results.add_summary(verdicts, study, summary)
