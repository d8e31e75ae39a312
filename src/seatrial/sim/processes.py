"""Goroutines for models of controllers that are written as loops: generators that sleep, wait, or ask the API server.

For the few per controller or queue object, where the order of blocking calls *is* the mechanism. Pods are callbacks.
A process yields nanoseconds to sleep, a `Signal` to wait for, or a `Request`; it goes on when that is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from seatrial.model.units import MICROSECOND, MILLISECOND
from seatrial.sim.api import ApiServer, Client
from seatrial.sim.kernel import Kernel


class Signal:
    """Something that happens once."""

    __slots__ = ("happened", "waiting")

    def __init__(self, happened: bool = False) -> None:
        self.happened = happened
        self.waiting: list[Process] = []


@dataclass(frozen=True, slots=True)
class Request:
    """`count` requests sent side by side, or `in_turn`; over when the last is answered."""

    client: Client
    verb: int
    count: int = 1
    in_turn: bool = False


Process = Generator[int | Signal | Request, None, Any]


class Processes:
    def __init__(self, kernel: Kernel, api: ApiServer) -> None:
        self._kernel, self._api = kernel, api

    def start(self, process: Process) -> None:
        self._kernel.at(self._kernel.now, self._step, process)

    def _step(self, process: Process) -> None:
        try:
            wanted = next(process)
        except StopIteration:
            return
        if isinstance(wanted, int):
            self._kernel.at(self._kernel.now + wanted, self._step, process)
        elif isinstance(wanted, Request):
            call = self._api.call_in_turn if wanted.in_turn else self._api.call_together
            call(wanted.client, wanted.verb, wanted.count, self._step, process)
        elif wanted.happened:
            self._kernel.at(self._kernel.now, self._step, process)
        else:
            wanted.waiting.append(process)

    def happen(self, signal: Signal) -> None:
        signal.happened = True
        waiting, signal.waiting = signal.waiting, []
        for process in waiting:
            self._kernel.at(self._kernel.now, self._step, process)


class GoMutex:
    """sync.RWMutex as far as it decides who is next: whoever comes while it is free barges in before those who sleep, until
    one has slept for 1 ms; then it is handed over in order. Readers get in at every unlock."""

    WAKE = 20 * MICROSECOND  # from unlock until a sleeping goroutine runs
    STARVING = 1 * MILLISECOND

    def __init__(self, kernel: Kernel, processes: Processes) -> None:
        self._kernel, self._processes = kernel, processes
        self._held = self._starving = self._waking = False
        self._writers: deque[tuple[int, Signal]] = deque()
        self._readers: list[Signal] = []

    def lock(self) -> Signal:
        if not self._held and not (self._starving and self._writers):
            self._held = True
            return Signal(happened=True)
        signal = Signal()
        self._writers.append((self._kernel.now, signal))
        return signal

    def read(self) -> Signal:
        """A read lock that is given back at once."""
        if not self._held:
            return Signal(happened=True)
        signal = Signal()
        self._readers.append(signal)
        return signal

    def unlock(self) -> None:
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
