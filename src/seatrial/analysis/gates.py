"""The gates of a study: every `expect` of its scenario, judged over all repeats.

An expectation is judged for each set-up and cell (or, if it names its set-ups, for each cell), over the repeats. Two rules:

- Exact figures (counts, outcomes, audits) must hold in every repeat.
- Measured figures (times, rates, utilisation) vary, and a threshold near the mean would fail every other day until nobody looks. So
  for each comparison the margin (left minus right) is taken in every repeat, where all set-ups saw the same load, and the gate
  fails only if the interval around the mean margin lies wholly on the wrong side. Up to five repeats that interval goes from the
  smallest to the largest margin: the gate fails if every repeat does. From six on it is that of `resampling.of_pairs`. One
  repeat decides alone. A mean on the wrong side that is within noise is `open`: it passes, and is reported.

A trial fails a gate about figures that it cannot vouch for (`model.doubts`), and one that was cut off fails every gate. The
exception: a comparison of measured figures between set-ups or with a baseline leaves out a repeat in which a trial cannot vouch
for them, on all sides, as long as `FEWEST` repeats and more than half of them are left. A late client in one of five repeats says
nothing about the other four. A limit (`p99_s < 60`) has no such exception: it is a promise about every repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seatrial.analysis.cells import CellKey, cell_of, spelled, varying
from seatrial.analysis.repeat_judging import FAILS, HOLDS, over_repeats
from seatrial.analysis.sides import Side, sides_of, why_unlike
from seatrial.analysis.studies import Study
from seatrial.model.figures import FIGURES, NAMED, Value
from seatrial.record.trial_record import CUT_OFF, DAMAGED, TrialRecord
from seatrial.scenario.expression_grammar import FigureReference
from seatrial.scenario.expressions import Expression

SKIPPED = "skipped"
FEWEST = 3  # repeats; if only two were left, both would be on the wrong side of a true mean one time in four
OUTCOME = "ends completed"


@dataclass(frozen=True)
class Verdict:
    """The verdict on one expectation, in one set-up and cell or in one trial."""

    text: str
    place: str  # file:line:column
    where: str
    state: str
    explanation: str = ""
    short: str = ""  # the explanation where the whole of it was printed already
    left_out: str = ""  # repeats that were not judged, and why; part of the explanation

    @property
    def line(self) -> str:
        """Where, and why."""
        place = f"{self.place}: " if self.place else ""
        return f"{self.where}: {place}{self.explanation}"


@dataclass(frozen=True)
class _JudgedRun:
    trial: TrialRecord
    values: Mapping[str, Value]


_Runs = dict[tuple[str, CellKey, int], _JudgedRun]  # by set-up, params that vary, repeat


@dataclass(frozen=True)
class _Study:
    """A study as gates look at it."""

    study: Study
    runs: _Runs

    @property
    def setups(self) -> list[str]:
        """Set-ups, in the order of their trials."""
        return list(dict.fromkeys(setup for setup, _, _ in self.runs))

    @property
    def cells(self) -> list[CellKey]:
        """In the order of their trials."""
        return list(dict.fromkeys(cell for _, cell, _ in self.runs))

    def setup(self, named: str) -> str | None:
        """The set-up of that name, or the only one with a stack of that name."""
        if named in self.setups:
            return named
        of_stack = {setup for (setup, _, _), run in self.runs.items() if run.trial.stack == named}
        return of_stack.pop() if len(of_stack) == 1 else None

    def repeats(self, setup: str, cell: CellKey) -> list[int]:
        """The repeats that were run."""
        return [repeat for name, of, repeat in self.runs if (name, of) == (setup, cell)]


def judge(study: Study, baseline: Study | None = None, gated: bool = False) -> list[Verdict]:
    """Every gate of the study, with what was found. `gated`: verdicts have consequences even if there is no gate."""
    expects = _expectations(study)
    asked = [name for text, _ in expects for name in Expression.parse(text).asked]
    mine = _read(study, asked)
    other = None if baseline is None else _read(baseline, asked)
    unlike = () if baseline is None else _why_unlike(study, baseline)
    verdicts = [v for text, place in expects for v in _Gate(mine, other, unlike, text, place).verdicts()]
    named = any("outcome" in Expression.parse(text).figures for text, _ in expects)
    verdicts += [] if named else list(_outcomes(study))
    if expects or baseline or gated:
        verdicts += _models_instead(study)
    if study.unfinished or len(study.trials) < len(study.document.get("trials", ())):
        verdicts.append(_not_all_ran(study))
    return verdicts


def unfinished(study: Study) -> list[Verdict]:
    """The only verdict on a study that was interrupted just now: the user does not want to wait for the others."""
    return [_not_all_ran(study)] if study.unfinished else []


def _not_all_ran(study: Study) -> Verdict:
    missing = len(study.document.get("trials", ())) - len(study.trials)
    why = study.unfinished or f"{missing} trials were not run"
    return Verdict("all trials run", "", study.out.name, FAILS, why)


def _why_unlike(study: Study, baseline: Study) -> tuple[str, ...]:
    mine, theirs = sides_of(study, "this study"), sides_of(baseline, "the baseline")
    pairs: list[tuple[Side, Side]] = [(mine[setup], theirs[setup]) for setup in mine if setup in theirs]
    return tuple(dict.fromkeys(reason for pair in pairs for reason in why_unlike(*pair)))


def _read(study: Study, asked: Sequence[str]) -> _Study:
    """`asked`: figures of members of groups that expectations name."""
    row_of = {str(row["trial"]): row for row in study.rows}
    names = varying((trial.setup, trial.params) for trial in study.trials)
    runs: _Runs = {}
    for trial in study.trials:
        row = row_of[trial.name]
        params = {name: value for name, value in trial.params.items() if name not in FIGURES}  # in summary.csv: texts
        runs[trial.setup, cell_of(trial, names), int(row["repeat"] or 0)] = _JudgedRun(
            trial, {**row, **params, **study.asked(trial, asked)}
        )
    return _Study(study, runs)


def _expectations(study: Study) -> list[tuple[str, str]]:
    """Text and place, from study.json; older studies have them in their trials only."""
    listed: Sequence[Mapping[str, Any]] = study.document.get("expect") or [
        one for trial in study.trials for one in trial.document.get("expect") or ()
    ]
    return list(dict.fromkeys((str(one["text"]), str(one["place"])) for one in listed))


def _models_instead(study: Study) -> Iterator[Verdict]:
    """Fails for a set-up with a replaced component of which only a model ran: no gate may pass for it."""
    if study.on != "sim":
        return
    brought = {trial.setup: trial.document.get("components") or () for trial in study.trials}
    for setup, components in brought.items():
        for component in components:
            why = (
                f"the set-up replaces {component}, and the simulator ran a model instead: "
                "nothing is known of the program (run it with --on local, or leave the set-up out with --setup)"
            )
            yield Verdict(f"runs its own {component}", "", setup, FAILS, why)


def _outcomes(study: Study) -> Iterator[Verdict]:
    for trial in study.trials:
        if trial.outcome == "completed":
            yield Verdict(OUTCOME, "", trial.name, HOLDS)
        else:
            cut = "; ".join(trial.reasons) if trial.outcome in (CUT_OFF, DAMAGED) else ""
            detail = cut or str(trial.document.get("detail") or "")
            clog = (trial.document.get("clog") or {}).get("kind") if trial.outcome == "clogged" else ""
            short = f"clogged: {clog}; the summary says why" if clog else ""
            yield Verdict(OUTCOME, "", trial.name, FAILS, f"{trial.outcome}: {detail}", short)


class _Gate:
    """One expectation, judged over the study."""

    def __init__(self, study: _Study, baseline: _Study | None, unlike: Sequence[str], text: str, place: str) -> None:
        self.study, self.baseline, self.unlike = study, baseline, unlike
        self.text, self.place = text, place
        self.expression = Expression.parse(text)
        figures = [FIGURES[name] for name in self.expression.figures]
        self.exact = all(figure.exact for figure in figures)
        self.measured = not any(figure.exact for figure in figures)
        self.kinds = {figure.doubted_as for figure in figures}

    def verdicts(self) -> Iterator[Verdict]:
        """A verdict for each set-up and cell, and one for each repeat that fails alone."""
        references = self.expression.references.values()
        for_each = bool(self.expression.names & set(NAMED)) or not all(reference.setup for reference in references)
        if why := self._cannot(list(references)):
            state, explanation = why
            yield self._verdict("", state, f"`{self.text}` {explanation}")
            return
        for cell in self.study.cells:
            for setup in self.study.setups if for_each or not references else ("",):
                yield from self._judged(setup, cell)

    def _verdict(self, where: str, state: str, explanation: str = "") -> Verdict:
        return Verdict(self.text, self.place, where or self.study.study.name, state, explanation)

    def _cannot(self, references: Sequence[FigureReference]) -> tuple[str, str] | None:
        """Why the gate cannot be judged anywhere: skipped, or failed because a part of the question is missing."""
        for reference in references:
            if reference.setup and self.study.setup(reference.setup) is None:
                return SKIPPED, f"is not judged: the set-up '{reference.setup}' was not run"
            if not reference.baseline:
                continue
            if self.baseline is None:
                return SKIPPED, "is not judged: no --baseline was given"
            if self.unlike:
                return FAILS, f"cannot be judged: the baseline is not comparable: {'; '.join(self.unlike)}"
            if reference.setup and self.baseline.setup(reference.setup) is None:
                has = ", ".join(self.baseline.setups)
                return FAILS, f"cannot be judged: the baseline has no set-up '{reference.setup}'; it has {has}"
        return None

    def _judged(self, setup: str, cell: CellKey) -> Iterator[Verdict]:
        """In one cell; with `setup`, for that set-up."""
        where = f"{setup} {spelled(cell)}".strip()
        named = [(self.study, setup)] if setup else []
        for reference in self.expression.references.values():
            study = self.baseline if reference.baseline else self.study
            assert study is not None
            name = study.setup(reference.setup) if reference.setup else setup
            if name is None or not study.repeats(name, cell):
                of = "the baseline has no" if reference.baseline else "there is no"
                if not setup or self.study.repeats(setup, cell):
                    yield self._verdict(
                        where, FAILS, f"`{self.text}` cannot be judged: {of} such trial of {reference.setup or setup}"
                    )
                return
            named.append((study, name))
        repeats = [set(study.repeats(name, cell)) for study, name in named]
        together = sorted(set.intersection(*repeats)) if repeats else []
        if not together:
            if self.expression.references:
                yield self._verdict(where, FAILS, f"`{self.text}` cannot be judged: no repeat that all of them have")
            return
        used = {repeat: [(study, study.runs[name, cell, repeat].trial) for study, name in named] for repeat in together}
        doubts = {repeat: doubt for repeat in together if (doubt := self._doubt(used[repeat]))}
        if doubts and (why := self._cannot_leave_out(used, doubts)):
            yield self._verdict(where, FAILS, f"`{self.text}` cannot be judged: {why}")
            return
        kept = [repeat for repeat in together if repeat not in doubts]
        rows = [self._values(setup, cell, repeat) for repeat in kept]
        if self.exact or len(rows) == 1:
            yield from self._one_by_one(setup, cell, where, kept, rows)
        else:
            verdict = self._over_repeats(where, rows)
            yield _without(verdict, len(together), list(doubts.values())) if doubts else verdict

    def _doubt(self, trials: Sequence[tuple[_Study, TrialRecord]]) -> str:
        """Why the figures of a repeat cannot be used; empty if they can."""
        for study, trial in trials:
            name = f"the baseline's {trial.name}" if study is self.baseline else trial.name
            if trial.outcome == CUT_OFF:
                return f"{name} was interrupted"
            if not trial.vouches_for(self.kinds):
                return f"{name} is not to be trusted: {'; '.join(trial.reasons)}"
        return ""

    def _cannot_leave_out(
        self, used: Mapping[int, Sequence[tuple[_Study, TrialRecord]]], doubts: Mapping[int, str]
    ) -> str:
        """Why the repeats in doubt cannot be left out; empty if they can."""
        for repeat in doubts:
            if any(trial.outcome == CUT_OFF for _, trial in used[repeat]):
                return doubts[repeat]
        first = next(iter(doubts.values()))
        if len({(id(study), trial.setup) for trials in used.values() for study, trial in trials}) < 2:
            return first
        if not self.measured:
            return f"{first} (a comparison that counts nothing would leave that repeat out: expect the counts by themselves)"
        left, needed = len(used) - len(doubts), max(FEWEST, len(used) // 2 + 1)
        if left < needed:
            return f"{first}; of {len(used)} repeats {left} can be used, and this comparison needs {needed}"
        return ""

    def _values(self, setup: str, cell: CellKey, repeat: int) -> dict[str, Value]:
        """The values of all names in the expression, in one repeat."""
        own = self.study.runs.get((setup, cell, repeat)) or next(
            run for (_, of, number), run in self.study.runs.items() if (of, number) == (cell, repeat)
        )
        values: dict[str, Value] = dict(own.values)
        for name, reference in self.expression.references.items():
            study = self.baseline if reference.baseline else self.study
            assert study is not None
            of = study.setup(reference.setup) if reference.setup else setup
            values[name] = study.runs[of or "", cell, repeat].values.get(reference.figure)
        return values

    def _one_by_one(
        self, setup: str, cell: CellKey, where: str, repeats: Sequence[int], rows: Sequence[Mapping[str, Value]]
    ) -> Iterator[Verdict]:
        """Every repeat by itself: each must hold."""
        failed = False
        for repeat, values in zip(repeats, rows, strict=True):
            wrong = self.expression.why_not(values)
            if wrong:
                failed = True
                run = self.study.runs.get((setup, cell, repeat))
                yield self._verdict(run.trial.name if run else f"{where} repeat {repeat}".strip(), FAILS, wrong)
        if not failed:
            yield self._verdict(where, HOLDS, self.expression.explain(rows[0]) if len(rows) == 1 else "")

    def _over_repeats(self, where: str, rows: Sequence[Mapping[str, Value]]) -> Verdict:
        judged = over_repeats(self.expression, rows)
        return self._verdict(where, judged.state, judged.explanation)


def _without(verdict: Verdict, repeats: int, doubts: Sequence[str]) -> Verdict:
    """The verdict with what was left out."""
    said = f"left out {len(doubts)} of {repeats} repeats: {'; '.join(doubts)}"
    return replace(verdict, explanation=f"{verdict.explanation}; {said}", left_out=said)
