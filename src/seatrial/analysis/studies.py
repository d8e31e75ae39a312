"""A study as everything after the run sees it: what is there, what is missing, and what a crash left half written.

Reports may be written years later and on another machine. So a directory that cannot be read is refused with the reason and a
remedy, and one that can be read in part is read in part; `notes` say what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import polars as pl

from seatrial.analysis.stage_times import LifecycleCache, Read
from seatrial.analysis.trial_figures import Figures, asked_of, figures_of
from seatrial.model.errors import SetupProblem, UsageProblem, cut
from seatrial.model.figures import COUNT, FIGURES, FLAG, TEXT, columns
from seatrial.record.layout import STUDY, SUBMITTED, SUMMARY, TRIAL, TRIALS
from seatrial.record.locks import is_locked
from seatrial.record.submissions import whole_lines
from seatrial.record.trial_record import CUT_OFF, GIVE_OUT, RUNNING, TableCache, TrialRecord, read_document

EVICTED = "evicted"  # the column that only studies of shared fleets have
COMPLETE, KILLED = "complete", "killed"  # states of a study beside running and interrupted


@dataclass(frozen=True)
class Study:
    """A study's directory, its study.json and those of its trials that were begun.

    It is opened once and passed on: it keeps what it has read. `lifecycle` reads a trial's observations.
    """

    out: Path
    document: Mapping[str, Any]
    trials: tuple[TrialRecord, ...]
    notes: tuple[str, ...] = ()  # what is missing, cut off or damaged, in words
    state: str = COMPLETE  # or running, interrupted, killed
    unfinished: str = ""  # of a study whose trials were not all begun: how many were, and which set-ups were not
    lifecycle: Read = field(default_factory=LifecycleCache, repr=False, compare=False)
    known: Mapping[str, Figures] = field(default_factory=dict, repr=False, compare=False)  # figures, by trial

    @classmethod
    def open(cls, out: Path, known: Mapping[str, Figures] | None = None) -> Self:
        """Reads the study as far as it went; raises where there is none, or one we cannot read. `known` are figures of trials that
        need not be computed again."""
        try:
            there = out.is_dir()
        except OSError as error:  # a name that no file can have
            raise UsageProblem(f"{cut(str(out))}: {error.strerror}", GIVE_OUT) from None
        if not there:
            raise UsageProblem(f"{out} is not a directory", GIVE_OUT)
        if not (out / STUDY).is_file():
            raise UsageProblem(f"{out} is no study: it has no {STUDY}", GIVE_OUT)
        document = read_document(out / STUDY)
        state = _state(out, document)
        trials, notes, begun = _trials(out, document)
        unfinished = _unfinished(state, document, begun, trials)
        notes = [*([unfinished] if unfinished else ()), *notes]
        return cls(out, document, trials, tuple(notes), state, unfinished, known=known or {})

    @property
    def name(self) -> str:
        """The name of its scenario."""
        return str(self.document.get("name", self.out.name))

    @property
    def on(self) -> str:
        """The cluster that its trials ran on."""
        return str(self.document.get("on", ""))

    @property
    def answer(self) -> list[str]:
        """The figures that the scenario names as its answer."""
        return [str(name) for name in self.document.get("answer") or ()]

    @cached_property
    def trusted(self) -> list[TrialRecord]:
        """The trials whose figures are averaged and drawn: of a set-up and its params the valid ones, or where none is, those
        that ended; reports mark these (`doubtful`)."""
        vouched = {trial.cell for trial in self.trials if trial.valid}
        kept = [t for t in self.trials if t.valid or (t.cell not in vouched and not t.cut_off)]
        return kept or list(self.trials)

    @cached_property
    def doubtful(self) -> list[str]:
        """The set-ups of which something is shown that is not to be trusted."""
        return list(dict.fromkeys(trial.setup for trial in self.trusted if not trial.valid))

    @cached_property
    def rows(self) -> list[Figures]:
        """One row of figures per trial: from summary.csv if that is newer than all trials, else computed."""
        if self.is_tabled():
            frame = pl.read_csv(self.out / SUMMARY, infer_schema=False)
            # Not of a version that knew fewer.
            known = columns((), shared=EVICTED in frame.columns)
            if frame.height == len(self.trials) and set(frame.columns) >= set(known):
                return [_typed(row) for row in frame.rows(named=True)]
        return [self.figures(trial) for trial in self.trials]

    def figures(self, trial: TrialRecord) -> Figures:
        """The trial's row of summary.csv, before it is rounded."""
        return self.known.get(trial.name) or figures_of(self.lifecycle(trial))

    def is_tabled(self) -> bool:
        """Whether summary.csv, which is written after the other tables, is newer than every trial."""
        try:
            written = (self.out / SUMMARY).stat().st_mtime_ns
        except OSError:
            return False
        return all(written >= (trial.directory / TRIAL).stat().st_mtime_ns for trial in self.trials)

    def asked(self, trial: TrialRecord, figures: Sequence[str]) -> Figures:
        """Figures of a trial that are no columns of summary.csv (`asked_of`)."""
        return asked_of(trial, figures, self.lifecycle) if figures else {}


def _trials(out: Path, document: Mapping[str, Any]) -> tuple[tuple[TrialRecord, ...], list[str], int]:
    """The trials that can be read, what is wrong with the others, and how many were begun."""
    trials: list[TrialRecord] = []
    notes: list[str] = []
    begun, tables = 0, TableCache()
    for name in document.get("trials", ()):
        directory = out / TRIALS / str(name)
        begun += directory.is_dir()
        if not (directory / TRIAL).is_file():
            notes += [f"{name} is left out: it has no {TRIAL}"] if directory.is_dir() else []
            continue
        try:
            trial = TrialRecord.open(directory, tables)
        except SetupProblem as problem:
            notes.append(f"{name} is skipped: {problem.message}")
            continue
        trials.append(trial)
        notes += [f"{trial.name} is damaged: {what}" for what in trial.damage]
        if trial.cut_off:
            notes.append(
                f"{trial.name} was cut off or still runs: it counts as {CUT_OFF}, with what was observed so far"
            )
            _, torn = whole_lines(directory / SUBMITTED)
            notes += [f"{trial.name}: {torn}"] if torn else []
    return tuple(trials), notes, begun


def _state(out: Path, document: Mapping[str, Any]) -> str:
    """A study that says it runs holds a lock; without it, its process is gone."""
    state = str((document.get("run") or {}).get("state", COMPLETE))
    if state != RUNNING:
        return state
    try:
        return RUNNING if is_locked(out) else KILLED
    except OSError:  # a file system without locks
        return RUNNING


def _unfinished(state: str, document: Mapping[str, Any], begun: int, trials: Sequence[TrialRecord]) -> str:
    """`interrupted: 4 of 15 trials begun; stack fluence never ran`."""
    planned = len(document.get("trials", ()))
    if state == COMPLETE:
        return f"{planned - begun} of {planned} trials were not run" if begun < planned else ""
    if begun == planned and (state != CUT_OFF or not any(trial.outcome == CUT_OFF for trial in trials)):
        return ""  # its trials say themselves how far they are
    named: Mapping[str, Any] = document.get("setups") or {}
    ran = {trial.setup for trial in trials}
    missing = [setup for setup in named if setup not in ran]
    kind = "stack" if all(named[setup] == setup for setup in missing) else "set-up"
    never = f"; {kind}{'s' if len(missing) > 1 else ''} {', '.join(missing)} never ran" if missing else ""
    return f"{'still running' if state == RUNNING else state}: {begun} of {planned} trials begun{never}"


def _typed(row: dict[str, str | None]) -> Figures:
    """A row of summary.csv as `figures` gave it; parameters stay text."""
    typed: Figures = {}
    for name, text in row.items():
        kind = FIGURES[name].kind if name in FIGURES else TEXT
        if text is None or kind == TEXT:
            typed[name] = text
        elif kind == FLAG:
            typed[name] = text == "true"
        else:
            typed[name] = int(text) if kind == COUNT else float(text)
    return typed
