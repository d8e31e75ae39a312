"""A comparison as a table (the same on the terminal, in Markdown and on the page), as a picture and as JSON.

Warnings come first: that the sides are not comparable and were compared anyway, and that there are too few runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from seatrial.analysis.comparing import ALPHA, EMPTY, ComparedFigure, SideComparison
from seatrial.report.drawing import COLOURS, our_style, save, short
from seatrial.report.text_tables import Column, print_columns, print_line


def title(comparison: SideComparison) -> str:
    """Which side is compared with which."""
    first, second = names(comparison)
    return f"{second} against {first}"


def names(comparison: SideComparison) -> tuple[str, str]:
    """Names of the two sides, by what they differ in."""
    first, second = comparison.first, comparison.second
    if first.study.out == second.study.out:
        return first.setup, second.setup
    if first.setup == second.setup:
        return f"{first.setup} of {first.label}", f"{second.setup} of {second.label}"
    return f"{first.label} ({first.setup})", f"{second.label} ({second.setup})"


def headline(comparison: SideComparison) -> str:
    """The answer in a sentence."""
    tested = comparison.tested
    differ = [found for found in tested if found.differs]
    if differ:
        return "more than noise: " + ", ".join(f"{one.name} {one.verdict} ({_ratio(one)})" for one in differ)
    if any(found.verdict == "noise" for found in tested):
        return "no difference beyond noise"
    if tested and all(found.verdict == "same" for found in tested):
        return "the same in all runs"
    if any(found.p is not None or found.ratio is not None for found in tested):
        return "too few runs to tell a difference from noise"
    return "no comparable figures"


def method(comparison: SideComparison) -> str:
    """How many runs were compared, and by which test."""
    first, second = (len(side.runs) for side in (comparison.first, comparison.second))
    if first == second == 1:
        return "one run each: without repeats the noise is unknown"
    how = "sides swapped within pairs of equal seed" if comparison.paired else "runs shuffled"
    tested = sum(found.corrected_p is not None for found in comparison.tested)
    return (
        f"{first} against {second} runs; permutation test over runs ({how}), verdicts at {ALPHA:.0%} after Holm's correction "
        f"for {tested} figures; intervals uncorrected"
    )


def table(comparison: SideComparison, everything: bool = False) -> tuple[list[str], list[tuple[list[str], bool]]]:
    """Headings, and rows of cells with whether the figure differs. Rows of params follow their figure."""
    first, second = names(comparison)
    rows: list[tuple[list[str], bool]] = []
    for place, found in enumerate(comparison.found):
        if not _is_shown(found, everything):
            continue
        rows.append((_row(found.name, found), found.differs))
        rows += [(_row(f"  {cell}", of[place], part=True), False) for cell, of in comparison.cells.items()]
    return ["figure", first, second, "ratio", "interval", "verdict"], rows


def _is_shown(found: ComparedFigure, everything: bool) -> bool:
    if found.tested:
        return found.why != EMPTY
    return everything and (found.first is not None and (found.first != 0 or found.second != 0))


def _row(name: str, found: ComparedFigure, part: bool = False) -> list[str]:
    verdict = "" if part else found.verdict or found.why
    first, second = (
        f"{'! ' if doubt else ''}{_amount(value)}"
        for value, doubt in zip((found.first, found.second), found.doubtful, strict=True)
    )
    return [name, first, second, _ratio(found), _interval(found), verdict]


def _amount(value: float | None) -> str:
    return "-" if value is None else number(value)


def number(value: float) -> str:
    """Whole numbers as they are, others with four digits."""
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e6 else f"{value:.4g}"


def _ratio(found: ComparedFigure) -> str:
    if found.ratio is not None:
        return f"× {found.ratio:.3f}"
    return "-" if found.difference is None or any(found.doubtful) else f"{found.difference:+.4g}"


def _interval(found: ComparedFigure) -> str:
    if found.low is None or found.high is None or found.level is None:
        return "-"
    bounds = (
        (f"{found.low:.3f}", f"{found.high:.3f}")
        if found.ratio is not None
        else (f"{found.low:+.4g}", f"{found.high:+.4g}")
    )
    level = "" if round(found.level, 2) == 0.95 else f" ({found.level:.0%})"
    return f"{bounds[0]} … {bounds[1]}{level}"


def print_comparisons(comparisons: Sequence[SideComparison], console: Console, everything: bool = False) -> None:
    """Prints a table for each pair of sides."""
    for comparison in comparisons:
        for reason in comparison.unlike:
            print_line(console, f"! not comparable, compared anyway: {reason}", "bold yellow")
        print_line(console, title(comparison), "bold")
        print_line(console, headline(comparison))
        print_line(console, f"{method(comparison)}", "dim")
        headings, rows = table(comparison, everything)
        columns = [
            Column(heading, [cells[place] for cells, _ in rows], left=place in (0, len(headings) - 1))
            for place, heading in enumerate(headings)
        ]
        print_columns(console, columns, [not differs for _, differs in rows])
        for note in comparison.notes:
            print_line(console, note, "yellow")


def markdown(comparisons: Sequence[SideComparison], everything: bool = False) -> str:
    """The comparisons as Markdown, for a pull request."""
    return "\n".join(line for comparison in comparisons for line in _markdown(comparison, everything))


def _markdown(comparison: SideComparison, everything: bool) -> Iterator[str]:
    yield f"### {escaped(title(comparison))}"
    yield ""
    for reason in comparison.unlike:
        yield f"> **Not comparable, compared anyway:** {escaped(reason)}"
        yield ""
    yield f"**{escaped(headline(comparison))}**"
    yield ""
    headings, rows = table(comparison, everything)
    yield f"| {' | '.join(escaped(heading) for heading in headings)} |"
    yield f"|---|{'---:|' * (len(headings) - 2)}---|"
    for cells, differs in rows:
        shown = [escaped(cell.strip() if not cell.startswith("  ") else f"· {cell.strip()}") for cell in cells]
        yield f"| {' | '.join(f'**{cell}**' if differs and cell else cell for cell in shown)} |"
    yield ""
    for note in (*comparison.notes, method(comparison)):
        yield f"{escaped(note)}."
        yield ""


def escaped(text: str) -> str:
    """Escapes Markdown: names come from clusters and files."""
    plain = " ".join(text.split())
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>|#~" else sign for sign in plain)


def as_json(comparisons: Sequence[SideComparison]) -> str:
    """The comparisons as JSON, for programs."""
    return json.dumps([_json(comparison) for comparison in comparisons], indent=1) + "\n"


def _json(comparison: SideComparison) -> dict[str, Any]:
    first, second = (
        {"study": str(side.study.out), "setup": side.setup, "runs": len(side.runs)}
        for side in (comparison.first, comparison.second)
    )
    return {
        "first": first,
        "second": second,
        "different": comparison.different,
        "headline": headline(comparison),
        "not_comparable": list(comparison.unlike),
        "notes": list(comparison.notes),
        "paired": comparison.paired,
        "figures": [_figure_json(found) for found in comparison.found],
        "cells": {cell: [_figure_json(found) for found in of] for cell, of in comparison.cells.items()},
    }


def _figure_json(found: ComparedFigure) -> dict[str, Any]:
    return {
        "figure": found.name, "unit": found.figure.unit, "first": found.first, "second": found.second,
        "ratio": found.ratio, "low": found.low, "high": found.high, "level": found.level, "p": found.p,
        "corrected_p": found.corrected_p, "doubtful": list(found.doubtful), "verdict": found.verdict, "why": found.why,
        "first_runs": list(found.runs[0]), "second_runs": list(found.runs[1]),
    }  # fmt: skip


def write_picture(comparisons: Sequence[SideComparison], path: Path) -> Path:
    """Ratios with their intervals, figure by figure; 1 is no difference."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure as Canvas

    with our_style():
        wanted = [[one for one in c.found if one.tested and one.ratio is not None] for c in comparisons]
        heights = [0.34 * max(len(found), 1) + 0.5 for found in wanted]
        height = sum(heights) + 0.8
        canvas = Canvas(figsize=(7.2, height))
        canvas.text(
            0.02, 1 - 0.12 / height, "Ratio of the second side to the first", fontsize=12, fontweight="bold", va="top"
        )
        grid = canvas.subplots(
            len(comparisons), 1, squeeze=False, sharex=True,
            gridspec_kw={"height_ratios": heights, "left": 0.2, "right": 0.97, "top": 1 - 0.75 / height,
                         "bottom": 0.45 / height, "hspace": 0.55},
        )  # fmt: skip
        for axes, comparison, found in zip(grid[:, 0], comparisons, wanted, strict=True):
            axes.set_title(short(title(comparison), 90), fontsize=9.5, loc="left")
            axes.axvline(1, color="#888888", linewidth=1)
            for place, one in enumerate(found):
                ratio = one.ratio or 1.0
                low, high = (ratio if bound is None else bound for bound in (one.low, one.high))
                colour = COLOURS[4] if one.differs else COLOURS[0]
                axes.plot([low, high], [place, place], color=colour, linewidth=2.4, solid_capstyle="round")
                axes.plot([ratio], [place], "o", color=colour, markersize=6)
            axes.set_yticks(range(len(found)), [one.name for one in found])
            axes.set_ylim(len(found) - 0.5, -0.5)
            if not found:
                axes.text(0.5, 0.5, "no ratio of any figure", transform=axes.transAxes, ha="center")
        grid[-1, 0].set_xlabel("second / first, with its interval; orange: more than noise")
        return save(canvas, path)
