"""Two sides and what sets them apart: set-ups of one study, or the same set-up in two.

A verdict is about a figure over all cells (choices of params) that both sides have, after Holm's correction for how many
figures are tested. Each cell has its estimate and interval beside it, without a verdict of its own: with five repeats the
smallest p is 2/252, and six figures are all that Holm can carry. The figures that the scenario calls its answer come first.

Runs of equal seed and repeat saw the same load and are pairs. Exchanging sides within pairs is the sharper test once there are
eight (2/2⁸ is below 5 % / 6); with fewer it could never say yes, and all runs are dealt out anew, which for pairs errs on the
side of "noise".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seatrial.analysis import figures as fig
from seatrial.analysis.api import FIGURES as API_FIGURES
from seatrial.analysis.api import identities
from seatrial.analysis.directory import UNVERIFIED, StudyRecord, TrialRecord, read_study
from seatrial.analysis.resampling import Effect, holm, of_pairs, of_runs
from seatrial.analysis.tables import summary_rows
from seatrial.model.doubts import kind_of
from seatrial.model.errors import UsageProblem
from seatrial.scenario.expressions import figure_named, phase_of
from seatrial.scenario.nearest import remedy_for

ALPHA = 0.05
PAIRS_NEEDED = 8
EMPTY = "empty"  # in some run; nothing to compare
MANY = 6  # named in one message
MOST_TESTED = 6

Cell = tuple[tuple[str, str], ...]  # the params that vary


@dataclass(frozen=True)
class Figure:
    """What is compared: its column in summary.csv, its unit, and the words for more and for less of it."""

    name: str
    unit: str
    more: str
    less: str
    needs_all: bool = True  # it would flatter a side that did not complete


TESTED: tuple[Figure, ...] = (
    Figure("completed", "workloads", "more", "fewer", needs_all=False),
    Figure("total_s", "s", "slower", "faster"),
    Figure("dispatch_per_s", "/s", "faster", "slower", needs_all=False),
    Figure("p50_s", "s", "slower", "faster"),
    Figure("p95_s", "s", "slower", "faster"),
    Figure("p99_s", "s", "slower", "faster"),
)
# And of a study that sent API requests.
TESTED_API: tuple[Figure, ...] = (
    Figure("completed", "workloads", "more", "fewer", needs_all=False),
    Figure("total_s", "s", "slower", "faster"),
    Figure("p99_s", "s", "slower", "faster"),
    Figure("api_p99_s", "s", "slower", "faster", needs_all=False),
    Figure("requests_per_s", "/s", "faster", "slower", needs_all=False),
    Figure("rejected", "requests", "more", "fewer", needs_all=False),
)
SHOWN: tuple[Figure, ...] = (
    Figure("dispatch_per_s", "/s", "faster", "slower", needs_all=False),
    Figure("p50_s", "s", "slower", "faster"),
    Figure("p95_s", "s", "slower", "faster"),
    Figure("bound_per_s", "/s", "faster", "slower", needs_all=False),
    Figure("schedule_p50_s", "s", "slower", "faster", needs_all=False),
    Figure("schedule_p99_s", "s", "slower", "faster", needs_all=False),
    Figure("creation_per_s", "/s", "faster", "slower", needs_all=False),
    Figure("mean_s", "s", "slower", "faster"),
    Figure("max_s", "s", "slower", "faster"),
    Figure("cpu_util", "", "more", "less", needs_all=False),
    Figure("gpu_util", "", "more", "less", needs_all=False),
    Figure("held_idle_s", "core-s", "more", "less", needs_all=False),
    Figure("stalled_s", "s", "longer", "shorter", needs_all=False),
    *(Figure(name, "", "more", "fewer", needs_all=False) for name in fig.AUDITS.values()),
    Figure("api_p50_s", "s", "slower", "faster", needs_all=False),
    Figure("api_p95_s", "s", "slower", "faster", needs_all=False),
    Figure("pod_start_p99_s", "s", "slower", "faster", needs_all=False),
    *(
        Figure(name, "", "more", "less", needs_all=False)
        for name in ("retried", "errors", "in_flight_max", "queued_max", "cpu_cores")
    ),
)
# Differences of a scenario that are no differences of what is run.
_NO_MATTER = ("about", "answer", "expect", "repeat", "seed", "params")


@dataclass(frozen=True)
class Run:
    """One trial as far as it is compared."""

    trial: TrialRecord
    figures: fig.Figures

    @property
    def pair(self) -> tuple[int, int]:
        return int(self.figures["seed"] or 0), int(self.figures["repeat"] or 0)


@dataclass(frozen=True)
class Side:
    """All runs of one set-up of one study."""

    label: str
    study: StudyRecord
    setup: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Found:
    """A figure on both sides, over all cells or in one. `ratio` is the second side's by the first's, of geometric means;
    None where a value is not above zero, and then `low` and `high` are of the difference."""

    figure: Figure
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
    def difference(self) -> float | None:
        return None if self.first is None or self.second is None else self.second - self.first

    @property
    def differs(self) -> bool:
        return self.verdict in (self.figure.more, self.figure.less)


@dataclass(frozen=True)
class Comparison:
    """The second side against the first."""

    first: Side
    second: Side
    found: tuple[Found, ...]  # over all cells; those that are tested first
    cells: Mapping[str, tuple[Found, ...]]  # the same for each cell, where there is more than one
    paired: bool
    notes: tuple[str, ...] = ()  # runs left out, cells that only one side has
    unlike: tuple[str, ...] = ()  # why they should not be compared, where that was asked for all the same

    @property
    def tested(self) -> tuple[Found, ...]:
        return tuple(found for found in self.found if found.tested)

    @property
    def different(self) -> bool:
        return any(found.differs for found in self.found)


def compare(
    outs: Sequence[Path], setups: Sequence[str] = (), figures: Sequence[str] = (), *, anyway: bool = False
) -> list[Comparison]:
    """Every study against the first, set-up by set-up; or, of one study, every set-up against the first.

    `figures` are tested instead of the usual ones. Raises UsageProblem for what is not comparable, unless it is to be compared
    `anyway`.
    """
    named = [figure_named(name) for name in figures]
    pairs = _within(outs[0], setups, named) if len(outs) == 1 else _between(outs, setups, named)
    _refuse_unknown(named, [run.trial for pair in pairs for side in pair for run in side.runs])
    unlike = {id(pair): tuple(why_unlike(*pair)) for pair in pairs}
    reasons = dict.fromkeys(reason for pair in pairs for reason in unlike[id(pair)])
    if reasons and not anyway:
        raise UsageProblem(
            f"not comparable: {'; '.join(reasons)}", "compare what differs in one thing only, or add --anyway"
        )
    return [compare_sides(*pair, unlike=unlike[id(pair)], anyway=anyway, named=named) for pair in pairs]


def _refuse_unknown(named: Sequence[str], trials: Sequence[TrialRecord]) -> None:
    """A phase or an identity that nobody knows would be compared as nothing with nothing."""
    for name in named:
        of = name.partition("(")[2].removesuffix(")")
        phase = phase_of(name)
        known = {one for trial in trials for one in (trial.phases if phase else identities(trial))} if of else {of}
        if (phase or of) not in known:
            what = "phase" if phase else "identity"
            raise UsageProblem(f"these studies have no {what} '{phase or of}'", remedy_for(phase or of, sorted(known)))


def sides_of(out: Path, label: str, named: Sequence[str] = ()) -> dict[str, Side]:
    """Set-up → its side, with the figures that are `named` or that the scenario names as its answer."""
    study = read_study(out)
    rows = {str(row["trial"]): row for row in summary_rows(out)}
    asked = [name for name in (*named, *_answer(study)) if "(" in name]
    runs: dict[str, list[Run]] = {}
    for trial in study.trials:
        figures = {**rows[trial.name], **fig.asked_of(trial, asked)} if asked else rows[trial.name]
        runs.setdefault(trial.setup, []).append(Run(trial, figures))
    return {setup: Side(label, study, setup, tuple(of)) for setup, of in runs.items()}


def _answer(study: StudyRecord) -> list[str]:
    return [str(name) for name in study.document.get("answer") or ()]


def _within(out: Path, setups: Sequence[str], named: Sequence[str]) -> list[tuple[Side, Side]]:
    sides = _named(sides_of(out, "", named), out, setups)
    if len(sides) < 2:
        raise UsageProblem(
            f"{out} has one set-up, '{next(iter(sides), '')}', and nothing to compare it with{_why_alone(sides)}",
            "name a second study",
        )
    first, *others = sides.values()
    return [(first, other) for other in others]


def _why_alone(sides: Mapping[str, Side]) -> str:
    unfinished = next((side.study.unfinished for side in sides.values()), "")
    return f" ({unfinished})" if unfinished else ""


def _between(outs: Sequence[Path], setups: Sequence[str], named: Sequence[str]) -> list[tuple[Side, Side]]:
    names = [out.resolve().name for out in outs]
    labels = names if len(set(names)) == len(names) else [str(out) for out in outs]
    first, *others = (_named(sides_of(out, label, named), out, setups) for out, label in zip(outs, labels, strict=True))
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
    """Why two sides are not comparable. Set-ups of one study may differ in what they like: that is the question."""
    if first.study.out == second.study.out:
        return
    a, b = first.study.document, second.study.document
    whose = f"{first.label} and {second.label}"
    if a.get("name") != b.get("name"):
        yield f"{whose} are of other scenarios ({a.get('name')}, {b.get('name')})"
    elif keys := _differ(a.get("scenario") or {}, b.get("scenario") or {}, but=_NO_MATTER):
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
    varying = _varying(first, second)
    fixed_a, fixed_b = (
        {name: {fig.as_text(run.trial.params.get(name)) for run in side.runs} for name in side.runs[0].trial.params}
        for side in (first, second)
    )
    for name in fixed_a:
        if name not in varying and fixed_a[name] != fixed_b.get(name, fixed_a[name]):
            yield f"{name} is {'/'.join(fixed_a[name])} in {first.label} and {'/'.join(fixed_b[name])} in {second.label}"


def _differ(a: Mapping[str, Any], b: Mapping[str, Any], but: Sequence[str] = ()) -> list[str]:
    return [key for key in dict.fromkeys((*a, *b)) if key not in but and a.get(key) != b.get(key)]


def _flat(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {f"{component}.{name}": value for component, own in settings.items() for name, value in own.items()}


def _varying(*sides: Side) -> list[str]:
    return fig.varying((f"{side.label} {side.setup}", run.trial.params) for side in sides for run in side.runs)


def compare_sides(
    first: Side, second: Side, *, unlike: Sequence[str] = (), anyway: bool = False, named: Sequence[str] = ()
) -> Comparison:
    """The second side against the first, whatever they are."""
    sides = (first, second)
    names = _varying(first, second)
    notes = [
        note
        for study, label in ((first.study, first.label), (second.study, second.label))
        for note in _incomplete(study, label)
    ]
    notes = list(dict.fromkeys(notes))
    by_cell = [_by_cell(side, names, anyway, notes) for side in (first, second)]
    both = [cell for cell in by_cell[0] if cell in by_cell[1]]
    for place, side in enumerate((first, second)):
        alone = [_spelled(cell) for cell in by_cell[place] if cell not in by_cell[1 - place]]
        if alone:
            notes.append(f"only {_who(side, first, second)} has {', '.join(alone[:MANY])}: left out")
    for side in sides:
        if any(run.trial.evidence == UNVERIFIED for run in side.runs):
            notes.append(f"{_who(side, *sides)} is simulated by a model that was never held against the real stack")
    cells = [(by_cell[0][cell], by_cell[1][cell]) for cell in both]
    tested = _tested(first, second, named)
    wanted = [*tested, *(figure for figure in SHOWN if figure not in tested)]
    found = [replace(_found(figure, cells, sides, anyway), tested=figure in tested) for figure in wanted]
    for_each = {
        _spelled(cell): tuple(_found(figure, [runs], sides, anyway) for figure in wanted)
        for cell, runs in zip(both if len(both) > 1 else (), cells, strict=False)
    }
    return Comparison(first, second, tuple(_judged(found)), for_each, _are_pairs(cells), tuple(notes), tuple(unlike))


def _incomplete(study: StudyRecord, label: str) -> Iterable[str]:
    """Trials that were not run, and those that have lost files since."""
    whole = f"{label}: " if label else ""
    if study.unfinished:
        yield f"{whole}{study.unfinished}"
    for trial in study.trials:
        if trial.damage:
            yield f"{whole}{trial.name} is damaged: {'; '.join(trial.damage)}"


def _tested(first: Side, second: Side, named: Sequence[str]) -> tuple[Figure, ...]:
    """Those that are named; else what the scenario calls its answer, and then the usual ones, six in all (see above)."""
    if named:
        return tuple(_figure(name) for name in dict.fromkeys(named))
    runs = (*first.runs, *second.runs)
    api = any(run.figures.get("requests") is not None for run in runs)
    told = [name for name in _answer(first.study) if name in _answer(second.study)]
    usual = [figure.name for figure in (TESTED_API if api else TESTED)]
    if api and not any(run.figures["workloads"] for run in runs):  # it has no figures of workloads
        usual = [name for name in usual if name in API_FIGURES]
    return tuple(_figure(name) for name in list(dict.fromkeys((*told, *usual)))[:MOST_TESTED])


def _figure(name: str) -> Figure:
    """With the words of the column that it is of: `rejected(nodes)` has those of `rejected`."""
    of = name.partition("(")[0]
    for figure in (*TESTED, *TESTED_API, *SHOWN):
        if figure.name == of:
            return replace(figure, name=name)
    return Figure(name, "", "more", "less", needs_all=False)


def _who(side: Side, first: Side, second: Side) -> str:
    return side.setup if first.study.out == second.study.out else side.label


def _by_cell(side: Side, names: Sequence[str], anyway: bool, notes: list[str]) -> dict[Cell, list[Run]]:
    """Runs by the params that vary: those that can be trusted; where none of a cell can, those that ended, marked."""
    every: dict[Cell, list[Run]] = {}
    for run in side.runs:
        cell = tuple((name, fig.as_text(run.trial.params.get(name))) for name in names)
        every.setdefault(cell, []).append(run)
    cells: dict[Cell, list[Run]] = {}
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


def _spelled(cell: Cell) -> str:
    return " ".join(f"{name}={value}" for name, value in cell) or "it"


def _are_pairs(cells: Sequence[tuple[Sequence[Run], Sequence[Run]]]) -> bool:
    """Every run has a partner that saw the same load, and there are enough of them."""
    alike = all({run.pair for run in a} == {run.pair for run in b} and len(a) == len(b) for a, b in cells)
    return alike and sum(len(a) for a, _ in cells) >= PAIRS_NEEDED


def _found(
    figure: Figure, cells: Sequence[tuple[Sequence[Run], Sequence[Run]]], sides: tuple[Side, Side], anyway: bool
) -> Found:
    if not cells:
        return Found(figure, why="no runs that both sides have and that can be trusted")
    for place, side in enumerate(sides):
        runs = [run for cell in cells for run in cell[place]]
        short = sum(run.figures["total_s"] is None and bool(run.figures["workloads"]) for run in runs)
        if figure.needs_all and short:
            return Found(figure, why=f"{short} of {len(runs)} runs of {_who(side, *sides)} did not complete")
    values = [tuple([_number(run, figure.name) for run in runs] for runs in cell) for cell in cells]
    if any(value is None for cell in values for side in cell for value in side):
        return Found(figure, why=EMPTY)
    known = [([float(v or 0) for v in a], [float(v or 0) for v in b]) for a, b in values]
    both = tuple(tuple(v for cell in known for v in cell[place]) for place in (0, 1))
    means = [sum(side) / len(side) for side in both]
    vouched = [all(run.trial.vouches_for([kind_of(figure.name)]) for cell in cells for run in cell[n]) for n in (0, 1)]
    if not anyway and not all(vouched):
        whose = " and ".join(_who(side, *sides) for side, sure in zip(sides, vouched, strict=True) if not sure)
        why = f"not to be trusted: {kind_of(figure.name)} of {whose}"
        return Found(
            figure, means[0], means[1], why=why, runs=(both[0], both[1]), doubtful=(not vouched[0], not vouched[1])
        )
    by_ratio = all(value > 0 for side in both for value in side)
    scale: Callable[[float], float] = math.log if by_ratio else float
    scaled = [([scale(v) for v in a], [scale(v) for v in b]) for a, b in known]
    effect = _paired_effect(scaled, cells) if _are_pairs(cells) else of_runs(scaled)
    shown: Callable[[float], float] = math.exp if by_ratio else float
    low, high = (None if bound is None else shown(bound) for bound in (effect.low, effect.high))
    one_run = all(len(a) == len(b) == 1 for a, b in known) and len(known) == 1
    return Found(
        figure, means[0], means[1], math.exp(effect.estimate) if by_ratio else None, low, high,
        None if low is None else effect.level, None if one_run else effect.p,
        effect.smallest_p, why="one run each: no interval" if one_run else "", runs=(both[0], both[1]),
        alike=all(len({*a, *b}) == 1 for a, b in known),
    )  # fmt: skip


def _number(run: Run, name: str) -> float | None:
    value = run.figures.get(name)
    return float(value) if isinstance(value, int | float) else None


def _paired_effect(
    scaled: Sequence[tuple[Sequence[float], Sequence[float]]], cells: Sequence[tuple[Sequence[Run], Sequence[Run]]]
) -> Effect:
    differences = []
    for (a, b), (runs, others) in zip(scaled, cells, strict=True):
        partner = {run.pair: value for run, value in zip(others, b, strict=True)}
        differences.append([partner[run.pair] - value for run, value in zip(runs, a, strict=True)])
    return of_pairs(differences)


def _judged(found: Sequence[Found]) -> list[Found]:
    """With verdicts. Figures that are the same in all runs of both sides say nothing and are not counted as tested."""
    family = [place for place, one in enumerate(found) if one.tested and one.p is not None and not one.alike]
    corrected = dict(zip(family, holm([found[place].p or 0.0 for place in family]), strict=True))
    judged = []
    for place, one in enumerate(found):
        p = corrected.get(place)
        verdict, why = "", one.why
        if one.alike:
            verdict, why = "same", ""
        elif p is not None and p <= ALPHA:
            verdict = one.figure.more if _is_more(one) else one.figure.less
        elif p is not None and one.smallest_p * len(family) <= ALPHA:
            verdict = "noise"
        elif p is not None:
            why = f"too few runs: no p below {min(1.0, one.smallest_p * len(family)):.2g} is possible"
        judged.append(replace(one, corrected_p=p, verdict=verdict, why=why))
    return judged


def _is_more(one: Found) -> bool:
    return one.ratio > 1 if one.ratio is not None else (one.difference or 0) > 0
