"""Repeats of a set-up as one row, with mean and spread.

A set-up with an incomplete repeat must not look fast: it has no mean total and no percentiles, only the number of completed
repeats. A trial that is not to be trusted must not enter a mean silently: it is left out if there are others, and always marked.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.analysis.cells import as_text, varying
from seatrial.analysis.trial_figures import Figures
from seatrial.model.figures import COMPLETION, FIGURES, find
from seatrial.record.trial_record import UNVERIFIED

NOT_CHECKED = "simulated by a model not checked against the real stack yet"


@dataclass(frozen=True)
class Spread:
    """A mean over repeats and their sample standard deviation, None with a single repeat."""

    mean: float
    deviation: float | None = None


@dataclass(frozen=True)
class Group:
    """All repeats of one set-up with one set of parameters."""

    setup: str
    params: dict[str, str]  # only those that vary in the study
    rows: tuple[Figures, ...]

    @property
    def completed(self) -> int:
        """Repeats that completed."""
        return sum(ended_well(row) for row in self.rows)

    @property
    def trusted(self) -> tuple[Figures, ...]:
        """The repeats that count: the valid ones, or all if none is valid."""
        return tuple(row for row in self.rows if row["valid"]) or self.rows

    @property
    def evidence(self) -> str:
        """The evidence of its figures (`TrialRecord.evidence`)."""
        return str(self.rows[0]["evidence"])

    @property
    def unverified(self) -> bool:
        """Whether its figures come from a model that was never compared with the real stack."""
        return self.evidence == UNVERIFIED

    @property
    def doubtful(self) -> bool:
        """Whether a repeat is not to be trusted."""
        return not all(row["valid"] for row in self.rows)

    def of(self, name: str) -> Spread | None:
        """A figure over the repeats; None if it would flatter a set-up that did not complete (`figures.COMPLETION`)."""
        if COMPLETION in find(name).needs and self.completed < len(self.rows):
            return None
        return spread([value for row in self.trusted if isinstance(value := row.get(name), int | float)])

    def most(self, figure: str) -> int:
        """The largest value of a count over the repeats."""
        return max(int(value) for row in self.rows if isinstance(value := row.get(figure), int | float))


def ended_well(row: Figures) -> bool:
    """Every workload completed; without workloads (only requests), the steps did."""
    return row["total_s"] is not None or (row["outcome"] == "completed" and not row["workloads"])


def spread(values: Sequence[float]) -> Spread | None:
    """Mean and deviation; None without values."""
    if not values:
        return None
    return Spread(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def grouped(rows: Sequence[Figures]) -> list[Group]:
    """Set-up by set-up, each in the order in which its trials come."""
    columns = dict.fromkeys(name for row in rows for name in row if name not in FIGURES and "(" not in name)
    names = varying((str(row["setup"]), {name: row.get(name) for name in columns}) for row in rows)
    groups: dict[tuple[str, ...], list[Figures]] = {}
    for row in rows:
        key = (str(row["setup"]), *(as_text(row.get(name)) for name in names))
        groups.setdefault(key, []).append(row)
    setups = list(dict.fromkeys(key[0] for key in groups))
    keys = sorted(groups, key=lambda key: setups.index(key[0]))
    return [Group(key[0], dict(zip(names, key[1:], strict=True)), tuple(groups[key])) for key in keys]
