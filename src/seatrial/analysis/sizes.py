"""Workloads by size: completions, turnaround and run time per set-up, for sizes.csv and its picture.

Schedulers differ in large gangs, and a mean over all sizes hides that. The spread is over workloads, as in the published tables,
not over repeats. Workloads that did not complete have no turnaround, so each mean has its count beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from seatrial.analysis.cells import as_text, param_column, varying
from seatrial.analysis.stage_times import Lifecycle
from seatrial.model.lifecycle import COMPLETED, FINISHED, RUNNING, SUBMITTED
from seatrial.model.units import SECOND

# Columns of sizes.csv that are numbers; the others are the set-up, its stack and the params that vary.
SIZE_COUNTS = ["size", "submitted", "completed", "turnaround_count", "run_count"]
SIZE_TIMES = ["turnaround_mean_s", "turnaround_std_s", "run_mean_s", "run_std_s"]
Seconds = npt.NDArray[np.float64]


@dataclass
class Moments:
    """Count, mean and spread of values that are added trial by trial, with one trial in memory at a time."""

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0  # sum of squared distances from the mean

    def add(self, values: Seconds) -> None:
        """Joins two samples by the formula of Chan, Golub and LeVeque."""
        if not len(values):
            return
        mean = float(np.mean(values))
        squares = float(np.sum((values - mean) ** 2))
        both = self.count + len(values)
        away = mean - self.mean
        self.squares += squares + away * away * self.count * len(values) / both
        self.mean += away * len(values) / both
        self.count = both

    @property
    def deviation(self) -> float | None:
        """The sample's standard deviation; None for fewer than two values."""
        return float(np.sqrt(self.squares / (self.count - 1))) if self.count > 1 else None


@dataclass
class OfSize:
    """All workloads of one size, set-up and set of params."""

    setup: str
    stack: str
    params: dict[str, str]
    size: int
    submitted: int = 0
    completed: int = 0
    turnaround: Moments = field(default_factory=Moments)
    run: Moments = field(default_factory=Moments)


class Sizes:
    """The rows of sizes.csv, gathered trial by trial."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, ...], OfSize] = {}

    def add(self, seen: Lifecycle) -> None:
        """The next trial."""
        trial = seen.trial
        params = {param_column(name): as_text(value) for name, value in trial.params.items()}
        for size, (submitted, turnaround, run) in by_size(seen).items():
            key = (trial.setup, *params.values(), str(size))
            row = self._rows.setdefault(key, OfSize(trial.setup, trial.stack, params, size))
            row.submitted += submitted
            row.completed += len(turnaround)
            row.turnaround.add(turnaround)
            row.run.add(run)

    def rows(self) -> list[OfSize]:
        """Rows by set-up in the order of trials, the smallest size first; none if all workloads have one size."""
        rows = list(self._rows.values())
        if len({row.size for row in rows}) < 2:
            return []
        setups = list(dict.fromkeys(row.setup for row in rows))
        params = list(dict.fromkeys(tuple(row.params.values()) for row in rows))
        return sorted(
            rows, key=lambda row: (setups.index(row.setup), params.index(tuple(row.params.values())), row.size)
        )


def by_size(seen: Lifecycle) -> dict[int, tuple[int, Seconds, Seconds]]:
    """Size → number submitted, turnaround of those that completed, run time of those that ran."""
    table = seen.workloads
    sizes = table["pods"].to_numpy()
    turnaround, run = _between(table, SUBMITTED.name, COMPLETED.name), _between(table, RUNNING.name, FINISHED.name)
    found: dict[int, tuple[int, Seconds, Seconds]] = {}
    for size in np.unique(sizes):
        here = sizes == size
        found[int(size)] = (int(np.sum(here)), _known(turnaround[here]), _known(run[here]))
    return found


def sizes_frame(rows: Sequence[OfSize]) -> pl.DataFrame:
    """The rows as sizes.csv has them, with the params that vary."""
    columns: dict[str, list[object]] = {"setup": [row.setup for row in rows], "stack": [row.stack for row in rows]}
    columns |= {name: [row.params.get(name) for row in rows] for name in varying((r.setup, r.params) for r in rows)}
    columns |= {name: [getattr(row, name) for row in rows] for name in ("size", "submitted", "completed")}
    for name in ("turnaround", "run"):
        moments: list[Moments] = [getattr(row, name) for row in rows]
        columns[f"{name}_mean_s"] = [one.mean if one.count else None for one in moments]
        columns[f"{name}_std_s"] = [one.deviation for one in moments]
        columns[f"{name}_count"] = [one.count for one in moments]
    return pl.DataFrame(columns, schema_overrides=dict.fromkeys(SIZE_TIMES, pl.Float64))


def _between(table: pl.DataFrame, first: str, last: str) -> Seconds:
    if first not in table.columns or last not in table.columns:
        return np.full(table.height, np.nan)
    took = table.select((pl.col(last) - pl.col(first)).cast(pl.Float64) / SECOND).to_series()
    return np.asarray(took.to_numpy(), dtype=np.float64)  # null has become NaN


def _known(values: Seconds) -> Seconds:
    return values[~np.isnan(values)]
