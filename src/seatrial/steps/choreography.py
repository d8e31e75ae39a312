"""Runs the steps of a trial on a cluster: step after step, the phases of a step side by side.

What a phase does is in its module of `scenario/actions`. The event loop is the clock: on the simulator a timeout of ten minutes
passes in milliseconds, on a real cluster in ten minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from seatrial.clog import diagnose
from seatrial.model.errors import SetupProblem
from seatrial.model.interfaces import Cluster, Judge, Tally
from seatrial.model.lifecycle import COMPLETED, SUBMITTED
from seatrial.model.plan import Phase, Trial
from seatrial.model.units import SECOND, format_duration
from seatrial.steps.watchman import Clog, Stall, Watchman


@dataclass(frozen=True, slots=True)
class Note:
    """A wait that failed and did not end the trial."""

    at_ns: int
    text: str


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """When a phase ran; `step` counts from 0."""

    step: int
    phase: str
    from_ns: int
    until_ns: int


@dataclass(slots=True)
class StepsResult:
    """How the steps ended; `detail` says where and why, unless they completed."""

    outcome: str = "completed"
    detail: str = ""
    tallies: list[Tally] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    took: list[PhaseTime] = field(default_factory=list)  # every phase that began, in the order they ended
    clog: Clog | None = None
    timed_out: Clog | None = None  # what was unfinished when a wait timed out
    stalls: list[Stall] = field(default_factory=list)  # those that did not end the trial


class _Ended(Exception):
    """A phase ends the trial."""

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome, self.detail = outcome, detail


async def run_steps(cluster: Cluster, trial: Trial, judge: Judge, releases: Sequence[int] = ()) -> StepsResult:
    """Raises nothing that happens in a trial: cancelled (Ctrl-C), it ends `interrupted`. `releases`: the stack's own timeouts, see
    `watchman`."""
    _check_needs(cluster, trial)
    run = _TrialRun(cluster, trial, judge, releases)
    ending = run.ending
    try:
        await cluster.up()
        async with asyncio.TaskGroup() as beside:
            lookouts = [beside.create_task(run.notice_breakage()), beside.create_task(run.notice_clogs())]
            if trial.limit:
                lookouts.append(beside.create_task(run.notice_limit()))
            for number, step in enumerate(trial.steps):
                async with asyncio.TaskGroup() as phases:
                    for phase in step:
                        phases.create_task(run.phase(number, phase))
            for lookout in lookouts:
                lookout.cancel()
    except* _Ended as ended:
        first = next(error for error in _flat(ended) if isinstance(error, _Ended))
        ending.outcome, ending.detail = first.outcome, first.detail
    except* asyncio.CancelledError:
        ending.outcome, ending.detail = "interrupted", "interrupted by the user"
    ending.stalls = run.stalls()
    return ending


def _check_needs(cluster: Cluster, trial: Trial) -> None:
    """Refuses, before anything is created, phases that the cluster cannot run."""
    for phase in trial.phases(Phase):
        if not isinstance(cluster, phase.needs):
            remedy = "run it on another cluster (--on), or remove the phase"
            raise SetupProblem(
                f"--on {trial.on} cannot run phase {phase.name}: it lacks {phase.needs.__name__}", remedy
            )


def _flat(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    return [
        e for error in group.exceptions for e in (_flat(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]


class _TrialRun:
    """A trial whose steps run; the actions of its phases see it as a `RunningTrial`."""

    def __init__(self, cluster: Cluster, trial: Trial, judge: Judge, releases: Sequence[int]) -> None:
        self.ending = StepsResult()
        self.trial, self.judge = trial, judge
        self._cluster = cluster
        self._watchman = Watchman(cluster, trial, releases, self._goes_on)
        self._waits: dict[asyncio.Future[str], bool] = {}  # waits → whether they continue after a clog

    def stalls(self) -> list[Stall]:
        """Stalls that did not end the trial."""
        self._watchman.leave()
        return self._watchman.stalls

    async def notice_breakage(self) -> None:
        """A component that stays dead is a clog too, if work is left."""
        why = await self._cluster.broken()
        state = self._cluster.state()
        if state.dead and state.workloads:
            self._end_clogged(Clog(state.at, diagnose(state, 0, (), state.dead), state))
        self.end("failed", why)

    async def notice_clogs(self) -> None:
        """Ends the trial when the watchman finds a clog."""
        self._end_clogged(await self._watchman.watch())

    async def notice_limit(self) -> None:
        """Ends the trial as timed out when its time (`--limit`) is up."""
        await asyncio.sleep(self.trial.limit / SECOND)
        ledger = self._cluster.ledger
        submitted, completed = (ledger.counts[ledger.number[stage.name]] for stage in (SUBMITTED, COMPLETED))
        why = f"after the limit of {format_duration(self.trial.limit)} per trial"
        if submitted:
            why += f" {completed} of {submitted} workloads were completed"
        self.time_is_up(why, go_on=False, of_workloads=True)

    def _end_clogged(self, clog: Clog) -> NoReturn:
        self.ending.clog = clog
        self.end("clogged", f"{clog.diagnosis.kind}: {clog.diagnosis.summary}")

    def _goes_on(self, clog: Clog) -> bool:
        """Whether all current waits continue after a clog."""
        if not all(self._waits.values()):
            return False
        for done in self._waits:
            if not done.done():
                done.set_result(f"clogged, {clog.diagnosis.kind}: {clog.diagnosis.summary}")
        return True

    async def phase(self, step: int, phase: Phase) -> None:
        """Runs a phase and records its times."""
        began = self._cluster.now()
        try:
            with self._watchman.waiting() if phase.waits else self._watchman.acting():
                await phase.act(self, self._cluster)
        finally:
            self.ending.took.append(PhaseTime(step, phase.name, began, self._cluster.now()))

    # what actions use

    def tallied(self, tally: Tally) -> None:
        self.ending.tallies.append(tally)

    def note(self, text: str) -> None:
        self.ending.notes.append(Note(self._cluster.now(), text))

    def end(self, outcome: str, detail: str) -> NoReturn:
        raise _Ended(outcome, detail)

    def time_is_up(self, why: str, *, go_on: bool, of_workloads: bool = False) -> None:
        left = self._watchman.unfinished() if of_workloads else None
        if left:
            why += f": {left.diagnosis.kind}: {left.diagnosis.summary}"
        if go_on:
            self.note(f"{why.rstrip('.')}; the run continued")
            return
        self.ending.timed_out = left
        self.end("timeout", why)

    @contextmanager
    def waiting(self, done: asyncio.Future[str], go_on: bool) -> Iterator[None]:
        self._waits[done] = go_on
        try:
            yield
        finally:
            del self._waits[done]
