"""How many workloads are in which stage: a line that is redrawn during `sample --follow`, a table at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from rich.console import Console
from rich.text import Text

from seatrial.analysis.stage_times import Lifecycle
from seatrial.analysis.studies import Study
from seatrial.model.lifecycle import LOST
from seatrial.report.durations import lasting
from seatrial.report.run_progress import LiveView
from seatrial.report.text_tables import Column, print_columns, print_line, printable

EXAMPLES = 3  # names shown of a stage


class FollowStatus(Protocol):
    """Progress of the workloads of a trial, as the follower knows it."""

    @property
    def submitted(self) -> int:
        """Workloads submitted so far."""

    @property
    def planned(self) -> int:
        """Workloads that the study submits in all."""

    @property
    def reached(self) -> Mapping[str, int]:
        """Stage → workloads that have reached it."""

    @property
    def over(self) -> int:
        """Workloads that need no more watching."""

    @property
    def behind_s(self) -> float:
        """How late events are handled, in seconds."""


class LiveLine(LiveView):
    """A progress line on a terminal; nothing in a pipe, which gets the table at the end."""

    def __init__(self, console: Console) -> None:
        self._line = Text()
        super().__init__(console)

    def update(self, trial: str, status: FollowStatus) -> None:
        """Shows the progress of a trial's workloads."""
        now = ", ".join(
            f"{count} {name.replace('_', ' ')}" for name, count in in_stage(status.reached).items() if count
        )
        of = f"{status.submitted} of {status.planned} submitted, {status.over} ended"
        late = f"; up to {lasting(status.behind_s, decimals=1)} behind" if status.behind_s >= 1 else ""
        self._line = printable(f"{trial}: {of}; now {now}{late}")

    def view(self) -> Text:
        """The line as it is now."""
        return self._line


def in_stage(reached: Mapping[str, int]) -> dict[str, int]:
    """Stage → workloads in it, from the counts that reached each stage: those that have not reached a later stage."""
    counts: dict[str, int] = {}
    later = 0
    for name, count in reversed(list(reached.items())):
        if name != LOST.name:
            counts[name] = max(count - later, 0)
            later = max(later, count)
    return dict(reversed(list(counts.items())))


def stage_table(study: Study, console: Console) -> None:
    """Prints the workloads per trial and stage, with some names."""
    for trial in study.trials:
        _table_of(study.lifecycle(trial), console)
        for reason in (
            trial.reasons if not trial.cut_off or "followed" in (trial.document.get("validity") or {}) else ()
        ):
            print_line(console, f"! {reason}", "yellow")


def _table_of(seen: Lifecycle, console: Console) -> None:
    trial = seen.trial
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
