"""Sessions of a scheduler that decides once a period, for everything that waits (Volcano, KAI).

The next session begins a period after the last one ended (wait.Until of apimachinery). A session in which nothing is new decides
what the last one decided, so it is not held: an idle day is no event. The beat goes on meanwhile, as the real one's does.
"""

from __future__ import annotations

from collections.abc import Callable

from seatrial.sim.kernel import Kernel


class PeriodicSessions:
    """`hold()` is a session; it calls `ended` once its last request is answered. `idle`: how long one takes that finds nothing
    (ns). `first`: when the first one is due."""

    def __init__(self, kernel: Kernel, period: int, hold: Callable[[], None], idle: int = 0, first: int = 0) -> None:
        self._kernel, self._period, self._hold = kernel, period, hold
        self._beat = max(period + idle, 1)
        self._next = first
        self._stirred = self._due = self._open = False
        self.held = 0  # sessions so far

    def stir(self, _: object = None) -> None:
        """Something changed that a session may act upon: the next one is held."""
        self._stirred = True
        if not self._open and not self._due:
            self._due = True
            self._kernel.at(self._upcoming(), self._begin)

    def _upcoming(self) -> int:
        late = self._kernel.now - self._next
        return self._next + -(-late // self._beat) * self._beat if late > 0 else self._next

    def _begin(self, _: object) -> None:
        self._due = self._stirred = False
        self._open = True
        self.held += 1
        self._hold()

    def ended(self, _: object = None, *, idle: int = -1) -> None:
        """The session is over. `idle`: how long one like it takes without news, if not as before."""
        self._open = False
        if idle >= 0:
            self._beat = max(self._period + idle, 1)
        self._next = self._kernel.now + self._period
        if self._stirred:
            self.stir()
