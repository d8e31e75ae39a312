"""When a process watched a cluster and when it could not: heartbeats and gaps, for all who follow workloads that are not theirs.

A killed process cannot report its end. So a heartbeat is written every second while all watches are well; breaks of a watch, sleep
of the machine and steps of its clock are written as gaps. A full disk delays what is written, and ends nothing.
"""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterator, Sequence

from seatrial.kube import RetryPolicy, WatchState, clock
from seatrial.model.units import SECOND
from seatrial.record.gaps import BEAT, GapLine, Gaps

TICK_S = 0.2  # between two looks at the clocks; records that wait to be written are written then
STEP = SECOND // 2  # smallest difference of two clocks that is recorded
FOR_EVER = RetryPolicy(seconds=10.0**9)  # waits for the API server as long as it takes


class WatchHeartbeats:
    """The heartbeats of one process. `epoch`: its clock at the moment from which times count."""

    def __init__(self, gaps: Gaps, states: Sequence[WatchState], epoch: int) -> None:
        self.states = states
        self.notes: list[str] = []
        self._gaps, self._epoch = gaps, epoch
        self._told = [0] * len(states)
        self._was_well = False
        self._offsets = _offsets()
        self._beat = clock()

    def well(self) -> bool:
        """Whether all watches show what happens now."""
        return all(state.synced and not state.silent for state in self.states)

    def behind(self) -> int:
        """The longest so far that an event waited to be handled, in ns."""
        return max((state.lag_worst for state in self.states), default=0)

    def due(self, now: int) -> bool:
        """Writes a heartbeat if it is time for one; says whether it did."""
        if now - self._beat < BEAT and not (self.well() and not self._was_well):
            return False
        self._say(now)
        return True

    def end(self) -> None:
        """The last heartbeat of this process."""
        if self._was_well:
            self._say(clock())

    def add(self, line: GapLine) -> None:
        """Writes a line of the user's own."""
        with self.room():
            self._gaps.add(line)

    def note(self, text: str) -> None:
        """Keeps a note for the end, once."""
        if text not in self.notes:
            self.notes.append(text)

    @contextlib.contextmanager
    def room(self) -> Iterator[None]:
        """On a full disk records are kept and written when there is room."""
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            self.note(f"the disk was full ({error.strerror}); observations were kept in memory and written later")

    def _say(self, now: int) -> None:
        with self.room():
            self._was_well = self.well()
            beat = GapLine(well_ns=now - self._epoch, behind_ns=self.behind())
            self._gaps.add(*self._new_gaps(now), *([beat] if self._was_well else []))
        self._beat = now

    def _new_gaps(self, now: int) -> list[GapLine]:
        lines = []
        epoch = self._epoch
        for place, state in enumerate(self.states):
            for gap in state.gaps[self._told[place] :]:
                lines.append(
                    GapLine(None, 0, gap.begin - epoch, gap.end - epoch, state.resource, gap.reason, gap.missed)
                )
            self._told[place] = len(state.gaps)
        slept, stepped = (new - old for new, old in zip(_offsets(), self._offsets, strict=True))
        late = now - self._beat - BEAT - int(TICK_S * SECOND)
        begin, end = self._beat - epoch, now - epoch
        if slept > STEP:
            lines.append(GapLine(None, 0, begin, end, reason=f"this machine slept for {slept / SECOND:.1f} s"))
        elif late > BEAT:
            lines.append(GapLine(None, 0, begin, end, reason=f"this process did not run for {late / SECOND:.1f} s"))
        if abs(stepped) > STEP:
            text = f"this machine's clock was set by {stepped / SECOND:+.1f} s; times stay on the clock from before"
            lines.append(GapLine(None, 0, begin, end, reason=text))
        if slept > STEP or abs(stepped) > STEP:
            self._offsets = _offsets()
        return lines


def _offsets() -> tuple[int, int]:
    """How far our clock is ahead of one that stops while the machine sleeps, and the wall clock ahead of ours."""
    now = clock()
    return now - time.monotonic_ns(), time.time_ns() - now
