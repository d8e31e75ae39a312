"""The API server as clients see it: the latency of a request, and the wait in the client's own QPS bucket.

Every simulated request goes through `call`, so that a fuller model (in-flight limits, fair queuing) can take its place.
"""

from __future__ import annotations

from heapq import heappush
from itertools import accumulate
from typing import Any

from seatrial.model.randomness import arrays
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.sim.kernel import Do, Kernel

GET, LIST, WRITE = range(3)

# Median time from a request to its answer, including the controller's own work around the request. A bare client on `local`
# measured 1.2 ms for GET, 1.3 to 4.3 ms for LIST, 2.0 ms for POST and 3.0 ms for PATCH; a Job's first pod appears there 5 to
# 12 ms after the Job, and its binding 6 to 9 ms later.
LATENCY = (2 * MILLISECOND, 4 * MILLISECOND, 5 * MILLISECOND)
# Single requests vary around that: log-normal with this sigma gives a p99 of three times the median, as measured there.
LATENCY_SIGMA = 0.45
_DRAWS = 1 << 13


class ApiClient:
    """One client's token bucket, as in client-go's flowcontrol: `qps` per second, `burst` at once, first come first served.

    A QPS of 0 is no limit. The state is one integer: the moment at which the bucket would be full again.
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
        """When the next request may leave; takes its token."""
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

    def call(self, client: ApiClient, verb: int, then: Do, arg: Any = None) -> None:
        """Sends a request when the client's bucket allows; calls `then(arg)` at the answer."""
        self._draw = draw = (self._draw + 1) & (_DRAWS - 1)
        kernel = self._kernel
        leaves = client.slot(kernel.now) if client.limited else kernel.now
        # What `Kernel.at` does, without the call: seven of the fifteen events of a one-pod Job are answers.
        kernel.order = order = kernel.order + 1
        heappush(kernel.heap, (leaves + self._latency[verb][draw], order, then, arg, None))

    def call_together(self, client: ApiClient, verb: int, count: int, then: Do, arg: Any = None) -> None:
        """Sends `count` requests in parallel; calls `then(arg)` at the last answer."""
        latency, now = self._latency[verb], self._kernel.now
        answered = now
        for _ in range(count):
            self._draw = draw = (self._draw + 1) & (_DRAWS - 1)
            answered = max(answered, client.slot(now) + latency[draw])
        self._kernel.at(answered, then, arg)

    def call_in_turn(self, client: ApiClient, verb: int, count: int, then: Do, arg: Any = None) -> None:
        """Sends `count` requests one after another. Without a client limit nothing can come in between, so they are
        one event: MCAD lists the pods of 1,000 nodes 10,000 times."""
        if client.limited:
            self._call_next((client, verb, count, then, arg))
            return
        first = (self._draw + 1) & (_DRAWS - 1)
        self._draw = (self._draw + count) & (_DRAWS - 1)
        sums = self._sums[verb]
        rounds, last = divmod(first + count, _DRAWS)
        self._kernel.at(self._kernel.now + rounds * sums[-1] + sums[last] - sums[first], then, arg)

    def _call_next(self, rest: tuple[ApiClient, int, int, Do, Any]) -> None:
        client, verb, count, then, arg = rest
        if count > 1:
            self.call(client, verb, self._call_next, (client, verb, count - 1, then, arg))
        elif count:
            self.call(client, verb, then, arg)
        else:
            then(arg)

    def about(self, median: int) -> int:
        """A duration with this median, varied as requests are."""
        self._draw = draw = (self._draw + 1) & (_DRAWS - 1)
        return int(median * self._factors[draw])

    def spend(self, client: ApiClient) -> None:
        """Sends a request whose answer nothing waits for: only its token matters."""
        client.slot(self._kernel.now)
