"""client-go's work queue as controllers use it: a key is worked on by one worker at a time, and at most once more afterwards."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from seatrial.sim.kernel import Kernel
from seatrial.sim.processes import Process, Processes


class WorkQueue:
    """`reconcile(key)` is run by up to `workers` side by side."""

    def __init__(self, kernel: Kernel, processes: Processes, workers: int, reconcile: Callable[[int], Process]) -> None:
        self._kernel, self._processes, self._reconcile = kernel, processes, reconcile
        self._idle = workers
        self._queue: deque[int] = deque()
        self._dirty: set[int] = set()  # queued, or to be queued again once its worker is done
        self._busy: set[int] = set()
        self._due: dict[int, int] = {}  # key → when it is added

    def add(self, key: int) -> None:
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._busy:
            self._queue.append(key)
            self._take()

    def add_after(self, key: int, delay: int) -> None:
        """A key that is already on its way keeps the earlier moment."""
        when = self._kernel.now + delay
        if self._due.get(key, when + 1) > when:
            self._due[key] = when
            self._kernel.at(when, self._is_due, (key, when))

    def _is_due(self, what: tuple[int, int]) -> None:
        key, when = what
        if self._due.get(key) == when:
            del self._due[key]
            self.add(key)

    def _take(self) -> None:
        while self._idle and self._queue:
            key = self._queue.popleft()
            self._idle -= 1
            self._dirty.discard(key)
            self._busy.add(key)
            self._processes.start(self._work(key))

    def _work(self, key: int) -> Process:
        yield from self._reconcile(key)
        self._busy.discard(key)
        self._idle += 1
        if key in self._dirty:
            self._queue.append(key)
        self._take()
