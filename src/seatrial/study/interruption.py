"""Ctrl-C while a trial runs: the trial's task is cancelled, observations are kept, no other trial begins.

asyncio's own handler exists only while its loop runs, and raises while files are being written. A second signal ends the process
at once, like `kill -9`, which leaves no processes either: an exception in the middle of an event loop would lose the callback that
runs just then, and a task that waits for it would wait for ever.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from types import FrameType

TOGETHER_S = 1.0  # signals this close are one: `timeout` sends its own to the process and to the group that it is in
AT_ONCE = b"seatrial: stopped at once; `seatrial clean -o OUT` removes what it left in a cluster\n"


class Interruption:
    """Whether the user wants to stop; one object per process."""

    def __init__(self) -> None:
        self.wanted = False
        self._since = 0.0
        self._task: asyncio.Task[object] | None = None

    def listen(self, insist: bool = True) -> None:
        """Handles SIGINT and SIGTERM. A worker does not `insist`: it gets the terminal's signal and its parent's."""
        self._insist = insist
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._signalled)

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        if not self.wanted:
            self.wanted, self._since = True, time.monotonic()
            if self._task is not None:
                self._task.cancel()
                self._task.get_loop().call_soon_threadsafe(lambda: None)  # asyncio's own loop would sleep on
        elif self._insist and time.monotonic() > self._since + TOGETHER_S:
            self._end_at_once()

    def _end_at_once(self) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise KeyboardInterrupt from None
        os.write(2, AT_ONCE)
        os._exit(130)

    def cancels(self, task: asyncio.Task[object] | None) -> None:
        """Sets the task that a signal cancels; cancels it now if there was a signal before."""
        self._task = task
        if self.wanted and task is not None:
            task.cancel()


interruption = Interruption()
