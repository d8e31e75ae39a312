"""Data of the step pictures: per lifecycle step and set-up, when a workload was submitted and how long the step took.

`general` has the steps that every stack has, each measured from the one before it; `detailed` has all steps of the stacks.
Trials of a set-up are pooled; trials that cannot be trusted are left out where there are others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from seatrial.analysis.stage_times import Lifecycle, deltas, order_of
from seatrial.analysis.studies import Study
from seatrial.model.lifecycle import COMPLETED, DELETED, FAILED, SUBMITTED, Stage
from seatrial.record.trial_record import TrialRecord

Seconds = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
KINDS = ("general", "detailed")
WHOLE = "in all"  # the last row: all steps together


@dataclass
class Points:
    """One set-up in one step: submission times and durations of workloads, in seconds."""

    submitted: list[Seconds] = field(default_factory=list)
    took: list[Seconds] = field(default_factory=list)

    def joined(self) -> tuple[Seconds, Seconds]:
        """All submissions and all times, in one array each."""
        return np.concatenate(self.submitted), np.concatenate(self.took)


@dataclass
class TimedStep:
    """One row of a picture."""

    stage: str
    title: str  # what the time was spent on
    about: str
    since: list[str] = field(default_factory=list)  # the stages it is measured from; set-ups may differ
    points: dict[str, Points] = field(default_factory=dict)  # by set-up


@dataclass(frozen=True)
class StepTimes:
    """The rows of one picture, and the trials pooled in it."""

    kind: str
    steps: Sequence[TimedStep]
    setups: Sequence[str]
    trials: int
    workloads: int
    left_out: int  # trials that are not to be trusted


def step_times(study: Study) -> dict[str, StepTimes]:
    """Both pictures' data in one pass over the trials, one trial in memory at a time."""
    trials = study.trusted
    order = _detailed(order_of(study.trials), trials)
    stages = {"general": [name for name in order if name in _general(trials)], "detailed": order}
    steps = {kind: {name: _step(trials, name) for name in stages[kind][1:]} for kind in KINDS}
    for kind in KINDS:
        steps[kind][WHOLE] = TimedStep(WHOLE, WHOLE, "from submitted to completed", [SUBMITTED.name])
    workloads = 0
    for trial in trials:
        seen = study.lifecycle(trial)
        workloads += seen.workloads.height
        for kind in KINDS:
            _add(steps[kind], seen, stages[kind])
    setups = list(dict.fromkeys(trial.setup for trial in trials))
    left_out = len(study.trials) - len(trials)
    return {
        kind: StepTimes(
            kind, [step for step in steps[kind].values() if step.points], setups, len(trials), workloads, left_out
        )
        for kind in KINDS
    }


def edges_of(values: Sequence[Seconds], bins: int) -> Seconds:
    """Common bins of all set-ups, with a margin if all values are equal."""
    low = min(float(np.min(v)) for v in values)
    high = max(float(np.max(v)) for v in values)
    low = min(low, 0.0) if low < 0.5 * high else low  # include 0 if it is near
    if high - low < 1e-9 + abs(high) * 1e-6:
        low, high = (low - 0.5, high + 0.5) if abs(high) < 1 else (low - abs(high) * 0.1, high + abs(high) * 0.1)
    return np.linspace(low, high, bins + 1)


def _add(steps: dict[str, TimedStep], seen: Lifecycle, stages: Sequence[str]) -> None:
    """Adds one trial to the steps of a picture."""
    present = [name for name in stages if name in seen.workloads.columns]
    columns = dict(zip(present[1:], deltas(seen.workloads, stages), strict=True))
    if COMPLETED.name in present:
        columns[WHOLE] = pl.col(COMPLETED.name) - pl.col(SUBMITTED.name)
    submitted = (pl.col(SUBMITTED.name) - seen.first_ns).alias("submitted")
    table = seen.workloads.select(submitted, *(delta.alias(name) for name, delta in columns.items())) / 1e9
    at = table["submitted"].to_numpy()
    before = SUBMITTED.name
    for name in columns:
        took = table[name].to_numpy()  # null has become NaN
        reached = np.flatnonzero(~np.isnan(took))
        if not len(reached):
            continue
        points = steps[name].points.setdefault(seen.trial.setup, Points())
        points.submitted.append(at[reached])
        points.took.append(took[reached])
        since = "the last stage reached" if name in (FAILED.name, DELETED.name) else before
        if name != WHOLE and since not in steps[name].since:
            steps[name].since.append(since)
        before = name


def _general(trials: Sequence[TrialRecord]) -> set[str]:
    return {stage.name for trial in trials for stage in trial.stages if stage.general} | {SUBMITTED.name}


def _detailed(order: Sequence[str], trials: Sequence[TrialRecord]) -> list[str]:
    """All stages, or the general ones and those in the setting `measure.stages`."""
    settings = [(trial.document.get("settings") or {}).get("measure") or {} for trial in trials]
    named = {name.strip() for one in settings for name in str(one.get("stages") or "all").split(",")}
    return [name for name in order if "all" in named or not named or name in named | _general(trials)]


def _step(trials: Sequence[TrialRecord], name: str) -> TimedStep:
    stage = next((stage for trial in trials for stage in trial.stages if stage.name == name), Stage(name, "", ""))
    return TimedStep(name, stage.step, f"until {stage.about}" if stage.about else "")
