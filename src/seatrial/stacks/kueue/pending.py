"""Kueue's queue of pending workloads: a heap of those to be looked at, and aside those that did not fit.

Facts (Kueue v0.16.1, pkg/cache/queue/cluster_queue.go): priority first, then the time of creation (of eviction, if it was evicted
for not running in time) in whole seconds. Less is "not later", so that among workloads of the same second each counts as less
than the other, and Go's heap lets the last one pushed rise to the top: within a second, nearly last in, first out.

BestEffortFIFO sets aside what does not fit until something is freed; all of those then go back at once, in the order in which a
Go map is walked, that is none. StrictFIFO pushes it back, so that the head stays the head.
"""

from __future__ import annotations

from random import Random

Key = tuple[int, int]  # minus the priority, whole seconds


class GoHeap:
    """container/heap over keys of which equal ones are each less than the other; `heapq` would keep them in order."""

    def __init__(self) -> None:
        self._items: list[tuple[Key, int]] = []
        self._at: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, number: int) -> bool:
        return number in self._at

    def push(self, key: Key, number: int) -> None:
        self._at[number] = len(self._items)
        self._items.append((key, number))
        self._up(len(self._items) - 1)

    def pop(self) -> int:
        number = self._items[0][1]
        self.remove(number)
        return number

    def remove(self, number: int) -> None:
        """heap.Remove: the last takes its place and moves down, or else up."""
        place, last = self._at.pop(number), len(self._items) - 1
        if place != last:
            self._put(place, self._items[last])
        self._items.pop()
        if place != last and not self._down(place):
            self._up(place)

    def fix(self, number: int) -> None:
        """heap.Fix: every update of an object in the heap does this."""
        place = self._at[number]
        if not self._down(place):
            self._up(place)

    def _put(self, place: int, item: tuple[Key, int]) -> None:
        self._items[place] = item
        self._at[item[1]] = place

    def _swap(self, one: int, other: int) -> None:
        items = self._items
        first, second = items[one], items[other]
        self._put(one, second)
        self._put(other, first)

    def _up(self, place: int) -> None:
        items = self._items
        while place > 0:
            parent = (place - 1) // 2
            if items[place][0] > items[parent][0]:
                break
            self._swap(parent, place)
            place = parent

    def _down(self, start: int) -> bool:
        items, count, place = self._items, len(self._items), start
        while True:
            child = 2 * place + 1
            if child >= count:
                break
            if child + 1 < count and items[child + 1][0] <= items[child][0]:
                child += 1
            if items[child][0] > items[place][0]:
                break
            self._swap(place, child)
            place = child
        return place > start


class Pending:
    """One ClusterQueue's. `strict` is StrictFIFO."""

    def __init__(self, strict: bool, random: Random) -> None:
        self._strict, self._random = strict, random
        self._heap = GoHeap()
        self._aside: dict[int, Key] = {}  # inadmissible
        self._moved = False  # those aside were moved since the last pop

    def __len__(self) -> int:
        """All that wait."""
        return len(self._heap) + len(self._aside)

    @property
    def heads(self) -> bool:
        return len(self._heap) > 0

    def push(self, number: int, key: Key) -> None:
        self._aside.pop(number, None)
        if number in self._heap:
            self._heap.fix(number)
        else:
            self._heap.push(key, number)

    def updated(self, number: int) -> None:
        """Its object changed in nothing that matters."""
        if number in self._heap:
            self._heap.fix(number)

    def pop(self) -> int:
        """The head, or −1."""
        self._moved = False
        return self._heap.pop() if len(self._heap) else -1

    def put_back(self, number: int, key: Key, at_once: bool = False) -> None:
        """It could not be admitted."""
        if at_once or self._strict or self._moved:
            if number not in self._heap:
                self._heap.push(key, number)
        else:
            self._aside[number] = key

    def move(self) -> bool:
        """Something was freed: those aside go back. Whether there were any."""
        self._moved = True
        aside = list(self._aside.items())
        self._aside.clear()
        self._random.shuffle(aside)
        for number, key in aside:
            self._heap.push(key, number)
        return bool(aside)

    def remove(self, number: int) -> None:
        self._aside.pop(number, None)
        if number in self._heap:
            self._heap.remove(number)
