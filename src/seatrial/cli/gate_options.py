"""Gates in `run` and `report`: their options, and how the verdicts are printed and written."""

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

BASELINE: Any = typer.Option(None, "--baseline", metavar="OUT", help="The study that `baseline` in `expect` means.")
JUNIT: Any = typer.Option(None, "--junit", metavar="FILE", help="Write what holds and what does not as JUnit XML.")
SUMMARY: Any = typer.Option(
    None, "--summary", metavar="FILE", help="Append the same as short Markdown, e.g. to $GITHUB_STEP_SUMMARY."
)


def check_options(baseline: Path | None, junit: Path | None, summary: Path | None) -> Study | None:
    """The baseline. Raises before anything is run if it is no study, or if a file cannot be written."""
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
    """Everything that does not simply hold, a line each, and the files that were asked for."""
    from seatrial.report import gate_results

    gate_results.print_gates(verdicts, words)
    if junit is not None and study is not None:
        gate_results.write_junit(verdicts, study, junit)
    if summary is not None and study is not None:
        gate_results.add_summary(verdicts, study, summary)
