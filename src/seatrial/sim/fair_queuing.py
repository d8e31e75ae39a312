"""One priority level of Priority & Fairness: seats, queues and dispatch.

Fair queuing for server requests (KEP-1040), as in k8s.io/apiserver v0.36.3, util/flowcontrol/fairqueuing/queueset: a flow has a
hand of queues and takes the queue with the least work. The next queue served is the one whose oldest request would end first in a
virtual world where all queues share the seats evenly. A queue is charged an estimate when a request starts and the difference when
the request ends. Callers pass the time. The Go code visits all queues at every step; this module keeps sums.

Work is counted in whole units of ten seat-nanoseconds, as in Go: with floats one tie went the other way, and all later dispatches
with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from seatrial.model.units import MILLISECOND
from seatrial.sim.flow_schemas import Level

ESTIMATE = 3 * MILLISECOND  # estimatedServiceDuration, charged at dispatch
UNIT = 10  # seat-nanoseconds, ssScale
QUEUE_FULL, CONCURRENCY_LIMIT, TIME_OUT = "queue-full", "concurrency-limit", "time-out"


@dataclass(frozen=True, slots=True)
class Width:
    """Seats of a request, and seats that it keeps for `linger` after its answer, while watchers are notified."""

    seats: int = 1
    final: int = 0
    linger: int = 0  # ns


ONE_SEAT = Width()


class QueuedRequest:
    """A request of a level; `then(request)` is called when the request has its seats."""

    __slots__ = (
        "arg",
        "arrived",
        "arrived_r",
        "final",
        "hand",
        "linger",
        "queue",
        "seats",
        "started",
        "then",
        "width",
        "work",
    )

    def __init__(
        self, hand: tuple[int, ...], width: Width, then: Callable[[QueuedRequest], None], arg: Any = None
    ) -> None:
        self.hand, self.then, self.arg = hand, then, arg
        self.seats, self.final, self.linger = width.seats, width.final, width.linger
        self.width = max(width.seats, width.final)
        self.work = _work(width.seats * ESTIMATE) + _work(width.final * width.linger)
        self.arrived = self.started = -1
        self.arrived_r = 0
        self.queue: _FairQueue | None = None


class _FairQueue:
    __slots__ = ("executing", "index", "next_r", "waiting", "work")

    def __init__(self, index: int) -> None:
        self.index = index
        self.waiting: deque[QueuedRequest] = deque()
        self.executing = self.work = self.next_r = 0

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.executing


class Seats:
    """The seats of a level. `limit` changes with borrowing; an executing request keeps its seats until its end."""

    def __init__(self, level: Level, limit: int) -> None:
        self.level, self.limit = level, limit
        self.executing = self.in_use = self.waiting = self.seats_waiting = 0
        self.dispatched = self.rejected = 0
        self.demand = Demand()
        self._queues = [_FairQueue(index) for index in range(level.queues)]
        self._nonempty: dict[int, _FairQueue] = {}  # queues with waiting requests
        self._active = 0  # number of queues with waiting or executing requests
        self._robin = 0
        self._enqueued = 0
        self._r = self._at = 0

    def arrive(self, now: int, request: QueuedRequest) -> str:
        """Starts or queues the request; returns the reason if rejected, else an empty string."""
        self._sync(now)
        request.arrived = now
        if not self._queues:
            if not self.level.exempt and not self._fits(request.width):
                self.rejected += 1
                return CONCURRENCY_LIMIT
            self._start(now, request)
            self.demand.raise_peak(self.in_use)
            return ""
        queue = self._shortest(request.hand)
        if self.in_use >= self.limit and len(queue.waiting) >= self.level.length:
            self.rejected += 1
            return QUEUE_FULL
        request.queue, request.arrived_r = queue, self._r
        if queue.idle:
            queue.next_r = self._r
            self._active += 1
        queue.waiting.append(request)
        queue.work += request.work
        self._nonempty[queue.index] = queue
        self.waiting += 1
        self.seats_waiting += request.width
        self.demand.raise_peak(self.in_use + self.seats_waiting)
        _raise_start(queue)
        self._dispatch(now)
        return ""

    def finish(self, now: int, request: QueuedRequest) -> int:
        """The request is answered. Returns how long it keeps its seats; `release` is due then."""
        self._sync(now)
        self.executing -= 1
        queue = request.queue
        if queue:
            queue.executing -= 1
            queue.next_r -= _work(request.seats * (ESTIMATE - (now - request.started)))
            _raise_start(queue)
            if queue.idle:
                self._active -= 1
        if not request.linger:
            self.in_use -= request.width
        self._dispatch(now)  # also if it lingers: a request wider than the level waits for the last executing request
        return request.linger

    def release(self, now: int, request: QueuedRequest) -> None:
        """Frees the seats of an answered request: its watchers are notified."""
        self._sync(now)
        self.in_use -= request.width
        self._dispatch(now)

    def cancel(self, now: int, request: QueuedRequest) -> bool:
        """Rejects a request that waited too long; False if it no longer waits."""
        queue = request.queue
        if queue is None or request.started >= 0:
            return False
        self._sync(now)
        queue.waiting.remove(request)
        self._dequeued(queue, request)
        if queue.idle:
            self._active -= 1
        self.rejected += 1
        _raise_start(queue)
        return True

    def set_limit(self, now: int, limit: int) -> None:
        """Sets the number of seats from now on."""
        self._sync(now)
        self.limit = limit
        self._dispatch(now)

    def _sync(self, now: int) -> None:
        """Advances virtual time: all active queues get an even share of the seats in demand."""
        passed = now - self._at
        if not passed:
            return
        self._at = now
        asked = self.in_use + self.seats_waiting
        self.demand.add(passed, asked)
        if self._active:
            self._r += _work(min(asked, self.limit) / self._active * passed)

    def _shortest(self, hand: tuple[int, ...]) -> _FairQueue:
        """The queue of the hand with the least waiting work; the search starts at another place for every request."""
        self._enqueued = turn = self._enqueued + 1
        queues, size = self._queues, len(hand)
        best = queues[hand[(turn - 1) % size]]
        if best.work:
            for place in range(turn, turn + size - 1):
                queue = queues[hand[place % size]]
                if queue.work < best.work:
                    best = queue
        return best

    def _fits(self, seats: int) -> bool:
        """A request wider than the whole level runs alone."""
        return not self.executing if seats > self.limit else self.in_use + seats <= self.limit

    def _dispatch(self, now: int) -> None:
        while self.waiting and self.in_use < self.limit:
            queue = self._next()
            request = queue.waiting[0]
            if not self._fits(request.width):
                return  # no request overtakes another
            queue.waiting.popleft()
            self._dequeued(queue, request)
            self._robin = queue.index
            if request.final > self.limit:  # the same work on the seats of the level
                request.linger = int(_work(request.final * request.linger) / self.limit * UNIT)
                request.final = self.limit
                request.width = max(request.seats, request.final)
            queue.executing += 1
            queue.next_r += request.work
            _raise_start(queue)
            self._start(now, request)

    def _next(self) -> _FairQueue:
        """The queue with the least virtual finish time; round robin among equals."""
        nonempty, count, robin = self._nonempty, len(self._queues), self._robin
        if len(nonempty) == 1:
            return next(iter(nonempty.values()))
        return min(nonempty.values(), key=lambda q: (q.next_r + q.waiting[0].work, (q.index - robin - 1) % count))

    def _dequeued(self, queue: _FairQueue, request: QueuedRequest) -> None:
        queue.work -= request.work
        if not queue.waiting:
            del self._nonempty[queue.index]
        self.waiting -= 1
        self.seats_waiting -= request.width

    def _start(self, now: int, request: QueuedRequest) -> None:
        request.started = now
        self.executing += 1
        self.in_use += request.width
        self.dispatched += 1
        request.then(request)


def _work(seat_ns: float) -> int:
    """The work in units, rounded half away from zero, as in Go."""
    return int(seat_ns / UNIT + 0.5) if seat_ns >= 0 else -int(0.5 - seat_ns / UNIT)


def _raise_start(queue: _FairQueue) -> None:
    """No virtual dispatch before the arrival: an unused share is not saved up."""
    if queue.waiting and queue.next_r < queue.waiting[0].arrived_r:
        queue.next_r = queue.waiting[0].arrived_r


class Demand:
    """Seats in demand since the last `take`: integrals over time, and the peak."""

    __slots__ = ("_peak", "_squares", "_sum", "_time")

    def __init__(self) -> None:
        self._time = 0
        self._sum = self._squares = 0.0
        self._peak = 0

    def raise_peak(self, asked: int) -> None:
        """Raises the peak to this demand."""
        self._peak = max(self._peak, asked)

    def add(self, passed: int, asked: int) -> None:
        """The demand was `asked` seats for `passed` ns."""
        self._time += passed
        self._sum += passed * asked
        self._squares += passed * asked * asked

    def take(self, asked: int) -> tuple[int, float]:
        """Peak, and average plus standard deviation; starts a new period."""
        highest, envelope = self._peak, 0.0
        if self._time:
            average = self._sum / self._time
            envelope = average + max(self._squares / self._time - average * average, 0.0) ** 0.5
        self._time, self._sum, self._squares, self._peak = 0, 0.0, 0.0, asked
        return highest, envelope
