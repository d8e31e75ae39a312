"""The figures of a shared fleet: waits, evictions and what they cost, quota used, borrowed and lent, fairness.

One function for each entry of `model.figures` with the same name, as in `trial_figures`. A figure of a queue or a class is computed
from its own workloads; what a queue borrowed, lent or should have had follows from all queues (`fair_shares`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from seatrial.analysis.api_load import nearest_rank
from seatrial.analysis.fair_shares import QueueUse, by_kind
from seatrial.analysis.holdings import CPU, GPU, MEMORY, resource_seconds
from seatrial.analysis.stage_times import Lifecycle
from seatrial.model import fleet
from seatrial.model.figures import CLASS, QUEUE, Value
from seatrial.model.lifecycle import SUBMITTED
from seatrial.model.units import SECOND
from seatrial.record.evictions import EVICTED
from seatrial.record.submissions import read_submitted
from seatrial.record.trial_record import TrialRecord

if TYPE_CHECKING:
    from seatrial.analysis.trial_figures import Sample

# Figure → the reason in evictions.parquet that it counts.
REASONS = {
    "preempted": fleet.PREEMPTED, "reclaimed": fleet.RECLAIMED, "fair_sharing": fleet.FAIR_SHARING,
    "timed_out": fleet.TIMED_OUT, "node_gone": fleet.NODE_GONE,
}  # fmt: skip
_SUFFIXES = {CPU: "", GPU: "_gpu", MEMORY: "_memory"}


def is_shared(seen: Lifecycle) -> bool:
    """Whether a trial has figures of a shared fleet: queues, named classes, or evictions."""
    return bool(seen.trial.fleet.queues or seen.evictions.height or names_classes(seen))


def names_classes(seen: Lifecycle) -> bool:
    """Whether some submit names a class."""
    return bool((seen.workloads["class"].fill_null("") != "").any())


def classes(trial: TrialRecord) -> list[str]:
    """The classes that a trial has, in the order of their first workloads."""
    table = read_submitted(trial.directory).frame.select("class", "phase").unique(maintain_order=True)
    return list(dict.fromkeys(named or phase for named, phase in table.rows()))


def members(seen: Lifecycle, group: str) -> pl.Series:
    """Per workload its queue or its class; a workload without a class is of that of its phase."""
    if group == QUEUE:
        return seen.workloads["queue"].fill_null("")
    named = pl.when(pl.col("class").fill_null("") != "").then("class").otherwise("phase")
    return seen.workloads.select(named.alias(CLASS)).to_series()


def divided(seen: Lifecycle, group: str) -> dict[str, Lifecycle]:
    """The lifecycle of each member of a group. Times count from the first submission of the member."""
    of = members(seen, group).alias("member")
    numbered = seen.workloads.select(pl.col("number").alias("workload")).with_columns(of)
    workloads = seen.workloads.with_columns(of).partition_by("member", as_dict=True, include_key=False)
    pods = seen.pods.join(numbered, on="workload", how="inner", maintain_order="left").partition_by(
        "member", as_dict=True, include_key=False
    )
    evictions = seen.evictions.join(numbered, on="workload", how="inner", maintain_order="left").partition_by(
        "member", as_dict=True, include_key=False
    )
    found: dict[str, Lifecycle] = {}
    for key, mine in workloads.items():
        first = mine[SUBMITTED.name].min()
        found[str(key[0])] = replace(
            seen,
            workloads=mine,
            pods=pods.get(key, seen.pods.clear()),
            evictions=evictions.get(key, seen.evictions.clear()),
            first_ns=first if isinstance(first, int) else seen.first_ns,
        )
    return found


def nothing_of(seen: Lifecycle) -> Lifecycle:
    """The lifecycle of a member without workloads."""
    return replace(seen, workloads=seen.workloads.clear(), pods=seen.pods.clear(), evictions=seen.evictions.clear())


def counted_evictions(seen: Lifecycle) -> dict[str, int]:
    """Reason → how often."""
    gone = seen.evictions.filter(pl.col("event") == EVICTED)
    return {str(reason): int(count) for reason, count in gone.group_by("reason").len().rows()}


def _mean(of: Sample) -> float | None:
    waits = of.waits
    return int((waits // 1000).sum()) / waits.len() / 1e6 if waits.len() else None


def _longest(of: Sample) -> float | None:
    longest = of.waits.max()
    return longest / SECOND if isinstance(longest, int) else None


def _waited(percent: int, of: Sample) -> float | None:
    return nearest_rank(of.waits, percent)


def _evicted(reason: str, of: Sample) -> int:
    return of.evicted.get(reason, 0)


def _otherwise(of: Sample) -> int:
    return sum(count for reason, count in of.evicted.items() if reason not in REASONS.values())


def _lost(kind: str, of: Sample) -> float:
    return resource_seconds(of.lost_us, of.trial.shapes, kind)


def _held(kind: str, of: Sample) -> float:
    return resource_seconds(of.held_us, of.trial.shapes, kind)


def _quota(what: str, kind: str, of: Sample) -> float | None:
    """The quota of one queue, or of all; None without queues."""
    uses = _uses(of)
    return sum(by_kind(getattr(use, what), kind) for use in uses) if uses else None


def _uses(of: Sample) -> list[QueueUse]:
    if not of.trial.fleet.queues:
        return []
    queues = of.fleet.queues
    return [queues[of.queue]] if of.queue in queues else [] if of.queue else list(queues.values())


def _of_queue(what: str, of: Sample) -> float | None:
    uses = _uses(of) if of.queue else []
    value: float | None = getattr(uses[0], what) if uses else None
    return value


def _share_error(of: Sample) -> float | None:
    return _of_queue("error", of) if of.queue else of.fleet.share_error if of.trial.fleet.queues else None


FUNCTIONS: Mapping[str, Callable[[Sample], Value]] = {
    "wait_mean_s": _mean,
    "wait_max_s": _longest,
    **{f"wait_p{percent}_s": partial(_waited, percent) for percent in (50, 95, 99)},
    "evicted": lambda of: sum(of.evicted.values()),
    **{name: partial(_evicted, reason) for name, reason in REASONS.items()},
    "evicted_other": _otherwise,
    **{f"work_lost{suffix}_s": partial(_lost, kind) for kind, suffix in _SUFFIXES.items()},
    **{f"used{suffix}_s": partial(_held, kind) for kind, suffix in _SUFFIXES.items()},
    **{f"{what}{suffix}_s": partial(_quota, what, kind)
       for what in ("nominal", "borrowed", "lent") for kind, suffix in _SUFFIXES.items()},
    "share": partial(_of_queue, "share"),
    "fair_share": partial(_of_queue, "fair_share"),
    "share_error": _share_error,
    "jain": lambda of: of.fleet.jain if of.trial.fleet.queues else None,
}  # fmt: skip
