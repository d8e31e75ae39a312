"""An asyncio event loop on virtual time, so that the steps of a scenario are written once for every cluster.

Where a usual loop waits in its selector, this loop runs the kernel up to the next timer. A callback scheduled meanwhile (the end
of a wait, Ctrl-C cancelling the main task) halts the kernel after the current event, so a large simulation reacts at once.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable
from contextvars import Context
from typing import TypeVarTuple

from seatrial.model.units import SECOND
from seatrial.sim.kernel import Kernel

_Args = TypeVarTuple("_Args")
_COARSE = float(1 << 22)  # s: up to here floats resolve nanoseconds


class _KernelSelector(selectors.SelectSelector):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self._kernel = kernel

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        kernel = self._kernel
        if timeout is None:
            if kernel.idle:
                raise RuntimeError("virtual time stands still: no event is left, and a wait has no timeout")
            kernel.run()  # until halted: a turn of the loop per event took twice the time
        elif timeout > 0:
            kernel.run(kernel.now + math.ceil(timeout * SECOND))
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """`time()` is the kernel's. Only timers and calls work: there is no I/O in virtual time."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        super().__init__(_KernelSelector(kernel))
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """asyncio fires a timer up to the clock's resolution early. From 97 days on, float seconds are coarser than a
        nanosecond, and with a finer resolution a due timer would never fire."""
        now = self._kernel.now / SECOND
        if now > _COARSE:
            self._clock_resolution = 2 * math.ulp(now)
        return now

    def call_soon(
        self, callback: Callable[[*_Args], object], *args: *_Args, context: Context | None = None
    ) -> asyncio.Handle:
        """Halts the kernel after the current event, so that the callback runs at this moment of virtual time."""
        self._kernel.halt()
        return super().call_soon(callback, *args, context=context)
