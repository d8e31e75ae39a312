"""Comparisons as sections of a page: of their own page, and of a study's report."""

from __future__ import annotations

from collections.abc import Sequence

from seatrial.analysis.comparing import SideComparison
from seatrial.report import comparisons
from seatrial.report.page.html_page import document
from seatrial.report.page.markup import Html, join, tag
from seatrial.report.page.view import PageSection


def comparison_page(found: Sequence[SideComparison], everything: bool = False) -> str:
    """A whole page, self-contained as the report is."""
    sections = [section(one, f"comparison-{place}", everything) for place, one in enumerate(found, 1)]
    top = tag("header", tag("p", "seatrial", class_="kicker"), tag("h1", "Comparison"), class_="top")
    names = dict.fromkeys(name for one in found for name in comparisons.names(one))
    return document("Comparison · seatrial", top, sections, list(names))


def section(comparison: SideComparison, name: str, everything: bool = False) -> PageSection:
    """A comparison as a section of a page."""
    title = comparisons.title(comparison)
    return PageSection(name, title if len(title) <= 40 else f"{title[:39]}…", title, body(comparison, everything))


def body(comparison: SideComparison, everything: bool = False) -> Html:
    """Warnings first, then the answer, then the table."""
    reasons = [tag("li", reason) for reason in comparison.unlike]
    warning = tag("div", tag("b", "Not comparable, compared anyway:"), tag("ul", reasons), class_="warning")
    headings, rows = comparisons.table(comparison, everything)
    top = [tag("th", heading, scope="col", class_=_kind(place, headings)) for place, heading in enumerate(headings)]
    lines = [
        tag("tr", [_cell(place, cell, headings, differs) for place, cell in enumerate(cells)])
        for cells, differs in rows
    ]
    table = tag("table", tag("thead", tag("tr", top)), tag("tbody", lines))
    notes = [tag("p", f"{note}.", class_="quiet") for note in (*comparison.notes, comparisons.method(comparison))]
    return join(
        warning if reasons else None,
        tag("p", comparisons.headline(comparison), class_="headline"),
        tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=comparisons.title(comparison)),
        notes,
    )


def _kind(place: int, headings: Sequence[str]) -> str | None:
    return "text" if place in (0, len(headings) - 1) else None


def _cell(place: int, cell: str, headings: Sequence[str], differs: bool) -> Html:
    shown = f"· {cell.strip()}" if cell.startswith("  ") else cell
    inside = tag("b", shown) if differs else shown
    if place == 0:
        return tag("th", inside, scope="row", class_="text")
    return tag("td", inside, class_=_kind(place, headings))
