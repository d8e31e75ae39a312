"""Priority queues of waiting pods: a heap, and a faster structure for keys that arrive mostly in order.

Pods fail one after another and are ordered by time of failure, so nearly every entry is larger than all before it. Popping from a
heap of 32,000 costs twice as much as from one of 2,000; from a `SortedRun` both cost the same.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from heapq import heappop, heappush
from typing import Any

Entry = tuple[Any, int, int]  # (key, order, pod): the order breaks ties


class Heap:
    """For keys that change while they wait: comparisons use current values, and nothing is sorted again.

    A key is spread out in its entry: comparing tuples inside tuples takes half as long again.
    """

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[Any, ...]] = []  # (*key, order, pod)

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def first(self) -> Entry:
        """The smallest entry."""
        *key, order, pod = self._heap[0]
        return tuple(key), order, pod

    def push(self, entry: Entry) -> None:
        """Adds an entry."""
        key, order, pod = entry
        heappush(self._heap, (*key, order, pod))

    def pop(self) -> Entry | None:
        """Removes and returns the smallest entry; None if there is none."""
        if not self._heap:
            return None
        entry = heappop(self._heap)
        return entry[:-2], entry[-2], entry[-1]


class SortedRun:
    """For constant keys: a run of entries in order, and a heap for out-of-order entries."""

    __slots__ = ("_late", "_run")

    def __init__(self) -> None:
        self._run: deque[Entry] = deque()
        self._late: list[Entry] = []

    def __len__(self) -> int:
        return len(self._run) + len(self._late)

    @property
    def first(self) -> Entry:
        """The smallest entry."""
        run, late = self._run, self._late
        return late[0] if late and (not run or late[0] < run[0]) else run[0]

    def push(self, entry: Entry) -> None:
        """Adds an entry."""
        run = self._run
        if not run or entry > run[-1]:
            run.append(entry)
        else:
            heappush(self._late, entry)

    def pop(self) -> Entry | None:
        """Removes and returns the smallest entry; None if there is none."""
        run, late = self._run, self._late
        if late and (not run or late[0] < run[0]):
            return heappop(late)
        return run.popleft() if run else None


class SortedRunBySecond:
    """Sorted runs by the second at which back-offs end. There are few seconds at a time: the longest back-off is ten."""

    __slots__ = ("_runs", "_seconds")

    def __init__(self) -> None:
        self._seconds: list[int] = []  # sorted
        self._runs: dict[int, SortedRun] = {}

    def __bool__(self) -> bool:
        return bool(self._seconds)

    def push(self, second: int, entry: Entry) -> None:
        """Adds an entry whose back-off ends at this second."""
        run = self._runs.get(second)
        if run is None:
            run = self._runs[second] = SortedRun()
            insort(self._seconds, second)
        run.push(entry)

    def pop(self, before: int) -> Entry | None:
        """Pops the first entry of the earliest second before `before`; None if there is none."""
        seconds = self._seconds
        if not seconds or seconds[0] >= before:
            return None
        run = self._runs[seconds[0]]
        entry = run.pop()
        if not run._run and not run._late:
            del self._runs[seconds.pop(0)]
        return entry


class HeapBySecond:
    """`SortedRunBySecond` for keys that change."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[Any, ...]] = []  # (second, *key, order, pod)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, second: int, entry: Entry) -> None:
        """Adds an entry whose back-off ends at this second."""
        key, order, pod = entry
        heappush(self._heap, (second, *key, order, pod))

    def pop(self, before: int) -> Entry | None:
        """Pops the first entry of the earliest second before `before`; None if there is none."""
        heap = self._heap
        if not heap or heap[0][0] >= before:
            return None
        entry = heappop(heap)
        return entry[1:-2], entry[-2], entry[-1]
