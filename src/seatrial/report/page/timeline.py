"""The timeline: every pod on its node, and every workload from its submission to its end.

Large studies leave out trials, and a very large trial shows only every k-th workload with all its pods; the page says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from seatrial.analysis.stage_times import Lifecycle
from seatrial.analysis.trial_figures import since_first_s
from seatrial.model.lifecycle import COMPLETED, DELETED, FAILED, FINISHED, LOST, RUNNING, SCHEDULED, SUBMITTED
from seatrial.record.trial_record import TrialRecord
from seatrial.report.page.markup import chart
from seatrial.report.page.packing import pack, ticks, unit_for
from seatrial.report.page.view import PageSection, View, in_words, plural

PODS = 250_000  # on the whole page
TRIALS = 80


@dataclass(frozen=True)
class _Picked:
    trial: TrialRecord
    every: int  # every n-th workload is drawn


def timeline(view: View) -> PageSection | None:
    """The section; None without workloads."""
    if not view.submits:
        return None
    picked = _picked(view)
    data = [_trial(view, one) for one in picked]
    if not data:
        return None
    several = len(view.study.trials) > 1
    left_out = len(view.study.trials) - len(picked)
    thin = max(one.every for one in picked)
    chosen = next((n for n, one in enumerate(picked) if one.trial.document.get("clog")), None)
    if chosen is None:
        largest = {str(row["trial"]) for group in view.at(view.largest) for row in group.rows}
        chosen = next((n for n, one in enumerate(picked) if one.trial.name in largest), 0)
    return PageSection(
        "timeline", "Timeline", "Pods and workloads over time",
        chart(
            "timeline", {"trials": data, "chosen": chosen},
            "A bar is a pod on its node, or a workload: blue runs, orange holds its node and does not run",
            "Drag to move; the buttons, or the wheel after a click, zoom. Where rows are thinner than a pixel, a colour's strength "
            "is how much of it there is.",
            f"{plural(left_out, 'trial')} left out to keep the page small." if several and left_out else "",
            f"In the largest trial every {thin}th workload is drawn, with all its pods." if thin > 1 else "",
        ),
    )  # fmt: skip


def _picked(view: View) -> list[_Picked]:
    """As many trials as fit; first repeats and clogged trials have precedence."""
    order = sorted(
        view.study.trials,
        key=lambda trial: (not trial.document.get("clog"), int(trial.document.get("repeat") or 0), -_pods(view, trial)),
    )
    left = PODS
    found: dict[str, int] = {}
    for trial in order[:TRIALS]:
        pods = _pods(view, trial)
        every = -(-pods // PODS) if not found else 1
        if pods // max(every, 1) <= left:
            found[trial.name] = max(every, 1)
            left -= pods // max(every, 1)
    return [_Picked(trial, found[trial.name]) for trial in view.study.trials if trial.name in found]


def _pods(view: View, trial: TrialRecord) -> int:
    return int(view.row_of.get(trial.name, {}).get("pods") or 0)


def _trial(view: View, picked: _Picked) -> dict[str, Any]:
    trial, seen = picked.trial, view.study.lifecycle(picked.trial)
    row = view.row_of.get(trial.name, {})
    end_s = max((seen.end_ns - seen.first_ns) / 1e9, 1e-6)
    unit = unit_for(end_s)
    workloads = seen.workloads.filter(pl.col("number") % picked.every == 0)
    pods = _bound(seen, workloads)
    names = list(seen.nodes)
    known = int(pods["node"].max() or 0) if pods.height else -1  # type: ignore[arg-type]
    names += [f"node {number}" for number in range(len(names), known + 1)]

    def column(frame: pl.DataFrame, *stages: str) -> npt.NDArray[np.int32]:
        present = [stage for stage in stages if stage in frame.columns]
        if not present:
            return np.full(frame.height, -1, dtype=np.int32)
        at = frame.select((pl.coalesce(present) - seen.first_ns).clip(lower_bound=0).cast(pl.Float64) / 1e9)
        return ticks(at.to_series().to_numpy(), unit)

    gangs = [name for name, phase in trial.phases.items() if phase.get("gang")]
    clog = trial.document.get("clog") or {}
    group = next((g for g in view.groups if any(r["trial"] == trial.name for r in g.rows)), None)
    words = [trial.setup, in_words(tuple(group.params.items())) if group else ""]
    words += [f"repeat {trial.document.get('repeat')}" if view.repeats > 1 else "", trial.outcome]
    return {
        "label": " · ".join(word for word in words if word),
        "end": end_s,
        "unit": unit,
        "clog": {
            "at": since_first_s(clog.get("at_ns"), row, trial.document),
            "kind": str(clog.get("kind") or ""),
            "workloads": list(clog.get("workloads") or ()),
            "nodes": list(clog.get("nodes") or ()),
        } if clog else None,
        "packed": pack(
            {
                "pod_workload": pods["place"].to_numpy(),
                "pod_node": pods["node"].to_numpy(),
                "pod_bound": column(pods, SCHEDULED.name),
                "pod_started": column(pods, RUNNING.name),
                "pod_ended": column(pods, FINISHED.name, LOST.name),
                "pod_lost": pods["gone"].to_numpy().astype(np.int32),
                "size": workloads["pods"].to_numpy(),
                "gang": workloads["phase"].is_in(gangs).to_numpy().astype(np.int32),
                "submitted": column(workloads, SUBMITTED.name),
                "running": column(workloads, RUNNING.name),
                "finished": column(workloads, FINISHED.name),
                "completed": column(workloads, COMPLETED.name),
                "gone": column(workloads, FAILED.name, DELETED.name),
            },
            {"names": workloads["workload"].to_list(), "nodes": names},
        ),
    }  # fmt: skip


def _bound(seen: Lifecycle, workloads: pl.DataFrame) -> pl.DataFrame:
    """Bound pods of these workloads, by node and time."""
    if SCHEDULED.name not in seen.pods.columns:
        return pl.DataFrame(schema={"place": pl.Int32, "node": pl.Int32, "gone": pl.Int32})
    places = workloads.select(pl.col("number").alias("workload")).with_row_index("place")
    lost = pl.col(LOST.name).is_not_null() if LOST.name in seen.pods.columns else pl.lit(False)
    return (
        seen.pods.filter(pl.col("node").is_not_null() & pl.col(SCHEDULED.name).is_not_null())
        .join(places, on="workload", how="inner")
        .with_columns(lost.cast(pl.Int32).alias("gone"))
        .sort("node", SCHEDULED.name, "pod")
    )
