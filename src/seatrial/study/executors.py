"""Executors run trials: in this process, or in a pool of processes on all cores. Both leave the same bytes.

The seam is `Executor`: descriptions of trials go in, a directory of each comes out, and its `Outcome`. Trials do not know each
other, so another executor can run them on other machines. It is a class here and a line in `executor_for`.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from pathlib import Path
from threading import Thread
from typing import Any, Protocol

from seatrial.model.diagnostics import start_log
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import Trial
from seatrial.record.layout import TRIALS
from seatrial.record.locks import share
from seatrial.scenario.actions.send_requests import Requests
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.study.interruption import interruption
from seatrial.study.trials import Outcome, run_trial

# Below this many workloads in all a pool costs more than it saves: a worker takes 0.6 s to import what it needs.
WORTH_A_POOL = 20_000
PER_TRIAL = 200  # workloads that cost about as much as a trial by itself
POLL = 0.1  # s until progress, Ctrl-C and the end of the parent are noticed
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOP = "stop"  # from a worker that got a signal


class Listener(Protocol):
    """Shows the progress of trials."""

    def started(self, trial: str) -> None:
        """A trial begins."""

    def update(self, trial: str, submitted: int, completed: int, of: int, virtual_s: float, requests: int) -> None:
        """A trial has come so far."""

    def ended(self, trial: str, outcome: str, figures: dict[str, Any]) -> None:
        """A trial is over."""


class Executor(Protocol):
    """Runs trials into directories of their names under `out`."""

    def run(self, trials: Sequence[Trial], out: Path, listener: Listener) -> Iterator[Outcome]:
        """Yields outcomes as they come; ends early once the user has interrupted."""
        ...


def executor_for(trials: Sequence[Trial], jobs: int | None = None, alone: bool = True) -> Executor:
    """`jobs` trials side by side; by default on all cores where that is worth it, and one after another on a real cluster.
    Not `alone`: they are a part of their study."""
    side_by_side = min(jobs or _worthwhile(trials), len(trials))
    return Pool(side_by_side) if side_by_side > 1 else InProcess(alone)


def run_all(
    trials: Sequence[Trial], out: Path, listener: Listener, jobs: int | None = None, alone: bool = True
) -> Iterator[Outcome]:
    """Runs the trials with the executor that suits them."""
    return executor_for(trials, jobs, alone).run(trials, out, listener) if trials else iter(())


def _worthwhile(trials: Sequence[Trial]) -> int:
    if trials[0].on != "sim":
        return 1
    work = PER_TRIAL * len(trials)
    work += sum(submit.pods for trial in trials for submit in trial.phases(Submit))
    work += sum((phase.count or 0) * len(phase.objects) for trial in trials for phase in trial.phases(Requests))
    return _usable_cores() if work >= WORTH_A_POOL else 1


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class InProcess:
    """One trial after another, in this process. A study's only trial raises if it cannot be set up."""

    alone: bool = True

    def run(self, trials: Sequence[Trial], out: Path, listener: Listener) -> Iterator[Outcome]:
        for trial in trials:
            if interruption.wanted:
                return
            listener.started(trial.name)
            outcome = run_trial(
                trial, out / TRIALS / trial.name, listener.update, alone=self.alone and len(trials) == 1
            )
            listener.ended(trial.name, outcome.outcome, outcome.figures)
            yield outcome


@dataclass(frozen=True)
class Pool:
    """A pool: parallel trials, each in its own process."""

    jobs: int

    def run(self, trials: Sequence[Trial], out: Path, listener: Listener) -> Iterator[Outcome]:
        context = multiprocessing.get_context("spawn")  # forking a process with polars' threads in it is not safe
        _start_tracker()
        messages = context.Queue()
        ended: queue.SimpleQueue[Future[Outcome | None]] = queue.SimpleQueue()
        (out / TRIALS).mkdir(parents=True, exist_ok=True)
        with ProcessPoolExecutor(self.jobs, context, _prepare_worker, (messages, out / TRIALS)) as pool:
            try:
                with _held_back():
                    futures = [pool.submit(_run_in_worker, trial, out / TRIALS / trial.name) for trial in trials]
                for future in futures:
                    future.add_done_callback(ended.put)
                yield from self._outcomes(futures, ended, messages, listener)
            except BrokenProcessPool:
                if not interruption.wanted:
                    raise SetupProblem(
                        f"a worker process died, perhaps out of memory; its observations are in {out}",
                        "run fewer parallel trials (-j), or look for the cause (dmesg)",
                    ) from None
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # as in one process: after an error nothing more begins
                raise

    def _outcomes(
        self,
        futures: Sequence[Future[Outcome | None]],
        ended: queue.SimpleQueue[Future[Outcome | None]],
        messages: Any,
        listener: Listener,
    ) -> Iterator[Outcome]:
        left, told_workers = len(futures), False
        while left:
            future = None
            with suppress(queue.Empty):
                future = ended.get(timeout=POLL)
            _pass_on(messages, listener)
            if interruption.wanted and not told_workers:
                told_workers = True
                _interrupt_workers()
                for waiting in futures:
                    waiting.cancel()
            if future is None:
                continue
            left -= 1
            outcome = None if future.cancelled() else future.result()
            if outcome:
                listener.ended(outcome.trial, outcome.outcome, outcome.figures)
                yield outcome


def _start_tracker() -> None:
    """Starts the process that removes our semaphores when all else is killed: by itself it warns then that they leaked."""
    sys.warnoptions.append("ignore:resource_tracker:UserWarning")  # it gets the options of this process
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.pop()


@contextmanager
def _held_back() -> Iterator[None]:
    """A worker that begins here gets no signal before it can handle one: while it imports, Ctrl-C would end it with a traceback."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_messages: Any = None  # in a worker: the queue to its parent


def _prepare_worker(messages: Any, trials: Path) -> None:
    """A worker outlives a killed parent by a moment: `--resume` waits for the lock that it shares until then."""
    global _messages  # noqa: PLW0603
    _messages = messages
    share(trials)
    parent = multiprocessing.parent_process()
    if parent is not None and connection.wait([parent.sentinel], 0):
        os._exit(1)
    interruption.listen(insist=False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    start_log()
    Thread(target=_watch_parent, daemon=True).start()


def _watch_parent() -> None:
    """Ends the worker when its parent is gone. A signal that only the worker got (`kill`) ends the study: the parent is told, and
    ends its workers."""
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


def _interrupt_workers() -> None:
    """A terminal signals the whole group, `kill` only this process: workers ignore a second signal."""
    for child in multiprocessing.active_children():
        if child.pid:
            os.kill(child.pid, signal.SIGINT)


def _pass_on(messages: Any, listener: Listener) -> None:
    """Passes the progress that workers reported on to the listener."""
    with suppress(queue.Empty):
        while True:
            message = messages.get_nowait()
            if message == STOP:
                interruption.wanted = True
            elif len(message) == 1:
                listener.started(*message)
            else:
                listener.update(*message)
