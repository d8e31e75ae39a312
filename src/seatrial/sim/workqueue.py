"""client-go's work queue: one worker at a time processes a key; a key added meanwhile is processed once more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from seatrial.sim.goroutines import Goroutine, Goroutines
from seatrial.sim.kernel import Kernel


class WorkQueue:
    """Runs `reconcile(key)` with up to `workers` in parallel."""

    def __init__(
        self, kernel: Kernel, processes: Goroutines, workers: int, reconcile: Callable[[int], Goroutine]
    ) -> None:
        self._kernel, self._processes, self._reconcile = kernel, processes, reconcile
        self._idle = workers
        self._queue: deque[int] = deque()
        self._dirty: set[int] = set()  # queued, or to requeue when its worker is done
        self._processing: set[int] = set()
        self._due: dict[int, int] = {}  # key → when to add it

    def add(self, key: int) -> None:
        """Queues the key, unless it is queued already."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._queue.append(key)
            self._start_workers()

    def add_after(self, key: int, delay: int) -> None:
        """Queues the key after the delay, unless it is due earlier."""
        when = self._kernel.now + delay
        if self._due.get(key, when + 1) > when:
            self._due[key] = when
            self._kernel.at(when, self._is_due, (key, when))

    def _is_due(self, what: tuple[int, int]) -> None:
        key, when = what
        if self._due.get(key) == when:
            del self._due[key]
            self.add(key)

    def _start_workers(self) -> None:
        while self._idle and self._queue:
            key = self._queue.popleft()
            self._idle -= 1
            self._dirty.discard(key)
            self._processing.add(key)
            self._processes.start(self._work(key))

    def _work(self, key: int) -> Goroutine:
        yield from self._reconcile(key)
        self._processing.discard(key)
        self._idle += 1
        if key in self._dirty:
            self._queue.append(key)
        self._start_workers()
