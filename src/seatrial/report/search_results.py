"""Results of a search on the terminal: an answer for each case, or a front for two variables."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from seatrial.analysis.searched_studies import Case, Searches
from seatrial.report.front_lines import print_fronts
from seatrial.report.search_lines import print_answers


def print_search(searches: Searches, cases: Iterable[Case], console: Console) -> None:
    """Prints it."""
    if searches.question.across is None:
        print_answers(searches, cases, console)
    else:
        print_fronts(searches, console)
