"""The waterfall: the share of every stage in the turnaround, for each set-up.

Means are over completed workloads, so that the stages of a set-up add up to its mean turnaround. A number beside a stage says how
many workloads reached it: in a clogged set-up, look there first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from seatrial.analysis.stage_times import Lifecycle, deltas, order_of
from seatrial.model.lifecycle import COMPLETED, SUBMITTED, Stage
from seatrial.report.page.markup import chart
from seatrial.report.page.view import Combination, PageSection, View, in_words


@dataclass
class Sums:
    """Totals of one set-up: workloads, and per stage the workloads that reached it and its time."""

    submitted: int = 0
    completed: int = 0
    reached: dict[str, int] = field(default_factory=dict)
    took_ns: dict[str, int] = field(default_factory=dict)

    def add(self, seen: Lifecycle, stages: Sequence[str]) -> None:
        """Adds a trial's workloads."""
        table = seen.workloads
        self.submitted += table.height
        present = [name for name in stages if name in table.columns]
        for name in present:
            self.reached[name] = self.reached.get(name, 0) + seen.reached(name)
        if COMPLETED.name not in present:
            return
        done = table.filter(pl.col(COMPLETED.name).is_not_null())
        self.completed += done.height
        sums = done.select(delta.sum() for delta in deltas(done, present))
        for name, took in zip(present[1:], sums.row(0), strict=True):
            self.took_ns[name] = self.took_ns.get(name, 0) + int(took or 0)


def waterfall(view: View) -> PageSection | None:
    """The section; None where no stage was reached."""
    order = order_of(view.study.trials)
    stages = order[: order.index(COMPLETED.name) + 1]
    known = {stage.name: stage for trial in view.study.trials for stage in trial.stages}
    panels = [_panels(view, chosen, stages, known) for chosen in view.charted]
    if not any(panels):
        return None
    data = {
        "combinations": [in_words(chosen) for chosen in view.charted],
        "chosen": view.charted.index(view.largest),
        "panels": panels,
    }
    return PageSection(
        "waterfall", "Where time went", "Where the time went",
        chart(
            "waterfall", data, "Mean time of a completed workload in every stage, from submitted to completed",
            "A bar begins where the stage before it ended. The longest stage is dark. A number beside a stage: "
            "workloads that reached it, if not all did.", view.left_out,
        ),
    )  # fmt: skip


def _panels(view: View, chosen: Combination, stages: Sequence[str], known: Mapping[str, Stage]) -> list[dict[str, Any]]:
    sums: dict[str, Sums] = {}
    for trial in view.trusted_at(chosen):
        sums.setdefault(trial.setup, Sums()).add(view.study.lifecycle(trial), stages)
    return [_panel(setup, one, stages, known) for setup, one in sums.items() if one.submitted]


def _panel(setup: str, sums: Sums, stages: Sequence[str], known: Mapping[str, Stage]) -> dict[str, Any]:
    rows = [
        {
            "stage": known[name].step,
            "about": f"until {known[name].about}",
            "reached": sums.reached[name],
            "took": sums.took_ns.get(name, 0) / sums.completed / 1e9 if sums.completed else None,
        }
        for name in stages
        if name != SUBMITTED.name and name in sums.reached
    ]
    return {"setup": setup, "submitted": sums.submitted, "completed": sums.completed, "rows": rows}
