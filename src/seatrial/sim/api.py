"""The API server as far as clients feel it: how long a request takes, and how long the client's own QPS bucket holds it back.

Every simulated request goes through `call`, so that a fuller model (in-flight limits, fair queuing) can take its place. It is
free of waiting when the client is not limited.
"""

from __future__ import annotations

from itertools import accumulate
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

    __slots__ = ("_full", "_interval", "_room", "limited", "name")

    def __init__(self, name: str, qps: float = 0, burst: float = 0) -> None:
        self.name = name
        self._interval = int(SECOND / qps) if qps > 0 else 0
        self._room = max(int(burst), 1) * self._interval
        self._full = 0
        self.limited = self._interval > 0

    def behind(self, now: int) -> int:
        """How long a request would wait now."""
        return max(self._full + self._interval - self._room - now, 0)

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
        self._factors: list[float] = factors.tolist()
        self._latency: list[list[int]] = [(factors * base).astype(int).tolist() for base in LATENCY]
        self._sums = [[0, *accumulate(latencies)] for latencies in self._latency]
        self._draw = 0

    def call(self, client: Client, verb: int, then: Do, arg: Any = None) -> None:
        """Sends a request when the client's bucket lets it; `then(arg)` happens when the answer is there."""
        self._draw = draw = (self._draw + 1) & (_DRAWS - 1)
        kernel = self._kernel
        leaves = client.slot(kernel.now) if client.limited else kernel.now
        kernel.at(leaves + self._latency[verb][draw], then, arg)

    def call_together(self, client: Client, verb: int, count: int, then: Do, arg: Any = None) -> None:
        """So many requests sent side by side; `then` when the last is answered."""
        latency, now = self._latency[verb], self._kernel.now
        answered = now
        for _ in range(count):
            self._draw = draw = (self._draw + 1) & (_DRAWS - 1)
            answered = max(answered, client.slot(now) + latency[draw])
        self._kernel.at(answered, then, arg)

    def call_in_turn(self, client: Client, verb: int, count: int, then: Do, arg: Any = None) -> None:
        """So many requests, each sent when the one before is answered. If the client is not limited, nobody can come in
        between, and all of them are one event: MCAD lists the pods of 1,000 nodes 10,000 times."""
        if client.limited:
            self._one_of((client, verb, count, then, arg))
            return
        first = (self._draw + 1) & (_DRAWS - 1)
        self._draw = (self._draw + count) & (_DRAWS - 1)
        sums = self._sums[verb]
        rounds, last = divmod(first + count, _DRAWS)
        self._kernel.at(self._kernel.now + rounds * sums[-1] + sums[last] - sums[first], then, arg)

    def _one_of(self, rest: tuple[Client, int, int, Do, Any]) -> None:
        client, verb, count, then, arg = rest
        if count > 1:
            self.call(client, verb, self._one_of, (client, verb, count - 1, then, arg))
        elif count:
            self.call(client, verb, then, arg)
        else:
            then(arg)

    def about(self, median: int) -> int:
        """Something that takes this long, more or less, as requests do."""
        self._draw = draw = (self._draw + 1) & (_DRAWS - 1)
        return int(median * self._factors[draw])

    def spend(self, client: Client) -> None:
        """A request whose answer nobody waits for: only its place in the client's line matters."""
        client.slot(self._kernel.now)
