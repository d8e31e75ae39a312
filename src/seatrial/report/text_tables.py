"""Lines and tables for a terminal of 80 columns, a pipe, a log or `grep`: one line per row, no boxes, nothing cut.

Names and messages of a cluster may contain escape sequences, which rich does not remove: `printable` replaces them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO

from rich import table as rich
from rich.console import Console
from rich.text import Text

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and line feed
_UNBOUND = 10_000  # columns: wider than any table of ours


def printable(text: str, style: str = "") -> Text:
    """Plain text: no markup, no control characters."""
    return Text(CONTROL.sub("\N{REPLACEMENT CHARACTER}", text), style=style)


def print_line(console: Console, text: str, style: str = "") -> None:
    """Wrapped on a terminal; one line in a pipe, for `grep`."""
    console.print(printable(text, style), soft_wrap=not console.is_terminal, highlight=False)


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, and a cell for each row."""

    heading: str
    cells: Sequence[str]
    left: bool = False


def print_columns(console: Console, columns: Sequence[Column], well: Sequence[bool]) -> None:
    """Prints a table; rows that are not `well` are highlighted on a terminal."""
    if console.is_terminal:
        console.print(_table(columns, well, 1 if width(console, columns, 2) > console.width else 2))
        return
    # Without a terminal rich assumes 80 columns and would wrap cells.
    wide = Console(file=StringIO(), width=_UNBOUND)
    with wide.capture() as text:
        wide.print(_table(columns, well, 2))
    for line in text.get().splitlines():
        print_line(console, line.rstrip())


def width(console: Console, columns: Sequence[Column], gap: int) -> int:
    """The width of the table with this gap between columns."""
    table = _table(columns, [True] * len(columns[0].cells), gap)
    return console.measure(table, options=console.options.update(max_width=_UNBOUND)).maximum


def decimals_for(values: Sequence[float]) -> int:
    """Decimals by which the largest value shows three digits and the smallest two."""
    sizes = [abs(value) for value in values if value]
    decimals = 1 if max(sizes, default=10) >= 9.995 else 2 if max(sizes) >= 0.9995 else 3
    return max(decimals, 2) if min(sizes, default=1) < 0.995 else decimals


def three_digits(value: float, sign: str = "") -> str:
    """Three digits, never as a power of ten."""
    if abs(value) >= 99.95 or value == 0:
        return f"{value:{sign},.0f}"
    return f"{value:{sign}.3g}" if abs(value) >= 0.001 else f"{value:{sign}.2g}"


def signed_percent(value: float) -> str:
    """`+12` or `-3`; `+0` also just below 0, where the sign would depend on rounding."""
    return f"{round(value) or 0:+,d}"


def _table(columns: Sequence[Column], well: Sequence[bool], gap: int) -> rich.Table:
    headings = (
        rich.Column(printable(c.heading), justify="left" if c.left else "right", vertical="bottom", no_wrap=not c.left)
        for c in columns
    )
    table = rich.Table(*headings, box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for place, fine in enumerate(well):
        table.add_row(*(printable(column.cells[place]) for column in columns), style="" if fine else "yellow")
    return table
