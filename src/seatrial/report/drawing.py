"""Shared by all pictures: colours, title and legend, and reproducible files.

The same study gives the same bytes: no dates, matplotlib's own fonts and style.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from seatrial.record.files import atomic_write

# Okabe and Ito: distinct for all kinds of colour vision; markers repeat the distinction for print.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#F0E442", "#999999")
MARKERS = "osD^vPX<>"
ACROSS = 6  # names in a row of the legend
STYLE = {
    "font.family": "DejaVu Sans", "font.size": 9, "text.parse_math": False, "svg.hashsalt": "seatrial",
    "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#888888", "axes.linewidth": 0.8,
    "axes.grid": True, "grid.color": "#e6e6e6", "grid.linewidth": 0.8, "axes.axisbelow": True,
    "xtick.color": "#444444", "ytick.color": "#444444", "legend.frameon": False,
}  # fmt: skip
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}  # fmt: skip


def colour(place: int) -> str:
    """The colour of a set-up, by its place."""
    return COLOURS[place % len(COLOURS)]


def short(name: str, most: int = 40) -> str:
    """A name cut to a length."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def marked(setups: Sequence[str], doubtful: Sequence[str], most: int = 30) -> list[str]:
    """Names for a picture; `!` before those that are not to be trusted."""
    return [f"! {short(name, most)}" if name in doubtful else short(name, most) for name in setups]


def legend_height(setups: Sequence[str]) -> float:
    """Inches that the legend takes beyond its first row."""
    return 0.19 * ((len(setups) - 1) // ACROSS)


def head(
    figure: Any, height: float, title: str, lines: Sequence[str], *, setups: Sequence[str], markers: str = "o",
    doubtful: Sequence[str] = (),
) -> None:  # fmt: skip
    """Title, the lines below it and the legend, from the top down."""
    from matplotlib.lines import Line2D

    figure.text(0.02, 1 - 0.12 / height, title, fontsize=12, fontweight="bold", va="top")
    top = 0.40
    for line in lines:
        if line:
            figure.text(0.02, 1 - top / height, line, fontsize=9, color="#444444", va="top")
            top += 0.19
    if not setups:
        return
    handles = [
        Line2D([], [], linestyle="none", marker=markers[n % len(markers)], color=colour(n), markersize=6)
        for n in range(len(setups))
    ]
    figure.legend(
        handles, marked(setups, doubtful), loc="upper left",
        bbox_to_anchor=(0.012, 1 - (top + 0.02) / height), ncols=min(len(setups), ACROSS),
        handletextpad=0.1, columnspacing=1.4, borderpad=0, fontsize=9.5,
    )  # fmt: skip


def save(figure: Any, path: Path) -> Path:
    """Writes a picture and returns its path."""
    kind = path.suffix[1:]
    with atomic_write(path) as part:
        figure.savefig(part, format=kind, dpi=130, metadata=_METADATA[kind])
    return path


@contextmanager
def our_style() -> Iterator[None]:
    """Ignores the user's matplotlibrc, and warnings about characters that the font lacks."""
    from matplotlib import style

    with style.context(["default", STYLE], after_reset=True), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
