"""Progress of a build on standard error: a line that renews itself on a terminal, a line every 15 s in a pipe.

Processes that need the same program at the same time build it once: the others wait for its lock, and say so.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from seatrial.clusters.supervision.directories import cannot_write
from seatrial.model.diagnostics import is_quiet

QUIET_S = 15.0


class BuildProgress:
    """`begin`, `step` as often as you like, `done`."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._what = ""
        self._begun = self._said = time.monotonic()

    def begin(self, what: str) -> None:
        """A new task."""
        self._begun = self._said = time.monotonic()
        self._what = what
        self._show(f"{what} …")

    def step(self, how_far: str = "") -> None:
        """Shows now and then how long the task has taken."""
        now = time.monotonic()
        if now - self._said >= (1.0 if self._terminal else QUIET_S):
            self._said = now
            self._show(f"{self._what} … {how_far}{', ' if how_far else ''}{elapsed(now - self._begun)}")

    def done(self, how: str = "") -> None:
        """The task has ended."""
        self._show(f"{self._what}: {how or 'done'} after {elapsed(time.monotonic() - self._begun)}", last=True)

    def say(self, line: str) -> None:
        """A line of its own."""
        self._what = line
        self._show(line, last=True)

    def _show(self, line: str, last: bool = False) -> None:
        if is_quiet():
            return
        if self._terminal:
            print(f"\r\x1b[K{line}", end="\n" if last else "", file=self._stream, flush=True)
        else:
            print(line, file=self._stream, flush=True)


def elapsed(seconds: float) -> str:
    """`75s` as `1m15s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


@contextlib.contextmanager
def waiting_lock(path: Path, what: str, progress: BuildProgress) -> Iterator[None]:
    """Holds the file's lock; while another process holds it, shows that we wait."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise cannot_write(path, what, error) from error
    try:
        waited = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waited:
                    progress.begin(f"waiting for another process that makes {what}")
                waited = True
                progress.step()
                time.sleep(0.1)
        if waited:
            progress.done()
        yield
    finally:
        os.close(descriptor)
