"""Tables for a terminal of 80 columns, a pipe, a log or `grep`: one line per row, no boxes, nothing cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO

from rich import table as rich
from rich.console import Console

from seatrial.report.printing import print_line, printable

_UNBOUND = 10_000  # columns: wider than any table of ours


@dataclass(frozen=True)
class Column:
    heading: str
    cells: Sequence[str]
    left: bool = False


def print_columns(console: Console, columns: Sequence[Column], well: Sequence[bool]) -> None:
    """Row by row; those that are not well stand out where there are colours."""
    if console.is_terminal:
        console.print(_table(columns, well, 1 if width(console, columns, 2) > console.width else 2))
        return
    # A console that is no terminal takes itself for 80 columns wide and would fold the cells.
    wide = Console(file=StringIO(), width=_UNBOUND)
    with wide.capture() as text:
        wide.print(_table(columns, well, 2))
    for line in text.get().splitlines():
        print_line(console, line.rstrip())


def width(console: Console, columns: Sequence[Column], gap: int) -> int:
    """What the table would take with so much between columns."""
    table = _table(columns, [True] * len(columns[0].cells), gap)
    return console.measure(table, options=console.options.update(max_width=_UNBOUND)).maximum


def decimals_for(values: Sequence[float]) -> int:
    """So many that the largest shows three digits and the smallest two."""
    sizes = [abs(value) for value in values if value]
    decimals = 1 if max(sizes, default=10) >= 9.995 else 2 if max(sizes) >= 0.9995 else 3
    return max(decimals, 2) if min(sizes, default=1) < 0.995 else decimals


def three_digits(value: float, sign: str = "") -> str:
    """Three digits, and never as a power of ten: people read 1,990 faster than 1.99e+03."""
    if abs(value) >= 99.95 or value == 0:
        return f"{value:{sign},.0f}"
    return f"{value:{sign}.3g}" if abs(value) >= 0.001 else f"{value:{sign}.2g}"


def _table(columns: Sequence[Column], well: Sequence[bool], gap: int) -> rich.Table:
    headings = (
        rich.Column(printable(c.heading), justify="left" if c.left else "right", vertical="bottom", no_wrap=not c.left)
        for c in columns
    )
    table = rich.Table(*headings, box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for place, fine in enumerate(well):
        table.add_row(*(printable(column.cells[place]) for column in columns), style="" if fine else "yellow")
    return table
