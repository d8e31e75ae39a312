"""Runs planned trials for `seatrial run`, writes tables, pictures and the page, and judges the gates."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seatrial.analysis.gates import Verdict, judge, unfinished
from seatrial.analysis.repeat_judging import FAILS
from seatrial.analysis.studies import Study
from seatrial.model.plan import Trial
from seatrial.report.study_report import end_of_run
from seatrial.study import resuming, study_directory
from seatrial.study.executors import Executor, Listener, executor_for
from seatrial.study.interruption import interruption
from seatrial.study.program_identity import identity
from seatrial.study.trials import Outcome


@dataclass
class StudyResult:
    """How a run ended."""

    study: Study | None = None  # as it was read at the end
    outcomes: list[Outcome] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    interrupted: bool = False

    def never_began(self) -> list[str]:
        """A line for every trial that could not be set up, unless a verdict says so already."""
        lines = [f"{o.trial}: {o.outcome}: {o.detail}" for o in self.outcomes if not o.set_up]
        said = {verdict.line for verdict in self.verdicts}
        return [line for line in lines if line not in said]

    @property
    def exit_status(self) -> int:
        """The exit status of the command."""
        if self.interrupted:
            return 130
        if not all(outcome.set_up for outcome in self.outcomes):
            return 3
        return 1 if any(verdict.state == FAILS for verdict in self.verdicts) else 0


def run_study(
    name: str,
    document: Mapping[str, Any],
    trials: Sequence[Trial],
    asked: dict[str, Any],
    out: Path,
    listener: Listener,
    *,
    force: bool = False,
    jobs: int | None = None,
    executor: Executor | None = None,
    baseline: Study | None = None,
    gated: bool = False,
    resume: bool = False,
    keeping: Callable[[int], None] = lambda _: None,
    reporting: Callable[[str], None] = lambda _: None,
) -> StudyResult:
    """Runs the trials into `out`, where observations stay however the run ends. With `resume` only those that are left, after
    `keeping` was told how many are not run again. Without an `executor`, on this machine with one that suits the trials."""
    opened = study_directory.resumed_study(out) if resume else study_directory.new_study(out, force)
    with study_directory.disk_problems(out), opened:
        study = study_directory.study_document(name, document, trials, asked)
        started = time.time()
        run = {
            "started": datetime.datetime.fromtimestamp(started, datetime.UTC).isoformat(timespec="seconds"),
            **study_directory.surroundings(),
            "program": identity(trials),
        }
        left = list(trials)
        if resume:
            earlier = resuming.resumed(out, study, trials)
            study, left = earlier.document, earlier.left
            run |= {"started": earlier.run.get("started"), "resumed": int(earlier.run.get("resumed") or 0) + 1}
            keeping(len(trials) - len(left))
            resuming.clear(out, left)
        study_directory.write_study(out, {**study, "run": {**run, "state": "running"}})
        result = StudyResult()
        if left:
            chosen = executor or executor_for(left, jobs, alone=len(trials) == 1)
            result.outcomes.extend(chosen.run(left, out, listener))
        result.interrupted = interruption.wanted
        state = "interrupted" if result.interrupted else "complete"
        wall = {"wall_s": round(time.time() - started, 3), "state": state}
        study_directory.write_study(out, {**study, "run": {**run, **wall}})
        result.study = Study.open(out, {outcome.trial: outcome.figures for outcome in result.outcomes})
        result.files = end_of_run(result.study, not result.interrupted, reporting)
        result.verdicts = unfinished(result.study) if result.interrupted else judge(result.study, baseline, gated)
    return result
