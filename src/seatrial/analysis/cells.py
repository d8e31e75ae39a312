"""Cells of a study: the choices of params that vary in it. Trials of one cell that differ in their set-up are comparable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from seatrial.model.figures import FIGURES
from seatrial.record.trial_record import TrialRecord

CellKey = tuple[tuple[str, str], ...]  # the params that vary, with their values


def cell_of(trial: TrialRecord, names: Sequence[str]) -> CellKey:
    """The trial's values of these params."""
    return tuple((name, as_text(trial.params.get(name))) for name in names)


def spelled(cell: CellKey) -> str:
    """`clients=5 size=1k`; empty where no param varies."""
    return " ".join(f"{name}={value}" for name, value in cell)


def labels(trials: Sequence[TrialRecord]) -> dict[str, str]:
    """Trial → its cell in words."""
    names = varying((trial.setup, trial.params) for trial in trials)
    return {trial.name: spelled(cell_of(trial, names)) for trial in trials}


def called(setup: str, cell: str) -> str:
    """A set-up in its cell, in words."""
    return f"{setup} ({cell})" if cell else setup


def param_column(name: str) -> str:
    """A param's column in summary.csv: its name, unless a figure has it (a scenario may well have a param `pods`)."""
    return f"param_{name}" if name in FIGURES else name


def varying(trials: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The params with several values within one set-up. Differences between set-ups are in their names."""
    seen: dict[tuple[str, str], set[str]] = {}
    for setup, params in trials:
        for name, value in params.items():
            seen.setdefault((name, setup), set()).add(as_text(value))
    return list(dict.fromkeys(name for (name, _), values in seen.items() if len(values) > 1))


def as_text(value: Any) -> str:
    """A param's value as tables have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
