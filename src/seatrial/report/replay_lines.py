"""Replayed traces of a study, for terminal and page: waits beside those of the recorded system, and how late the replay was.

One trial of each set-up and set of params: its first repeat that can be trusted. Waits of a trace do not vary over repeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from seatrial.analysis.cells import labels
from seatrial.analysis.replayed_waits import QUANTILES, ReplayedWaits, WaitSummary, replayed_waits
from seatrial.analysis.studies import Study
from seatrial.record.trial_record import TrialRecord
from seatrial.report.durations import lasting
from seatrial.report.text_tables import Column, print_columns, print_line

HEADINGS = ("mean", *(f"p{quantile * 100:.0f}" for quantile in QUANTILES), "in all")
OF_THE_TRACE, OF_THE_REPLAY = "in the trace", "replayed"


@dataclass(frozen=True)
class ReplayLine:
    """A replayed phase of a set-up. `late`: at worst, p50 and p99 in seconds, where they were measured."""

    setup: str
    params: str
    waits: ReplayedWaits
    late: tuple[float | None, float | None]


def replay_lines(study: Study) -> list[ReplayLine]:
    """In the order of the set-ups; empty where no trace with waits was replayed."""
    params = labels(study.trials)
    first: dict[tuple[str, str], TrialRecord] = {}
    for trial in study.trusted:
        if any("trace" in phase for phase in trial.phases.values()):
            first.setdefault((trial.setup, params[trial.name]), trial)
    return [
        ReplayLine(setup, cell, waits, _late(trial, waits.phase))
        for (setup, cell), trial in first.items()
        for waits in replayed_waits(study.lifecycle(trial))
    ]


def _late(trial: TrialRecord, phase: str) -> tuple[float | None, float | None]:
    rates: Sequence[Mapping[str, Any]] = (trial.document.get("validity") or {}).get("rates") or ()
    found: Mapping[str, Any] = next((rate for rate in rates if rate.get("phase") == phase), {})
    return found.get("late_p50_s"), found.get("late_p99_s")


def cells_of_waits(of: WaitSummary) -> list[str]:
    """As HEADINGS has them."""
    return [lasting(value) for value in (of.mean_s, *of.quantiles_s)] + [
        "-" if of.lasted_s is None else lasting(of.lasted_s)
    ]


def notes_of(line: ReplayLine) -> str:
    """How many jobs are compared, how many waited longer, and how late the replay was."""
    waits = line.waits
    text = (
        f"{waits.jobs:,} jobs compared: {waits.longer:,} waited longer than in the trace, {waits.shorter:,} not as long, "
        "each by more than a second"
    )
    text += f"; the trace has no wait of {waits.without:,} more" if waits.without else ""
    p50, p99 = line.late
    return text + (
        f"; jobs were sent {lasting(p50)} (p50), {lasting(p99)} (p99) after they were due"
        if p50 is not None and p99 is not None
        else ""
    )


def name_of(line: ReplayLine) -> str:
    """Set-up, params and phase."""
    return " ".join(filter(None, (line.setup, line.params, line.waits.phase)))


def print_replays(console: Console, study: Study) -> None:
    """A table with two rows per replay, where the study has one."""
    lines = replay_lines(study)
    if not lines:
        return
    print_line(console, "")
    print_line(
        console, "replayed traces: waits until the first place, beside those of the system that was recorded", "bold"
    )
    both = [
        (line, kind, of)
        for line in lines
        for kind, of in ((OF_THE_TRACE, line.waits.recorded), (OF_THE_REPLAY, line.waits.replayed))
    ]
    cells = [cells_of_waits(of) for _, _, of in both]
    columns = [
        Column("", [name_of(line) if kind == OF_THE_TRACE else "" for line, kind, _ in both], left=True),
        Column("wait", [kind for _, kind, _ in both], left=True),
    ]
    columns += [Column(head, [row[place] for row in cells]) for place, head in enumerate(HEADINGS)]
    print_columns(console, columns, [True] * len(both))
    for line in lines:
        print_line(console, f"{name_of(line)}: {notes_of(line)}", "dim")
