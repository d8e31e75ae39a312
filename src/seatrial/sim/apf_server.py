"""The API server under load: admission, queueing, processor time and rejection of requests.

A request arrives (its client has spent `ADMISSION_CPU`), is admitted by Priority & Fairness or by the limits on requests in flight,
uses its share of the processors, waits for work outside the server (etcd, a webhook), and is answered. Saturation, waits and
rejections follow from these steps; this module does not know what a load is.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.model.randomness import arrays, scalars
from seatrial.model.units import MICROSECOND, SECOND
from seatrial.sim.apf_borrowing import PERIOD, SeatBorrowing
from seatrial.sim.apiserver import LATENCY_SIGMA
from seatrial.sim.fair_queuing import ONE_SEAT, TIME_OUT, QueuedRequest, Seats, Width
from seatrial.sim.flow_schemas import MASTERS, Level, RequestInfo, Schema, UserInfo, classify, deal, flow_hash, in_order
from seatrial.sim.kernel import Kernel
from seatrial.sim.shared_cores import Cores

READING = ("get", "list", "watch")
LONGEST_WAIT = 15 * SECOND  # in a queue: a quarter of --request-timeout, 60 s (getRequestWaitContext)
MOST_RETRY_AFTER = 32  # s, maxRetryAfter
ADMISSION_CPU = 150 * MICROSECOND  # processor time until a request is admitted or rejected; a 429 costs no more
OK, TOO_MANY = 200, 429
_DRAWS = 1 << 13
IN_FLIGHT = "max-in-flight"  # our name for a rejection by the in-flight limits; the server gives no reason


@dataclass(frozen=True, slots=True)
class Limits:
    """Settings of admission. Without fairness only the two numbers count."""

    fairness: bool = True
    reading: int = 400
    mutating: int = 200
    levels: Sequence[Level] = ()
    schemas: Sequence[Schema] = ()


class FlowTally:
    """Counts of the requests of one flow schema with the same verb and resource, for the server's metrics."""

    __slots__ = ("codes", "executed", "executing", "longest_wait", "refused", "took", "waited", "waiting")

    def __init__(self) -> None:
        self.executing = self.waiting = self.executed = self.took = self.waited = self.longest_wait = 0
        self.codes: Counter[int] = Counter()
        self.refused: Counter[str] = Counter()  # by reason


class Flow:
    """Requests of the same identity, verb, resource and namespace."""

    __slots__ = ("exempt", "hand", "level", "mutating", "request", "schema", "seats", "tally", "user")

    def __init__(self, user: UserInfo, request: RequestInfo, schema: str = "", level: str = "") -> None:
        self.user, self.request, self.schema, self.level = user, request, schema, level
        self.mutating = request.verb not in READING
        self.exempt = MASTERS in user.groups
        self.hand: tuple[int, ...] = ()
        self.seats: Seats | None = None
        self.tally: FlowTally


# Called with status code, reason and Retry-After in seconds; returns the code that the client gets.
Answered = Callable[["Call", int, str, int], int]


class Call(QueuedRequest):
    """A request on the wire; `answered` is called with its answer."""

    __slots__ = ("answered", "cpu", "flow", "wait")

    def __init__(
        self,
        flow: Flow,
        cpu: int,
        wait: int,
        width: Width,
        answered: Answered,
        arg: Any,
        then: Callable[[QueuedRequest], None],
    ) -> None:
        super().__init__(flow.hand, width, then, arg)
        self.flow, self.cpu, self.wait, self.answered = flow, cpu, wait, answered


class ApfServer:
    """The API server: admission, processors, answers and metrics."""

    def __init__(self, kernel: Kernel, limits: Limits, cores: float, seed: int) -> None:
        self.kernel, self.limits = kernel, limits
        # Mean 1, so that costs are means.
        self._factors: list[float] = arrays(seed).lognormal(-(LATENCY_SIGMA**2) / 2, LATENCY_SIGMA, _DRAWS).tolist()
        self._draw = 0
        self.cores = Cores(kernel, cores)
        self.tallies: dict[tuple[str, str, str, str], FlowTally] = {}  # level, flow schema, verb, resource
        self.executing = [0, 0]  # reading, mutating
        self.peak = [0, 0]  # since the last sample
        self.borrowing: SeatBorrowing | None = None
        self._flows: dict[tuple[UserInfo, RequestInfo], Flow] = {}
        self._schemas: list[Schema] = []
        self._waiting: deque[Call] = deque()  # by arrival; some were dispatched meanwhile
        self._alarm = False
        self._retry_after: dict[str, _RetryAfter] = {}
        if limits.fairness:
            self._schemas = in_order(limits.schemas)
            self.borrowing = SeatBorrowing(limits.levels, limits.reading + limits.mutating)
            # A real server has run for a while, so the time of the first adjustment is random.
            kernel.at(kernel.now + int(PERIOD * scalars(seed).random()), self._adjust_limits)

    def flow(self, user: UserInfo, request: RequestInfo) -> Flow:
        """The flow of these requests; classified once."""
        known = self._flows.get((user, request))
        if known is None:
            known = self._flows[user, request] = self._classified(user, request)
            key = (known.level, known.schema, request.verb, request.resource)
            known.tally = self.tallies.setdefault(key, FlowTally())
        return known

    def _classified(self, user: UserInfo, request: RequestInfo) -> Flow:
        if self.borrowing is None:
            return Flow(user, request)
        schema = classify(self._schemas, user, request)
        flow = Flow(user, request, schema.name, schema.level)
        flow.seats = seats = self.borrowing.seats[schema.level]
        if seats.level.queues:
            value = flow_hash(schema.name, schema.distinguisher(user, request))
            flow.hand = deal(value, seats.level.queues, seats.level.hand)
        return flow

    def max_seats(self, flow: Flow) -> int:
        """Most seats that one request of this flow may use; 0: no limit by the level."""
        return self.borrowing.max_seats(flow.level) if self.borrowing else 1

    def send(
        self, flow: Flow, cpu: int, wait: int, answered: Answered, arg: Any, width: Width = ONE_SEAT, held: int = 0
    ) -> None:
        """Sends a request that uses `cpu` ns of a core and then waits `wait` ns, both varied, and exactly `held` ns more.

        The request keeps its seats all the while."""
        self._draw = draw = (self._draw + 1) & (_DRAWS - 1)
        factor = self._factors[draw]
        call = Call(flow, int(cpu * factor), int(wait * factor) + held, width, answered, arg, self._execute)
        seats = flow.seats
        if seats is None:
            self._admit_in_flight(call)
            return
        why = seats.arrive(self.kernel.now, call)
        if why:
            self._refuse(call, why)
        elif call.started < 0:
            self._wait(call)

    def _admit_in_flight(self, call: Call) -> None:
        """Without fairness: requests above the in-flight limit get a 429 at once. Watches do not count."""
        flow, limits = call.flow, self.limits
        most = limits.mutating if flow.mutating else limits.reading
        if self.executing[flow.mutating] >= most and not flow.exempt and flow.request.verb != "watch":
            self._refuse(call, IN_FLIGHT)
            return
        call.arrived = call.started = self.kernel.now
        self._execute(call)

    def _execute(self, call: QueuedRequest) -> None:
        assert isinstance(call, Call)
        flow = call.flow
        kind, tally = flow.mutating, flow.tally
        self.executing[kind] = now = self.executing[kind] + 1
        self.peak[kind] = max(self.peak[kind], now)
        tally.executing += 1
        tally.executed += 1
        waited = call.started - call.arrived
        if waited:
            tally.waiting -= 1
            tally.waited += waited
            tally.longest_wait = max(tally.longest_wait, waited)
        self.cores.work(call.cpu, self._computed, call)

    def _computed(self, call: Call) -> None:
        if call.wait:
            self.kernel.at(self.kernel.now + call.wait, self._done, call)
        else:
            self._done(call)

    def _done(self, call: Call) -> None:
        tally = call.flow.tally
        self.executing[call.flow.mutating] -= 1
        tally.executing -= 1
        tally.took += self.kernel.now - call.arrived
        seats = call.flow.seats
        if seats is not None:
            linger = seats.finish(self.kernel.now, call)
            if linger:
                self.kernel.at(self.kernel.now + linger, self._release, call)
        tally.codes[call.answered(call, OK, "", 0)] += 1

    def _release(self, call: Call) -> None:
        assert call.flow.seats is not None
        call.flow.seats.release(self.kernel.now, call)

    def _refuse(self, call: Call, why: str) -> None:
        flow = call.flow
        flow.tally.refused[why] += 1
        after = 1
        if flow.seats is not None:
            tracker = self._retry_after.setdefault(flow.level, _RetryAfter())
            after = tracker.dropped(self.kernel.now // SECOND)
        flow.tally.codes[call.answered(call, TOO_MANY, why, after)] += 1

    def _wait(self, call: Call) -> None:
        waiting = self._waiting
        while waiting and waiting[0].started >= 0:
            waiting.popleft()
        waiting.append(call)
        call.flow.tally.waiting += 1
        if not self._alarm:
            self._alarm = True
            self.kernel.at(waiting[0].arrived + LONGEST_WAIT, self._expire)

    def _expire(self, _: object) -> None:
        now, waiting = self.kernel.now, self._waiting
        while waiting and (waiting[0].started >= 0 or waiting[0].arrived + LONGEST_WAIT <= now):
            call = waiting.popleft()
            assert call.flow.seats is not None
            if call.flow.seats.cancel(now, call):
                call.flow.tally.waiting -= 1
                self._refuse(call, TIME_OUT)
        self._alarm = bool(waiting)
        if waiting:
            self.kernel.at(waiting[0].arrived + LONGEST_WAIT, self._expire)

    def _adjust_limits(self, _: object) -> None:
        assert self.borrowing is not None
        self.borrowing.adjust(self.kernel.now)
        self.kernel.at(self.kernel.now + PERIOD, self._adjust_limits)


class _RetryAfter:
    """Retry-After of a level: one second, doubled while rejections continue (dropped_requests_tracker.go)."""

    __slots__ = ("_after", "_count", "_history", "_raised", "_second")

    def __init__(self) -> None:
        self._after, self._raised = 1, -MOST_RETRY_AFTER
        self._second = self._count = 0
        self._history: list[tuple[int, int]] = []

    def dropped(self, second: int) -> int:
        if second == self._second:
            self._count += 1
            return self._after
        self._history.append((self._second, self._count))
        oldest = self._second - min(2 * self._after, MOST_RETRY_AFTER)
        self._history = [(at, count) for at, count in self._history if at >= oldest]
        self._second, self._count = second, 1
        self._change(second)
        return self._after

    def _change(self, second: int) -> None:
        after = self._after
        dropped = sum(count for at, count in self._history if second - after <= at < second)
        if second - self._raised >= after and dropped >= 3 * after:
            self._after, self._raised = min(2 * after, MOST_RETRY_AFTER), second
        elif dropped < after and after > 1:
            self._after = after - 1
