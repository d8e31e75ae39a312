"""Replayed traces: their waits beside those of the system that was recorded, and how late the replay itself was."""

from __future__ import annotations

from seatrial.report.page.markup import Cell, Heading, Html, join, table, tag
from seatrial.report.page.view import PageSection, View
from seatrial.report.replay_lines import (
    HEADINGS,
    OF_THE_REPLAY,
    OF_THE_TRACE,
    cells_of_waits,
    name_of,
    notes_of,
    replay_lines,
)

_ABOUT = (
    "A wait ends when a job first has its place. In the replay another system decides, so waits differ; which jobs ran and for how "
    "long is the same on both sides. In all: from the first submission to the last end."
)


def replays(view: View) -> PageSection | None:
    """The section; None where no trace with waits was replayed."""
    lines = replay_lines(view.study)
    if not lines:
        return None
    rows = []
    for line in lines:
        for kind, of in ((OF_THE_TRACE, line.waits.recorded), (OF_THE_REPLAY, line.waits.replayed)):
            values = (of.mean_s, *of.quantiles_s, of.lasted_s or 0.0)
            cells = [Cell(text, value) for text, value in zip(cells_of_waits(of), values, strict=True)]
            rows.append([Cell(name_of(line)), Cell(kind), *cells])
    heads = [Heading("replay", number=False), Heading("wait", number=False), *(Heading(head) for head in HEADINGS)]
    notes: list[Html] = [tag("p", f"{name_of(line)}: {notes_of(line)}.") for line in lines]
    return PageSection(
        "replays",
        "Replay",
        "Replayed traces",
        join(tag("p", _ABOUT), table(heads, rows, "Waits of replayed traces"), *notes),
    )
