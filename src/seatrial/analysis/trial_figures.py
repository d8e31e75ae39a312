"""The figures of one trial: its row in summary.csv, what `expect` is about, and what is printed when the trial ends.

`model.figures` has the table of figures with their definitions. Here is one function for each, under the same name: it computes the
figure from a `Sample`, which is a whole trial or the part of it that a group names (`p99_s(phase=prod)`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import polars as pl

from seatrial.analysis import api_load, team_figures
from seatrial.analysis.api_load import ApiLoad, nearest_rank
from seatrial.analysis.cells import param_column
from seatrial.analysis.fair_shares import FleetUse
from seatrial.analysis.holdings import lost_microseconds, pod_microseconds, waits_ns
from seatrial.analysis.stage_times import Lifecycle, Read, lifecycle, turnaround
from seatrial.analysis.utilisation import Use, use
from seatrial.model import figures as table
from seatrial.model.figures import CLASS, FIGURES, IDENTITY, PHASE, QUEUE, Value
from seatrial.model.lifecycle import ADMITTED, COMPLETED, CREATED, DELETED, FAILED, PODS_CREATED, SCHEDULED, SUBMITTED
from seatrial.model.units import SECOND
from seatrial.record.trial_record import TrialRecord

Figures = dict[str, Value]


class Sample:
    """What figures are computed from: a trial, or a part of it. Everything is computed once, and only when it is asked for.

    A part says how many workloads were `planned` in it, or which `requests` it has. It may have completed in a trial that did not.
    """

    def __init__(
        self,
        trial: TrialRecord,
        seen: Lifecycle | None = None,
        planned: int | None = None,
        requests: pl.DataFrame | None = None,
        read: Read = lifecycle,
        whole: Sample | None = None,
        queue: str = "",
    ) -> None:
        self.trial: TrialRecord = trial
        self.document = trial.document
        self.is_part = planned is not None
        self.whole, self.queue = whole, queue  # of a queue: the trial that it is a part of
        self._seen, self._planned, self._requests, self._read = seen, planned, requests, read
        self._divided: dict[str, Mapping[str, Lifecycle]] = {}

    @cached_property
    def seen(self) -> Lifecycle:
        """Its workloads and pods."""
        return self._seen or self._read(self.trial)

    @cached_property
    def planned(self) -> int:
        """How many workloads the steps would submit, where trial.json says so (`count` of every phase)."""
        if self._planned is not None:
            return self._planned
        counts = [phase.get("count") for phase in self.trial.phases.values()]
        whole = [count for count in counts if isinstance(count, int)]
        return sum(whole) if whole and len(whole) == len(counts) else self.seen.workloads.height

    @cached_property
    def ends(self) -> dict[str, int]:
        """How many workloads completed, failed, were deleted, or did none of these."""
        return _ends(self.seen)

    @cached_property
    def total_s(self) -> float | None:
        """None unless every planned workload completed."""
        last, submitted = self.seen.last(COMPLETED.name), self.seen.workloads.height
        well = self.is_part or self.trial.outcome == "completed"
        whole = well and self.ends["completed"] == submitted == self.planned > 0
        return (last - self.seen.first_ns) / SECOND if whole and last is not None else None

    @cached_property
    def turnaround(self) -> pl.Series:
        """Turnarounds of completed workloads, sorted."""
        return turnaround(self.seen.workloads).sort()

    @cached_property
    def scheduling(self) -> pl.Series:
        """Per pod, nanoseconds from created to bound, sorted."""
        if not {PODS_CREATED.name, SCHEDULED.name} <= set(self.seen.pods.columns):
            return pl.Series("waited", dtype=pl.Int64)
        return (self.seen.pods[SCHEDULED.name] - self.seen.pods[PODS_CREATED.name]).drop_nulls().sort()

    @cached_property
    def use(self) -> Use:
        """How much of the nodes was used."""
        return use(self.seen, self._until_ns)

    @property
    def _until_ns(self) -> int:
        """The last completion, or the end of the trial if not everything completed."""
        last = self.seen.last(COMPLETED.name)
        return last if self.total_s is not None and last is not None else self.seen.end_ns

    @cached_property
    def load(self) -> ApiLoad:
        """Its API requests."""
        return ApiLoad(self.trial)

    @cached_property
    def waits(self) -> pl.Series:
        """Nanoseconds until the first place, sorted."""
        return waits_ns(self.seen)

    @cached_property
    def evicted(self) -> Mapping[str, int]:
        """Reason → evictions."""
        return team_figures.counted_evictions(self.seen)

    @cached_property
    def held_us(self) -> Mapping[str, int]:
        """Phase → microseconds that its pods were bound."""
        return pod_microseconds(self.seen)

    @cached_property
    def lost_us(self) -> Mapping[str, int]:
        """Phase → microseconds of its pods that evictions threw away."""
        return lost_microseconds(self.seen)

    @cached_property
    def fleet(self) -> FleetUse:
        """The queues of the whole trial."""
        return self.whole.fleet if self.whole else FleetUse(self.seen, self._until_ns)

    def divided(self, group: str) -> Mapping[str, Lifecycle]:
        """Queue or class → its workloads."""
        if group not in self._divided:
            self._divided[group] = team_figures.divided(self.seen, group)
        return self._divided[group]

    @cached_property
    def requests(self) -> Mapping[str, float | None]:
        """Counts and percentiles of its requests; empty for a trial that sent none."""
        if self._requests is not None:
            return api_load.counted(self._requests)
        return api_load.counted(self.load.sent) if self.load.there else {}


def _dispatched(of: Sample) -> float | None:
    """Without a queue the Job controller dispatches: a workload is dispatched when all its pods are created."""
    queues = any(stage.name == ADMITTED.name for stage in of.trial.stages)
    return _rate(of.seen.workloads, ADMITTED.name if queues else PODS_CREATED.name)


def _mean(of: Sample) -> float | None:
    took = of.turnaround
    return int((took // 1000).sum()) / took.len() / 1e6 if took.len() else None


def _stalls(of: Sample) -> list[Any] | None:
    """None if stalls were not recorded: in studies of older versions, and by `seatrial sample`."""
    stalls = of.document.get("stalls")
    return stalls if isinstance(stalls, list) else None


def _stalled(of: Sample) -> float | None:
    stalls = _stalls(of)
    return None if stalls is None else sum(one["until_ns"] - one["from_ns"] for one in stalls) / SECOND


def _audit(name: str, of: Sample) -> int | None:
    return None if of.trial.unaudited else of.trial.audits.get(name, 0)


def _counted(name: str, of: Sample) -> float | None:
    """A figure of requests, of the load or of one identity."""
    return of.requests.get(name)


def _load(function: Callable[[ApiLoad], float | None], of: Sample) -> float | None:
    """A figure of the load as a whole; None for a trial that sent no requests."""
    return function(of.load) if of.load.there else None


FUNCTIONS: Mapping[str, Callable[[Sample], Value]] = {
    "scenario": lambda of: str(of.document.get("scenario", "")),
    "on": lambda of: str(of.document.get("on", "")),
    "setup": lambda of: of.trial.setup,
    "stack": lambda of: of.trial.stack,
    "repeat": lambda of: int(of.document.get("repeat", 0)),
    "seed": lambda of: int(of.document.get("seed", 0)),
    "nodes": lambda of: sum(int(group.get("count", 1)) for group in of.document.get("nodes") or ()),
    "workloads": lambda of: of.planned,
    "pods": lambda of: int(of.seen.workloads["pods"].sum()),
    "submitted": lambda of: of.seen.workloads.height,
    "completed": lambda of: of.ends["completed"],
    "failed": lambda of: of.ends["failed"],
    "deleted": lambda of: of.ends["deleted"],
    "pending": lambda of: of.ends["pending"],
    "outcome": lambda of: of.trial.outcome,
    "valid": lambda of: of.trial.valid,
    "total_s": lambda of: of.total_s,
    "rate_per_s": lambda of: of.ends["completed"] / of.total_s if of.total_s else None,
    "cpu_util": lambda of: of.use.cpu,
    "gpu_util": lambda of: of.use.gpu,
    "creation_per_s": lambda of: _rate(of.seen.workloads, CREATED.name),
    "dispatch_per_s": _dispatched,
    "p50_s": lambda of: nearest_rank(of.turnaround, 50),
    "p95_s": lambda of: nearest_rank(of.turnaround, 95),
    "p99_s": lambda of: nearest_rank(of.turnaround, 99),
    "mean_s": _mean,
    "max_s": lambda of: nearest_rank(of.turnaround, 100),
    "held_idle_s": lambda of: of.use.held_idle_s,
    "held_idle_gpu_s": lambda of: of.use.held_idle_gpu_s,
    "bound_per_s": lambda of: _rate(of.seen.pods, SCHEDULED.name),
    "schedule_p50_s": lambda of: nearest_rank(of.scheduling, 50),
    "schedule_p99_s": lambda of: nearest_rank(of.scheduling, 99),
    "end_s": lambda of: (of.seen.end_ns - of.seen.first_ns) / SECOND,
    "trial": lambda of: of.trial.name,
    "evidence": lambda of: of.trial.evidence,
    "clog": lambda of: str((of.document.get("clog") or {}).get("kind", "")),
    "stalls": lambda of: None if (stalls := _stalls(of)) is None else len(stalls),
    "stalled_s": _stalled,
    **{figure.name: partial(_audit, figure.audit) for figure in FIGURES.values() if figure.audit},
    **{figure.name: partial(_counted, figure.name) for figure in FIGURES.values() if IDENTITY in figure.groups},
    "requests_per_s": partial(_load, api_load.answered_per_s),
    "in_flight_max": partial(_load, api_load.most_in_flight),
    "queued_max": partial(_load, api_load.most_queued),
    "cpu_cores": partial(_load, api_load.busy_cores),
    "pod_start_p99_s": partial(_load, api_load.pod_start_p99),
    "heartbeat_gap_s": partial(_load, api_load.heartbeat_gap),
    **team_figures.FUNCTIONS,
}


def figures(trial_dir: Path, document: Mapping[str, Any] | None = None) -> Figures:
    """The summary row of one trial. `document` stands in for its trial.json as long as that is not finished."""
    trial = TrialRecord.open(trial_dir) if document is None else TrialRecord(trial_dir, document)
    return figures_of(lifecycle(trial))


def figures_of(seen: Lifecycle) -> Figures:
    """The same from a lifecycle."""
    of = Sample(seen.trial, seen)
    params = {param_column(name): value for name, value in seen.trial.params.items()}
    columns = table.columns(params, team_figures.is_shared(seen))
    return {name: params[name] if name in params else FUNCTIONS[name](of) for name in columns}


def asked_of(trial: TrialRecord, names: Iterable[str], read: Read = lifecycle) -> Figures:
    """Figures that may be no columns of summary.csv: of members of groups (`rejected(tenant)`, `p99_s(phase=prod)`), and of shared
    fleets (`wait_p99_s`)."""
    whole = Sample(trial, read=read)
    parts: dict[tuple[str, str], Sample] = {("", ""): whole}
    found: Figures = {}
    for name in dict.fromkeys(names):
        figure, group, member = table.split(name)
        if (group, member) not in parts:
            parts[group, member] = PARTS[group](whole, member)
        found[name] = FUNCTIONS[figure](parts[group, member])
    return found


def _of_phase(whole: Sample, phase: str) -> Sample:
    """Times count from the first submission of the phase. A phase that submitted nothing has counts of 0, and no times."""
    seen = whole.seen
    workloads = seen.workloads.filter(pl.col("phase") == phase)
    pods = seen.pods.join(workloads.select(pl.col("number").alias("workload")), on="workload", how="semi")
    first = workloads[SUBMITTED.name].min()
    evictions = seen.evictions.join(workloads.select(pl.col("number").alias("workload")), on="workload", how="semi")
    first_ns = first if isinstance(first, int) else seen.first_ns
    part = replace(seen, workloads=workloads, pods=pods, evictions=evictions, first_ns=first_ns)
    planned = (seen.trial.phases.get(phase) or {}).get("count")
    return Sample(whole.trial, part, planned if isinstance(planned, int) else workloads.height)


def _of_identity(whole: Sample, identity: str) -> Sample:
    """An identity that sent nothing has counts of 0, and no times. Components and nodes are identities too, if audited."""
    return Sample(whole.trial, requests=whole.load.of_identity(identity))


def part_of(whole: Sample, group: str, member: str) -> Sample:
    """A queue or a class. One without workloads has counts of 0, and no times."""
    seen = whole.divided(group).get(member) or team_figures.nothing_of(whole.seen)
    missing = whole.planned - whole.seen.workloads.height  # of which queue and class they would be is not known
    return Sample(
        whole.trial, seen, seen.workloads.height + missing, whole=whole, queue=member if group == QUEUE else ""
    )


# Group → the members that a trial has, and the part of the trial that a member names.
MEMBERS: Mapping[str, Callable[[TrialRecord], Iterable[str]]] = {
    PHASE: lambda trial: trial.phases,
    IDENTITY: api_load.identities,
    QUEUE: lambda trial: [queue.name for queue in trial.fleet.queues],
    CLASS: team_figures.classes,
}
PARTS: Mapping[str, Callable[[Sample, str], Sample]] = {
    PHASE: _of_phase, IDENTITY: _of_identity,
    QUEUE: lambda whole, name: part_of(whole, QUEUE, name), CLASS: lambda whole, name: part_of(whole, CLASS, name),
}  # fmt: skip


def since_first_s(at_ns: Any, row: Figures, document: Mapping[str, Any]) -> float | None:
    """A time in seconds since the first submission, as in the tables."""
    end, end_s = document.get("end_ns"), row.get("end_s")
    if not isinstance(at_ns, int) or not isinstance(end, int) or not isinstance(end_s, int | float):
        return None
    return (at_ns - end) / SECOND + end_s


def _ends(seen: Lifecycle) -> dict[str, int]:
    """Each workload once: completed, else failed, else deleted, else pending."""
    never, columns = pl.col("number").is_null(), seen.workloads.columns
    completed, failed, deleted = (
        pl.col(name).is_not_null() if name in columns else never for name in (COMPLETED.name, FAILED.name, DELETED.name)
    )
    row = seen.workloads.select(
        completed.sum().alias("completed"),
        (failed & ~completed).sum().alias("failed"),
        (deleted & ~failed & ~completed).sum().alias("deleted"),
        (~deleted & ~failed & ~completed).sum().alias("pending"),
    ).row(0, named=True)
    return {name: int(count) for name, count in row.items()}


def _rate(rows: pl.DataFrame, stage: str) -> float | None:
    """How many reached the stage per second, from the first to the last: (n − 1) / (last − first)."""
    times = rows[stage] if stage in rows.columns else pl.Series(dtype=pl.Int64)
    first, last = times.min(), times.max()
    if times.count() < 2 or not isinstance(first, int) or not isinstance(last, int) or last <= first:
        return None
    return (times.count() - 1) * SECOND / (last - first)
