"""The watches of a trial: what the stack wants seen, the pods of played applications, and proof that we watched.

A record once a second says that this process watched: should it be killed, nobody else could say so.

Why a controller cannot create pods stands in Events alone. They are many, and the API server does not cache their watch: they are
listed only while workloads stand without pods and nothing moves.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Mapping
from typing import Any

from seatrial.clusters.live.applications import Applications
from seatrial.clusters.live.event_loop_lag import EventLoopLag
from seatrial.clusters.live.session import Session
from seatrial.kube import ApiProblem, Client, Gap, Lost, Unreachable, WatchState, clock
from seatrial.kube.resources import EVENTS, PODS
from seatrial.kube.shapes import Event
from seatrial.model.errors import SetupProblem
from seatrial.model.units import SECOND
from seatrial.observe.following import follow
from seatrial.observe.observer import Observer, Watch
from seatrial.record.gaps import BEAT, GapLine, Gaps

SYNC_WITHIN_S = 60.0
REFUSALS_S = 1.0  # between looks whether workloads stand without pods
AGAIN_S = 10.0  # between lists of Events
QUIET = 2 * SECOND  # the Job controller has tried by then; it tries again after 1 s, 2 s, 4 s …
_REASON = "FailedCreate"
_POD = re.compile(r'pods "[^"]*"')  # without its name the same reason is the same words for every workload
_QUOTA = re.compile(r"exceeded quota: [^,]*, (.*)")  # what is requested, used and limited follows
_MOST_EVENTS = 100  # they mostly say the same


class Watches:
    """`plays`: the applications on fake nodes are ours to play; not where the keeper of a kept cluster does."""

    def __init__(self, session: Session, *, plays: bool) -> None:
        self.states: list[WatchState] = []
        self.lag = EventLoopLag()
        self._session, self._plays = session, plays
        self._applications: Applications | None = None
        self._record = Gaps(session.ledger.segment.directory, session.ledger.segment.writer)

    async def sync(self) -> None:
        """Begins all watches and waits until each has shown what is there."""
        session = self._session
        if self._plays:
            self._applications = Applications(session.client, session.problems.append)
        for wanted in session.stack.real.watches():
            state = WatchState(wanted.resource.plural)
            self.states.append(state)
            session.spawn(self._watch(wanted, state))
        until = time.monotonic() + SYNC_WITHIN_S
        while not all(state.since for state in self.states):
            failed = [task for task in session.tasks if task.done()]
            if failed or time.monotonic() > until:
                raise SetupProblem("the watches did not begin", "is the API server overloaded?")
            await asyncio.sleep(0.005)

    def begin(self) -> None:
        """The trial's time begins."""
        session = self._session
        session.spawn(listen_to_refusals(session.client, session.observer, session.namespace, session.queue_namespaces))
        self.lag = EventLoopLag()
        session.spawn(self._beat())

    async def _watch(self, wanted: Watch, state: WatchState) -> None:
        session = self._session

        def pod_seen(stamp: int, event: str, pod: Any) -> None:
            if self._applications:
                self._applications.sees(event, pod)
            if pod is not None:
                session.ledger.stirred = stamp - session.observer.epoch

        also = pod_seen if wanted.resource == PODS else None
        try:
            await follow(
                session.client, wanted, session.observer, state, also=also, namespace=session.watched,
                selector=session.selector,
            )  # fmt: skip
        except (ApiProblem, Lost, Unreachable) as error:
            session.break_off(f"the watch of {wanted.resource.plural} ended: {error}")

    async def _beat(self) -> None:
        session, said = self._session, 0
        while True:
            session.observer.alive = now = await self.lag.look()
            session.ledger.flush()
            if now - said >= BEAT and not any(state.silent for state in self.states):
                said = now
                self._record.add(GapLine(well_ns=now - session.observer.epoch))

    def gaps(self) -> list[Gap]:
        """When a watch showed nothing because it was broken."""
        return [gap for state in self.states for gap in state.gaps]

    def longest_gap(self) -> int:
        """The longest gap, in nanoseconds; 0 without any."""
        return max((gap.end - gap.begin for gap in self.gaps()), default=0)

    async def stop(self) -> None:
        """The tasks are stopped already. The gaps of a trial that ended in order are part of its validity."""
        self._record.remove()
        if self._applications:
            await self._applications.stop()


async def listen_to_refusals(
    client: Client, observer: Observer, namespace: str, queues: Mapping[str, str] | None = None
) -> None:
    """Tells the observer why pods cannot be created, until cancelled. `queues`: other namespaces of the trial → their queue. A
    user who may not list Events hears nothing."""
    while True:
        await asyncio.sleep(REFUSALS_S)
        if _without_pods(observer):
            with contextlib.suppress(ApiProblem, Lost, Unreachable):
                await _list_refusals(client, observer, namespace, queues or {})
            await asyncio.sleep(AGAIN_S)


def _without_pods(observer: Observer) -> bool:
    ledger = observer.ledger
    number = ledger.number
    over = sum(ledger.counts[number[stage]] for stage in ("failed", "deleted"))
    without = ledger.counts[number["created"]] - ledger.counts[number["pods_created"]] - over
    return without > 0 and clock() - observer.epoch - ledger.touched > QUIET


async def _list_refusals(client: Client, observer: Observer, namespace: str, queues: Mapping[str, str]) -> None:
    """With queues, Events of all namespaces: one list, however many there are."""
    where = "" if queues else namespace
    found = await client.list(EVENTS, where, shape=Event, fieldSelector=f"reason={_REASON}", limit=_MOST_EVENTS)
    for event in found.items:
        place = event.regarding.namespace
        if event.regarding.kind == "Job" and (not queues or place == namespace or place in queues):
            observer.says(event.regarding.name, refusal(event.note, queues.get(place, "")))


def refusal(note: str, queue: str) -> str:
    """Why the Job controller could not create pods, the same words for every workload. Where the quota of a queue is used up, the
    workload waits for its turn."""
    said = _POD.sub("pods", note)
    exceeded = _QUOTA.search(said) if queue else None
    return f"waits for the quota of queue {queue}: {exceeded[1]}" if exceeded else f"{_REASON}: {said}"
