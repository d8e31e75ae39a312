"""One priority level of Priority & Fairness: seats, queues, and who is next.

Fair queuing for server requests (KEP-1040), as k8s.io/apiserver v0.36.3 has it in util/flowcontrol/fairqueuing/queueset: a flow
has a hand of queues and takes the one with the least work; the queue whose oldest request would end first in a virtual world,
where all queues share the seats evenly, is served next; a queue is charged an estimate when a request starts and the difference
when it ends. It has no clock: everyone says when it is. The real one walks over all queues at every step; here sums are kept.

Work is counted as there, in whole units of ten seat-nanoseconds: with floats one tie was decided another way, and with it
everything that came after.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from seatrial.model.units import MILLISECOND
from seatrial.sim.flows import Level

ESTIMATE = 3 * MILLISECOND  # estimatedServiceDuration: what a request is charged before it is known
UNIT = 10  # seat-nanoseconds, ssScale
QUEUE_FULL, CONCURRENCY_LIMIT, TIME_OUT = "queue-full", "concurrency-limit", "time-out"


@dataclass(frozen=True, slots=True)
class Width:
    """How many seats a request takes, and how many for how long after its answer, while watchers are told."""

    seats: int = 1
    final: int = 0
    linger: int = 0  # ns


ONE_SEAT = Width()


class Request:
    """A request on its way through a level. `then` is the server's: what to do with it once it has its seats."""

    __slots__ = (
        "arrived",
        "arrived_r",
        "final",
        "hand",
        "linger",
        "queue",
        "seats",
        "started",
        "tag",
        "then",
        "width",
        "work",
    )

    def __init__(self, hand: tuple[int, ...], width: Width, then: Callable[[Request], None], tag: Any = None) -> None:
        self.hand, self.then, self.tag = hand, then, tag
        self.seats, self.final, self.linger = width.seats, width.final, width.linger
        self.width = max(width.seats, width.final)
        self.work = _work(width.seats * ESTIMATE) + _work(width.final * width.linger)
        self.arrived = self.started = -1
        self.arrived_r = 0
        self.queue: _Queue | None = None


class _Queue:
    __slots__ = ("executing", "index", "next_r", "waiting", "work")

    def __init__(self, index: int) -> None:
        self.index = index
        self.waiting: deque[Request] = deque()
        self.executing = self.work = self.next_r = 0

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.executing


class Seats:
    """The level. `limit` changes while levels lend to each other; what executes keeps its seats until it ends."""

    def __init__(self, level: Level, limit: int) -> None:
        self.level, self.limit = level, limit
        self.executing = self.in_use = self.waiting = self.seats_waiting = 0
        self.dispatched = self.rejected = 0
        self.demand = Demand()
        self._queues = [_Queue(index) for index in range(level.queues)]
        self._full: dict[int, _Queue] = {}  # those in which someone waits
        self._active = 0  # those in which someone waits or executes
        self._robin = 0
        self._enqueued = 0
        self._r = self._at = 0

    def arrive(self, now: int, request: Request) -> str:
        """Starts it, lets it wait, or says why not."""
        self._sync(now)
        request.arrived = now
        if not self._queues:
            if not self.level.exempt and not self._fits(request.width):
                self.rejected += 1
                return CONCURRENCY_LIMIT
            self._start(now, request)
            self.demand.note(self.in_use)
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
        self._full[queue.index] = queue
        self.waiting += 1
        self.seats_waiting += request.width
        self.demand.note(self.in_use + self.seats_waiting)
        _bound(queue)
        self._dispatch(now)
        return ""

    def finish(self, now: int, request: Request) -> int:
        """It is answered. If it lingers on its seats, for how long; `release` is due then."""
        self._sync(now)
        self.executing -= 1
        queue = request.queue
        if queue:
            queue.executing -= 1
            queue.next_r -= _work(request.seats * (ESTIMATE - (now - request.started)))
            _bound(queue)
            if queue.idle:
                self._active -= 1
        if not request.linger:
            self._release(request)
        self._dispatch(now)  # also if it lingers: a request wider than the level waits for the last that executes
        return request.linger

    def release(self, now: int, request: Request) -> None:
        """The watchers of what it wrote are told."""
        self._sync(now)
        self._release(request)
        self._dispatch(now)

    def cancel(self, now: int, request: Request) -> bool:
        """It has waited too long; False if it does not wait any more."""
        queue = request.queue
        if queue is None or request.started >= 0:
            return False
        self._sync(now)
        queue.waiting.remove(request)
        self._left(queue, request)
        if queue.idle:
            self._active -= 1
        self.rejected += 1
        _bound(queue)
        return True

    def set_limit(self, now: int, limit: int) -> None:
        self._sync(now)
        self.limit = limit
        self._dispatch(now)

    def _sync(self, now: int) -> None:
        """The virtual world goes on: all active queues get the same of the seats that are asked for."""
        passed = now - self._at
        if not passed:
            return
        self._at = now
        asked = self.in_use + self.seats_waiting
        self.demand.last(passed, asked)
        if self._active:
            self._r += _work(min(asked, self.limit) / self._active * passed)

    def _shortest(self, hand: tuple[int, ...]) -> _Queue:
        """The queue of the hand with the least work waiting; who looks where first changes with every request."""
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
                return  # nobody overtakes it
            queue.waiting.popleft()
            self._left(queue, request)
            self._robin = queue.index
            if request.final > self.limit:  # the same work on the seats there are
                request.linger = int(_work(request.final * request.linger) / self.limit * UNIT)
                request.final = self.limit
                request.width = max(request.seats, request.final)
            queue.executing += 1
            queue.next_r += request.work
            _bound(queue)
            self._start(now, request)

    def _next(self) -> _Queue:
        """The least virtual finish; of equals the next in turn."""
        full, count, robin = self._full, len(self._queues), self._robin
        if len(full) == 1:
            return next(iter(full.values()))
        return min(full.values(), key=lambda q: (q.next_r + q.waiting[0].work, (q.index - robin - 1) % count))

    def _left(self, queue: _Queue, request: Request) -> None:
        queue.work -= request.work
        if not queue.waiting:
            del self._full[queue.index]
        self.waiting -= 1
        self.seats_waiting -= request.width

    def _start(self, now: int, request: Request) -> None:
        request.started = now
        self.executing += 1
        self.in_use += request.width
        self.dispatched += 1
        request.then(request)

    def _release(self, request: Request) -> None:
        self.in_use -= request.width


def _work(seat_ns: float) -> int:
    """Rounded half away from zero, as Go does."""
    return int(seat_ns / UNIT + 0.5) if seat_ns >= 0 else -int(0.5 - seat_ns / UNIT)


def _bound(queue: _Queue) -> None:
    """No dispatch in the virtual world before the arrival: a queue saves up nothing while it cannot use its share."""
    if queue.waiting and queue.next_r < queue.waiting[0].arrived_r:
        queue.next_r = queue.waiting[0].arrived_r


class Demand:
    """How many seats were asked for since the last look: integrals over time, and the highest."""

    __slots__ = ("_highest", "_over", "_squares", "_sum")

    def __init__(self) -> None:
        self._over = 0
        self._sum = self._squares = 0.0
        self._highest = 0

    def note(self, asked: int) -> None:
        self._highest = max(self._highest, asked)

    def last(self, passed: int, asked: int) -> None:
        self._over += passed
        self._sum += passed * asked
        self._squares += passed * asked * asked

    def take(self, asked: int) -> tuple[int, float]:
        """The highest, and the average plus the standard deviation; a new look begins."""
        highest, envelope = self._highest, 0.0
        if self._over:
            average = self._sum / self._over
            envelope = average + max(self._squares / self._over - average * average, 0.0) ** 0.5
        self._over, self._sum, self._squares, self._highest = 0, 0.0, 0.0, asked
        return highest, envelope
