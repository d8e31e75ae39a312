"""Clients of the busy server. All do with a 429 what client-go does: wait as long as its Retry-After says and send again.

Every attempt becomes a row of requests.parquet, whoever sent it: the load's own as its client sees them, those of components and
nodes as the server's audit log would tell.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from seatrial.model.units import MICROSECOND, SECOND
from seatrial.record.requests import SERVER, RequestLog
from seatrial.sim.api import GET, LIST, WRITE, ApiServer, Client
from seatrial.sim.costs import COSTS
from seatrial.sim.fairness import ONE_SEAT, Width
from seatrial.sim.flows import AUTHENTICATED, NODES, Ask, Identity, service_account
from seatrial.sim.kernel import Do, Kernel
from seatrial.sim.server import BEFORE, OK, TOO_MANY, Call, Flow, Server

CLIENT_CPU = 100 * MICROSECOND  # of processor that a component in Go needs for a request: chosen
MOST_RETRIES = 10  # client-go v0.36.3, rest/request.go
REASONS = {404: "NotFound", 409: "AlreadyExists", 429: "TooManyRequests"}
Done = Callable[[Any, int], None]  # what was given, and the code of the last answer


class Sending:
    """One request until its last answer. `settle` does what it asks for once it got through, and says the code of the answer."""

    __slots__ = (
        "arg", "attempt", "cpu", "done", "due", "flow", "held", "retries", "sent", "settle", "stays", "until", "wait", "width"
    )  # fmt: skip

    def __init__(
        self,
        flow: Flow,
        cpu: int,
        wait: int,
        width: Width,
        due: int,
        settle: Callable[[Any], int],
        done: Done,
        arg: Any,
    ) -> None:
        self.flow, self.cpu, self.wait, self.width, self.due = flow, cpu, wait, width, due
        self.settle, self.done, self.arg = settle, done, arg
        self.attempt, self.sent, self.retries = 1, due, MOST_RETRIES
        self.held = 0  # by a webhook, inside the server
        self.stays = 0  # open after it got through: watches
        self.until = 0  # when nothing more is sent


def _fine(_: object) -> int:
    return OK


class Caller:
    """Sends for one identity in one phase. `cpu` is what a request costs the client itself, `spread` how many seconds more than
    asked for it waits after a 429."""

    def __init__(
        self, server: Server, log: RequestLog, identity: str, phase: str, seen_by: str, cpu: int = CLIENT_CPU,
        spread: Callable[[], float] = lambda: 0.0,
    ) -> None:  # fmt: skip
        self._server, self._kernel, self._log, self._cpu, self._spread = server, server.kernel, log, cpu, spread
        self._identity, self._phase, self._seen_by = log.number(identity), log.number(phase), log.number(seen_by)
        self._names: dict[Flow, tuple[int, int]] = {}

    def send(self, sending: Sending) -> None:
        """Making a request and finding out whose it is take processor time too, and meanwhile another may get in first."""
        self._server.cores.work(self._cpu + BEFORE, self._leaves, sending)

    def _leaves(self, sending: Sending) -> None:
        sending.sent = self._kernel.now
        self._server.send(sending.flow, sending.cpu, sending.wait, self._answered, sending, sending.width, sending.held)

    def _answered(self, call: Call, code: int, reason: str, after: int) -> int:
        sending: Sending = call.arg
        if code == TOO_MANY:
            self._note(sending, code, reason, after)
            self._try_again(sending, after)
            return code
        code = sending.settle(sending.arg)
        if sending.stays:
            self._kernel.at(self._kernel.now + sending.stays, self._ends, (sending, code))
        else:
            self._ends((sending, code))
        return code

    def _ends(self, what: tuple[Sending, int]) -> None:
        sending, code = what
        self._note(sending, code, REASONS.get(code, ""), -1)
        sending.done(sending.arg, code)

    def _try_again(self, sending: Sending, after: int) -> None:
        """Whoever would have to wait beyond its phase's end waits for that, and is done."""
        due = self._kernel.now + int((after + self._spread()) * SECOND)
        if sending.attempt > sending.retries:
            sending.done(sending.arg, TOO_MANY)
        elif sending.until and due >= sending.until:
            self._kernel.at(sending.until, self._gives_up, sending)
        else:
            sending.attempt += 1
            sending.due = due
            self._kernel.at(due, self.send, sending)

    def _gives_up(self, sending: Sending) -> None:
        sending.done(sending.arg, TOO_MANY)

    def _note(self, sending: Sending, code: int, reason: str, after: int) -> None:
        flow = sending.flow
        names = self._names.get(flow)
        if names is None:
            names = self._names[flow] = (self._log.number(flow.ask.verb), self._log.number(flow.ask.resource))
        self._log.add(
            sending.due, sending.sent, self._kernel.now - sending.due, *names, self._identity, code, self._log.number(reason),
            after, sending.attempt, self._phase, self._seen_by,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Component:
    """Who a component is to the server, and what its writes are."""

    name: str  # in tables
    who: Identity
    verb: str
    resource: str
    group: str = ""


_MANAGER = Identity("system:kube-controller-manager")
KWOK = Identity("kwok", (NODES, AUTHENTICATED))  # as on `local`: one user plays all fake nodes
_COMPONENTS = {
    "job-controller": Component("kube-controller-manager", _MANAGER, "update", "jobs/status", "batch"),
    "deployment-controller": Component("kube-controller-manager", _MANAGER, "update", "deployments/status", "apps"),
    "replicaset-controller": Component("kube-controller-manager", _MANAGER, "create", "pods"),
    "garbage-collector": Component("kube-controller-manager", _MANAGER, "delete", "pods"),
    "node-lifecycle-controller": Component("kube-controller-manager", _MANAGER, "create", "events"),
    "kube-scheduler": Component("kube-scheduler", Identity("system:kube-scheduler"), "create", "pods/binding"),
    "kwok": Component("nodes", KWOK, "patch", "pods/status"),
    "seatrial": Component("seatrial", Identity("seatrial"), "create", "jobs", "batch"),
}


def component(client: str) -> Component:
    """By the client's name; a controller of a stack has a service account in its own namespace."""
    known = _COMPONENTS.get(client)
    return known or Component(client, service_account(f"{client}-system", client), "update", "pods")


class BusyApi(ApiServer):
    """The same for components, whose models only know that they read, list or write."""

    def __init__(self, kernel: Kernel, seed: int, server: Server, log: RequestLog, namespace: str) -> None:
        super().__init__(kernel, seed)
        self._server, self._log, self._namespace = server, log, namespace
        self._callers: dict[str, Caller] = {}
        self._flows: dict[tuple[str, int], Flow] = {}

    def call(self, client: Client, verb: int, then: Do, arg: Any = None) -> None:
        self._kernel.at(client.slot(self._kernel.now), self._send, (client.name, verb, then, arg))

    def call_together(self, client: Client, verb: int, count: int, then: Do, arg: Any = None) -> None:
        if not count:
            self._kernel.at(self._kernel.now, then, arg)
        left = count

        def one(_: object) -> None:
            nonlocal left
            left -= 1
            if not left:
                then(arg)

        for _ in range(count):
            self.call(client, verb, one)

    def call_in_turn(self, client: Client, verb: int, count: int, then: Do, arg: Any = None) -> None:
        self._one_of((client, verb, count, then, arg))

    def spend(self, client: Client) -> None:
        self.call(client, WRITE, _nobody_waits)

    def _send(self, what: tuple[str, int, Do, Any]) -> None:
        name, verb, *_ = what
        flow = self._flows.get((name, verb))
        if flow is None:
            flow = self._flows[name, verb] = self._flow(component(name), verb)
        caller = self._callers.get(name)
        if caller is None:
            caller = self._callers[name] = Caller(self._server, self._log, component(name).name, "", SERVER)
        cost = COSTS[flow.ask.verb]
        caller.send(Sending(flow, cost.cpu, cost.wait, ONE_SEAT, self._kernel.now, _fine, self._answered, what))

    def _answered(self, waiting: tuple[str, int, Do, Any], code: int) -> None:
        """What is given up after all retries comes again from the controller's own queue."""
        if code == TOO_MANY:
            self._send(waiting)
            return
        _, _, then, arg = waiting
        then(arg)

    def _flow(self, who: Component, verb: int) -> Flow:
        resource = who.resource.partition("/")[0]
        if verb == GET:
            ask = Ask("get", resource, who.group, self._namespace)
        elif verb == LIST:
            ask = Ask("list", resource, who.group, self._namespace)
        else:
            ask = Ask(who.verb, who.resource, who.group, self._namespace)
        return self._server.flow(who.who, ask)


def _nobody_waits(_: object) -> None:
    """For events: only their place in line and their cost matter."""


RENEWAL = 10 * SECOND  # a quarter of the lease of 40 s: kubelets and KWOK v0.8.0
JITTER = 0.04  # of that, at most
LEASE = Ask("update", "leases", "coordination.k8s.io", "kube-node-lease")


class Heartbeats:
    """Every node renews its lease every ten seconds after the last time it could. KWOK does it for all fake nodes, so many at the
    same time."""

    def __init__(self, server: Server, log: RequestLog, parallelism: int, random: Random) -> None:
        self._kernel, self._random = server.kernel, random
        self._caller = Caller(server, log, "nodes", "", SERVER)
        self._flow = server.flow(KWOK, LEASE)
        self._idle = parallelism
        self._due: deque[int] = deque()
        self._last: dict[int, int] = {}  # node → when its lease was renewed
        self._gaps: dict[int, int] = {}  # and how long that took at most

    def add(self, node: int) -> None:
        """Nodes that come together do not stay together: the first renewal is somewhere in the first interval."""
        self._last[node], self._gaps[node] = self._kernel.now, 0
        self._kernel.at(self._kernel.now + int(self._random.random() * RENEWAL), self._is_due, node)

    def remove(self, node: int) -> None:
        self._last.pop(node, None)

    def _is_due(self, node: int) -> None:
        if node not in self._last:
            return  # it is gone
        if self._idle:
            self._idle -= 1
            self._renew(node)
        else:
            self._due.append(node)

    def _renew(self, node: int) -> None:
        cost = COSTS["update"]
        self._caller.send(
            Sending(self._flow, cost.cpu, cost.wait, ONE_SEAT, self._kernel.now, _fine, self._renewed, node)
        )

    def _renewed(self, node: int, code: int) -> None:
        now = self._kernel.now
        if code == OK and node in self._last:
            self._gaps[node] = max(self._gaps[node], now - self._last[node])
            self._last[node] = now
        self._kernel.at(now + int(RENEWAL * (1 + JITTER * self._random.random())), self._is_due, node)
        if self._due:
            self._renew(self._due.popleft())
        else:
            self._idle += 1

    def gaps(self) -> dict[str, Any] | None:
        """How far apart the renewals of a node's lease were at most, the time since the last included: a lag shows there."""
        if not self._gaps:
            return None
        now, last = self._kernel.now, self._last
        longest = sorted(max(gap, now - last.get(node, now)) for node, gap in self._gaps.items())
        return {"nodes": len(longest), "median_s": longest[len(longest) // 2] / SECOND, "worst_s": longest[-1] / SECOND}
