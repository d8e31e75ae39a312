"""The side of a Ray worker: is this machine like the caller's, and one trial, from its description to a packed directory.

Nothing of a trial that a dead worker left is used: its result is the one object that it returns at its end. Only light modules are
imported at the top, so that a machine that lacks a library can say so.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.machines.passport import differences, passport
from seatrial.model.errors import SetupProblem
from seatrial.record.locks import hold, is_locked

if TYPE_CHECKING:
    from seatrial.study.trials import Outcome

PREFIX = "seatrial-trial-"
TELL_EVERY_S = 0.5  # a thousand workers tell the board 2,000 times per second, a third of what one actor takes
STALE_S = 60.0  # a folder without a lock for so long was left by a dead worker


class Board:
    """Between workers and caller: what trials told, and whether they shall stop. A Ray actor."""

    def __init__(self) -> None:
        self._told: list[tuple[Any, ...]] = []
        self._stopped = False

    def tell(self, *message: Any) -> bool:
        """From a worker; true: the trial shall stop."""
        self._told.append(message)
        return self._stopped

    def news(self) -> list[tuple[Any, ...]]:
        """To the caller: everything since the last time."""
        told, self._told = self._told, []
        return told

    def stop(self) -> list[tuple[Any, ...]]:
        """From the caller: no trial begins any more, running ones end; `news` once more."""
        self._stopped = True
        return self.news()


def inspected(on: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The passport of this machine, and what it lacks to run trials on this kind of cluster, each with a remedy."""
    found = passport()
    if on != "local":
        return found, []
    from seatrial.clusters.machine_checks import machine

    return found, [(one.what, one.remedy) for one in machine(on) if one.needed and one.state == "missing"]


def refuse_other_program(machine: str, expected: dict[str, str], found: dict[str, str]) -> None:
    """Raises if a machine would not give the caller's bytes."""
    if different := differences(expected, found):
        raise SetupProblem(
            f"the machine {machine} would not give the same figures: {'; '.join(different)}",
            "install the same versions there (docs/ray.md), or run on a Ray without it",
        )


def run_packed(packed: bytes, expected: dict[str, str], board: Any) -> tuple[Outcome, bytes] | None:
    """Runs a trial in a folder of this machine; None if the user has interrupted before it began. `expected`: the caller's
    passport; a machine that joined since the beginning was not inspected."""
    machine = socket.gethostname()
    refuse_other_program(machine, expected, passport())
    from seatrial.study.interruption import interruption
    from seatrial.study.packed_trials import pack
    from seatrial.study.trials import run_trial

    trial = pickle.loads(packed)
    link = _Link(board)
    if link.begin(trial.name):
        return None
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # Ray starts its processes with it blocked
    interruption.listen(insist=False)
    try:
        with _folder() as folder:
            directory = folder / trial.name
            outcome = run_trial(trial, directory, link.progress, alone=False, machine=machine)
            return outcome, pack(directory)
    except OSError as error:
        raise SetupProblem(
            f"{trial.name} on {machine}: {error}", "see whether its disk is full, or set TMPDIR"
        ) from error


class _Link:
    """The link to the board. A board that cannot be reached (its machine restarts it) costs progress, never the trial."""

    def __init__(self, board: Any) -> None:
        self._board = board
        self._answer: Any = None
        self._told = 0.0

    def begin(self, trial: str) -> bool:
        """Whether the trial shall not begin."""
        import ray

        with suppress(ray.exceptions.RayError):
            return bool(ray.get(self._board.tell.remote(trial)))
        return False

    def progress(self, *counts: Any) -> None:
        """Tells the counts without waiting; a stop that was answered before interrupts the trial."""
        import ray

        if time.monotonic() < self._told + TELL_EVERY_S:
            return
        self._told = time.monotonic()
        with suppress(ray.exceptions.RayError):
            if self._answer is not None and ray.wait([self._answer], timeout=0)[0] and ray.get(self._answer):
                os.kill(os.getpid(), signal.SIGINT)
            self._answer = self._board.tell.remote(*counts)


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder for one trial, locked while this process lives."""
    _sweep()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        with hold(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep() -> None:
    """Removes what workers that were killed have left on this machine."""
    for old in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            seen = old.stat()
            if seen.st_uid == os.getuid() and time.time() > seen.st_mtime + STALE_S and not is_locked(old):
                shutil.rmtree(old, ignore_errors=True)
