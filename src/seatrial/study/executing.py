"""Runs many trials: in this process, or in a pool that uses all cores. Both give the same bytes.

The pool's workers get a trial and a directory and give an `Outcome` back, so another executor could send them to other machines.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from pathlib import Path
from queue import Empty
from threading import Thread
from typing import Any, Protocol

from seatrial.model.errors import SetupProblem
from seatrial.model.plan import Trial
from seatrial.study.interrupting import interruption
from seatrial.study.trials import Outcome, run_trial

Begun = Callable[[str], None]
Told = Callable[[str, int, int, int, float, int], None]
POLL = 0.1  # s: how soon progress, Ctrl-C and the parent's end are seen
STOP = "stop"  # from a worker that got a signal


class Listener(Protocol):
    """Who is told how trials get on: the progress display."""

    def started(self, trial: str) -> None: ...

    def update(self, trial: str, submitted: int, completed: int, of: int, virtual_s: float, requests: int) -> None: ...

    def ended(self, trial: str, outcome: str, figures: dict[str, Any]) -> None: ...


def run_all(trials: Sequence[Trial], out: Path, listener: Listener, jobs: int) -> Iterator[Outcome]:
    """Outcomes as they come; ends early once the user has interrupted."""
    if jobs <= 1 or len(trials) <= 1:
        yield from _run_here(trials, out, listener)
    else:
        yield from _run_in_pool(trials, out, listener, min(jobs, len(trials)))


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run_here(trials: Sequence[Trial], out: Path, listener: Listener) -> Iterator[Outcome]:
    for trial in trials:
        if interruption.wanted:
            return
        listener.started(trial.name)
        outcome = run_trial(trial, out / "trials" / trial.name, listener.update, alone=len(trials) == 1)
        listener.ended(trial.name, outcome.outcome, outcome.figures)
        yield outcome


_messages: Any = None  # in a worker: where it tells its progress


def _prepare_worker(messages: Any) -> None:
    global _messages  # noqa: PLW0603
    _messages = messages
    interruption.listen(insist=False)
    Thread(target=_watch_parent, daemon=True).start()


def _watch_parent() -> None:
    """A worker ends with its parent, however that ends: nobody else would tell it. A signal that only the worker got (`kill`)
    ends the study: the parent is told, and ends its workers."""
    parent = multiprocessing.parent_process()
    told = False
    while parent is not None and not connection.wait([parent.sentinel], POLL):
        if interruption.wanted and not told:
            told = True
            _messages.put(STOP)
    os._exit(1)


def _run_in_worker(trial: Trial, directory: Path) -> Outcome | None:
    if interruption.wanted:
        return None
    _messages.put((trial.name,))
    return run_trial(trial, directory, lambda *progress: _messages.put(progress), alone=False)


def _run_in_pool(trials: Sequence[Trial], out: Path, listener: Listener, jobs: int) -> Iterator[Outcome]:
    context = multiprocessing.get_context("spawn")  # forking a process with polars' threads in it is not safe
    messages = context.Queue()
    with ProcessPoolExecutor(jobs, context, _prepare_worker, (messages,)) as pool:
        try:
            waiting: set[Future[Outcome | None]] = {
                pool.submit(_run_in_worker, trial, out / "trials" / trial.name) for trial in trials
            }
            told_workers = False
            while waiting:
                done, waiting = wait(waiting, POLL, FIRST_COMPLETED)
                _listen(messages, listener)
                if interruption.wanted and not told_workers:
                    told_workers = True
                    _interrupt_workers()
                    waiting = {future for future in waiting if not future.cancel()}
                for future in done:
                    outcome = None if future.cancelled() else future.result()
                    if outcome:
                        listener.ended(outcome.trial, outcome.outcome, outcome.figures)
                        yield outcome
        except BrokenProcessPool:
            if not interruption.wanted:
                raise SetupProblem(
                    f"a worker process died, perhaps for want of memory; what was observed is in {out}",
                    "run fewer trials side by side (-j), or see what ended it (dmesg)",
                ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # as without a pool: after an error nothing more begins
            raise


def _interrupt_workers() -> None:
    """A terminal signals the whole group, `kill` only this process: workers take a second signal calmly."""
    for child in multiprocessing.active_children():
        if child.pid:
            os.kill(child.pid, signal.SIGINT)


def _listen(messages: Any, listener: Listener) -> None:
    while True:
        try:
            message = messages.get_nowait()
        except Empty:
            return
        if message == STOP:
            interruption.wanted = True
        elif len(message) == 1:
            listener.started(*message)
        else:
            listener.update(*message)
