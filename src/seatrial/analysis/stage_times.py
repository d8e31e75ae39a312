"""When every workload and every pod reached every stage: one wide table of each, in nanoseconds since the epoch.

An object may be seen to reach a stage more than once (several sources, overlapping segments): the smallest error wins, then the
earliest time. A workload reaches a pod stage when its last pod does; a lost pod does not count, its replacement does. If more pods
reach the stage than the workload has (retries), the time is that of the n-th of n pods: the latest of all could be after the next
stage.

Numbers of workloads and pods are dense, so a stage is one array that the observations are scattered into: of 100,000 workloads all
stages take 0.1 s, and a small trial 5 ms, where a join per stage took 0.4 s and 20 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from seatrial.model.errors import SetupProblem
from seatrial.model.lifecycle import COMPLETED, FAILED, LOST, RUNNING, STANDARD, SUBMITTED
from seatrial.record import merging
from seatrial.record.evictions import NO_EVICTIONS
from seatrial.record.segments import Observations
from seatrial.record.submissions import NOTHING_SUBMITTED, SubmittedTable, read_submitted
from seatrial.record.trial_record import TrialRecord

FIRST_RUNNING = "first_running"
KEPT_PODS = 400_000  # pods and workloads that are kept in memory, some 100 MB
LARGEST_KEPT = 4_000  # of one trial
LEAST = 50  # an empty table takes memory too
_NEVER = np.iinfo(np.int64).min
_Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Lifecycle:
    """The stages of one trial's workloads and pods.

    `workloads`: number, workload (its name), phase, pods, queue, class, priority, index, shape (of its pods: the name in
    `TrialRecord.shapes`), one column per stage of the trial, `first_running`.
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
    evictions: pl.DataFrame = field(default_factory=lambda: NO_EVICTIONS)  # and admissions after them, by time

    def reached(self, stage: str) -> int:
        """How many workloads reached the stage."""
        return self.workloads[stage].count() if stage in self.workloads.columns else 0

    def first(self, stage: str) -> int | None:
        """When the first workload reached the stage."""
        return _whole(self.workloads[stage].min()) if stage in self.workloads.columns else None

    def last(self, stage: str) -> int | None:
        """When the last workload reached the stage."""
        return _whole(self.workloads[stage].max()) if stage in self.workloads.columns else None

    @property
    def end_ns(self) -> int:
        """When the observation ended: by trial.json, or for a trial that was cut off the last time seen."""
        end = self.trial.document.get("end_ns")
        if isinstance(end, int) and not self.trial.cut_off:
            return end
        seen = [self.last(stage.name) for stage in self.trial.stages]
        seen += [_whole(self.pods[s.name].max()) for s in self.trial.stages if s.of == "pod"]
        return max((at for at in seen if at is not None), default=self.first_ns)


def lifecycle(trial: TrialRecord, observed: Observations | None = None) -> Lifecycle:
    """Reads a trial's observations, sealed or not, unless they are given. Of a damaged trial, what can still be read."""
    submitted = _submitted(trial)
    part = observed or _observed(trial)
    seen = _worst_first(part.observed, trial.errors_ns)
    pods, pod_times, pod_errors = _pods(part.pods, seen, trial)
    of_pods = part.pods["workload"].to_numpy()
    workloads = submitted.frame.clone()
    workloads.columns = [SUBMITTED.name if name == "at_ns" else name for name in workloads.columns]
    workloads = workloads.with_columns(pl.coalesce("shape", "phase").alias("shape"))
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
        times[stage.name], first = _of_pods(of_pods, pod_times, stage.name, sizes)
        errors[stage.name] = _worst_of_pods(of_pods, pod_errors[stage.name], room)
        if stage.name == RUNNING.name:
            times[FIRST_RUNNING] = first
    workloads = _with_times(workloads, {name: at[numbers] for name, at in times.items()})
    ends = [*_completed_by_running(trial), *(_refused(trial) if workloads["refused"].count() else ())]
    if ends:
        workloads = workloads.with_columns(*ends)
    notes = (f"{trial.name}: {submitted.note}",) if submitted.note else ()
    errors = {name: error[numbers] for name, error in errors.items()}
    step = trial.resolution_ns
    if step > 1:
        workloads = workloads.with_columns(pl.col(SUBMITTED.name, *times) // step * step)
        pods = pods.with_columns(pl.col(stage.name for stage in trial.stages if stage.of == "pod") // step * step)
        errors = {name: error + step for name, error in errors.items()}
    evictions = part.evictions.with_columns(pl.col("at_ns") // step * step) if step > 1 else part.evictions
    return Lifecycle(trial, workloads, pods, submitted.first_ns // step * step, notes, part.nodes, errors, evictions)


Read = Callable[[TrialRecord], Lifecycle]  # of a trial what is wanted: all of it, or only some workloads


class LifecycleCache:
    """Reads trials like `lifecycle`, and keeps small ones and the last one: tables, pictures and page read each several times.
    Reading a tiny trial takes 5 ms, one of a million workloads seconds."""

    def __init__(self) -> None:
        self._kept: dict[str, Lifecycle] = {}
        self._last: Lifecycle | None = None
        self._room = KEPT_PODS

    def __call__(self, trial: TrialRecord) -> Lifecycle:
        seen = self._kept.get(trial.name)
        if seen is None and self._last is not None and self._last.trial.name == trial.name:
            seen = self._last
        if seen is None:
            self._last = None  # before the next is read: two of a million workloads are a gigabyte
            self._last = seen = lifecycle(trial)
            size = seen.pods.height + seen.workloads.height + LEAST
            if size <= min(self._room, LARGEST_KEPT):
                self._room -= size
                self._kept[trial.name] = seen
        return seen


def _submitted(trial: TrialRecord) -> SubmittedTable:
    try:
        return read_submitted(trial.directory)
    except SetupProblem:
        if not trial.damage:
            raise
        return NOTHING_SUBMITTED


def _observed(trial: TrialRecord) -> Observations:
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
    """All stages of several trials in lifecycle order: the standard ones, with stages of stacks in between."""
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
    """Per stage but the first, `STAGE_delta`: nanoseconds since the last earlier stage that the workload reached."""
    present = [name for name in stages if name in workloads.columns]
    return [
        (pl.col(name) - pl.coalesce(list(reversed(present[:position])))).alias(f"{name}_delta")
        for position, name in enumerate(present)
        if position
    ]


def turnaround(workloads: pl.DataFrame) -> pl.Series:
    """Completed − submitted in nanoseconds, of completed workloads."""
    if COMPLETED.name not in workloads.columns:
        return pl.Series("turnaround", dtype=pl.Int64)
    took = (pl.col(COMPLETED.name) - pl.col(SUBMITTED.name)).alias("turnaround")
    return workloads.select(took).to_series().drop_nulls()


def _worst_first(observed: pl.DataFrame, errors: Sequence[int]) -> dict[str, _Times]:
    """The columns of the observations, sorted so that of several about the same thing the best comes last."""
    names = ("at_ns", "object", "stage", "node", "source", "detail")
    columns = {name: observed[name].to_numpy() for name in names}
    columns["error"] = merging.errors_of(columns.pop("source"), columns.pop("detail"), errors)
    order = np.lexsort((-columns["at_ns"], -columns["error"]))
    return {name: column[order] for name, column in columns.items()}


def _times(seen: dict[str, _Times], stage: int, room: int) -> tuple[_Times, _Times, _Times]:
    """For each object, by number: when it reached the stage, on which node, and the error of the time."""
    here = np.flatnonzero((seen["stage"] == stage) & (seen["object"] < room))
    objects = seen["object"][here]
    at, node, error = np.full(room, _NEVER), np.full(room, -1), np.zeros(room, dtype=np.int64)
    at[objects] = seen["at_ns"][here]  # of indices that come twice, numpy keeps the last
    error[objects] = seen["error"][here]
    named = seen["node"][here] >= 0
    node[objects[named]] = seen["node"][here][named]
    return at, node, error


def _pods(
    names: pl.DataFrame, seen: dict[str, _Times], trial: TrialRecord
) -> tuple[pl.DataFrame, dict[str, _Times], dict[str, _Times]]:
    """One row per pod: the time of each stage, and the node of the first stage that names one; then times and errors as arrays."""
    times: dict[str, _Times] = {}
    errors: dict[str, _Times] = {}
    node = np.full(names.height, -1)
    for number, stage in enumerate(trial.stages):
        if stage.of == "pod":
            times[stage.name], where, errors[stage.name] = _times(seen, number, names.height)
            node = np.where(node < 0, where, node)
    pods = pl.DataFrame([names["pod"], names["workload"], names["name"], pl.Series("node", node.astype(np.int32))])
    if (node < 0).any():
        pods = pods.with_columns(pl.when(pl.col("node") >= 0).then(pl.col("node")))
    return _with_times(pods, times), times, errors


def _completed_by_running(trial: TrialRecord) -> list[pl.Expr]:
    """An interactive workload has no end: it completes when it runs."""
    interactive = [name for name, phase in trial.phases.items() if phase.get("interactive")]
    if not interactive:
        return []
    runs = pl.when(pl.col("phase").is_in(interactive)).then(RUNNING.name).otherwise(COMPLETED.name)
    return [runs.alias(COMPLETED.name)]


def _refused(trial: TrialRecord) -> list[pl.Expr]:
    """A workload that the server refused has failed."""
    if FAILED.name not in [stage.name for stage in trial.stages]:
        return []
    refused = pl.col("refused").fill_null("") != ""
    return [pl.when(refused).then(pl.coalesce(FAILED.name, SUBMITTED.name)).otherwise(FAILED.name).alias(FAILED.name)]


def _worst_of_pods(workload: _Times, errors: _Times, room: int) -> _Times:
    worst = np.zeros(room, dtype=np.int64)
    known = workload < room
    np.maximum.at(worst, workload[known], errors[known])
    return worst


def _of_pods(workload: _Times, times: dict[str, _Times], stage: str, sizes: _Times) -> tuple[_Times, _Times]:
    """When each workload reached a stage of its pods, and when its first pod did."""
    reached = (times[stage] != _NEVER) & (workload < len(sizes))
    if LOST.name in times:
        reached &= times[LOST.name] == _NEVER
    workload, at = workload[reached], times[stage][reached]
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
    """Adds a column per stage, null where it was not reached. An expression costs 0.2 ms, so only mixed columns need one."""
    missing = {name: np.count_nonzero(at == _NEVER) for name, at in times.items()}
    nothing = pl.Series([None], dtype=pl.Int64)
    frame = frame.hstack([
        pl.Series(name, at) if missing[name] < len(at) or not len(at) else nothing.new_from_index(0, len(at)).alias(name)
        for name, at in times.items()
    ])  # fmt: skip
    mixed = [name for name, at in times.items() if 0 < missing[name] < len(at)]
    return frame.with_columns(pl.when(pl.col(mixed) != _NEVER).then(pl.col(mixed))) if mixed else frame


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None
