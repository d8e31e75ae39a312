"""Clients of the loaded server. All retry a 429 after its Retry-After, as client-go does.

Every attempt becomes a row of requests.parquet: the load's own as the client sees them, those of components and nodes as the
server's audit log has them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from seatrial.model.units import MICROSECOND, SECOND
from seatrial.record.request_log import SERVER, RequestLog
from seatrial.sim.apf_server import ADMISSION_CPU, OK, TOO_MANY, ApfServer, Call, Flow
from seatrial.sim.apiserver import GET, WRITE, ApiClient, ApiServer
from seatrial.sim.fair_queuing import ONE_SEAT, Width
from seatrial.sim.flow_schemas import AUTHENTICATED, NODES, RequestInfo, UserInfo, service_account
from seatrial.sim.kernel import Do, Kernel
from seatrial.sim.request_costs import COSTS

CLIENT_CPU = 100 * MICROSECOND  # processor time of a Go component for one request: chosen
MOST_RETRIES = 10  # client-go v0.36.3, rest/request.go
REASONS = {404: "NotFound", 409: "AlreadyExists", 429: "TooManyRequests"}
Done = Callable[[Any, int], None]  # (arg, code of the last answer)


class ClientRequest:
    """One request until its last answer. `settle` applies the request once admitted and returns the code of the answer."""

    __slots__ = (
        "arg", "attempt", "cpu", "deadline", "delay", "done", "due", "flow", "open_for", "retries", "sent", "settle", "wait",
        "width",
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
        self.delay = 0  # ns, by a webhook
        self.open_for = 0  # ns after admission: watches
        self.deadline = 0  # no retry from here on; 0: none


def _ok(_: object) -> int:
    return OK


class Caller:
    """Sends for one identity in one phase. `cpu` is the client's own cost per request, `spread` the seconds added to a
    Retry-After."""

    def __init__(
        self, server: ApfServer, log: RequestLog, identity: str, phase: str, seen_by: str, cpu: int = CLIENT_CPU,
        spread: Callable[[], float] = lambda: 0.0,
    ) -> None:  # fmt: skip
        self._server, self._kernel, self._log, self._cpu, self._spread = server, server.kernel, log, cpu, spread
        self._identity, self._phase, self._seen_by = log.number(identity), log.number(phase), log.number(seen_by)
        self._names: dict[Flow, tuple[int, int]] = {}

    def send(self, request: ClientRequest) -> None:
        """The client and authentication use processor time first; another request may overtake meanwhile."""
        self._server.cores.work(self._cpu + ADMISSION_CPU, self._send_now, request)

    def _send_now(self, request: ClientRequest) -> None:
        request.sent = self._kernel.now
        self._server.send(
            request.flow, request.cpu, request.wait, self._answered, request, request.width, request.delay
        )

    def _answered(self, call: Call, code: int, reason: str, after: int) -> int:
        request: ClientRequest = call.arg
        if code == TOO_MANY:
            self._record(request, code, reason, after)
            self._retry(request, after)
            return code
        code = request.settle(request.arg)
        if request.open_for:
            self._kernel.at(self._kernel.now + request.open_for, self._ends, (request, code))
        else:
            self._ends((request, code))
        return code

    def _ends(self, what: tuple[ClientRequest, int]) -> None:
        request, code = what
        self._record(request, code, REASONS.get(code, ""), -1)
        request.done(request.arg, code)

    def _retry(self, request: ClientRequest, after: int) -> None:
        """A retry that would be due after the deadline is given up at the deadline."""
        due = self._kernel.now + int((after + self._spread()) * SECOND)
        if request.attempt > request.retries:
            request.done(request.arg, TOO_MANY)
        elif request.deadline and due >= request.deadline:
            self._kernel.at(request.deadline, self._give_up, request)
        else:
            request.attempt += 1
            request.due = due
            self._kernel.at(due, self.send, request)

    def _give_up(self, request: ClientRequest) -> None:
        request.done(request.arg, TOO_MANY)

    def _record(self, request: ClientRequest, code: int, reason: str, after: int) -> None:
        flow = request.flow
        names = self._names.get(flow)
        if names is None:
            names = self._names[flow] = (self._log.number(flow.request.verb), self._log.number(flow.request.resource))
        self._log.add(
            request.due, request.sent, self._kernel.now - request.due, *names, self._identity, code, self._log.number(reason),
            after, request.attempt, self._phase, self._seen_by,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ComponentIdentity:
    """User of a component, and verb and resource of its writes."""

    name: str  # in tables
    user: UserInfo
    verb: str
    resource: str
    group: str = ""


_MANAGER = UserInfo("system:kube-controller-manager")
KWOK = UserInfo("kwok", (NODES, AUTHENTICATED))  # as on `local`: one user plays all fake nodes
_COMPONENTS = {
    "job-controller": ComponentIdentity("kube-controller-manager", _MANAGER, "update", "jobs/status", "batch"),
    "deployment-controller": ComponentIdentity(
        "kube-controller-manager", _MANAGER, "update", "deployments/status", "apps"
    ),
    "replicaset-controller": ComponentIdentity("kube-controller-manager", _MANAGER, "create", "pods"),
    "garbage-collector": ComponentIdentity("kube-controller-manager", _MANAGER, "delete", "pods"),
    "node-lifecycle-controller": ComponentIdentity("kube-controller-manager", _MANAGER, "create", "events"),
    "kube-scheduler": ComponentIdentity("kube-scheduler", UserInfo("system:kube-scheduler"), "create", "pods/binding"),
    "kwok": ComponentIdentity("nodes", KWOK, "patch", "pods/status"),
    "seatrial": ComponentIdentity("seatrial", UserInfo("seatrial"), "create", "jobs", "batch"),
}


def component(client: str) -> ComponentIdentity:
    """Identity by the client's name; a stack's controller has a service account in its own namespace."""
    known = _COMPONENTS.get(client)
    return known or ComponentIdentity(client, service_account(f"{client}-system", client), "update", "pods")


class LoadedApi(ApiServer):
    """The loaded server for models of components, which only know GET, LIST and WRITE."""

    def __init__(self, kernel: Kernel, seed: int, server: ApfServer, log: RequestLog, namespace: str) -> None:
        super().__init__(kernel, seed)
        self._server, self._log, self._namespace = server, log, namespace
        self._callers: dict[str, Caller] = {}
        self._flows: dict[tuple[str, int], Flow] = {}

    def call(self, client: ApiClient, verb: int, then: Do, arg: Any = None) -> None:
        self._kernel.at(client.slot(self._kernel.now), self._send, (client.name, verb, then, arg))

    def call_together(self, client: ApiClient, verb: int, count: int, then: Do, arg: Any = None) -> None:
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

    def call_in_turn(self, client: ApiClient, verb: int, count: int, then: Do, arg: Any = None) -> None:
        self._call_next((client, verb, count, then, arg))

    def spend(self, client: ApiClient) -> None:
        self.call(client, WRITE, _ignore)

    def _send(self, what: tuple[str, int, Do, Any]) -> None:
        name, verb, *_ = what
        flow = self._flows.get((name, verb))
        if flow is None:
            flow = self._flows[name, verb] = self._flow(component(name), verb)
        caller = self._callers.get(name)
        if caller is None:
            caller = self._callers[name] = Caller(self._server, self._log, component(name).name, "", SERVER)
        cost = COSTS[flow.request.verb]
        caller.send(ClientRequest(flow, cost.cpu, cost.wait, ONE_SEAT, self._kernel.now, _ok, self._answered, what))

    def _answered(self, waiting: tuple[str, int, Do, Any], code: int) -> None:
        """After the last retry the controller's own queue sends the request again."""
        if code == TOO_MANY:
            self._send(waiting)
            return
        _, _, then, arg = waiting
        then(arg)

    def _flow(self, identity: ComponentIdentity, verb: int) -> Flow:
        name, resource = identity.verb, identity.resource
        if verb != WRITE:
            name, resource = "get" if verb == GET else "list", resource.partition("/")[0]
        return self._server.flow(identity.user, RequestInfo(name, resource, identity.group, self._namespace))


def _ignore(_: object) -> None:
    """Nothing waits for the answer of an event."""


RENEWAL = 10 * SECOND  # a quarter of the lease of 40 s: kubelets and KWOK v0.8.0
JITTER = 0.04  # of RENEWAL, at most
LEASE = RequestInfo("update", "leases", "coordination.k8s.io", "kube-node-lease")


class Heartbeats:
    """Every node renews its lease ten seconds after the last renewal. KWOK renews for all fake nodes, `parallelism` at a time."""

    def __init__(self, server: ApfServer, log: RequestLog, parallelism: int, random: Random) -> None:
        self._kernel, self._random = server.kernel, random
        self._caller = Caller(server, log, "nodes", "", SERVER)
        self._flow = server.flow(KWOK, LEASE)
        self._idle = parallelism
        self._due: deque[int] = deque()
        self._last: dict[int, int] = {}  # node → when its lease was renewed
        self._gaps: dict[int, int] = {}  # node → longest time between renewals

    def add(self, node: int) -> None:
        """The first renewal is at a random time in the first interval, so nodes added together spread out."""
        self._last[node], self._gaps[node] = self._kernel.now, 0
        self._kernel.at(self._kernel.now + int(self._random.random() * RENEWAL), self._is_due, node)

    def remove(self, node: int) -> None:
        """Stops the renewals of the node."""
        self._last.pop(node, None)

    def _is_due(self, node: int) -> None:
        if node not in self._last:
            return
        if self._idle:
            self._idle -= 1
            self._renew(node)
        else:
            self._due.append(node)

    def _renew(self, node: int) -> None:
        cost = COSTS["update"]
        self._caller.send(
            ClientRequest(self._flow, cost.cpu, cost.wait, ONE_SEAT, self._kernel.now, _ok, self._renewed, node)
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
        """Longest time between renewals per node, including the time since the last one."""
        if not self._gaps:
            return None
        now, last = self._kernel.now, self._last
        longest = sorted(max(gap, now - last.get(node, now)) for node, gap in self._gaps.items())
        return {"nodes": len(longest), "median_s": longest[len(longest) // 2] / SECOND, "worst_s": longest[-1] / SECOND}
