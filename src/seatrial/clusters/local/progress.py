"""Says on standard error that something long is going on, and for how long: a line that renews itself on a terminal, a
line every quarter of a minute in a pipe."""

from __future__ import annotations

import sys
import time
from typing import TextIO

QUIET_S = 15.0


class Progress:
    """Call `step` as often as you like."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._what = ""
        self._begun = self._said = time.monotonic()

    def begin(self, what: str) -> None:
        self._begun = self._said = time.monotonic()
        self._what = what
        self._show(f"{what} …")

    def step(self, how_far: str = "") -> None:
        now = time.monotonic()
        if now - self._said >= (1.0 if self._terminal else QUIET_S):
            self._said = now
            self._show(f"{self._what} … {how_far}{', ' if how_far else ''}{elapsed(now - self._begun)}")

    def done(self, how: str = "") -> None:
        self._show(f"{self._what}: {how or 'done'} after {elapsed(time.monotonic() - self._begun)}", last=True)

    def say(self, line: str) -> None:
        self._what = line
        self._show(line, last=True)

    def _show(self, line: str, last: bool = False) -> None:
        if self._terminal:
            print(f"\r\x1b[K{line}", end="\n" if last else "", file=self._stream, flush=True)
        else:
            print(line, file=self._stream, flush=True)


def elapsed(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
