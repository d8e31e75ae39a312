"""Runs a trial's steps on a cluster and says how they ended.

The event loop is the clock: on the simulator a time-out of ten minutes passes in milliseconds, on a real cluster in ten minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from seatrial.clog import diagnose
from seatrial.model.interfaces import Cluster, Tally
from seatrial.model.lifecycle import COMPLETED, DELETED, FAILED, SUBMITTED
from seatrial.model.load import load_of
from seatrial.model.plan import Check, Delete, Expectation, Nodes, Pause, Phase, Requests, Submit, Trial, Until, Wait
from seatrial.model.randomness import stream_seed
from seatrial.model.units import SECOND, format_duration
from seatrial.steps.watchman import Clog, Stall, Watchman

Judge = Callable[[Expectation, dict[str, float | str | None]], str | None]  # None: it holds; else why not


@dataclass(frozen=True, slots=True)
class Note:
    """Something that did not come about and did not end the trial."""

    at_ns: int
    text: str


@dataclass(frozen=True, slots=True)
class Took:
    """From when to when a phase ran; `step` counts from 0."""

    step: int
    phase: str
    from_ns: int
    until_ns: int


@dataclass(slots=True)
class Ending:
    """How the steps ended; `detail` says where and why, unless all is well."""

    outcome: str = "completed"
    detail: str = ""
    tallies: list[Tally] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    took: list[Took] = field(default_factory=list)  # every phase that began, in the order they ended
    clog: Clog | None = None
    stalls: list[Stall] = field(default_factory=list)  # those that did not end the trial


class _Ended(Exception):
    """A phase ends the trial."""

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome, self.detail = outcome, detail


async def run_steps(cluster: Cluster, trial: Trial, judge: Judge, releases: Sequence[int] = ()) -> Ending:
    """Never raises for what happens in a trial: cancelled (Ctrl-C), it ends `interrupted`. `releases` are the stack's own
    time-outs: see `watchman`."""
    run = _Run(cluster, trial, judge, releases)
    ending = run.ending
    try:
        await cluster.up()
        async with asyncio.TaskGroup() as beside:
            lookouts = [beside.create_task(run.notice_breakage()), beside.create_task(run.notice_clogs())]
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


def _flat(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    return [
        e for error in group.exceptions for e in (_flat(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]


class _Run:
    """One trial's steps on their way."""

    def __init__(self, cluster: Cluster, trial: Trial, judge: Judge, releases: Sequence[int]) -> None:
        self.ending = Ending()
        self._cluster, self._trial, self._judge = cluster, trial, judge
        self._watchman = Watchman(cluster, trial, releases, self._goes_on)
        self._waits: dict[asyncio.Future[str], Wait] = {}

    def stalls(self) -> list[Stall]:
        self._watchman.leave()
        return self._watchman.stalls

    async def notice_breakage(self) -> None:
        """A component that is dead for good is a clog too, if work is left: nothing has to be waited for."""
        why = await self._cluster.broken()
        state = self._cluster.state()
        if state.dead and state.workloads:
            self._end(Clog(state.at, diagnose(state, 0, (), state.dead), state))
        raise _Ended("failed", why)

    async def notice_clogs(self) -> None:
        self._end(await self._watchman.watch())

    def _end(self, clog: Clog) -> NoReturn:
        self.ending.clog = clog
        raise _Ended("clogged", f"{clog.diagnosis.kind}: {clog.diagnosis.summary}")

    def _goes_on(self, clog: Clog) -> bool:
        """If everyone who waits said so beforehand."""
        if not all(wait.go_on for wait in self._waits.values()):
            return False
        for done in self._waits:
            if not done.done():
                done.set_result(f"clogged, {clog.diagnosis.kind}: {clog.diagnosis.summary}")
        return True

    async def phase(self, step: int, phase: Phase) -> None:
        began = self._cluster.now()
        try:
            if isinstance(phase, Wait):
                with self._watchman.waiting():
                    await self._wait(step, phase)
            else:
                with self._watchman.acting():
                    await self._act(phase)
        finally:
            self.ending.took.append(Took(step, phase.name, began, self._cluster.now()))

    async def _act(self, phase: Phase) -> None:
        cluster, trial = self._cluster, self._trial
        match phase:
            case Submit():
                seed = stream_seed(trial.seed, trial.drawn_from, trial.repeat, phase.name)
                self.ending.tallies.append(await cluster.load(load_of(phase, seed)))
            case Pause():
                await asyncio.sleep(phase.duration / SECOND)
            case Nodes():
                await cluster.nodes(phase)
            case Delete():
                await cluster.delete(phase)
            case Requests():
                self.ending.tallies.append(await cluster.requests(phase))
            case Until():
                await self._until(phase)
            case Check():
                figures = {**trial.params, **counts(cluster), "setup": trial.setup.name, "stack": trial.setup.stack}
                for expectation in phase.expect:
                    wrong = self._judge(expectation, figures)
                    if wrong:
                        raise _Ended("failed", f"{expectation.place}: {wrong}")

    async def _wait(self, step: int, wait: Wait) -> None:
        ledger = self._cluster.ledger
        stage = ledger.number[wait.stage]
        submits = [phase for phases in self._trial.steps[: step + 1] for phase in phases if isinstance(phase, Submit)]
        wanted = [submit for submit in submits if not wait.of or submit.name in wait.of]
        count = sum(submit.count for submit in wanted) if wait.count is None else wait.count
        phases = {ledger.phase(submit.name) for submit in wanted} if wait.of else None
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()  # why it did not come about, or nothing
        waiting = ledger.when(stage, phases, count, lambda: None if done.done() else done.set_result(""))
        if waiting is None:
            return
        self._waits[done] = wait
        try:
            async with asyncio.timeout(wait.timeout / SECOND):
                why = await done
        except TimeoutError:
            after = format_duration(wait.timeout)
            why = f"after {after} {ledger.reached(stage, phases)} of {count} workloads were {wait.stage}"
            if not wait.go_on:
                raise _Ended("timeout", f"{wait.name}: {why}") from None
        finally:
            del self._waits[done]
            ledger.forget(waiting)
        if why:
            self.ending.notes.append(Note(self._cluster.now(), f"{wait.name}: {why.rstrip('.')}; the run went on"))

    async def _until(self, until: Until) -> None:
        now = 0

        def told(count: int) -> None:
            nonlocal now
            now = count

        try:
            async with asyncio.timeout(until.timeout / SECOND):
                await self._cluster.until(until, told)
        except TimeoutError:
            gone = until.state.endswith("gone")
            so = f"{now} were not gone" if gone else f"{now} of {until.count} were {until.state}"
            why = f"{until.name}: after {format_duration(until.timeout)} {so}"
            if not until.go_on:
                raise _Ended("timeout", why) from None
            self.ending.notes.append(Note(self._cluster.now(), f"{why}; the run went on"))


def counts(cluster: Cluster) -> dict[str, float | str | None]:
    """What can be said while a trial runs; the rest of the figures comes afterwards."""
    ledger = cluster.ledger
    now = {stage.name: ledger.counts[ledger.number[stage.name]] for stage in (SUBMITTED, COMPLETED, FAILED, DELETED)}
    return {**now, "pending": now["submitted"] - now["completed"] - now["failed"] - now["deleted"]}
