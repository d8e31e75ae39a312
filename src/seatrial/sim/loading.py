"""The request phases of a trial on the simulated server: workers or a rate, each attempt recorded, and waits for what was made.

The client is the one of `local`: what is rejected is sent again after the time that the server asks for and up to a tenth of a
second more, as often as it takes; after the phase's time nothing more is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from seatrial.model.interfaces import Tally
from seatrial.model.plan import CLIENT as PLAIN_USER
from seatrial.model.plan import Delay, Requests, Until
from seatrial.model.units import MICROSECOND, SECOND
from seatrial.record.requests import CLIENT, RequestLog
from seatrial.scenario.building_requests import pods_of
from seatrial.sim.calling import REASONS, Caller, Sending
from seatrial.sim.costs import COSTS, list_width, write_width
from seatrial.sim.fairness import ONE_SEAT, Width
from seatrial.sim.flows import AUTHENTICATED, Ask, Identity, service_account
from seatrial.sim.objects import Objects, Row, plural
from seatrial.sim.owners import Owner, Owners
from seatrial.sim.server import OK, TOO_MANY, Flow, Server

CLIENT_CPU = 150 * MICROSECOND  # of processor for our own client to make a request: see docs/simulator.md
SPREAD_S = 0.1  # at most so much more than a Retry-After asks for
_EVERYWHERE = -1
_WHOLE_KINDS = ("list", "watch", "deletecollection")
_HELD = ("create", "update", "patch")  # what the webhook of `local` is asked about
_CREATED, _NOT_FOUND, _CONFLICT = 201, 404, 409
_NODE_SIZE = 2500  # bytes of a fake node
_Sent = tuple[tuple[int, int], int, int, int]  # item and place of its object, number, namespace, page


class Loads:
    """All request phases of one trial. `nodes` counts the nodes, for who lists them."""

    def __init__(
        self, server: Server, log: RequestLog, phases: list[Requests], namespaces: list[str], delay: Delay | None, random: Random,
        nodes: Callable[[], int], owners: Owners,
    ) -> None:  # fmt: skip
        self.server, self.log, self.namespaces, self.delay, self.random = server, log, namespaces, delay, random
        self.objects = Objects(phases)
        self.watchers: dict[str, int] = {}
        self.sent: Counter[str] = Counter()  # by phase
        self.refused: Counter[tuple[str, int]] = Counter()  # and by code, other than what was sent again
        self.nodes, self.owners = nodes, owners
        owners.changed = self.changed
        self._owned: dict[tuple[int, int], Owner] = {}
        self._waits: list[tuple[Until, Callable[[int], None], Callable[[], None]]] = []

    def run(self, phase: Requests, done: Callable[[Tally], None]) -> None:
        _Phase(self, phase, done).begin()

    # what was made

    def made(self, row: Row, number: int, namespace: int, manifest: Mapping[str, Any]) -> bool:
        if not self.objects.make(row, number, namespace):
            return False
        pods = pods_of(manifest)
        if pods:
            owner = self._owned[id(row), number] = Owner(f"{row.phase}-{number}", row.phase, row.kind, pods)
            self.owners.add(owner)
        return True

    def removed(self, row: Row, number: int, namespace: int) -> bool:
        if not self.objects.remove(row, number, namespace):
            return False
        owner = self._owned.pop((id(row), number), None)
        if owner:
            self.owners.remove(owner)
        self.changed(row.phase)
        return True

    def notes(self) -> list[str]:
        """What the server refused for good."""
        return [
            f"{phase}: {count:,} of {self.sent[phase]:,} requests were answered {code}: {REASONS[code]}"
            for (phase, code), count in self.refused.items()
        ]

    # waits

    def until(self, until: Until, told: Callable[[int], None], done: Callable[[], None]) -> None:
        self._waits.append((until, told, done))
        self.changed(*until.of)

    def changed(self, *phases: str) -> None:
        for wait in list(self._waits):
            until, told, done = wait
            if any(phase in until.of for phase in phases):
                now = self._count(until)
                told(now)
                if now <= 0 if until.state in ("gone", "pods-gone") else now >= until.count:
                    self._waits.remove(wait)
                    done()

    def _count(self, until: Until) -> int:
        owners = self.owners
        if until.state == "gone":
            left = self.objects.left
            return sum(
                n for (phase, kind), n in left.items() if phase in until.of and (not until.kinds or kind in until.kinds)
            )
        counts = {"available": owners.available, "pods-running": owners.running, "pods-gone": owners.pods}[until.state]
        return sum(counts[phase] for phase in until.of)


class _Phase:
    """One phase on its way. A worker is a chain of callbacks; at a rate every item is one."""

    def __init__(self, loads: Loads, phase: Requests, done: Callable[[Tally], None]) -> None:
        self._loads, self._phase, self._done = loads, phase, done
        self._server, self._kernel, self._objects = loads.server, loads.server.kernel, loads.objects
        name = phase.identity.name
        self._caller = Caller(loads.server, loads.log, name, phase.name, CLIENT, CLIENT_CPU, self._spread)
        self._who = _identity(phase, loads.namespaces[0])
        self._cost = COSTS[phase.verb]
        self._retries = 1 << 30 if phase.retry else 0
        self._start = self._kernel.now
        self._until = self._start + phase.lasting if phase.lasting else 0
        self._rows = [self._objects.row_for(phase, manifest) for manifest in phase.objects]
        self._plurals = [plural(manifest) for manifest in phase.objects]
        delay = loads.delay
        mine = phase.of or phase.name
        self._held = 0
        if delay and phase.verb in _HELD and (not delay.of or mine in delay.of):
            self._held = delay.duration
        self._flows: dict[tuple[int, int], Flow] = {}
        self._begun = self._open = 0
        self._last = self._start

    def begin(self) -> None:
        if self._phase.per_s:
            self._open = 1  # the rate itself
            self._due(None)
            return
        for _ in range(self._phase.workers):
            self._open += 1
            self._next(None)

    def _spread(self) -> float:
        return self._loads.random.random() * SPREAD_S

    def _more(self) -> bool:
        count, until = self._phase.count, self._until
        return (count is None or self._begun < count) and (not until or self._kernel.now < until)

    def _due(self, _: object) -> None:
        """The next item of a rate."""
        if not self._more():
            self._ends()
            return
        item = self._begun
        self._begun += 1
        self._open += 1
        self._last = self._kernel.now
        self._object((item, 0), self._kernel.now)
        self._kernel.at(self._start + round(self._begun * SECOND / self._phase.per_s), self._due)

    def _next(self, _: object) -> None:
        """A worker's next item."""
        if not self._more():
            self._ends()
            return
        item = self._begun
        self._begun += 1
        self._object((item, 0), self._kernel.now)

    def _ends(self) -> None:
        self._open -= 1
        if self._open:
            return
        phase = self._phase
        items = self._begun
        wanted = round((items - 1) / phase.per_s * SECOND) if phase.per_s and items > 1 else 0
        count = items if phase.per_s else self._loads.sent[phase.name]
        self._done(Tally(phase.name, count, wanted, self._last - self._start if phase.per_s else 0))

    def _object(self, what: tuple[int, int], due: int, page: int = 0) -> None:
        """The request for one object of an item, or for the next page of a list."""
        item, place = what
        number, space = self._phase.place(item)
        where = space if self._plurals[place][2] and self._phase.namespaces else _EVERYWHERE
        flow, cost = self._flow(place, where), self._cost
        cpu, width, stays = cost.cpu, ONE_SEAT, 0
        if self._phase.verb in _WHOLE_KINDS:
            cpu, width = self._whole(place, where, page, flow)
            if self._phase.verb == "watch":
                stays = max(round((self._until - self._kernel.now) / SECOND), 1) * SECOND
        elif flow.mutating:
            watchers = self._loads.watchers.get(flow.ask.resource, 0)
            width = write_width(watchers, self._server.widest(flow)) if watchers else ONE_SEAT
        self._loads.sent[self._phase.name] += 1
        sending = Sending(flow, cpu, cost.wait, width, due, self._settle, self._answered, (what, number, where, page))
        sending.retries, sending.held, sending.stays, sending.until = self._retries, self._held, stays, self._until
        self._caller.send(sending)

    def _flow(self, place: int, where: int) -> Flow:
        flow = self._flows.get((place, where))
        if flow is None:
            group, resource, _ = self._plurals[place]
            namespace = self._loads.namespaces[where] if where != _EVERYWHERE else ""
            flow = self._flows[place, where] = self._server.flow(
                self._who, Ask(self._phase.verb, resource, group, namespace)
            )
        return flow

    def _whole(self, place: int, where: int, page: int, flow: Flow) -> tuple[int, Width]:
        """Cost and seats of a request for all objects of a kind. Seats go by all there are, wherever they stand."""
        count = self._matching(place, where)
        if self._phase.limit:
            count = min(max(count - page * self._phase.limit, 0), self._phase.limit)
        cpu = self._cost.cpu + count * self._cost.per_object
        if self._phase.verb == "deletecollection":
            return cpu, ONE_SEAT
        stored = self._matching(place, _EVERYWHERE)
        row = self._rows[place]
        size = row.size if row else _NODE_SIZE
        return cpu, list_width(min(stored, self._phase.limit or stored), size, self._server.widest(flow))

    def _matching(self, place: int, where: int) -> int:
        resource = self._plurals[place][1]
        return self._loads.nodes() if resource == "nodes" else self._objects.count(resource, where)

    def _settle(self, sent: _Sent) -> int:
        """What it does once the server has let it through, and the code of its answer."""
        (_, place), number, where, _ = sent
        verb, row = self._phase.verb, self._rows[place]
        resource = self._plurals[place][1]
        if verb == "create":
            assert row is not None
            return _CREATED if self._loads.made(row, number, where, self._phase.objects[place]) else _CONFLICT
        if verb == "delete":
            return OK if row and self._loads.removed(row, number, where) else _NOT_FOUND
        if verb == "deletecollection":
            for each, one in list(self._objects.all_of(resource, where)):
                self._loads.removed(each, one, where)
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


def _identity(phase: Requests, namespace: str) -> Identity:
    """As whom the server sees it. Service accounts are made in the trial's own namespace."""
    who = phase.identity
    if who.service_account:
        return service_account(namespace, who.service_account)
    return Identity(who.user or PLAIN_USER, (*who.groups, AUTHENTICATED))
