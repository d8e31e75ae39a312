"""The model for `--on sim`: callbacks and integers. It does what `controller.py` does, request by request.

The controller sends one PATCH at a time and waits for its answer. The simulator answers it (`ApiClient`, `api.call`), creates the
pods once the Job is resumed (`sim.jobs`), and says when a Job is complete or deleted.
"""

from __future__ import annotations

from collections import deque

from seatrial.model.lifecycle import ADMITTED
from seatrial.model.plan import Workload
from seatrial.model.units import MILLISECOND
from seatrial.sim.apiserver import WRITE, ApiClient
from seatrial.sim.world import Sim

WATCH_LAG = 1 * MILLISECOND  # from a write to the controller's watch; an order of magnitude, not measured


class TurnstileModel:
    """Who waits, and who is inside."""

    def __init__(self, sim: Sim, places: int) -> None:
        self._sim, self._places = sim, places
        self._client = ApiClient("turnstile")  # without a limit, as the controller's
        self._waiting: deque[int] = deque()
        self._inside: set[int] = set()
        self._asking = False
        sim.when_completed.append(self._ended)
        sim.when_deleted.append(self._ended)

    def created(self, number: int, workload: Workload) -> None:
        """The server has a new suspended Job."""
        self._sim.jobs.add(number, workload, suspended=True)
        self._sim.kernel.at(self._sim.kernel.now + WATCH_LAG, self._seen, number)

    def _seen(self, number: int) -> None:
        self._waiting.append(number)
        self._next()

    def _ended(self, number: int) -> None:
        self._sim.kernel.at(self._sim.kernel.now + WATCH_LAG, self._gone, number)

    def _gone(self, number: int) -> None:
        self._inside.discard(number)
        if number in self._waiting:
            self._waiting.remove(number)
        self._next()

    def _next(self) -> None:
        if self._waiting and not self._asking and len(self._inside) < self._places:
            self._asking = True
            number = self._waiting.popleft()
            self._inside.add(number)
            self._sim.api.call(self._client, WRITE, self._resumed, number)

    def _resumed(self, number: int) -> None:
        """The PATCH is answered."""
        self._asking = False
        self._sim.jobs.resume(number)
        self._sim.reach(number, ADMITTED)
        self._next()
