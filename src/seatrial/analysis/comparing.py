"""Comparison of two sides: two set-ups of one study, or the same set-up in two studies.

A verdict is about a figure over all cells (choices of params) that both sides have, after Holm's correction for the number of
figures tested. Each cell has its own estimate and interval, without a verdict: with five repeats the smallest p is 2/252, which
suffices for six figures. The figures that the scenario names as its answer come first.

Runs of equal seed and repeat saw the same load and are pairs. From eight pairs on, sides are exchanged within pairs, which is the
more powerful test (2/2⁸ is below 5 % / 6). With fewer pairs that test could never be significant; runs are then permuted as if
unpaired, which errs on the side of "noise".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from seatrial.analysis.cells import CellKey, cell_of, spelled
from seatrial.analysis.resampling import Effect, holm, of_pairs, of_runs
from seatrial.analysis.sides import MANY, ComparedRun, Side, between, varying_in, why_unlike, within
from seatrial.analysis.studies import Study
from seatrial.analysis.trial_figures import MEMBERS
from seatrial.model import figures as table
from seatrial.model.errors import UsageProblem
from seatrial.model.figures import FIGURES, Figure
from seatrial.record.trial_record import UNVERIFIED, TrialRecord
from seatrial.scenario.expressions import figure_named
from seatrial.scenario.nearest import remedy_for

ALPHA = 0.05
PAIRS_NEEDED = 8
EMPTY = "empty"  # in some run; nothing to compare
MOST_TESTED = 6

_Cells = Sequence[tuple[Sequence[ComparedRun], Sequence[ComparedRun]]]  # runs of both sides, cell by cell


@dataclass(frozen=True)
class ComparedFigure:
    """A figure on both sides, over all cells or in one. `ratio` is second / first, of geometric means; None if a value is not
    positive, and then `low` and `high` bound the difference."""

    name: str
    first: float | None = None  # mean
    second: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    level: float | None = None
    p: float | None = None
    smallest_p: float = 1.0  # that so many runs can give
    corrected_p: float | None = None
    verdict: str = ""  # more, less (in the figure's words), same, noise; empty: not known
    why: str = ""  # there is no verdict, or none can be had
    runs: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    tested: bool = False  # one of those that a verdict is given on
    alike: bool = False  # every run of a cell has the same value, on both sides
    doubtful: tuple[bool, bool] = (False, False)  # a side's runs cannot vouch for this figure: shown, and not judged

    @property
    def figure(self) -> Figure:
        """Its entry in the table of figures."""
        return table.find(self.name)

    @property
    def difference(self) -> float | None:
        """Second minus first."""
        return None if self.first is None or self.second is None else self.second - self.first

    @property
    def differs(self) -> bool:
        """Whether the difference exceeds the noise."""
        return self.verdict in self.figure.words


@dataclass(frozen=True)
class SideComparison:
    """The second side against the first."""

    first: Side
    second: Side
    found: tuple[ComparedFigure, ...]  # over all cells; those that are tested first
    cells: Mapping[str, tuple[ComparedFigure, ...]]  # the same for each cell, where there is more than one
    paired: bool
    notes: tuple[str, ...] = ()  # runs left out, cells that only one side has
    unlike: tuple[str, ...] = ()  # why they should not be compared, where that was asked for all the same

    @property
    def tested(self) -> tuple[ComparedFigure, ...]:
        """The figures that get a verdict."""
        return tuple(found for found in self.found if found.tested)

    @property
    def different(self) -> bool:
        """Whether any figure differs by more than noise."""
        return any(found.differs for found in self.found)


def compare(
    studies: Sequence[Study], setups: Sequence[str] = (), figures: Sequence[str] = (), *, anyway: bool = False
) -> list[SideComparison]:
    """Every study against the first, set-up by set-up; or, of one study, every set-up against the first.

    `figures` are tested instead of the usual ones. Raises UsageProblem for sides that are not comparable, unless `anyway`.
    """
    named = [figure_named(name) for name in figures]
    pairs = within(studies[0], setups, named) if len(studies) == 1 else between(studies, setups, named)
    _refuse_unknown(named, [run.trial for pair in pairs for side in pair for run in side.runs])
    unlike = {id(pair): tuple(why_unlike(*pair)) for pair in pairs}
    reasons = dict.fromkeys(reason for pair in pairs for reason in unlike[id(pair)])
    if reasons and not anyway:
        raise UsageProblem(
            f"not comparable: {'; '.join(reasons)}", "compare what differs in one thing only, or add --anyway"
        )
    return [compare_sides(*pair, unlike=unlike[id(pair)], anyway=anyway, named=named) for pair in pairs]


def _refuse_unknown(named: Sequence[str], trials: Sequence[TrialRecord]) -> None:
    """Raises for a phase or an identity that no trial has."""
    for name in named:
        _, group, member = table.split(name)
        if not group:
            continue
        known = {one for trial in trials for one in MEMBERS[group](trial)}
        if member not in known:
            raise UsageProblem(f"these studies have no {group} '{member}'", remedy_for(member, sorted(known)))


def compare_sides(
    first: Side, second: Side, *, unlike: Sequence[str] = (), anyway: bool = False, named: Sequence[str] = ()
) -> SideComparison:
    """The second side against the first."""
    sides = (first, second)
    names = varying_in(first, second)
    notes = [
        note
        for study, label in ((first.study, first.label), (second.study, second.label))
        for note in _incomplete(study, label)
    ]
    notes = list(dict.fromkeys(notes))
    by_cell = [_by_cell(side, names, anyway, notes) for side in (first, second)]
    both = [cell for cell in by_cell[0] if cell in by_cell[1]]
    for place, side in enumerate((first, second)):
        alone = [(spelled(cell) or "it") for cell in by_cell[place] if cell not in by_cell[1 - place]]
        if alone:
            notes.append(f"only {_who(side, first, second)} has {', '.join(alone[:MANY])}: left out")
    for side in sides:
        if any(run.trial.evidence == UNVERIFIED for run in side.runs):
            notes.append(f"{_who(side, *sides)} is simulated by a model not checked against the real stack yet")
    cells = [(by_cell[0][cell], by_cell[1][cell]) for cell in both]
    tested = _tested(first, second, named)
    wanted = [*tested, *(figure.name for figure in FIGURES.values() if _is_compared(figure, tested))]
    found = [replace(_found(name, cells, sides, anyway), tested=name in tested) for name in wanted]
    for_each = {
        spelled(cell): tuple(_found(name, [runs], sides, anyway) for name in wanted)
        for cell, runs in zip(both if len(both) > 1 else (), cells, strict=False)
    }
    return SideComparison(
        first, second, tuple(_judged(found)), for_each, _are_pairs(cells), tuple(notes), tuple(unlike)
    )


def _is_compared(figure: Figure, tested: Sequence[str]) -> bool:
    return bool(figure.better) and not figure.in_parts and figure.name not in tested


def _incomplete(study: Study, label: str) -> Iterable[str]:
    """Trials that were not run, and those that have lost files since."""
    whole = f"{label}: " if label else ""
    if study.unfinished:
        yield f"{whole}{study.unfinished}"
    for trial in study.trials:
        if trial.damage:
            yield f"{whole}{trial.name} is damaged: {'; '.join(trial.damage)}"


def _tested(first: Side, second: Side, named: Sequence[str]) -> list[str]:
    """The figures that are named; else the scenario's answer and then the usual ones, six in all (see above)."""
    if named:
        return list(dict.fromkeys(named))
    runs = (*first.runs, *second.runs)
    sent = any(run.figures.get("requests") is not None for run in runs)
    usual = list(table.TESTED_OF_REQUESTS if sent else table.TESTED)
    if sent and not any(run.figures["workloads"] for run in runs):
        usual = [name for name in usual if table.REQUESTS in FIGURES[name].needs]
    told = [name for name in first.study.answer if name in second.study.answer]
    return list(dict.fromkeys((*told, *usual)))[:MOST_TESTED]


def _who(side: Side, first: Side, second: Side) -> str:
    return side.setup if first.study.out == second.study.out else side.label


def _by_cell(side: Side, names: Sequence[str], anyway: bool, notes: list[str]) -> dict[CellKey, list[ComparedRun]]:
    """Runs by cell: the trusted ones; in a cell without any, those that ended, marked."""
    every: dict[CellKey, list[ComparedRun]] = {}
    for run in side.runs:
        every.setdefault(cell_of(run.trial, names), []).append(run)
    cells: dict[CellKey, list[ComparedRun]] = {}
    for cell, runs in every.items():
        vouched = [run for run in runs if run.trial.valid]
        kept = runs if anyway else vouched or [run for run in runs if not run.trial.cut_off]
        cells |= {cell: kept} if kept else {}
    who = side.label or side.setup
    used = {run.trial.name for runs in cells.values() for run in runs}
    left_out = [run.trial.name for run in side.runs if run.trial.name not in used]
    if left_out:
        notes.append(f"{who}: left out: not to be trusted: {', '.join(left_out[:MANY])}")
    doubtful = [run.trial for runs in cells.values() for run in runs if not run.trial.valid]
    if doubtful:
        did = "compared although they are not to be trusted" if anyway else "! not to be trusted"
        told = [f"{trial.name}: {'; '.join(trial.reasons)}" for trial in doubtful[:MANY]]
        more = f", and {len(doubtful) - MANY} more" if len(doubtful) > MANY else ""
        notes.append(f"{who}: {did}: {', '.join(told)}{more}")
    return cells


def _are_pairs(cells: _Cells) -> bool:
    """Whether every run has a partner that saw the same load, and there are enough pairs."""
    alike = all({run.pair for run in a} == {run.pair for run in b} and len(a) == len(b) for a, b in cells)
    return alike and sum(len(a) for a, _ in cells) >= PAIRS_NEEDED


def _found(name: str, cells: _Cells, sides: tuple[Side, Side], anyway: bool) -> ComparedFigure:
    figure = table.find(name)
    if not cells:
        return ComparedFigure(name, why="no runs that both sides have and that can be trusted")
    for place, side in enumerate(sides):
        runs = [run for cell in cells for run in cell[place]]
        short = sum(run.figures["total_s"] is None and bool(run.figures["workloads"]) for run in runs)
        if table.COMPLETION in figure.needs and short:
            return ComparedFigure(name, why=f"{short} of {len(runs)} runs of {_who(side, *sides)} did not complete")
    values = [tuple([_number(run, name) for run in runs] for runs in cell) for cell in cells]
    if any(value is None for cell in values for side in cell for value in side):
        return ComparedFigure(name, why=EMPTY)
    known = [([float(v or 0) for v in a], [float(v or 0) for v in b]) for a, b in values]
    both = tuple(tuple(v for cell in known for v in cell[place]) for place in (0, 1))
    means = [sum(side) / len(side) for side in both]
    vouched = [all(run.trial.vouches_for([figure.doubted_as]) for cell in cells for run in cell[n]) for n in (0, 1)]
    if not anyway and not all(vouched):
        whose = " and ".join(_who(side, *sides) for side, sure in zip(sides, vouched, strict=True) if not sure)
        why = f"not to be trusted: {figure.doubted_as} of {whose}"
        return ComparedFigure(
            name, means[0], means[1], why=why, runs=(both[0], both[1]), doubtful=(not vouched[0], not vouched[1])
        )
    by_ratio = all(value > 0 for side in both for value in side)
    scale: Callable[[float], float] = math.log if by_ratio else float
    scaled = [([scale(v) for v in a], [scale(v) for v in b]) for a, b in known]
    effect = _paired_effect(scaled, cells) if _are_pairs(cells) else of_runs(scaled)
    shown: Callable[[float], float] = math.exp if by_ratio else float
    low, high = (None if bound is None else shown(bound) for bound in (effect.low, effect.high))
    one_run = all(len(a) == len(b) == 1 for a, b in known) and len(known) == 1
    return ComparedFigure(
        name, means[0], means[1], math.exp(effect.estimate) if by_ratio else None, low, high,
        None if low is None else effect.level, None if one_run else effect.p,
        effect.smallest_p, why="one run each: no interval" if one_run else "", runs=(both[0], both[1]),
        alike=all(len({*a, *b}) == 1 for a, b in known),
    )  # fmt: skip


def _number(run: ComparedRun, name: str) -> float | None:
    value = run.figures.get(name)
    return float(value) if isinstance(value, int | float) else None


def _paired_effect(scaled: Sequence[tuple[Sequence[float], Sequence[float]]], cells: _Cells) -> Effect:
    differences = []
    for (a, b), (runs, others) in zip(scaled, cells, strict=True):
        partner = {run.pair: value for run, value in zip(others, b, strict=True)}
        differences.append([partner[run.pair] - value for run, value in zip(runs, a, strict=True)])
    return of_pairs(differences)


def _judged(found: Sequence[ComparedFigure]) -> list[ComparedFigure]:
    """Adds verdicts. Figures that are equal in all runs of both sides do not count as tested."""
    family = [place for place, one in enumerate(found) if one.tested and one.p is not None and not one.alike]
    corrected = dict(zip(family, holm([found[place].p or 0.0 for place in family]), strict=True))
    judged = []
    for place, one in enumerate(found):
        p = corrected.get(place)
        verdict, why = "", one.why
        if one.alike:
            verdict, why = "same", ""
        elif p is not None and p <= ALPHA:
            verdict = one.figure.words[0 if _is_more(one) else 1]
        elif p is not None and one.smallest_p * len(family) <= ALPHA:
            verdict = "noise"
        elif p is not None:
            why = f"too few runs: no p below {min(1.0, one.smallest_p * len(family)):.2g} is possible"
        judged.append(replace(one, corrected_p=p, verdict=verdict, why=why))
    return judged


def _is_more(one: ComparedFigure) -> bool:
    return one.ratio > 1 if one.ratio is not None else (one.difference or 0) > 0
