"""How far another machine's clock is from ours, and how well that is known.

A question and its answer bracket the moment at which the other clock was read. The shortest of many round trips says most: the
other clock was read somewhere in it, so half of it is the largest error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

QUESTIONS = 30


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """The other clock less ours, in ns, and the most by which that may be wrong."""

    offset: int
    error: int

    def ours(self, theirs: int) -> int:
        """A time of the other clock on ours."""
        return theirs - self.offset

    def theirs(self, ours: int) -> int:
        """A time of our clock on the other."""
        return ours + self.offset

    def drifted(self, later: ClockOffset) -> ClockOffset:
        """The error between two measurements: clocks drift meanwhile."""
        return ClockOffset(self.offset, max(self.error, later.error) + abs(later.offset - self.offset))


def clock_offset(ask: Callable[[], int], clock: Callable[[], int], questions: int = QUESTIONS) -> ClockOffset:
    """`ask` reads the other clock, `clock` ours."""
    asked: list[tuple[int, int, int]] = []
    for _ in range(questions):
        before = clock()
        theirs = ask()
        asked.append((before, theirs, clock()))
    return _best(asked)


def _best(asked: Sequence[tuple[int, int, int]]) -> ClockOffset:
    before, theirs, after = min(asked, key=lambda one: one[2] - one[0])
    return ClockOffset(theirs - (before + after) // 2, (after - before + 1) // 2)
