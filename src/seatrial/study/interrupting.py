"""Ctrl-C while a trial runs: the trial's task is cancelled, what was observed is kept, nothing new begins.

A handler of our own, because asyncio's is only there while its loop runs and raises in places where files are being written. A
second signal means it: it raises `KeyboardInterrupt` at once.
"""

from __future__ import annotations

import asyncio
import signal
from types import FrameType


class Interruption:
    """Whether the user wants to stop; one per process."""

    def __init__(self) -> None:
        self.wanted = False
        self._task: asyncio.Task[object] | None = None

    def listen(self, insist: bool = True) -> None:
        """Takes SIGINT and SIGTERM over. A worker does not `insist`: it gets both the terminal's signal and its parent's."""
        self._insist = insist
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._signalled)

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        if self.wanted and self._insist:
            raise KeyboardInterrupt
        self.wanted = True
        if self._task is not None:
            self._task.cancel()

    def cancels(self, task: asyncio.Task[object] | None) -> None:
        """The task that a signal cancels from now on; at once if there was one before."""
        self._task = task
        if self.wanted and task is not None:
            task.cancel()


interruption = Interruption()
