"""The queue of pod groups: a group that failed backs off, but an idle scheduler tries it again before its back-off ends."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from seatrial.sim.kernel import Kernel
from seatrial.sim.queue import BACKOFF_FIRST, BACKOFF_LOOK, BACKOFF_MOST, LONGEST

_Key = tuple[Any, ...]


class GroupQueue:
    """Waiting groups in the order of their cycles: active groups, then groups that back off.

    Once all have failed with the longest back-off and nothing has changed, every further cycle fails too. These cycles are not
    simulated (an hour would be millions): the queue rests until a change, and then computes whose turn it is.
    """

    def __init__(self, kernel: Kernel, wake: Callable[[], None]) -> None:
        self._kernel, self._wake = kernel, wake
        self._active: list[tuple[_Key, int, int]] = []  # (key, order, group)
        self._backing_off: list[tuple[int, _Key, int, int]] = []  # (until, key, order, group)
        self._entry: dict[int, int] = {}  # group → the order of its entry that counts
        self._priority: dict[int, int] = {}
        self._failures: dict[int, int] = {}
        self._futile: dict[int, int] = {}  # group → length of its cycle; failed since the last change, oldest first
        self._resting_since = -1
        self.changes = 0
        self._order = 0
        self._armed = False

    def add(self, group: int, priority: int, since: int) -> None:
        """Adds a complete group; its place is by the arrival of its first pod."""
        self._resume()
        self._priority[group] = priority
        self._activate(group, (-priority, since))

    def remove(self, group: int) -> None:
        """The group was placed, or is no longer complete."""
        for column in (self._entry, self._priority, self._failures):
            column.pop(group, None)
        if self._futile.pop(group, None) is not None and not self._futile:
            self._resting_since = -1

    def failed(self, group: int, took: int, unchanged: bool) -> None:
        """The group backs off. `unchanged`: nothing was written and nothing changed, so the next cycle would fail too."""
        failures = self._failures[group] = self._failures.get(group, 0) + 1
        self._back_off(group, self._kernel.now, min(BACKOFF_FIRST << (failures - 1), BACKOFF_MOST))
        self._futile.pop(group, None)
        if unchanged and failures >= LONGEST:
            self._futile[group] = took

    def changed(self) -> int:
        """Failed groups may fit now. Returns the rest of the cycle that a resting loop would be in, else 0."""
        left = self._resume()
        self.changes += 1
        self._futile.clear()
        return left

    @property
    def first(self) -> tuple[_Key, int, int] | None:
        """The first active group."""
        active = self._active
        while active and self._entry.get(active[0][2]) != active[0][1]:
            heappop(active)
        return active[0] if active else None

    def pop(self) -> int:
        """The next group to try; −1 if there is none, or all rest."""
        if self.first:
            group = heappop(self._active)[2]
            del self._entry[group]
            return group
        if self._futile and len(self._futile) == len(self._entry):
            self._resting_since = self._kernel.now
            return -1
        return self._pop_backing_off()

    def _resume(self) -> int:
        """Computes the order of the turns by now; the current cycle began before the change, so it still fails."""
        if self._resting_since < 0:
            return 0
        turns = list(self._futile.items())
        into = (self._kernel.now - self._resting_since) % sum(took for _, took in turns)
        self._resting_since = -1
        place = 0
        while into >= turns[place][1]:
            into -= turns[place][1]
            place += 1
        order = turns[place + 1 :] + turns[: place + 1]
        self._futile = dict(order)
        for number, (group, _) in enumerate(order):
            self._back_off(group, self._kernel.now - len(order) + number, BACKOFF_MOST)
        return turns[place][1] - into

    def _activate(self, group: int, key: _Key) -> None:
        self._order += 1
        self._entry[group] = self._order
        heappush(self._active, (key, self._order, group))
        self._wake()

    def _back_off(self, group: int, failed_at: int, wait: int) -> None:
        """Groups whose back-off ends in the same second are ordered as active ones (lessBackoffCompletedWithPriority)."""
        self._order += 1
        self._entry[group] = self._order
        until = failed_at + wait
        key = (-self._priority[group], failed_at)
        heappush(self._backing_off, (until - until % BACKOFF_LOOK, key, self._order, group))
        if not self._armed:
            self._armed = True
            self._look_later()

    def _look_later(self) -> None:
        now = self._kernel.now
        self._kernel.at(now - now % BACKOFF_LOOK + BACKOFF_LOOK, self._end_backoffs)

    def _end_backoffs(self, _: object) -> None:
        self._armed = False
        if self._resting_since >= 0:
            return
        now = self._kernel.now
        waiting = self._backing_off
        while waiting and waiting[0][0] < now - now % BACKOFF_LOOK:
            key = waiting[0][1]
            group = self._pop_backing_off()
            if group >= 0:
                self._activate(group, key)
        if waiting:
            self._armed = True
            self._look_later()

    def _pop_backing_off(self) -> int:
        while self._backing_off:
            _, _, order, group = heappop(self._backing_off)
            if self._entry.get(group) == order:
                del self._entry[group]
                return group
        return -1
