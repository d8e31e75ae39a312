"""The figures of one trial: its row in summary.csv, what `expect` is about, and what is printed when the trial ends.

Definitions:

- `total_s`: first submission → last completion; empty unless the outcome is `completed` and every workload completed.
  `rate_per_s` is completed / total_s, so it is empty with it: a stack that clogs must not look fast.
- `creation_per_s`, `dispatch_per_s`: (n − 1) / (last − first) of the n workloads that the server showed, that the queue
  admitted. Without a queue the Job controller dispatches: a workload is dispatched when all its pods are created.
- `p50_s` …: percentiles of turnaround (completed − submitted) of completed workloads by nearest rank: the ⌈p·n⌉-th
  smallest, which some workload really had. With fewer than 100 workloads p99 is the largest.
- `bound_per_s`: (n − 1) / (last − first) of the n pods that were bound to a node. `schedule_p50_s`, `schedule_p99_s`: percentiles
  of a pod's time from created to bound, by nearest rank: what the scheduler, and whatever gates a pod, took.
- Figures of one submit phase (`p99_s(phase=prod)`, see `asked_of`) are the same of its workloads alone; `total_s` runs from its own
  first submission to its own last completion, and is empty unless all of its workloads completed.
- `cpu_util`, `gpu_util`, `held_idle_s`: see `utilisation`; from the first submission to the last completion, or to the
  end of the trial where not everything completed.
- `nodes`: that were there at any time. `workloads`: that the steps would submit, where trial.json says how many.
- `submitted` = `completed` + `failed` + `deleted` + `pending`, each workload counted once, the earlier word winning.
- `evidence`: `real` for real components, `verified model` for a model that was held against them, `unverified model` for another.
- `clog`: the kind of the clog that was diagnosed, empty if none was. `stalls`, `stalled_s`: times at which no workload got on for
  30 s or more although the trial went on, and how long they were in all. `audit_NAME`: how much the audit of that name found;
  empty for a trial that was interrupted, which nobody audits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from seatrial.analysis import api
from seatrial.analysis.directory import TrialRecord, read_trial
from seatrial.analysis.lifecycle import Lifecycle, lifecycle, turnaround
from seatrial.analysis.utilisation import use
from seatrial.model.lifecycle import ADMITTED, COMPLETED, CREATED, DELETED, FAILED, PODS_CREATED, SCHEDULED, SUBMITTED
from seatrial.model.units import SECOND
from seatrial.scenario.expressions import figure_of, phase_of

Figures = dict[str, float | str | None]

# What is looked for after every trial: the audit's name in trial.json, and what its figure is called.
AUDITS: Mapping[str, str] = {
    "misfit": "audit_misfit",
    "aggregate admission": "audit_aggregate",
    "over-admission": "audit_overadmitted",
    "declared otherwise": "audit_declared",
    "gang in part": "audit_partial",
    "overtaken": "audit_overtaken",
}

# Columns of summary.csv: before the parameters, after them, and what stands behind those that the design names.
BEFORE: tuple[str, ...] = ("scenario", "on", "setup", "stack", "repeat", "seed")
COUNTS: tuple[str, ...] = ("nodes", "workloads", "pods", "submitted", "completed")
AFTER: tuple[str, ...] = (
    *COUNTS, "outcome", "total_s", "rate_per_s", "dispatch_per_s", "p50_s", "p95_s", "p99_s",
    "cpu_util", "gpu_util", "held_idle_s", "valid",
)  # fmt: skip
MORE: tuple[str, ...] = (
    "failed", "deleted", "pending", "creation_per_s", "mean_s", "max_s", "held_idle_gpu_s", "bound_per_s",
    "schedule_p50_s", "schedule_p99_s", "end_s", "trial",
    "evidence", "clog", "stalls", "stalled_s", *AUDITS.values(), *api.FIGURES,
)  # fmt: skip
WHOLE = frozenset({"repeat", "seed", *COUNTS, "failed", "deleted", "pending", "stalls", *AUDITS.values(), *api.COUNTED})
TEXT = frozenset({"scenario", "on", "setup", "stack", "outcome", "trial", "evidence", "clog"})
FIXED = frozenset({*BEFORE, *AFTER, *MORE})


def figures(trial_dir: Path, document: Mapping[str, Any] | None = None) -> Figures:
    """The summary row of one trial. `document` stands in for its trial.json as long as that is not finished."""
    trial = read_trial(trial_dir) if document is None else TrialRecord(trial_dir, document)
    return figures_of(lifecycle(trial))


def figures_of(seen: Lifecycle) -> Figures:
    """The same for a trial that is read already."""
    trial, document = seen.trial, seen.trial.document
    planned = _planned(trial, seen.workloads.height)
    of_all = _of_workloads(seen, planned, trial.outcome == "completed")
    last = seen.last(COMPLETED.name)
    spent = use(seen, last if of_all["total_s"] is not None and last is not None else seen.end_ns)
    took = turnaround(seen.workloads)
    return {
        "scenario": str(document.get("scenario", "")),
        "on": str(document.get("on", "")),
        "setup": trial.setup,
        "stack": trial.stack,
        "repeat": int(document.get("repeat", 0)),
        "seed": int(document.get("seed", 0)),
        **{param_column(name): value for name, value in trial.params.items()},
        "nodes": sum(int(group.get("count", 1)) for group in document.get("nodes") or ()),
        **of_all,
        "outcome": trial.outcome,
        "cpu_util": spent.cpu,
        "gpu_util": spent.gpu,
        "held_idle_s": spent.held_idle_s,
        "valid": trial.valid,
        "creation_per_s": _rate(seen, CREATED.name),
        "mean_s": int((took // 1000).sum()) / took.len() / 1e6 if took.len() else None,
        "max_s": percentile(took.sort(), 100),
        "held_idle_gpu_s": spent.held_idle_gpu_s,
        "end_s": (seen.end_ns - seen.first_ns) / SECOND,
        "trial": trial.name,
        "evidence": trial.evidence,
        "clog": str((document.get("clog") or {}).get("kind", "")),
        **_stalls(document.get("stalls")),
        **{figure: None if trial.unaudited else trial.audits.get(name, 0) for name, figure in AUDITS.items()},
        **api.figures(trial),
    }


def _stalls(stalls: Any) -> Figures:
    """Empty where nobody looked for them: in studies of older versions, and where `seatrial sample` judged the trial."""
    if not isinstance(stalls, list):
        return {"stalls": None, "stalled_s": None}
    return {"stalls": len(stalls), "stalled_s": sum(one["until_ns"] - one["from_ns"] for one in stalls) / SECOND}


def _of_workloads(seen: Lifecycle, planned: int, well: bool) -> Figures:
    """What can be said of all workloads of a trial, and of those of one phase (`expressions.OF_PHASES`)."""
    submitted, ends = seen.workloads.height, _ends(seen)
    last = seen.last(COMPLETED.name)
    whole = well and ends["completed"] == submitted == planned > 0 and last is not None
    total = (last - seen.first_ns) / SECOND if whole and last is not None else None
    took = turnaround(seen.workloads).sort()
    waited = _scheduling(seen)
    return {
        "workloads": planned,
        "pods": int(seen.workloads["pods"].sum()),
        "submitted": submitted,
        **ends,
        "total_s": total,
        "rate_per_s": ends["completed"] / total if total else None,
        "dispatch_per_s": _rate(seen, ADMITTED.name if _has(seen.trial, ADMITTED.name) else PODS_CREATED.name),
        **{f"p{percent}_s": percentile(took, percent) for percent in (50, 95, 99)},
        "bound_per_s": _rate_of(seen.pods[SCHEDULED.name]) if SCHEDULED.name in seen.pods.columns else None,
        **{f"schedule_p{percent}_s": percentile(waited, percent) for percent in (50, 99)},
    }


def _scheduling(seen: Lifecycle) -> pl.Series:
    """Per pod, nanoseconds from created to bound, sorted."""
    if not {PODS_CREATED.name, SCHEDULED.name} <= set(seen.pods.columns):
        return pl.Series("waited", dtype=pl.Int64)
    return (seen.pods[SCHEDULED.name] - seen.pods[PODS_CREATED.name]).drop_nulls().sort()


def asked_of(trial: TrialRecord, names: Iterable[str], seen: Lifecycle | None = None) -> Figures:
    """Figures that are no columns of summary.csv: of single identities (`rejected(tenant)`) and phases (`p99_s(phase=prod)`).
    Of a phase that submitted nothing here they are empty."""
    wanted = list(dict.fromkeys(names))
    found: Figures = {**api.asked_of(trial, [name for name in wanted if not phase_of(name)])}
    phases = dict.fromkeys(phase for name in wanted if (phase := phase_of(name)))
    if phases and seen is None:
        seen = lifecycle(trial)
    for phase in phases:
        assert seen is not None
        values = _of_phase(seen, phase)
        found |= {name: values.get(figure_of(name)) for name in wanted if phase_of(name) == phase}
    return found


def _of_phase(seen: Lifecycle, phase: str) -> Figures:
    workloads = seen.workloads.filter(pl.col("phase") == phase)
    pods = seen.pods.join(workloads.select(pl.col("number").alias("workload")), on="workload", how="semi")
    first = workloads[SUBMITTED.name].min()
    part = replace(seen, workloads=workloads, pods=pods, first_ns=first if isinstance(first, int) else seen.first_ns)
    planned = (seen.trial.phases.get(phase) or {}).get("count")
    return _of_workloads(part, planned if isinstance(planned, int) else workloads.height, well=True)


def since_first_s(at_ns: Any, row: Figures, document: Mapping[str, Any]) -> float | None:
    """A moment of a trial, as the tables have it: seconds after its first submission."""
    end, end_s = document.get("end_ns"), row.get("end_s")
    if not isinstance(at_ns, int) or not isinstance(end, int) or not isinstance(end_s, int | float):
        return None
    return (at_ns - end) / SECOND + end_s


def param_column(name: str) -> str:
    """A parameter's column: its name, unless that is a figure (a scenario may well have a parameter `pods`)."""
    return f"param_{name}" if name in FIXED else name


def varying(trials: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Of set-ups and their parameters, those parameters that have several values in one set-up; what set-ups differ in
    their names tell."""
    seen: dict[tuple[str, str], set[str]] = {}
    for setup, params in trials:
        for name, value in params.items():
            seen.setdefault((name, setup), set()).add(as_text(value))
    return list(dict.fromkeys(name for (name, _), values in seen.items() if len(values) > 1))


def as_text(value: Any) -> str:
    """A parameter's value as tables have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def percentile(ordered: pl.Series, percent: int) -> float | None:
    """Nearest rank of a sorted series of nanoseconds, in seconds."""
    if ordered.is_empty():
        return None
    rank = -(-percent * ordered.len() // 100)
    return float(ordered[max(rank, 1) - 1] / SECOND)


def _planned(trial: TrialRecord, submitted: int) -> int:
    """How many workloads the steps would submit, where trial.json says so (`count` of a phase)."""
    counts = [phase.get("count") for phase in trial.phases.values()]
    whole = [count for count in counts if isinstance(count, int)]
    return sum(whole) if whole and len(whole) == len(counts) else submitted


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


def _rate(seen: Lifecycle, stage: str) -> float | None:
    return _rate_of(seen.workloads[stage]) if stage in seen.workloads.columns else None


def _rate_of(times: pl.Series) -> float | None:
    """Per second, of moments in nanoseconds, from the first to the last."""
    first, last = times.min(), times.max()
    if times.count() < 2 or not isinstance(first, int) or not isinstance(last, int) or last <= first:
        return None
    return (times.count() - 1) * SECOND / (last - first)


def _has(trial: TrialRecord, stage: str) -> bool:
    return any(s.name == stage for s in trial.stages)
