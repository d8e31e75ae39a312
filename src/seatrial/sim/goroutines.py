"""Goroutines for models of controllers that are written as loops: generators that sleep, wait, or call the API server.

For the few loops per controller or queue object, where the order of blocking calls *is* the mechanism. Pods are callbacks.
A goroutine yields nanoseconds to sleep, a `Signal` to wait for, or `Calls` to send.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from seatrial.model.units import MICROSECOND, MILLISECOND
from seatrial.sim.apiserver import ApiClient, ApiServer
from seatrial.sim.kernel import Kernel


class Signal:
    """An event that happens once."""

    __slots__ = ("happened", "waiting")

    def __init__(self, happened: bool = False) -> None:
        self.happened = happened
        self.waiting: list[Goroutine] = []


@dataclass(frozen=True, slots=True)
class Calls:
    """`count` requests in parallel or `in_turn`; done at the last answer."""

    client: ApiClient
    verb: int
    count: int = 1
    in_turn: bool = False


Goroutine = Generator[int | Signal | Calls, None, Any]


class Goroutines:
    """Runs goroutines on the kernel."""

    def __init__(self, kernel: Kernel, api: ApiServer) -> None:
        self._kernel, self._api = kernel, api

    def start(self, process: Goroutine) -> None:
        """Starts a goroutine after the current event."""
        self._kernel.at(self._kernel.now, self._step, process)

    def _step(self, process: Goroutine) -> None:
        try:
            yielded = next(process)
        except StopIteration:
            return
        if isinstance(yielded, int):
            self._kernel.at(self._kernel.now + yielded, self._step, process)
        elif isinstance(yielded, Calls):
            call = self._api.call_in_turn if yielded.in_turn else self._api.call_together
            call(yielded.client, yielded.verb, yielded.count, self._step, process)
        elif yielded.happened:
            self._kernel.at(self._kernel.now, self._step, process)
        else:
            yielded.waiting.append(process)

    def happen(self, signal: Signal) -> None:
        """Fires the signal and resumes the goroutines that wait for it."""
        signal.happened = True
        waiting, signal.waiting = signal.waiting, []
        for process in waiting:
            self._kernel.at(self._kernel.now, self._step, process)


class GoCond:
    """sync.Cond: the next `wake` resumes all waiting goroutines."""

    def __init__(self, processes: Goroutines) -> None:
        self._processes = processes
        self._signal: Signal | None = None

    def wait(self) -> Signal:
        """The signal to yield."""
        self._signal = self._signal or Signal()
        return self._signal

    def wake(self) -> None:
        """Resumes all waiting goroutines."""
        if self._signal:
            signal, self._signal = self._signal, None
            self._processes.happen(signal)


class GoMutex:
    """The order in which sync.RWMutex admits goroutines: a newcomer takes a free lock before sleeping waiters, until a waiter
    has slept for 1 ms; then the lock is handed over in order. Readers are admitted at every unlock."""

    WAKE = 20 * MICROSECOND  # from unlock until a sleeping goroutine runs
    STARVING = 1 * MILLISECOND

    def __init__(self, kernel: Kernel, processes: Goroutines) -> None:
        self._kernel, self._processes = kernel, processes
        self._held = self._starving = self._waking = False
        self._writers: deque[tuple[int, Signal]] = deque()
        self._readers: list[Signal] = []

    def lock(self) -> Signal:
        """The signal that fires when the caller holds the lock."""
        if not self._held and not (self._starving and self._writers):
            self._held = True
            return Signal(happened=True)
        signal = Signal()
        self._writers.append((self._kernel.now, signal))
        return signal

    def read(self) -> Signal:
        """A read lock, released at once."""
        if not self._held:
            return Signal(happened=True)
        signal = Signal()
        self._readers.append(signal)
        return signal

    def unlock(self) -> None:
        """Releases the lock and wakes the next waiter."""
        for reader in self._readers:
            self._processes.happen(reader)
        self._readers.clear()
        if self._writers and self._starving:
            self._hand_over()
            return
        self._held = False
        if self._writers and not self._waking:
            self._waking = True
            self._kernel.at(self._kernel.now + self.WAKE, self._wake)

    def _hand_over(self) -> None:
        since, signal = self._writers.popleft()
        self._held = True
        if not self._writers or self._kernel.now - since < self.STARVING:
            self._starving = False
        self._processes.happen(signal)

    def _wake(self, _: object) -> None:
        self._waking = False
        if not self._writers:
            return
        if not self._held:
            self._hand_over()
        elif self._kernel.now - self._writers[0][0] > self.STARVING:
            self._starving = True
