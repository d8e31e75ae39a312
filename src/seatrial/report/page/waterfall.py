"""Where the time went: what every step of the lifecycle took of a workload's turnaround, for each set-up.

Means are over workloads that completed, so that the steps of a set-up add up to its mean turnaround. How many workloads reached a
stage stands beside it: in a set-up that clogged that is where to look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from seatrial.analysis.lifecycle import Lifecycle, deltas, order_of
from seatrial.model.lifecycle import COMPLETED, SUBMITTED
from seatrial.report.page.markup import chart
from seatrial.report.page.view import Combination, Section, View, in_words


@dataclass
class Sums:
    """Of all workloads of one set-up: how many there were, and per stage who reached it and what it took in all."""

    submitted: int = 0
    completed: int = 0
    reached: dict[str, int] = field(default_factory=dict)
    took_ns: dict[str, int] = field(default_factory=dict)

    def add(self, seen: Lifecycle, stages: Sequence[str]) -> None:
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


def waterfall(view: View) -> Section | None:
    order = order_of(view.study.trials)
    stages = order[: order.index(COMPLETED.name) + 1]
    about = {stage.name: stage.about for trial in view.study.trials for stage in trial.stages}
    panels = [_panels(view, chosen, stages, about) for chosen in view.combinations]
    if not any(panels):
        return None
    data = {
        "combinations": [in_words(chosen) for chosen in view.combinations],
        "chosen": view.combinations.index(view.largest),
        "panels": panels,
    }
    return Section(
        "waterfall", "Where time went", "Where the time went",
        chart(
            "waterfall", data, "Mean time of a completed workload in every step, from submitted to completed",
            "A bar begins where the step before it ended. The longest step is dark. A number beside a stage: only "
            "so many workloads reached it.",
        ),
    )  # fmt: skip


def _panels(view: View, chosen: Combination, stages: Sequence[str], about: dict[str, str]) -> list[dict[str, Any]]:
    sums: dict[str, Sums] = {}
    for trial in view.trusted_at(chosen):
        sums.setdefault(trial.setup, Sums()).add(view.seen(trial), stages)
    return [_panel(setup, one, stages, about) for setup, one in sums.items() if one.submitted]


def _panel(setup: str, sums: Sums, stages: Sequence[str], about: dict[str, str]) -> dict[str, Any]:
    rows = [
        {
            "stage": name.replace("_", " "),
            "about": about.get(name, ""),
            "reached": sums.reached[name],
            "took": sums.took_ns.get(name, 0) / sums.completed / 1e9 if sums.completed else None,
        }
        for name in stages
        if name != SUBMITTED.name and name in sums.reached
    ]
    return {"setup": setup, "submitted": sums.submitted, "completed": sums.completed, "rows": rows}
