"""Runs a trial's steps on a cluster and says how they ended.

The event loop is the clock: on the simulator a time-out of ten minutes passes in milliseconds, on a real cluster in ten minutes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from seatrial.model.interfaces import Cluster, Tally
from seatrial.model.lifecycle import COMPLETED, DELETED, FAILED, SUBMITTED
from seatrial.model.load import load_of
from seatrial.model.plan import Check, Delete, Expectation, Nodes, Pause, Phase, Submit, Trial, Wait
from seatrial.model.randomness import stream_seed
from seatrial.model.units import SECOND, format_duration

Judge = Callable[[Expectation, dict[str, float | str | None]], str | None]  # None: it holds; else why not


@dataclass(frozen=True, slots=True)
class Note:
    """Something that did not come about and did not end the trial."""

    at_ns: int
    text: str


@dataclass(slots=True)
class Ending:
    """How the steps ended; `detail` says where and why, unless all is well."""

    outcome: str = "completed"
    detail: str = ""
    tallies: list[Tally] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


class _Ended(Exception):
    """A phase ends the trial."""

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome, self.detail = outcome, detail


async def run_steps(cluster: Cluster, trial: Trial, judge: Judge) -> Ending:
    """Never raises for what happens in a trial: cancelled (Ctrl-C), it ends `interrupted`."""
    ending = Ending()
    try:
        await cluster.up()
        async with asyncio.TaskGroup() as beside:
            watchman = beside.create_task(_watch_over(cluster))
            for number, step in enumerate(trial.steps):
                async with asyncio.TaskGroup() as phases:
                    for phase in step:
                        phases.create_task(_run_phase(cluster, trial, number, phase, judge, ending))
            watchman.cancel()
    except* _Ended as ended:
        first = next(error for error in _flat(ended) if isinstance(error, _Ended))
        ending.outcome, ending.detail = first.outcome, first.detail
    except* asyncio.CancelledError:
        ending.outcome, ending.detail = "interrupted", "interrupted by the user"
    return ending


async def _watch_over(cluster: Cluster) -> None:
    raise _Ended("failed", await cluster.broken())


def _flat(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    return [
        e for error in group.exceptions for e in (_flat(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]


async def _run_phase(cluster: Cluster, trial: Trial, step: int, phase: Phase, judge: Judge, ending: Ending) -> None:
    match phase:
        case Submit():
            seed = stream_seed(trial.seed, trial.drawn_from, trial.repeat, phase.name)
            ending.tallies.append(await cluster.load(load_of(phase, seed)))
        case Wait():
            await _wait(cluster, trial, step, phase, ending)
        case Pause():
            await asyncio.sleep(phase.duration / SECOND)
        case Nodes():
            await cluster.nodes(phase)
        case Delete():
            await cluster.delete(phase)
        case Check():
            figures = {**trial.params, **counts(cluster), "setup": trial.setup.name, "stack": trial.setup.stack}
            for expectation in phase.expect:
                wrong = judge(expectation, figures)
                if wrong:
                    raise _Ended("failed", f"{expectation.place}: {wrong}")


async def _wait(cluster: Cluster, trial: Trial, step: int, wait: Wait, ending: Ending) -> None:
    ledger = cluster.ledger
    stage = ledger.number[wait.stage]
    submits = [phase for phases in trial.steps[: step + 1] for phase in phases if isinstance(phase, Submit)]
    wanted = [submit for submit in submits if not wait.of or submit.name in wait.of]
    count = sum(submit.count for submit in wanted) if wait.count is None else wait.count
    phases = {ledger.phase(submit.name) for submit in wanted} if wait.of else None
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = ledger.when(stage, phases, count, lambda: None if done.done() else done.set_result(None))
    if waiting is None:
        return
    try:
        async with asyncio.timeout(wait.timeout / SECOND):
            await done
    except TimeoutError:
        reached = ledger.reached(stage, phases)
        after = format_duration(wait.timeout)
        detail = f"{wait.name}: after {after} {reached} of {count} workloads were {wait.stage}"
        if not wait.go_on:
            raise _Ended("timeout", detail) from None
        ending.notes.append(Note(cluster.now(), f"{detail}; the run went on"))
    finally:
        ledger.forget(waiting)


def counts(cluster: Cluster) -> dict[str, float | str | None]:
    """What can be said while a trial runs; the rest of the figures comes afterwards."""
    ledger = cluster.ledger
    now = {stage.name: ledger.counts[ledger.number[stage.name]] for stage in (SUBMITTED, COMPLETED, FAILED, DELETED)}
    return {**now, "pending": now["submitted"] - now["completed"] - now["failed"] - now["deleted"]}
