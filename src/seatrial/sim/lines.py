"""Who is first among those that wait: a heap, and something quicker for those that mostly come in order.

Pods fail one after another and wait by when they failed, so nearly every entry is larger than all before it. Taking the first of
32,000 from a heap costs twice what it costs among 2,000; from a `Line` it costs the same.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from heapq import heappop, heappush
from typing import Any

Entry = tuple[Any, int, int]  # (key, order, pod): the order tells equal keys apart


class Heap:
    """For keys that change while they wait: what is true now is compared, and nobody sorts anew."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[Entry] = []

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def first(self) -> Entry:
        return self._heap[0]

    def push(self, entry: Entry) -> None:
        heappush(self._heap, entry)

    def pop(self) -> Entry | None:
        return heappop(self._heap) if self._heap else None


class Line:
    """For keys that do not change: a run of entries in order, and a heap for those that came too late for it."""

    __slots__ = ("_late", "_run")

    def __init__(self) -> None:
        self._run: deque[Entry] = deque()
        self._late: list[Entry] = []

    def __len__(self) -> int:
        return len(self._run) + len(self._late)

    @property
    def first(self) -> Entry:
        run, late = self._run, self._late
        return late[0] if late and (not run or late[0] < run[0]) else run[0]

    def push(self, entry: Entry) -> None:
        run = self._run
        if not run or entry > run[-1]:
            run.append(entry)
        else:
            heappush(self._late, entry)

    def pop(self) -> Entry | None:
        run, late = self._run, self._late
        if late and (not run or late[0] < run[0]):
            return heappop(late)
        return run.popleft() if run else None


class Lines:
    """Lines by the second at which they end. There are few such seconds at a time: the longest back-off is ten."""

    __slots__ = ("_lines", "_seconds")

    def __init__(self) -> None:
        self._seconds: list[int] = []  # sorted
        self._lines: dict[int, Line] = {}

    def __bool__(self) -> bool:
        return bool(self._seconds)

    def push(self, second: int, entry: Entry) -> None:
        line = self._lines.get(second)
        if line is None:
            line = self._lines[second] = Line()
            insort(self._seconds, second)
        line.push(entry)

    def pop(self, before: int) -> Entry | None:
        """The first of the earliest second, if that is before this one."""
        seconds = self._seconds
        if not seconds or seconds[0] >= before:
            return None
        line = self._lines[seconds[0]]
        entry = line.pop()
        if not line._run and not line._late:
            del self._lines[seconds.pop(0)]
        return entry


class HeapBySecond:
    """The same for keys that change."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[int, Any, int, int]] = []

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, second: int, entry: Entry) -> None:
        heappush(self._heap, (second, *entry))

    def pop(self, before: int) -> Entry | None:
        heap = self._heap
        if not heap or heap[0][0] >= before:
            return None
        _, key, order, pod = heappop(heap)
        return key, order, pod
