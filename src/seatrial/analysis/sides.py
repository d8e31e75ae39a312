"""The sides of a comparison: which sides are compared with each other, and why two are not comparable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.analysis.cells import as_text, varying
from seatrial.analysis.studies import Study
from seatrial.analysis.trial_figures import Figures
from seatrial.model.errors import UsageProblem
from seatrial.model.figures import is_asked
from seatrial.record.trial_record import TrialRecord

MANY = 6  # named in one message
# Fields of a scenario that do not change what is run.
_IRRELEVANT = ("about", "answer", "expect", "repeat", "seed", "params")


@dataclass(frozen=True)
class ComparedRun:
    """One trial with the figures that are compared."""

    trial: TrialRecord
    figures: Figures

    @property
    def pair(self) -> tuple[int, int]:
        """Seed and repeat: runs of two sides that share them saw the same load."""
        return int(self.figures["seed"] or 0), int(self.figures["repeat"] or 0)


@dataclass(frozen=True)
class Side:
    """All runs of one set-up of one study."""

    label: str
    study: Study
    setup: str
    runs: tuple[ComparedRun, ...]


def sides_of(study: Study, label: str, named: Sequence[str] = ()) -> dict[str, Side]:
    """Set-up → its side, with the figures that are `named` or that the scenario names as its answer."""
    rows = {str(row["trial"]): row for row in study.rows}
    asked = [name for name in (*named, *study.answer) if is_asked(name)]
    runs: dict[str, list[ComparedRun]] = {}
    for trial in study.trials:
        figures = {**rows[trial.name], **study.asked(trial, asked)}
        runs.setdefault(trial.setup, []).append(ComparedRun(trial, figures))
    return {setup: Side(label, study, setup, tuple(of)) for setup, of in runs.items()}


def within(study: Study, setups: Sequence[str], named: Sequence[str]) -> list[tuple[Side, Side]]:
    """Every other set-up of a study against its first."""
    sides = _named(sides_of(study, "", named), study.out, setups)
    if len(sides) < 2:
        why = f" ({study.unfinished})" if study.unfinished else ""
        raise UsageProblem(
            f"{study.out} has one set-up, '{next(iter(sides), '')}', and nothing to compare it with{why}",
            "name a second study",
        )
    first, *others = sides.values()
    return [(first, other) for other in others]


def between(studies: Sequence[Study], setups: Sequence[str], named: Sequence[str]) -> list[tuple[Side, Side]]:
    """Every other study against the first, set-up by set-up."""
    names = [study.out.resolve().name for study in studies]
    labels = names if len(set(names)) == len(names) else [str(study.out) for study in studies]
    first, *others = (
        _named(sides_of(study, label, named), study.out, setups) for study, label in zip(studies, labels, strict=True)
    )
    pairs: list[tuple[Side, Side]] = []
    for other in others:
        both = [setup for setup in first if setup in other]
        if not both and len(first) == len(other) == 1:
            pairs.append((next(iter(first.values())), next(iter(other.values()))))
        pairs += [(first[setup], other[setup]) for setup in both]
    if not pairs:
        raise UsageProblem(
            f"these studies have no set-up in common: {'; '.join(', '.join(side) for side in (first, *others))}",
            "compare studies of the same scenario, or set-ups of one study with --setup A,B",
        )
    return pairs


def _named(sides: dict[str, Side], out: Path, setups: Sequence[str]) -> dict[str, Side]:
    for name in setups:
        if name not in sides:
            raise UsageProblem(f"{out} has no set-up '{name}'", f"it has {', '.join(sides) or 'none'}")
    if not sides:
        raise UsageProblem(f"{out}: no trial was begun", "run it again")
    return {name: sides[name] for name in setups} if setups else sides


def why_unlike(first: Side, second: Side) -> Iterable[str]:
    """Why two sides are not comparable. Set-ups of one study may differ in anything."""
    if first.study.out == second.study.out:
        return
    a, b = first.study.document, second.study.document
    whose = f"{first.label} and {second.label}"
    if a.get("name") != b.get("name"):
        yield f"{whose} are of other scenarios ({a.get('name')}, {b.get('name')})"
    elif keys := _differ(a.get("scenario") or {}, b.get("scenario") or {}, but=_IRRELEVANT):
        yield f"the scenario is not the same in {whose} ({', '.join(keys[:MANY])})"
    if first.study.on != second.study.on:
        yield f"{first.label} ran on {first.study.on}, {second.label} on {second.study.on}"
    elif first.study.on != "sim":  # simulated time does not depend on the machine
        run_a, run_b = a.get("run") or {}, b.get("run") or {}
        for what in ("system", "cores", "memory_bytes"):
            if run_a.get(what) != run_b.get(what):
                yield f"they ran on other machines ({what}: {run_a.get(what)}, {run_b.get(what)})"
    if first.setup == second.setup:
        trial_a, trial_b = first.runs[0].trial.document, second.runs[0].trial.document
        settings = _differ(_flat(trial_a.get("settings") or {}), _flat(trial_b.get("settings") or {}))
        if settings:
            yield f"settings of {first.setup} differ ({', '.join(settings[:MANY])})"
        if trial_a.get("client") != trial_b.get("client"):
            yield f"the client of {first.setup} differs"
    varying = varying_in(first, second)
    fixed_a, fixed_b = (
        {name: {as_text(run.trial.params.get(name)) for run in side.runs} for name in side.runs[0].trial.params}
        for side in (first, second)
    )
    for name in fixed_a:
        if name not in varying and fixed_a[name] != fixed_b.get(name, fixed_a[name]):
            yield f"{name} is {'/'.join(fixed_a[name])} in {first.label} and {'/'.join(fixed_b[name])} in {second.label}"


def _differ(a: Mapping[str, Any], b: Mapping[str, Any], but: Sequence[str] = ()) -> list[str]:
    return [key for key in dict.fromkeys((*a, *b)) if key not in but and a.get(key) != b.get(key)]


def _flat(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {f"{component}.{name}": value for component, own in settings.items() for name, value in own.items()}


def varying_in(*sides: Side) -> list[str]:
    """The params that vary within a side."""
    return varying((f"{side.label} {side.setup}", run.trial.params) for side in sides for run in side.runs)
