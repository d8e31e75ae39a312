"""report.html. To add something to it, make a `Section` with the parts in `markup` and give it to `write_page`."""

from seatrial.record.layout import REPORT
from seatrial.report.page.view import Section
from seatrial.report.page.writing import write_page

__all__ = ["REPORT", "Section", "write_page"]
