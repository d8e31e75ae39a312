"""The application of a gang, as a state machine without a clock.

A gang runs only while all its pods run: it starts when the last of them does, and loses its progress when one goes. Simulated
events feed it on `sim`; on real clusters a small controller does. Without it fake nodes hide the deadlocks people test for.
"""

from __future__ import annotations

from collections.abc import Hashable


class Barrier:
    """Counts the running pods of every gang."""

    def __init__(self) -> None:
        self._running: dict[Hashable, int] = {}

    def runs(self, gang: Hashable, size: int) -> bool:
        """One more pod of the gang runs; true when that starts the application."""
        running = self._running[gang] = self._running.get(gang, 0) + 1
        return running == size

    def gone(self, gang: Hashable, size: int) -> bool:
        """A running pod of the gang is gone; true when that stops a running application."""
        running = self._running.get(gang, 0)
        if not running:
            return False
        self._running[gang] = running - 1
        return running == size
