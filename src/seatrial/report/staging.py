"""Which workloads are in which stage: a line while one watches, a table when one has looked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.text import Text

from seatrial.analysis.directory import TrialRecord, read_study
from seatrial.analysis.lifecycle import Lifecycle, lifecycle
from seatrial.model.lifecycle import LOST
from seatrial.report.columns import Column, print_columns
from seatrial.report.printing import print_line, printable
from seatrial.report.vanishing import Vanishing

EXAMPLES = 3  # names shown of a stage


class Standing(Protocol):
    """How far everything is, as whoever watches knows it."""

    @property
    def submitted(self) -> int: ...
    @property
    def planned(self) -> int: ...
    @property
    def reached(self) -> Mapping[str, int]: ...
    @property
    def over(self) -> int: ...
    @property
    def behind_s(self) -> float: ...


class LiveLine(Vanishing):
    """On a terminal a line that says how far it is; in a pipe nothing: the table at its end says it all."""

    def __init__(self, console: Console) -> None:
        self._line = Text()
        super().__init__(console)

    def update(self, trial: str, standing: Standing) -> None:
        now = ", ".join(
            f"{count} {name.replace('_', ' ')}" for name, count in in_stage(standing.reached).items() if count
        )
        of = f"{standing.submitted} of {standing.planned} submitted, {standing.over} over"
        late = f"; up to {standing.behind_s:.1f} s behind" if standing.behind_s >= 1 else ""
        self._line = printable(f"{trial}: {of}; now {now}{late}")

    def view(self) -> Text:
        return self._line


def in_stage(reached: Mapping[str, int]) -> dict[str, int]:
    """From how many reached each stage, in order, how many are in it: those that have not reached a later one."""
    counts: dict[str, int] = {}
    later = 0
    for name, count in reversed(list(reached.items())):
        if name != LOST.name:
            counts[name] = max(count - later, 0)
            later = max(later, count)
    return dict(reversed(list(counts.items())))


def stage_table(out: Path, console: Console) -> None:
    """Per trial and stage how many workloads are in it, and some of their names."""
    study = read_study(out)
    for trial in study.trials:
        _table_of(trial, console)
        for reason in (
            trial.reasons if not trial.cut_off or "followed" in (trial.document.get("validity") or {}) else ()
        ):
            print_line(console, f"! {reason}", "yellow")


def _table_of(trial: TrialRecord, console: Console) -> None:
    seen = lifecycle(trial)
    rows = stages_now(seen)
    planned = sum(int(phase.get("count") or 0) for phase in trial.phases.values())
    one = ", ".join(f"{len(names)} {stage.replace('_', ' ')}" for stage, names in rows if names)
    print_line(
        console, f"{trial.name}: {seen.workloads.height} of {planned} submitted: {one or 'nothing seen'}", "bold"
    )
    if console.is_terminal:
        columns = [
            Column("stage", [stage.replace("_", " ") for stage, _ in rows], left=True),
            Column("workloads", [str(len(names)) for _, names in rows]),
            Column("such as", [", ".join(names[:EXAMPLES]) for _, names in rows], left=True),
        ]
        print_columns(console, columns, [stage not in ("failed", "deleted") for stage, _ in rows])


def stages_now(seen: Lifecycle) -> Sequence[tuple[str, list[str]]]:
    """The stages in order, each with the workloads that have reached it and no later one."""
    stages = [s.name for s in seen.trial.stages if s.name != LOST.name and s.name in seen.workloads.columns]
    left = seen.workloads.select("workload", *stages)
    rows: list[tuple[str, list[str]]] = []
    for stage in reversed(stages):
        here = left[stage].is_not_null()
        rows.append((stage, left.filter(here)["workload"].to_list()))
        left = left.filter(~here)
    return [row for row in reversed(rows) if row[1]]
