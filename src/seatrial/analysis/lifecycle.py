"""When every workload and every pod reached every stage: one wide table of each, in nanoseconds since the epoch.

An object may be seen to reach a stage more than once (several sources, segments that overlap): the smallest error wins,
then the earliest time. A workload reaches a pod stage when its last pod does; a pod that was lost counts for nothing,
the one that took its place counts. Where more pods than it has reached the stage all the same (retries), it is the
moment at which as many as it has were there: the latest of all could lie behind the next stage.

Numbers of workloads and pods are dense, so a stage is one array that the observations are scattered into: of 100,000
workloads all stages take 0.1 s, and a small trial 5 ms, where a join per stage took 0.4 s and 20 ms.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from seatrial.analysis.directory import NOTHING_SUBMITTED, TRIAL, Submitted, TrialRecord, read_submitted
from seatrial.model.errors import SetupProblem
from seatrial.model.lifecycle import COMPLETED, FAILED, LOST, RUNNING, STANDARD, SUBMITTED
from seatrial.record import merging
from seatrial.record.segments import Part

FIRST_RUNNING = "first_running"
_NEVER = np.iinfo(np.int64).min
_Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Lifecycle:
    """What one trial's workloads and pods went through.

    `workloads`: number, workload (its name), phase, pods, one column per stage of the trial, `first_running`.
    `pods`: pod, workload (its number), name, node (its number), one column per pod stage of the trial.
    All times are Int64 nanoseconds since the epoch, null where the stage was not reached.
    """

    trial: TrialRecord
    workloads: pl.DataFrame
    pods: pl.DataFrame
    first_ns: int  # the first submission: second 0 of every table
    notes: tuple[str, ...] = ()
    nodes: Sequence[str] = ()  # names, by number
    errors: Mapping[str, _Times] = field(default_factory=dict)  # stage → how far off its time may be, per workload, ns

    def reached(self, stage: str) -> int:
        """How many workloads reached the stage."""
        return self.workloads[stage].count() if stage in self.workloads.columns else 0

    def first(self, stage: str) -> int | None:
        return _whole(self.workloads[stage].min()) if stage in self.workloads.columns else None

    def last(self, stage: str) -> int | None:
        return _whole(self.workloads[stage].max()) if stage in self.workloads.columns else None

    @property
    def end_ns(self) -> int:
        """When the observation of this trial ended: as it says, or for one cut off the last thing seen."""
        end = self.trial.document.get("end_ns")
        if isinstance(end, int) and not self.trial.cut_off:
            return end
        seen = [self.last(stage.name) for stage in self.trial.stages]
        seen += [_whole(self.pods[s.name].max()) for s in self.trial.stages if s.of == "pod"]
        return max((at for at in seen if at is not None), default=self.first_ns)


_kept: list[tuple[Any, Lifecycle]] = []  # what was read last, and what it depends on


def lifecycle(trial: TrialRecord) -> Lifecycle:
    """Reads a trial's observations, sealed or not. Of a trial that is known to be damaged, what can still be read.

    The last one is kept: after a run seven parts of the report ask for the same.
    """
    depends_on = (
        _files(trial.directory),
        trial.stages,
        trial.errors_ns,
        trial.resolution_ns,
        trial.phases,
        trial.damage,
    )
    kept = next(iter(_kept), None)
    if kept is not None and kept[0] == depends_on:
        return replace(kept[1], trial=trial)
    _kept.clear()
    seen = _read(trial)
    _kept[:] = [(depends_on, seen)]
    return seen


def _files(directory: Path) -> dict[str, tuple[int, int, int]]:
    """Everything that was observed, and how to tell whether it has changed."""
    found = [entry for entry in os.scandir(directory) if entry.name != TRIAL] if directory.is_dir() else []
    return {entry.path: (entry.stat().st_ino, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in found}


def _read(trial: TrialRecord) -> Lifecycle:
    submitted = _submitted(trial)
    part = _observed(trial)
    seen = _worst_first(part.observed, trial.errors_ns)
    pods, pod_errors = _pods(part.pods, seen, trial)
    workloads = submitted.frame.rename({"at_ns": SUBMITTED.name})
    numbers = workloads["number"].to_numpy()
    room = int(numbers[-1]) + 1 if len(numbers) else 0
    sizes = np.zeros(room, dtype=np.int64)
    sizes[numbers] = workloads["pods"].to_numpy()
    times: dict[str, _Times] = {}
    errors = {SUBMITTED.name: np.zeros(room, dtype=np.int64)}
    errors[SUBMITTED.name][numbers] = workloads["error_ns"].fill_null(0).to_numpy()
    for number, stage in enumerate(trial.stages):
        if stage.name in (SUBMITTED.name, LOST.name):
            continue  # submitted is the client's own word, from submitted.jsonl; only pods are lost
        if stage.of != "pod":
            times[stage.name], _, errors[stage.name] = _times(seen, number, room)
            continue
        times[stage.name], first = _of_pods(pods, stage.name, sizes)
        errors[stage.name] = _worst_of_pods(pods, pod_errors[stage.name], room)
        if stage.name == RUNNING.name:
            times[FIRST_RUNNING] = first
    workloads = _with_times(workloads, {name: at[numbers] for name, at in times.items()}).with_columns(
        *_completed_by_running(trial), *_refused(trial)
    )
    notes = (f"{trial.name}: {submitted.note}",) if submitted.note else ()
    errors = {name: error[numbers] for name, error in errors.items()}
    step = trial.resolution_ns
    if step > 1:
        workloads = workloads.with_columns(pl.col(SUBMITTED.name, *times) // step * step)
        pods = pods.with_columns(pl.col(stage.name for stage in trial.stages if stage.of == "pod") // step * step)
        errors = {name: error + step for name, error in errors.items()}
    return Lifecycle(trial, workloads, pods, submitted.first_ns // step * step, notes, part.nodes, errors)


def _submitted(trial: TrialRecord) -> Submitted:
    try:
        return read_submitted(trial.directory)
    except SetupProblem:
        if not trial.damage:
            raise
        return NOTHING_SUBMITTED


def _observed(trial: TrialRecord) -> Part:
    try:
        return merging.read(trial.directory, trial.stages, trial.errors_ns)
    except (pl.exceptions.PolarsError, OSError) as error:
        if trial.damage:
            return merging.EMPTY
        raise SetupProblem(
            f"the observations in {trial.directory} cannot be read: {error}",
            "They were damaged after the run; take them from a backup, or run again.",
        ) from error


def order_of(trials: Sequence[TrialRecord]) -> list[str]:
    """The names of all stages of several trials in lifecycle order: the standard ones, a stack's own in between."""
    order = [stage.name for stage in STANDARD]
    for trial in trials:
        position = -1
        for stage in trial.stages:
            if stage.name == LOST.name:
                continue
            if stage.name not in order:
                order.insert(position + 1, stage.name)
            position = order.index(stage.name)
    return order


def deltas(workloads: pl.DataFrame, stages: Sequence[str]) -> list[pl.Expr]:
    """Per stage but the first, `STAGE_delta`: nanoseconds since the last stage before it that the workload has."""
    present = [name for name in stages if name in workloads.columns]
    return [
        (pl.col(name) - pl.coalesce(list(reversed(present[:position])))).alias(f"{name}_delta")
        for position, name in enumerate(present)
        if position
    ]


def turnaround(workloads: pl.DataFrame) -> pl.Series:
    """Completed − submitted, in nanoseconds, of the workloads that completed."""
    if COMPLETED.name not in workloads.columns:
        return pl.Series("turnaround", dtype=pl.Int64)
    took = (pl.col(COMPLETED.name) - pl.col(SUBMITTED.name)).alias("turnaround")
    return workloads.select(took).to_series().drop_nulls()


def _worst_first(observed: pl.DataFrame, errors: Sequence[int]) -> dict[str, _Times]:
    """The columns of the observations so ordered that of several about the same thing the best comes last."""
    observed = observed.with_columns(merging.error_of(errors).alias("error"))
    columns = {name: observed[name].to_numpy() for name in ("at_ns", "object", "stage", "node", "error")}
    order = np.lexsort((-columns["at_ns"], -columns["error"]))
    return {name: column[order] for name, column in columns.items()}


def _times(seen: dict[str, _Times], stage: int, room: int) -> tuple[_Times, _Times, _Times]:
    """When each object reached the stage, by its number, the node named then, and how far off that may be."""
    here = np.flatnonzero((seen["stage"] == stage) & (seen["object"] < room))
    objects = seen["object"][here]
    at, node, error = np.full(room, _NEVER), np.full(room, -1), np.zeros(room, dtype=np.int64)
    at[objects] = seen["at_ns"][here]  # of indices that come twice, numpy keeps the last
    error[objects] = seen["error"][here]
    named = seen["node"][here] >= 0
    node[objects[named]] = seen["node"][here][named]
    return at, node, error


def _pods(names: pl.DataFrame, seen: dict[str, _Times], trial: TrialRecord) -> tuple[pl.DataFrame, dict[str, _Times]]:
    """One row per pod: the time of each of its stages, and the node that the first stage with one names. And how far off each
    time may be."""
    times: dict[str, _Times] = {}
    errors: dict[str, _Times] = {}
    node = np.full(names.height, -1)
    for number, stage in enumerate(trial.stages):
        if stage.of == "pod":
            times[stage.name], where, errors[stage.name] = _times(seen, number, names.height)
            node = np.where(node < 0, where, node)
    nodes = pl.when(pl.col("node") >= 0).then(pl.col("node")).cast(pl.Int32)
    pods = names.select("pod", "workload", "name").with_columns(pl.Series("node", node)).with_columns(nodes)
    return _with_times(pods, times), errors


def _completed_by_running(trial: TrialRecord) -> list[pl.Expr]:
    """An interactive workload has no end of its own: it has completed when it runs."""
    interactive = [name for name, phase in trial.phases.items() if phase.get("interactive")]
    if not interactive:
        return []
    runs = pl.when(pl.col("phase").is_in(interactive)).then(RUNNING.name).otherwise(COMPLETED.name)
    return [runs.alias(COMPLETED.name)]


def _refused(trial: TrialRecord) -> list[pl.Expr]:
    """What the server did not take will not complete."""
    if FAILED.name not in [stage.name for stage in trial.stages]:
        return []
    refused = pl.col("refused").fill_null("") != ""
    return [pl.when(refused).then(pl.coalesce(FAILED.name, SUBMITTED.name)).otherwise(FAILED.name).alias(FAILED.name)]


def _worst_of_pods(pods: pl.DataFrame, errors: _Times, room: int) -> _Times:
    worst = np.zeros(room, dtype=np.int64)
    workload = pods["workload"].to_numpy()
    known = workload < room
    np.maximum.at(worst, workload[known], errors[known])
    return worst


def _of_pods(pods: pl.DataFrame, stage: str, sizes: _Times) -> tuple[_Times, _Times]:
    """When each workload reached a stage of its pods, and when its first pod did."""
    kept = pl.col(LOST.name).is_null() if LOST.name in pods.columns else pl.lit(True)
    reached = pods.filter(pl.col(stage).is_not_null() & kept & (pl.col("workload") < len(sizes)))
    workload, at = reached["workload"].to_numpy(), reached[stage].to_numpy()
    at = at[np.lexsort((at, workload))]
    counts = np.bincount(workload, minlength=len(sizes))
    starts = np.cumsum(counts) - counts
    whole, first = np.full(len(sizes), _NEVER), np.full(len(sizes), _NEVER)
    full = np.flatnonzero((counts >= sizes) & (sizes > 0))
    whole[full] = at[starts[full] + sizes[full] - 1]
    some = np.flatnonzero(counts)
    first[some] = at[starts[some]]
    return whole, first


def _with_times(frame: pl.DataFrame, times: dict[str, _Times]) -> pl.DataFrame:
    if not times:
        return frame
    columns = pl.col(list(times))
    return frame.with_columns(pl.Series(name, at) for name, at in times.items()).with_columns(
        pl.when(columns != _NEVER).then(columns)
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None
