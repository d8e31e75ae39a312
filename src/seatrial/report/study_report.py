"""All tables, pictures and the page of a study, for `seatrial report` and the end of every run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from seatrial.analysis.studies import Study
from seatrial.analysis.tables import write_tables


def write_report(study: Study) -> list[Path]:
    """Writes tables, pictures and report.html of the study; returns their paths.

    A study cut off by a crash is reported as far as it went; `notes` of the study says what is missing, and `summary_table`
    prints it.
    """
    from seatrial.report.page import write_page
    from seatrial.report.pictures import write_pictures

    return [*write_tables(study), *write_pictures(study), write_page(study)]


def end_of_run(study: Study, pictures: bool, reporting: Callable[[str], None]) -> list[Path]:
    """The report as a run leaves it; without pictures, which take seconds and `seatrial report` makes, the tables alone."""
    if not pictures:
        return write_tables(study)
    reporting("tables and pictures")
    return write_report(study)
