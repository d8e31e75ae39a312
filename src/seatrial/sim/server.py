"""The API server under load: who is let in, how long it takes, and who is sent away.

A request arrives (its client has paid `BEFORE` for it), is let in by Priority & Fairness or by the plain limits on requests in
flight, takes its share of the processors, waits for what is not the server's own work (etcd, a webhook), and is answered.
Saturation, waits and rejections come about by that; nothing here knows what a load is.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from seatrial.model.randomness import arrays, scalars
from seatrial.model.units import MICROSECOND, SECOND
from seatrial.sim.api import LATENCY_SIGMA
from seatrial.sim.cores import Cores
from seatrial.sim.fairness import ONE_SEAT, TIME_OUT, Request, Seats, Width
from seatrial.sim.flows import MASTERS, Ask, Identity, Level, Schema, classify, deal, flow_hash, in_order
from seatrial.sim.kernel import Kernel
from seatrial.sim.lending import PERIOD, Lending

READING = ("get", "list", "watch")
LONGEST_WAIT = 15 * SECOND  # in a queue: a quarter of --request-timeout, 60 s (getRequestWaitContext)
MOST_RETRY_AFTER = 32  # s, maxRetryAfter
BEFORE = 150 * MICROSECOND  # of processor until it is decided whether to let a request in; a 429 costs no more
OK, TOO_MANY = 200, 429
_DRAWS = 1 << 13
IN_FLIGHT = "max-in-flight"  # what we call a refusal by the plain limits, to which the server gives no reason


@dataclass(frozen=True, slots=True)
class Limits:
    """How requests are let in. Without fairness only the two numbers count."""

    fairness: bool = True
    reading: int = 400
    mutating: int = 200
    levels: Sequence[Level] = ()
    schemas: Sequence[Schema] = ()


class Tally:
    """What the server's metrics would say of all requests of one flow schema with the same verb and resource."""

    __slots__ = ("codes", "executed", "executing", "longest_wait", "refused", "took", "waited", "waiting")

    def __init__(self) -> None:
        self.executing = self.waiting = self.executed = self.took = self.waited = self.longest_wait = 0
        self.codes: Counter[int] = Counter()
        self.refused: Counter[str] = Counter()  # by reason


class Flow:
    """All requests that are treated alike: same identity, verb, resource and namespace."""

    __slots__ = ("ask", "exempt", "hand", "level", "mutating", "schema", "seats", "tally", "who")

    def __init__(self, who: Identity, ask: Ask, schema: str = "", level: str = "") -> None:
        self.who, self.ask, self.schema, self.level = who, ask, schema, level
        self.mutating = ask.verb not in READING
        self.exempt = MASTERS in who.groups
        self.hand: tuple[int, ...] = ()
        self.seats: Seats | None = None
        self.tally: Tally


# Is given the code, why not, and how many seconds to wait before trying again; says the code that the client gets.
Answered = Callable[["Call", int, str, int], int]


class Call(Request):
    """A request on the wire. `answered` gets it back."""

    __slots__ = ("answered", "arg", "cpu", "flow", "wait")

    def __init__(
        self,
        flow: Flow,
        cpu: int,
        wait: int,
        width: Width,
        answered: Answered,
        arg: Any,
        then: Callable[[Request], None],
    ) -> None:
        super().__init__(flow.hand, width, then)
        self.flow, self.cpu, self.wait, self.answered, self.arg = flow, cpu, wait, answered, arg


class Server:
    def __init__(self, kernel: Kernel, limits: Limits, cores: float, seed: int) -> None:
        self.kernel, self.limits = kernel, limits
        # Around 1 on average, so that costs are means.
        self._factors: list[float] = arrays(seed).lognormal(-(LATENCY_SIGMA**2) / 2, LATENCY_SIGMA, _DRAWS).tolist()
        self._draw = 0
        self.cores = Cores(kernel, cores)
        self.tallies: dict[tuple[str, str, str, str], Tally] = {}  # level, flow schema, verb, resource
        self.executing = [0, 0]  # reading, mutating
        self.peak = [0, 0]  # since someone looked
        self.lending: Lending | None = None
        self._flows: dict[tuple[Identity, Ask], Flow] = {}
        self._schemas: list[Schema] = []
        self._waiting: deque[Call] = deque()  # in the order they came; some are long let in
        self._alarm = False
        self._retry_after: dict[str, _Dropped] = {}
        if limits.fairness:
            self._schemas = in_order(limits.schemas)
            self.lending = Lending(limits.levels, limits.reading + limits.mutating)
            # A real server has been at it for a while: when the next adjustment comes is anybody's guess.
            kernel.at(kernel.now + int(PERIOD * scalars(seed).random()), self._lend)

    def flow(self, who: Identity, ask: Ask) -> Flow:
        known = self._flows.get((who, ask))
        if known is None:
            known = self._flows[who, ask] = self._classified(who, ask)
            key = (known.level, known.schema, ask.verb, ask.resource)
            known.tally = self.tallies.setdefault(key, Tally())
        return known

    def _classified(self, who: Identity, ask: Ask) -> Flow:
        if self.lending is None:
            return Flow(who, ask)
        schema = classify(self._schemas, who, ask)
        flow = Flow(who, ask, schema.name, schema.level)
        flow.seats = seats = self.lending.seats[schema.level]
        if seats.level.queues:
            value = flow_hash(schema.name, schema.distinguisher(who, ask))
            flow.hand = deal(value, seats.level.queues, seats.level.hand)
        return flow

    def widest(self, flow: Flow) -> int:
        """The most seats that one request of this flow may be given, as far as its level says; 0: no limit of its own."""
        return self.lending.widest(flow.level) if self.lending else 1

    def send(
        self, flow: Flow, cpu: int, wait: int, answered: Answered, arg: Any, width: Width = ONE_SEAT, held: int = 0
    ) -> None:
        """A request that needs about so much of a core, and then waits about so long, and exactly as long as it is `held`,
        while it holds its seats."""
        self._draw = draw = (self._draw + 1) & (_DRAWS - 1)
        factor = self._factors[draw]
        call = Call(flow, int(cpu * factor), int(wait * factor) + held, width, answered, arg, self._executes)
        seats = flow.seats
        if seats is None:
            self._let_in(call)
            return
        why = seats.arrive(self.kernel.now, call)
        if why:
            self._refuse(call, why)
        elif call.started < 0:
            self._wait(call)

    def _let_in(self, call: Call) -> None:
        """Without fairness: so many at the same time, and for the others a 429 at once. Watches do not count."""
        flow, limits = call.flow, self.limits
        most = limits.mutating if flow.mutating else limits.reading
        if self.executing[flow.mutating] >= most and not flow.exempt and flow.ask.verb != "watch":
            self._refuse(call, IN_FLIGHT)
            return
        call.arrived = call.started = self.kernel.now
        self._executes(call)

    def _executes(self, call: Request) -> None:
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
        self.cores.work(call.cpu, self._worked, call)

    def _worked(self, call: Call) -> None:
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
            dropped = self._retry_after.setdefault(flow.level, _Dropped())
            after = dropped.note(self.kernel.now // SECOND)
        call.flow.tally.codes[call.answered(call, TOO_MANY, why, after)] += 1

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

    def _lend(self, _: object) -> None:
        assert self.lending is not None
        self.lending.adjust(self.kernel.now)
        self.kernel.at(self.kernel.now + PERIOD, self._lend)


class _Dropped:
    """What a level tells those it sends away: one second, and twice as many while it goes on (dropped_requests_tracker.go)."""

    __slots__ = ("_after", "_count", "_history", "_raised", "_second")

    def __init__(self) -> None:
        self._after, self._raised = 1, -MOST_RETRY_AFTER
        self._second = self._count = 0
        self._history: list[tuple[int, int]] = []

    def note(self, second: int) -> int:
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
