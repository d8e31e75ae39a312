"""`seatrial find`: runs the trials that a search asks for, round by round, until the answer is known.

Everything is one study. study.json names the trials of a round before they run, and the next round follows from what the trials
showed: so a search that was killed at any moment is continued by searching again with the trials that have ended.
"""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seatrial.analysis.cells import as_text
from seatrial.analysis.repeat_judging import Row
from seatrial.analysis.search_answers import EVERYWHERE, FOUND, SearchAnswer
from seatrial.analysis.search_fronts import Front, front_of, next_of_front
from seatrial.analysis.searched_studies import FIND, Case, Question, Searches, row_of
from seatrial.analysis.searching import NextTrial, next_probes
from seatrial.analysis.studies import Study
from seatrial.model.plan import Scalar, Trial
from seatrial.record.layout import TRIALS
from seatrial.record.trial_record import TrialRecord
from seatrial.report.study_report import end_of_run
from seatrial.study import resuming, study_directory
from seatrial.study.executors import Executor, Listener, executor_for
from seatrial.study.interruption import interruption
from seatrial.study.program_identity import identity
from seatrial.study.trials import Outcome

_Key = tuple[str, tuple[tuple[str, str], ...], int]  # set-up, params and repeat: what a trial is, whatever its number


@dataclass(frozen=True)
class Searched:
    """The task of a search: the question, the study's scenario and options, and how a value becomes trials."""

    question: Question
    name: str
    document: Mapping[str, Any]  # of the scenario
    asked: dict[str, Any]
    of_values: Callable[[tuple[Scalar, ...]], Sequence[Trial]]  # one for each case


@dataclass
class FindResult:
    """How a search ended."""

    searches: Searches
    cases: list[Case] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    study: Study | None = None
    files: list[Path] = field(default_factory=list)
    interrupted: bool = False

    def answers(self) -> dict[Case, SearchAnswer]:
        """The answer of every case."""
        return self.searches.answers(self.cases)

    @property
    def exit_status(self) -> int:
        """The exit status of the command."""
        if self.interrupted:
            return 130
        if not all(outcome.set_up for outcome in self.outcomes):
            return 3
        if self.searches.question.across is not None:
            return 0 if all(found(self.front(case)) for case in self.cases) else 1
        return 0 if all(answer.state in (FOUND, EVERYWHERE) for answer in self.answers().values()) else 1

    def front(self, case: Case) -> Front:
        """The front of a case, of two variables."""
        return front_of(self.searches, case)

    def never_began(self) -> list[str]:
        """A line for every trial that could not be set up."""
        return [f"{o.trial}: {o.outcome}: {o.detail}" for o in self.outcomes if not o.set_up]


def run_search(
    searched: Searched,
    out: Path,
    listener: Listener,
    *,
    force: bool = False,
    jobs: int | None = None,
    executor: Executor | None = None,
    resume: bool = False,
    keeping: Callable[[int], None] = lambda _: None,
    reporting: Callable[[str], None] = lambda _: None,
) -> FindResult:
    """Searches into `out`, where observations stay however it ends. With `resume` trials that have ended are not run again, after
    `keeping` was told how many they are."""
    opened = study_directory.resumed_study(out) if resume else study_directory.new_study(out, force)
    with study_directory.disk_problems(out), opened:
        search = _RunningSearch(searched, out, listener, jobs, executor)
        if resume:
            search.take_over()
            keeping(len(search.ended))
        result = search.run()
        result.interrupted = interruption.wanted
        search.write("interrupted" if result.interrupted else "complete")
        result.study = Study.open(out, {outcome.trial: outcome.figures for outcome in result.outcomes})
        result.files = end_of_run(result.study, not result.interrupted and bool(result.study.trials), reporting)
    return result


class _RunningSearch:
    def __init__(
        self, searched: Searched, out: Path, listener: Listener, jobs: int | None, executor: Executor | None
    ) -> None:
        self.searched, self.out, self.listener, self.jobs, self.executor = searched, out, listener, jobs, executor
        self.trials: list[Trial] = []  # of all rounds
        self.ended: dict[_Key, str] = {}  # of an earlier run: the names of trials that ended
        self.started = time.time()
        first = [trial for values in self._ends() for trial in searched.of_values(values)]
        names = searched.question.names
        self.cases = list(dict.fromkeys(self._case(trial).without(names[0]) for trial in first))
        self._first = first
        self._study = study_directory.study_document(searched.name, searched.document, first, searched.asked)
        self._run: dict[str, Any] = {
            "started": datetime.datetime.fromtimestamp(self.started, datetime.UTC).isoformat(timespec="seconds"),
            **study_directory.surroundings(),
            "program": identity(first),
        }

    def _ends(self) -> list[tuple[Scalar, ...]]:
        grids = [one.grid for one in self.searched.question.variables]
        return list(dict.fromkeys((tuple(grid[0] for grid in grids), tuple(grid[-1] for grid in grids))))

    def _case(self, trial: Trial) -> Case:
        return Case.of(trial.setup.name, trial.params, self.searched.question.name)

    def take_over(self) -> None:
        """Takes over an earlier run: refused if it was another search, without unfinished trials."""
        earlier = resuming.begun_study(self.out)
        now = {**self._study, "trials": earlier.get("trials")}
        resuming.refuse_differences(self.out, earlier, now, self._first)
        run = dict(earlier.get("run") or {})
        self._run |= {"started": run.get("started"), "resumed": int(run.get("resumed") or 0) + 1}
        for name in resuming.keep_ended(self.out):
            record = TrialRecord.open(self.out / TRIALS / name)
            key = (record.setup, _as_texts(record.params), int(record.document["repeat"]))
            self.ended[key] = name

    def write(self, state: str) -> None:
        """study.json with the trials so far."""
        wall = {"wall_s": round(time.time() - self.started, 3)} if state != "running" else {}
        document = {
            **self._study,
            "trials": [trial.name for trial in self.trials],
            FIND: self.searched.question.document(),
            "run": {**self._run, **wall, "state": state},
        }
        study_directory.write_study(self.out, document)

    def run(self) -> FindResult:
        """Round by round, the searches of all cases side by side."""
        searches = Searches(self.searched.question)
        result = FindResult(searches, self.cases)
        while not interruption.wanted and all(outcome.set_up for outcome in result.outcomes):
            wanted = [one for case in self.cases for one in self._next(searches, case)]
            if not wanted:
                break
            numbered = [self._trial(case, probe) for case, probe in wanted]
            self.write("running")
            new = [trial for trial in numbered if _key(trial) not in self.ended]
            if new:
                executor = self.executor or executor_for(new, self.jobs, alone=False)
                result.outcomes.extend(executor.run(new, self.out, self.listener))
            self._add(searches, numbered, result.outcomes)
        return result

    def _next(self, searches: Searches, case: Case) -> list[tuple[Case, NextTrial]]:
        if searches.question.across is not None:
            return next_of_front(searches, case)
        return [(case, probe) for probe in next_probes(searches.search(case))]

    def _trial(self, case: Case, probe: NextTrial) -> Trial:
        """The trial of a probe, with the next free number, or the one that it had in the earlier run."""
        question = self.searched.question
        value = question.value(probe.place)
        values = (value,) if question.across is None else (self._across(case), value)
        of_case = next(one for one in self.searched.of_values(values) if self._case(one) == case)
        varies = tuple(dict.fromkeys((*of_case.varies, *question.names)))
        trial = dataclasses.replace(of_case, repeat=probe.repeat, varies=varies)
        taken = {int(name.partition("-")[0]) for name in self.ended.values()} | {one.number for one in self.trials}
        before = self.ended.get(_key(trial))
        number = (
            int(before.partition("-")[0]) if before else next(n for n in range(1, len(taken) + 2) if n not in taken)
        )
        self.trials.append(dataclasses.replace(trial, number=number))
        return self.trials[-1]

    def _across(self, case: Case) -> Scalar:
        """The value of a slice."""
        question = self.searched.question
        return question.across_value(question.across_places[dict(case.params)[question.names[0]]])

    def _add(self, searches: Searches, trials: Sequence[Trial], outcomes: Sequence[Outcome]) -> None:
        """Adds the evidence of a round; an interrupted trial has none."""
        of = {outcome.trial: outcome for outcome in outcomes}
        asked = searches.question.condition.asked
        for trial in trials:
            outcome = of.get(trial.name)
            if outcome is not None and (outcome.outcome == "interrupted" or not outcome.set_up):
                continue
            if outcome is None and _key(trial) not in self.ended:
                continue
            record = TrialRecord.open(self.out / TRIALS / trial.name)
            row: Row = row_of(record, None, asked)
            searches.add(record, row)


def found(front: Front) -> bool:
    """Whether a front has what was asked for: mixes that do, and with prices a confirmed cheapest one."""
    return bool(front.points) and (front.best is None or front.best.confirmed)


def _key(trial: Trial) -> _Key:
    return trial.setup.name, _as_texts(trial.params), trial.repeat


def _as_texts(params: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, as_text(value)) for name, value in params.items()))
