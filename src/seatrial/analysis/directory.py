"""The study directory as analysis sees it: what is there, what is missing, and what a crash left half written.

Everything after a run starts here, perhaps years later and on another machine. So a directory that cannot be read is
refused with the reason and a remedy, and one that can be read in part is read in part; `notes` say what is missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from seatrial import __version__
from seatrial.model.doubts import KINDS, RATES, TIMES, Doubt, touched
from seatrial.model.errors import SetupProblem, UsageProblem, cut
from seatrial.model.lifecycle import Stage
from seatrial.record.inventory import damage
from seatrial.record.layout import STUDY, TRIALS
from seatrial.record.locks import is_locked

FORMAT = 1
TRIAL, SUBMITTED = "trial.json", "submitted.jsonl"
RUNNING, CUT_OFF = "running", "interrupted"  # a trial that says it runs when we read it was killed, or still runs
COMPLETE, KILLED = "complete", "killed"  # further states of a study
DAMAGED = "damaged"  # the outcome of a trial that has lost files since it ended

REAL, VERIFIED, UNVERIFIED = "real", "verified model", "unverified model"

_GIVE = "Give the directory that `seatrial run -o OUT` wrote, not one inside it."
_DAMAGED = "It was damaged after the run; take it from a backup, or run again."

CUT_SHORT = Doubt("it was cut off before it could be judged")

_SUBMITTED_SCHEMA = {
    "workload": pl.String, "number": pl.Int32, "phase": pl.String, "pods": pl.Int32, "at_ns": pl.Int64,
    "refused": pl.String, "error_ns": pl.Int64,
}  # fmt: skip


@dataclass(frozen=True)
class TrialRecord:
    """One trial's directory and its trial.json."""

    directory: Path
    document: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.document.get("trial", self.directory.name))

    @property
    def setup(self) -> str:
        return str(self.document.get("setup", ""))

    @property
    def stack(self) -> str:
        return str(self.document.get("stack", ""))

    @property
    def evidence(self) -> str:
        """What its figures are of: real components, a model that was held against them, or one that was not (or of which the
        study does not say so)."""
        if self.document.get("on") != "sim":
            return REAL
        return VERIFIED if (self.document.get("model") or {}).get("verified") is True else UNVERIFIED

    @property
    def cut_off(self) -> bool:
        return bool(self.document.get("outcome", RUNNING) == RUNNING)

    @cached_property
    def damage(self) -> tuple[str, ...]:
        """Which of its files are missing or cut short since it ended, and what cannot be known any more."""
        return () if self.cut_off else tuple(damage(self.directory, self.document))

    @property
    def outcome(self) -> str:
        return CUT_OFF if self.cut_off else DAMAGED if self.damage else str(self.document["outcome"])

    @property
    def valid(self) -> bool:
        """A trial that never came to judge itself is not to be trusted, nor one that was interrupted or has lost files."""
        judged = bool((self.document.get("validity") or {}).get("valid", False))
        return judged and self.outcome not in (CUT_OFF, DAMAGED)

    @cached_property
    def doubts(self) -> tuple[Doubt, ...]:
        """Why its figures are not to be trusted, and which of them."""
        if self.valid:
            return ()
        validity = self.document.get("validity") or {}
        whole = (TIMES, RATES) if validity.get("counted") else KINDS  # of a study before reasons said what they touch
        lost = tuple(Doubt(what) for what in self.damage)
        doubts = lost + tuple(_doubt(one, whole) for one in validity.get("reasons") or ())
        return doubts or (CUT_SHORT if self.cut_off else Doubt("it was not judged"),)

    @property
    def reasons(self) -> list[str]:
        """The same in words."""
        return [str(doubt) for doubt in self.doubts]

    def vouches_for(self, kinds: Iterable[str]) -> bool:
        """Whether figures of these kinds (`model.doubts`) can be trusted."""
        return self.valid or not (self.cut_off or touched(self.doubts, kinds))

    @property
    def cell(self) -> tuple[str, ...]:
        """What its repeats share: set-up and params."""
        return (self.setup, *(f"{name}={value}" for name, value in sorted(self.params.items())))

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.document.get("params") or {})

    @property
    def phases(self) -> dict[str, dict[str, Any]]:
        return dict(self.document.get("phases") or {})

    @property
    def unaudited(self) -> bool:
        """Nobody looked: it was cut off, or watched from outside by somebody who does not know the nodes."""
        return self.outcome == CUT_OFF or self.document.get("audits") is None

    @property
    def audits(self) -> dict[str, int]:
        """Audit → how much it found."""
        return {str(a.get("audit")): int(a.get("count") or 0) for a in self.document.get("audits") or ()}

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(
            Stage(str(s["name"]), str(s["of"]), str(s.get("about", "")), bool(s.get("general", False)))
            for s in self.document.get("stages") or ()
        )

    @property
    def resolution_ns(self) -> int:
        """What times are rounded down to, as the setting `resolution` of `measure` says."""
        measure = (self.document.get("settings") or {}).get("measure") or {}
        return max(1, int(measure.get("resolution") or 0))

    @cached_property
    def errors_ns(self) -> list[int]:
        """The error bound of each source, by its number."""
        return [int(source.get("error_ns", 0)) for source in self.document.get("sources") or ()]


@dataclass(frozen=True)
class StudyRecord:
    """A study's directory, its study.json and those of its trials that were begun."""

    out: Path
    document: Mapping[str, Any]
    trials: tuple[TrialRecord, ...]
    notes: tuple[str, ...] = ()  # what is missing, cut off or damaged, in words
    state: str = COMPLETE  # or running, interrupted, killed
    unfinished: str = ""  # of a study whose trials were not all begun: how many were, and which set-ups were not

    @property
    def name(self) -> str:
        return str(self.document.get("name", self.out.name))

    @property
    def on(self) -> str:
        return str(self.document.get("on", ""))

    @property
    def trusted(self) -> list[TrialRecord]:
        """The trials whose figures are averaged and drawn: of a set-up and its params the valid ones, or where none is, those
        that ended; reports mark these (`doubtful`)."""
        vouched = {trial.cell for trial in self.trials if trial.valid}
        kept = [t for t in self.trials if t.valid or (t.cell not in vouched and not t.cut_off)]
        return kept or list(self.trials)

    @property
    def doubtful(self) -> list[str]:
        """The set-ups of which something is shown that is not to be trusted."""
        return list(dict.fromkeys(trial.setup for trial in self.trusted if not trial.valid))


@dataclass(frozen=True)
class Submitted:
    """The workloads of a trial in the order of their numbers; `note` says what had to be left out."""

    frame: pl.DataFrame
    note: str = ""
    first_ns: int = 0  # the first submission


NOTHING_SUBMITTED = Submitted(pl.DataFrame(schema=_SUBMITTED_SCHEMA))


def read_study(out: Path) -> StudyRecord:
    """The study in `out`, as far as it went; raises where there is none, or one we cannot read."""
    try:
        there = out.is_dir()
    except OSError as error:  # a name that no file can have
        raise UsageProblem(f"{cut(str(out))}: {error.strerror}", _GIVE) from None
    if not there:
        raise UsageProblem(f"{out} is not a directory", _GIVE)
    if not (out / STUDY).is_file():
        raise UsageProblem(f"{out} is no study: it has no {STUDY}", _GIVE)
    document = _read_json(out / STUDY)
    _check_format(out / STUDY, document)
    trials: list[TrialRecord] = []
    notes: list[str] = []
    begun = 0
    state = _state(out, document)
    for name in document.get("trials", ()):
        directory = out / TRIALS / str(name)
        begun += directory.is_dir()
        if not (directory / TRIAL).is_file():
            notes += [f"{name} is left out: it has no {TRIAL}"] if directory.is_dir() else []
            continue
        try:
            trial = read_trial(directory)
        except SetupProblem as problem:
            notes.append(f"{name} is left out: {problem.message}")
            continue
        trials.append(trial)
        notes += [f"{trial.name} is damaged: {what}" for what in trial.damage]
        if trial.cut_off:
            notes.append(f"{trial.name} was cut off, or goes on: it counts as {CUT_OFF}, with what was observed so far")
            _, torn = _whole_lines(directory / SUBMITTED)
            notes += [f"{trial.name}: {torn}"] if torn else []
    unfinished = _unfinished(state, document, begun, trials)
    return StudyRecord(out, document, tuple(trials), (*([unfinished] if unfinished else ()), *notes), state, unfinished)


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


def read_trial(directory: Path) -> TrialRecord:
    if not (directory / TRIAL).is_file():
        raise UsageProblem(f"{directory} is no trial: it has no {TRIAL}", "Give a directory under OUT/trials.")
    document = _read_json(directory / TRIAL)
    _check_format(directory / TRIAL, document)
    return TrialRecord(directory, document)


def read_submitted(directory: Path) -> Submitted:
    """`submitted.jsonl` without the line that a crash tore, wherever it tore it."""
    path = directory / SUBMITTED
    whole, note = _whole_lines(path)
    if not whole:
        return replace(NOTHING_SUBMITTED, note=note)
    try:
        frame = pl.read_ndjson(whole, schema=_SUBMITTED_SCHEMA)
    except pl.exceptions.PolarsError as error:
        raise SetupProblem(
            f"{path} is damaged before its last line: {error}", "Take the damaged lines out, or leave this trial out."
        ) from error
    frame = frame.sort("number", maintain_order=True)
    frame = frame.filter(pl.col("number").ne_missing(pl.col("number").shift()))
    first = frame["at_ns"].min()
    return Submitted(frame, note, int(first) if isinstance(first, int) else 0)


def _doubt(said: Any, whole: tuple[str, ...]) -> Doubt:
    if not isinstance(said, Mapping):
        return Doubt(str(said), whole)
    by = said.get("by_s")
    known = tuple(kind for kind in KINDS if kind in (said.get("touches") or KINDS))
    return Doubt(str(said.get("reason")), known, float(by) if isinstance(by, int | float) else None)


def _whole_lines(path: Path) -> tuple[bytes, str]:
    """The lines of a file that was appended to, without a last one that is no JSON, and a note on that."""
    data = path.read_bytes() if path.is_file() else b""
    whole = data[: data.rfind(b"\n") + 1]
    start = whole.rfind(b"\n", 0, -1) + 1
    if whole and not _is_json(whole[start:]):
        whole = whole[:start]
    torn = len(whole) < len(data)
    return whole, f"the last line of {path.name} was torn by a crash and is left out" if torn else ""


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        raise SetupProblem(f"{path} is not JSON: {error}", _DAMAGED) from error
    if not isinstance(document, dict):
        raise SetupProblem(f"{path} does not hold an object", _DAMAGED)
    return document


def _check_format(path: Path, document: Mapping[str, Any]) -> None:
    found = document.get("format")
    if not isinstance(found, int):
        raise UsageProblem(f"{path} does not say its format", _GIVE)
    if found > FORMAT:
        by = document.get("seatrial")
        written = f", written by seatrial {by}" if by else ""
        raise UsageProblem(
            f"{path} has format {found}{written}; seatrial {__version__} reads up to format {FORMAT}",
            "Upgrade seatrial, or report with the version that wrote it.",
        )
