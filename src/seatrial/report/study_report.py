"""All tables, pictures and the page of a study, for `seatrial report` and the end of every run."""

from __future__ import annotations

from pathlib import Path

from seatrial.analysis.studies import Study
from seatrial.analysis.tables import write_tables
from seatrial.report.page import write_page
from seatrial.report.pictures import write_pictures


def write_report(study: Study, pictures: str = "png") -> list[Path]:
    """Writes tables, pictures (as `png`, `svg` or `pdf`) and report.html of the study; returns their paths.

    A study cut off by a crash is reported as far as it went; `notes` of the study says what is missing, and `summary_table`
    prints it.
    """
    return [*write_tables(study), *write_pictures(study, pictures), write_page(study)]
