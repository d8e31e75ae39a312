"""Everything that can be made again from a study directory: `seatrial report OUT`, and the end of every run."""

from __future__ import annotations

from pathlib import Path

from seatrial.analysis.lifecycle import Kept
from seatrial.analysis.tables import write_tables
from seatrial.report.page import write_page
from seatrial.report.pictures import write_pictures


def write_report(out: Path, pictures: str = "png") -> list[Path]:
    """Writes tables, pictures (as `png`, `svg` or `pdf`) and report.html of the study in `out`; says where they are.

    A study cut off by a crash is reported as far as it went; `read_study(out).notes` says what is missing, and
    `summary_table` prints it.
    """
    read = Kept()
    return [*write_tables(out, read), *write_pictures(out, pictures, read), write_page(out, read=read)]
