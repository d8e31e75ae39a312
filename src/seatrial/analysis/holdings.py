"""Holders and waiters of a shared fleet, and the cost of evictions.

A workload holds quota from its admission until it is evicted, and again from the next admission until its queue object is released;
of a workload with several pods, those that have finished hold nothing any more.
A stack without a queue object counts pods: from created until finished or lost. A workload wants quota from its submission until
it is over; of its pods that have finished nobody wants anything any more.

Sums are integers (microseconds × units), as in `utilisation`: sums of groups are the sum of the whole, to the last digit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from seatrial.analysis.occupancy import Numbers
from seatrial.analysis.stage_times import Lifecycle
from seatrial.model.lifecycle import (
    ADMITTED,
    COMPLETED,
    DELETED,
    FAILED,
    FINISHED,
    LOST,
    RELEASED,
    RUNNING,
    SCHEDULED,
    SUBMITTED,
)
from seatrial.record.evictions import EVICTED

NEVER = -1
POD_EVENTS_BATCHED = 1_000_000_000  # ns: the Job controller's syncJobBatchPeriod
_US = 1_000  # nanoseconds
_S = 1_000_000  # microseconds
# Kinds of resources that figures are of: the suffix of their names, and how many units make one of what they count.
CPU, GPU, MEMORY = "", "gpu", "memory"
UNITS = {CPU: 1_000, GPU: 1, MEMORY: 2**30}


@dataclass(frozen=True)
class Spans:
    """Times in which workloads (rows of the lifecycle) hold or want something; `pods`: of how many pods the requests count;
    negative where pods no longer hold what their workload does."""

    row: Numbers
    since: Numbers
    until: Numbers
    pods: Numbers


def kind_of(resource: str) -> str | None:
    """The kind of figures that a resource counts in; None for pods, disks and others."""
    if resource == "cpu":
        return CPU
    if resource.endswith("/gpu"):
        return GPU
    return MEMORY if resource == "memory" else None


def amount_of(amounts: Mapping[str, Any] | None, kind: str) -> int:
    """The sum of these amounts over a kind of resources."""
    return sum(int(amount) for name, amount in (amounts or {}).items() if kind_of(name) == kind)


def has_admissions(seen: Lifecycle) -> bool:
    """Whether a queue admits workloads here."""
    return any(stage.name == ADMITTED.name for stage in seen.trial.stages)


def over_ns(seen: Lifecycle) -> pl.Series:
    """Per workload when it was over: completed, failed or deleted; null if it was not."""
    ends = [stage.name for stage in (COMPLETED, FAILED, DELETED) if stage.name in seen.workloads.columns]
    return seen.workloads.select(pl.min_horizontal(*ends, pl.lit(None, dtype=pl.Int64)).alias("over")).to_series()


def placed_ns(seen: Lifecycle) -> pl.Series:
    """Per workload when it first got its place: admitted, or without a queue all its pods bound; null if it never did."""
    if has_admissions(seen):
        return _column(seen, ADMITTED.name)
    bound = _column(seen, SCHEDULED.name)
    if LOST.name not in seen.pods.columns or not seen.pods[LOST.name].count():
        return bound
    first = _first_whole(seen)
    numbers = seen.workloads.select(pl.col("number").cast(pl.Int64).alias("workload"))
    found = numbers.join(first, on="workload", how="left", maintain_order="left")["first"]
    return pl.DataFrame({"first": found, "bound": bound}).select(pl.min_horizontal("first", "bound")).to_series()


def _first_whole(seen: Lifecycle) -> pl.DataFrame:
    """For workloads that lost pods: when all their pods were first bound at the same time."""
    losers = seen.pods.filter(pl.col(LOST.name).is_not_null()).select("workload").unique()
    pods = seen.pods.join(losers, on="workload", how="semi").filter(pl.col(SCHEDULED.name).is_not_null())
    sizes = seen.workloads.select(pl.col("number").alias("workload"), pl.col("pods").alias("size"))
    came = pods.select("workload", pl.col(SCHEDULED.name).alias("at"), pl.lit(1).alias("change"))
    went = pods.filter(pl.col(LOST.name).is_not_null()).select(
        "workload", pl.col(LOST.name).alias("at"), pl.lit(-1).alias("change")
    )
    events = pl.concat([came, went]).sort("workload", "at", "change").join(sizes, on="workload", how="inner")
    there = events.with_columns(pl.col("change").cum_sum().over("workload").alias("there"))
    whole = there.filter(pl.col("there") >= pl.col("size"))
    return whole.group_by(pl.col("workload").cast(pl.Int64)).agg(pl.col("at").min().alias("first"))


def waits_ns(seen: Lifecycle) -> pl.Series:
    """Nanoseconds from submitted to the first place, sorted. A workload that never got one has waited until it was over, or until
    the trial ended; one that the server refused has not waited."""
    frame = pl.DataFrame(
        {
            "submitted": seen.workloads[SUBMITTED.name],
            "placed": placed_ns(seen),
            "over": over_ns(seen),
            "refused": seen.workloads["refused"].fill_null("") != "",
        }
    ).filter(~pl.col("refused"))
    until = pl.coalesce("placed", "over", pl.lit(seen.end_ns))
    return frame.select((until - pl.col("submitted")).clip(lower_bound=0).alias("wait")).to_series().sort()


def pod_microseconds(seen: Lifecycle) -> dict[str, int]:
    """Per shape, microseconds that pods were bound, until they finished or were lost, or their workload was over."""
    if SCHEDULED.name not in seen.pods.columns:
        return {}
    pods = _with_ends(seen).filter(pl.col(SCHEDULED.name).is_not_null())
    took = (pl.col("gone") - pl.col(SCHEDULED.name)).clip(lower_bound=0) // _US
    return {str(phase): int(us) for phase, us in pods.group_by("shape").agg(took.sum()).rows()}


def lost_microseconds(seen: Lifecycle) -> dict[str, int]:
    """Per shape, pod-microseconds of work that evictions threw away: since the pod ran, or for a gang since all its pods did,
    without what a checkpoint kept. What earlier runs left is whole checkpoints, so only the last run's remainder is lost."""
    evicted = seen.evictions.filter(pl.col("event") == EVICTED).select("workload", "at_ns")
    if not evicted.height or not {LOST.name, RUNNING.name} <= set(seen.pods.columns):
        return {}
    phases = seen.trial.shapes
    pods = _with_ends(seen).join(evicted, on="workload", how="semi").filter(pl.col(RUNNING.name).is_not_null())
    of: dict[tuple[int, str, int], list[tuple[int, int | None]]] = {}
    for number, phase, size, ran, lost in pods.select("workload", "shape", "size", RUNNING.name, LOST.name).iter_rows():
        of.setdefault((number, phase, size), []).append((ran, lost))
    found: dict[str, int] = {}
    for (_, phase, size), times in of.items():
        about = phases.get(phase) or {}
        every = int(about.get("checkpoint_ns") or 0) // _US
        began = _gang_began(times, size) if about.get("gang") else [ran for ran, _ in times]
        for since, (_, lost) in zip(began, times, strict=True):
            if since is not None and lost is not None:
                us = max(lost - since, 0) // _US
                found[phase] = found.get(phase, 0) + (us % every if every else us)
    return found


def _gang_began(pods: Sequence[tuple[int, int | None]], size: int) -> list[int | None]:
    """For each pod of a gang (when it ran, when it was lost) since when the application ran that ended with the pod; None if it did
    not run, or the pod was not lost. It runs while all pods do: a lost pod ends it, the last replacement begins it again."""
    events = [(ran, 1, place) for place, (ran, _) in enumerate(pods)]
    events += [(lost, 0, place) for place, (_, lost) in enumerate(pods) if lost is not None]
    found: list[int | None] = [None] * len(pods)
    running, since, ended = 0, None, None  # `ended`: since when the application had run that was stopped last
    for at, comes, place in sorted(events):
        if comes:
            running += 1
            if running >= size and since is None:
                since, ended = at, None
            continue
        running -= 1
        if since is not None:
            since, ended = None, since
        found[place] = ended if ended is not None and pods[place][0] <= ended else None
    return found


def resource_seconds(microseconds: Mapping[str, int], phases: Mapping[str, Mapping[str, Any]], kind: str) -> float:
    """Pod-microseconds by phase as core-, GPU- or GiB-seconds."""
    units = sum(us * amount_of((phases.get(name) or {}).get("requests"), kind) for name, us in microseconds.items())
    return units / UNITS[kind] / _S


def held_spans(seen: Lifecycle) -> Spans:
    """When workloads hold quota."""
    return _admissions(seen) if has_admissions(seen) else _counted(seen)


def wanted_spans(seen: Lifecycle) -> Spans:
    """When workloads want quota, whether they have it or not. Where pods are counted, one that has finished wants nothing although
    the Job controller may write a minute later that its Job is complete."""
    over = _released(seen).fill_null(seen.end_ns).to_numpy()
    since = seen.workloads[SUBMITTED.name].to_numpy()
    rows = np.flatnonzero((seen.workloads["refused"].fill_null("") == "").to_numpy() & (over > since))
    spans = Spans(rows, since[rows], over[rows], seen.workloads["pods"].to_numpy().astype(np.int64)[rows])
    return _without_finished_pods(seen, spans)


def _admissions(seen: Lifecycle) -> Spans:
    size = seen.workloads["pods"].to_numpy().astype(np.int64)
    numbers = seen.workloads["number"].to_numpy()
    since = _column(seen, ADMITTED.name).fill_null(NEVER).to_numpy()
    over = _released(seen).fill_null(seen.end_ns).to_numpy()
    moved = set(seen.evictions["workload"].to_list())
    plain = (since != NEVER) & ~np.isin(numbers, list(moved))
    spans = [(int(row), int(since[row]), int(over[row])) for row in np.flatnonzero(plain)]
    row_of = {int(number): row for row, number in enumerate(numbers)}
    moves: dict[int, list[tuple[int, bool]]] = {}
    for number, at, event in seen.evictions.select("workload", "at_ns", "event").iter_rows():
        if number in row_of:
            moves.setdefault(row_of[number], []).append((at, event != EVICTED))
    for row, changes in moves.items():
        began = int(since[row])
        for at, admitted in changes:
            if admitted and began == NEVER:
                began = at
            elif not admitted and began != NEVER:
                spans.append((row, began, max(at, began)))
                began = NEVER
        if began != NEVER:
            spans.append((row, began, int(over[row])))
    rows, begun, ended = (
        np.array(column, dtype=np.int64) for column in (zip(*spans, strict=True) if spans else ((), (), ()))
    )
    return _without_finished_pods(seen, Spans(rows, begun, np.maximum(ended, begun), size[rows]))


def _without_finished_pods(seen: Lifecycle, spans: Spans) -> Spans:
    """A finished pod holds nothing more while its workload still runs (Kueue: reclaimablePods). The queue reads it in the Job's
    status, up to a second later: here is held a little less than in its own books, never more. Pods that finish within the last
    second of a workload count until it is released, as their Job is then complete at once. Where no queue admits, each counts until
    it has finished."""
    if FINISHED.name not in seen.pods.columns or not len(spans.row):
        return spans
    pods = _with_ends(seen).filter(pl.col(FINISHED.name).is_not_null())
    if has_admissions(seen):
        early = pl.col(FINISHED.name).max().over("row") - pl.col(FINISHED.name) > POD_EVENTS_BATCHED
        pods = pods.filter((pl.col("size") > 1) & early)
    held = pl.DataFrame({"row": spans.row, "since": spans.since, "until": spans.until})
    over = pods.select(pl.col("row").cast(pl.Int64), pl.col(FINISHED.name).alias("at")).join(held, on="row")
    over = over.filter(pl.col("until") > pl.col("at")).with_columns(pl.max_horizontal("since", "at").alias("since"))
    freed = (
        over["row"].to_numpy(),
        over["since"].to_numpy(),
        over["until"].to_numpy(),
        np.full(over.height, -1, dtype=np.int64),
    )
    return Spans(
        *(np.concatenate(pair) for pair in zip((spans.row, spans.since, spans.until, spans.pods), freed, strict=True))
    )


def _counted(seen: Lifecycle) -> Spans:
    """A ResourceQuota counts pods that exist; the queue of a scheduler those that have a node."""
    stage = seen.trial.quota_from
    if stage not in seen.pods.columns:
        nothing = np.zeros(0, dtype=np.int64)
        return Spans(nothing, nothing, nothing, nothing)
    pods = _with_ends(seen).filter(pl.col(stage).is_not_null())
    since, gone = pods[stage].to_numpy(), pods["gone"].to_numpy()
    rows = pods["row"].to_numpy().astype(np.int64)
    return Spans(rows, since, np.maximum(gone, since), np.ones(len(rows), dtype=np.int64))


def _with_ends(seen: Lifecycle) -> pl.DataFrame:
    """The pods with phase, size and row of their workload, and when they were `gone`."""
    of = seen.workloads.select(
        pl.col("number").alias("workload"), "shape", pl.col("pods").alias("size"), over_ns(seen).alias("over"),
        pl.int_range(pl.len()).alias("row"),
    )  # fmt: skip
    ends = [name for name in (FINISHED.name, LOST.name) if name in seen.pods.columns]
    gone = pl.coalesce(*ends, "over", pl.lit(seen.end_ns)).clip(upper_bound=seen.end_ns)
    return seen.pods.join(of, on="workload", how="inner", maintain_order="left").with_columns(gone.alias("gone"))


def _released(seen: Lifecycle) -> pl.Series:
    """Per workload when its quota is free again for good; null if the trial ended first."""
    released, over = _column(seen, RELEASED.name), over_ns(seen)
    return pl.DataFrame({"released": released, "over": over}).select(pl.coalesce("released", "over")).to_series()


def _column(seen: Lifecycle, name: str) -> pl.Series:
    table = seen.workloads
    return table[name] if name in table.columns else pl.Series(name, [None] * table.height, dtype=pl.Int64)
