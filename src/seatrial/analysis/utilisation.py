"""Utilisation: how much of the cluster was used, and how much gangs held without running.

Capacity counts while a node exists. A container uses its pod's requests from its start until it finished; if its end was not seen,
until the pod was lost or its workload failed or was deleted, else until the end. A gang holds idle what its bound pods requested
before all of them ran: the price of half-placed gangs.

Sums are integers (microseconds × units): a sum of floats depends on the number of polars' threads, and the same seed must give the
same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from seatrial.analysis.stage_times import Lifecycle
from seatrial.model.lifecycle import DELETED, FAILED, FINISHED, LOST, RUNNING, SCHEDULED

_US = 1_000  # nanoseconds
_S = 1_000_000  # microseconds


@dataclass(frozen=True)
class Use:
    """Shares of capacity (None: there was none) and resource-seconds held by gangs that did not run."""

    cpu: float | None
    gpu: float | None
    held_idle_s: float  # core-seconds
    held_idle_gpu_s: float


def use(trial: Lifecycle, until_ns: int) -> Use:
    """Between the first submission and `until_ns`."""
    ran, held = _microseconds(trial, until_ns)
    phases = trial.trial.shapes
    capacity = _capacity(trial, until_ns)
    used = {gpu: sum(us * _amount(phases[p].get("requests"), gpu) for p, us in ran.items()) for gpu in (False, True)}
    idle = {gpu: sum(us * _amount(phases[p].get("requests"), gpu) for p, us in held.items()) for gpu in (False, True)}
    return Use(
        cpu=used[False] / capacity[False] if capacity[False] else None,
        gpu=used[True] / capacity[True] if capacity[True] else None,
        held_idle_s=idle[False] / 1000 / _S,
        held_idle_gpu_s=idle[True] / _S,
    )


def _microseconds(trial: Lifecycle, until_ns: int) -> tuple[dict[str, int], dict[str, int]]:
    """Per phase: pod-microseconds that containers ran, and that pods of gangs were held while the gang did not run."""
    stages = trial.pods.columns
    if RUNNING.name not in stages or SCHEDULED.name not in stages:
        return {}, {}
    phases = trial.trial.shapes
    gangs = [name for name, phase in phases.items() if phase.get("gang")]
    ends = [name for name in (FAILED.name, DELETED.name) if name in trial.workloads.columns]
    whole = trial.workloads.select(
        pl.col("number").alias("workload"), pl.col("shape").alias("phase"), pl.col(RUNNING.name).alias("whole"),
        pl.min_horizontal(*ends, pl.lit(until_ns)).clip(upper_bound=until_ns).alias("gone"),
    )  # fmt: skip
    over = pl.coalesce(*(name for name in (FINISHED.name, LOST.name) if name in stages), "gone")
    ran_until = pl.min_horizontal(over, pl.lit(until_ns))
    held_until = pl.min_horizontal("whole", "gone", over)
    ran = (ran_until - pl.col(RUNNING.name).clip(lower_bound=trial.first_ns)).clip(lower_bound=0)
    held = (held_until - pl.col(SCHEDULED.name).clip(lower_bound=trial.first_ns)).clip(lower_bound=0)
    sums = (
        trial.pods.join(whole, on="workload", how="inner")
        .group_by("phase", maintain_order=False)
        .agg((ran // _US).sum().alias("ran"), (held // _US).sum().alias("held"))
        .rows()
    )
    known = [(str(phase), int(ran), int(held)) for phase, ran, held in sums if phase in phases]
    return {phase: ran for phase, ran, _ in known}, {phase: held for phase, _, held in known if phase in gangs}


def _capacity(trial: Lifecycle, until_ns: int) -> dict[bool, int]:
    """Unit-microseconds of cpu (False) and GPUs (True) that existed."""
    total = {False: 0, True: 0}
    for group in trial.trial.document.get("nodes") or ():
        since = max(int(group.get("from_ns") or 0), trial.first_ns)
        gone = group.get("until_ns")
        until = until_ns if gone is None else min(int(gone), until_ns)
        us = max(until - since, 0) // _US * int(group.get("count", 1))
        for gpu in (False, True):
            total[gpu] += us * _amount(group.get("capacity"), gpu)
    return total


def _amount(amounts: Mapping[str, Any] | None, gpu: bool) -> int:
    """Millicores, or GPUs of any vendor (`nvidia.com/gpu`, `amd.com/gpu`)."""
    if gpu:
        return sum(int(amount) for name, amount in (amounts or {}).items() if name.endswith("/gpu"))
    return int((amounts or {}).get("cpu", 0))
