"""report.html. To add something to it, make a `PageSection` with the parts in `markup` and give it to `write_page`."""

from seatrial.record.layout import REPORT
from seatrial.report.page.html_page import write_page
from seatrial.report.page.view import PageSection

__all__ = ["REPORT", "PageSection", "write_page"]
