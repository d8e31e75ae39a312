"""The request phases of a trial on the simulated server: workers or a rate, and waits for the created objects.

The client behaves as on `local`: it retries a rejected request after its Retry-After and up to a tenth of a second more, without a
limit on attempts; after the phase's time it sends nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from seatrial.model.interfaces import Tally
from seatrial.model.plan import CLIENT as PLAIN_USER
from seatrial.model.plan import Delay
from seatrial.model.units import MICROSECOND, SECOND
from seatrial.record.request_log import CLIENT, RequestLog
from seatrial.scenario.actions.send_requests import Requests, pods_of
from seatrial.scenario.actions.wait import WaitForObjects
from seatrial.sim.apf_server import OK, TOO_MANY, ApfServer, Flow
from seatrial.sim.api_clients import REASONS, Caller, ClientRequest
from seatrial.sim.created_objects import CreatedRow, Objects, plural
from seatrial.sim.deployments import Deployments, PodOwner
from seatrial.sim.fair_queuing import ONE_SEAT, Width
from seatrial.sim.flow_schemas import AUTHENTICATED, RequestInfo, UserInfo, service_account
from seatrial.sim.request_costs import COSTS, list_width, write_width

CLIENT_CPU = 150 * MICROSECOND  # processor time of our own client per request: see docs/simulator.md
SPREAD_S = 0.1  # added to a Retry-After at most
_EVERYWHERE = -1
_COLLECTION_VERBS = ("list", "watch", "deletecollection")
_DELAYED_VERBS = ("create", "update", "patch")  # verbs that the webhook of `local` intercepts
_CREATED, _NOT_FOUND, _CONFLICT = 201, 404, 409
_NODE_SIZE = 2500  # bytes of a fake node
_Sent = tuple[tuple[int, int], int, int, int]  # item and place of its object, number, namespace, page


class Loads:
    """All request phases of one trial. `nodes` counts the nodes, for lists of them."""

    def __init__(
        self, server: ApfServer, log: RequestLog, objects: Objects, namespaces: list[str], delay: Delay | None,
        random: Random, nodes: Callable[[], int], deployments: Deployments,
    ) -> None:  # fmt: skip
        self.server, self.log, self.namespaces, self.delay, self.random = server, log, namespaces, delay, random
        self.objects = objects
        self.watchers: dict[str, int] = {}
        self.sent: Counter[str] = Counter()  # by phase
        self.refused: Counter[tuple[str, int]] = Counter()  # by phase and code, without retried requests
        self.nodes, self.deployments = nodes, deployments
        deployments.changed = self.changed
        self._owned: dict[tuple[int, int], PodOwner] = {}
        self._waits: list[tuple[WaitForObjects, Callable[[int], None], Callable[[], None]]] = []

    def run(self, phase: Requests, done: Callable[[Tally], None]) -> None:
        """Runs a phase; calls `done(tally)` after its last answer."""
        _Phase(self, phase, done).begin()

    # created objects

    def create(self, row: CreatedRow, number: int, namespace: int, manifest: Mapping[str, Any]) -> bool:
        """Creates an object and its pods; False if it exists."""
        if not self.objects.make(row, number, namespace):
            return False
        pods = pods_of(manifest)
        if pods and row.shape:
            owner = PodOwner(f"{row.phase}-{number}", row.phase, row.kind, pods, row.shape)
            self._owned[id(row), number] = owner
            self.deployments.add(owner)
        return True

    def delete(self, row: CreatedRow, number: int, namespace: int) -> bool:
        """Deletes an object; False if it does not exist."""
        if not self.objects.remove(row, number, namespace):
            return False
        owner = self._owned.pop((id(row), number), None)
        if owner:
            self.deployments.remove(owner)
        self.changed(row.phase)
        return True

    def notes(self) -> list[str]:
        """Counts of requests that failed for good."""
        return [
            f"{phase}: {count:,} of {self.sent[phase]:,} requests were answered {code}: {REASONS[code]}"
            for (phase, code), count in self.refused.items()
        ]

    # waits

    def until(self, until: WaitForObjects, progress: Callable[[int], None], done: Callable[[], None]) -> None:
        """Calls `done` once the wait is over, and `progress(count)` whenever its count changes."""
        self._waits.append((until, progress, done))
        self.changed(*until.of)

    def changed(self, *phases: str) -> None:
        """Counts of these phases changed: checks their waits."""
        for wait in list(self._waits):
            until, progress, done = wait
            if any(phase in until.of for phase in phases):
                now = self._count(until)
                progress(now)
                if now <= 0 if until.state in ("gone", "pods-gone") else now >= until.count:
                    self._waits.remove(wait)
                    done()

    def _count(self, until: WaitForObjects) -> int:
        if until.state == "gone":
            left = self.objects.left
            return sum(
                n for (phase, kind), n in left.items() if phase in until.of and (not until.kinds or kind in until.kinds)
            )
        pods = self.deployments
        counts = {"available": pods.available, "pods-running": pods.running_pods, "pods-gone": pods.pods}[until.state]
        return sum(counts[phase] for phase in until.of)


class _Phase:
    """One running phase. A worker is a chain of callbacks; at a rate every item is a chain."""

    def __init__(self, loads: Loads, phase: Requests, done: Callable[[Tally], None]) -> None:
        self._loads, self._phase, self._done = loads, phase, done
        self._server, self._kernel, self._objects = loads.server, loads.server.kernel, loads.objects
        name = phase.identity.name
        self._caller = Caller(loads.server, loads.log, name, phase.name, CLIENT, CLIENT_CPU, self._spread)
        self._user = _identity(phase, loads.namespaces[0])
        self._cost = COSTS[phase.verb]
        self._retries = 1 << 30 if phase.retry else 0
        self._start = self._kernel.now
        self._until = self._start + phase.lasting if phase.lasting else 0
        self._rows = [self._objects.row_for(phase, manifest) for manifest in phase.objects]
        self._plurals = [plural(manifest) for manifest in phase.objects]
        delay = loads.delay
        mine = phase.of or phase.name
        self._delay = 0
        if delay and phase.verb in _DELAYED_VERBS and (not delay.of or mine in delay.of):
            self._delay = delay.duration
        self._flows: dict[tuple[int, int], Flow] = {}
        self._started = self._open = 0
        self._last = self._start

    def begin(self) -> None:
        for _ in range(1 if self._phase.per_s else self._phase.workers):  # at a rate: the chain that starts the others
            self._open += 1
            self._next(None)

    def _spread(self) -> float:
        return self._loads.random.random() * SPREAD_S

    def _more(self) -> bool:
        count, until = self._phase.count, self._until
        return (count is None or self._started < count) and (not until or self._kernel.now < until)

    def _next(self, _: object) -> None:
        """The next item of a worker or of the rate."""
        if not self._more():
            self._ends()
            return
        item, per_s = self._started, self._phase.per_s
        self._started += 1
        if per_s:
            self._open += 1
            self._last = self._kernel.now
        self._object((item, 0), self._kernel.now)
        if per_s:
            self._kernel.at(self._start + round(self._started * SECOND / per_s), self._next)

    def _ends(self) -> None:
        self._open -= 1
        if self._open:
            return
        phase = self._phase
        items = self._started
        wanted = round((items - 1) / phase.per_s * SECOND) if phase.per_s and items > 1 else 0
        count = items if phase.per_s else self._loads.sent[phase.name]
        self._done(Tally(phase.name, count, wanted, self._last - self._start if phase.per_s else 0))

    def _object(self, what: tuple[int, int], due: int, page: int = 0) -> None:
        """Sends the request for one object of an item, or for the next page of a list."""
        item, place = what
        number, space = self._phase.place(item)
        where = space if self._plurals[place][2] and self._phase.namespaces else _EVERYWHERE
        flow, cost = self._flow(place, where), self._cost
        cpu, width, open_for = cost.cpu, ONE_SEAT, 0
        if self._phase.verb in _COLLECTION_VERBS:
            cpu, width = self._collection_cost(place, where, page, flow)
            if self._phase.verb == "watch":
                open_for = max(round((self._until - self._kernel.now) / SECOND), 1) * SECOND
        elif flow.mutating:
            watchers = self._loads.watchers.get(flow.request.resource, 0)
            width = write_width(watchers, self._server.max_seats(flow)) if watchers else ONE_SEAT
        self._loads.sent[self._phase.name] += 1
        request = ClientRequest(
            flow, cpu, cost.wait, width, due, self._settle, self._answered, (what, number, where, page)
        )
        request.retries, request.delay = self._retries, self._delay
        request.open_for, request.deadline = open_for, self._until
        self._caller.send(request)

    def _flow(self, place: int, where: int) -> Flow:
        flow = self._flows.get((place, where))
        if flow is None:
            group, resource, _ = self._plurals[place]
            namespace = self._loads.namespaces[where] if where != _EVERYWHERE else ""
            flow = self._flows[place, where] = self._server.flow(
                self._user, RequestInfo(self._phase.verb, resource, group, namespace)
            )
        return flow

    def _collection_cost(self, place: int, where: int, page: int, flow: Flow) -> tuple[int, Width]:
        """Cost and seats of a request for all objects of a kind. Seats depend on the objects of all namespaces."""
        count = self._matching(place, where)
        if self._phase.limit:
            count = min(max(count - page * self._phase.limit, 0), self._phase.limit)
        cpu = self._cost.cpu + count * self._cost.per_object
        if self._phase.verb == "deletecollection":
            return cpu, ONE_SEAT
        stored = self._matching(place, _EVERYWHERE)
        row = self._rows[place]
        size = row.size if row else _NODE_SIZE
        return cpu, list_width(min(stored, self._phase.limit or stored), size, self._server.max_seats(flow))

    def _matching(self, place: int, where: int) -> int:
        resource = self._plurals[place][1]
        return self._loads.nodes() if resource == "nodes" else self._objects.count(resource, where)

    def _settle(self, sent: _Sent) -> int:
        """Applies an admitted request; returns the code of its answer."""
        (_, place), number, where, _ = sent
        verb, row = self._phase.verb, self._rows[place]
        resource = self._plurals[place][1]
        if verb == "create":
            assert row is not None
            return _CREATED if self._loads.create(row, number, where, self._phase.objects[place]) else _CONFLICT
        if verb == "delete":
            return OK if row and self._loads.delete(row, number, where) else _NOT_FOUND
        if verb == "deletecollection":
            for stored, name in list(self._objects.all_of(resource, where)):
                self._loads.delete(stored, name, where)
        elif verb == "watch":
            self._loads.watchers[resource] = self._loads.watchers.get(resource, 0) + 1
        elif verb != "list" and not (row and self._objects.has(row, number)):
            return _NOT_FOUND
        return OK

    def _answered(self, sent: _Sent, code: int) -> None:
        (item, place), _, where, page = sent
        if self._phase.verb == "watch" and code == OK:
            self._loads.watchers[self._plurals[place][1]] -= 1
        if code >= _NOT_FOUND and (code != TOO_MANY or not self._phase.retry):
            self._loads.refused[self._phase.name, code] += 1
        limit = self._phase.limit
        if self._phase.verb == "list" and limit and code == OK and (page + 1) * limit < self._matching(place, where):
            self._object((item, place), self._kernel.now, page + 1)
        elif place + 1 < len(self._phase.objects):
            self._object((item, place + 1), self._kernel.now)
        elif self._phase.per_s:
            self._ends()
        else:
            self._next(None)


def _identity(phase: Requests, namespace: str) -> UserInfo:
    """User that the server sees. Service accounts are in the trial's own namespace."""
    identity = phase.identity
    if identity.service_account:
        return service_account(namespace, identity.service_account)
    return UserInfo(identity.user or PLAIN_USER, (*identity.groups, AUTHENTICATED))
