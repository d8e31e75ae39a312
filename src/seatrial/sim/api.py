"""The API server as far as clients feel it: how long a request takes, and how long the client's own QPS bucket holds it back.

Every simulated request goes through `call`, so that a fuller model (in-flight limits, fair queuing) can take its place. It is
free of waiting when the client is not limited.
"""

from __future__ import annotations

from typing import Any

from seatrial.model.randomness import arrays
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.sim.kernel import Do, Kernel

GET, LIST, WRITE = range(3)

# Median time from sending a request to its answer, with what the controller itself needs around it. A bare client on `local`
# measured 1.2 ms for GET, 1.3 to 4.3 ms for LIST, 2.0 ms for POST and 3.0 ms for PATCH; a Job's first pod appears there 5 to
# 12 ms after the Job, and its binding 6 to 9 ms later.
LATENCY = (2 * MILLISECOND, 4 * MILLISECOND, 5 * MILLISECOND)
# Single requests vary around that: log-normal with this sigma gives a p99 of three times the median, as measured there.
LATENCY_SIGMA = 0.45
_DRAWS = 1 << 13


class Client:
    """One client's token bucket, as client-go's flowcontrol has it: `qps` per second, `burst` at once, first come first served.

    A QPS of 0 is no limit. Kept as the moment at which the bucket would be full again, which is one integer.
    """

    __slots__ = ("_full", "_interval", "_room", "name")

    def __init__(self, name: str, qps: float = 0, burst: float = 0) -> None:
        self.name = name
        self._interval = int(SECOND / qps) if qps > 0 else 0
        self._room = max(int(burst), 1) * self._interval
        self._full = 0

    @property
    def limited(self) -> bool:
        return self._interval > 0

    def slot(self, now: int) -> int:
        """When the next request may leave; takes that place in the line."""
        interval = self._interval
        if not interval:
            return now
        full = self._full
        full = (full if full > now else now) + interval
        self._full = full
        leave = full - self._room
        return leave if leave > now else now


class ApiServer:
    """Answers every request after its latency."""

    def __init__(self, kernel: Kernel, seed: int) -> None:
        self._kernel = kernel
        factors = arrays(seed).lognormal(0.0, LATENCY_SIGMA, _DRAWS)
        self._latency: list[list[int]] = [(factors * base).astype(int).tolist() for base in LATENCY]
        self._draw = 0

    def call(self, client: Client, verb: int, then: Do, arg: Any = None) -> None:
        """Sends a request when the client's bucket lets it; `then(arg)` happens when the answer is there."""
        self._draw = draw = (self._draw + 1) & (_DRAWS - 1)
        kernel = self._kernel
        kernel.at(client.slot(kernel.now) + self._latency[verb][draw], then, arg)

    def spend(self, client: Client) -> None:
        """A request whose answer nobody waits for: only its place in the client's line matters."""
        client.slot(self._kernel.now)
