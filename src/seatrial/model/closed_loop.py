"""A closed loop: an item that follows another is due a thinking time after that one ended, whenever that was.

Items without a predecessor are due at their own times. A client asks which item is next and when, and says which have ended; the
same state machine serves the simulated client and the real one.
"""

from __future__ import annotations

import heapq
from collections import defaultdict

from seatrial.model.load import Times


class ReadyItems:
    """`after`: the item that must end first, per item; −1: none. Times are ns since the beginning of the phase."""

    def __init__(self, due: Times, after: Times, think: Times) -> None:
        self._think: list[int] = think.tolist()
        self._followers: dict[int, list[int]] = defaultdict(list)
        self._ready: list[tuple[int, int]] = []
        for index, (at, first) in enumerate(zip(due.tolist(), after.tolist(), strict=True)):
            if first < 0:
                self._ready.append((at, index))
            else:
                self._followers[first].append(index)
        heapq.heapify(self._ready)
        self.left = len(due)

    @property
    def next_due(self) -> int | None:
        """When the next item is due; None if that depends on the end of another."""
        return self._ready[0][0] if self._ready else None

    def take(self) -> tuple[int, int]:
        """The next item and when it was due."""
        self.left -= 1
        due, index = heapq.heappop(self._ready)
        return index, due

    def ended(self, index: int, now: int) -> bool:
        """An item has ended, well or not. Whether others follow it."""
        followers = self._followers.pop(index, [])
        for follower in followers:
            heapq.heappush(self._ready, (now + self._think[follower], follower))
        return bool(followers)
