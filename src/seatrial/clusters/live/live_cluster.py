"""Any real API server as a cluster, made of parts: host, submitter, nodes, watches, requests and placement.

`local` and `attached` choose the parts; nothing is overridden here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from seatrial.clusters.access.applying import make_namespaces
from seatrial.clusters.live.client_priority import USUAL, ahead
from seatrial.clusters.live.live_validity import validity_of
from seatrial.clusters.live.node_pool import NodePool
from seatrial.clusters.live.request_load import RequestLoad
from seatrial.clusters.live.session import Session, priorities
from seatrial.clusters.live.submitter import WorkloadSubmitter
from seatrial.clusters.live.watched_state import state_of
from seatrial.clusters.live.watches import Watches
from seatrial.clusters.requests.metrics_scraper import MetricsScraper
from seatrial.model.interfaces import Tally
from seatrial.model.lifecycle import SCHEDULED
from seatrial.model.load import Load
from seatrial.model.plan import Workload
from seatrial.model.state import State, WorkloadState
from seatrial.observe import time_sources
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.send_requests import Requests
from seatrial.scenario.actions.wait import WaitForObjects

T = TypeVar("T")


class Host(Protocol):
    """The host of a trial's API server: provides it, and removes it."""

    async def connect(self) -> None:
        """Brings the API server up, if it is ours, and connects the session to it."""

    def kubeconfig(self) -> str:
        """The file that a `submit.command` of the user's gets; empty: the usual one."""

    def scraper(self) -> MetricsScraper | None:
        """Scrapes the figures of the components that let us; None: nobody asked for them."""

    def target(self) -> dict[str, Any]:
        """For trial.json: the location of the trial's objects; empty if none outlives the trial."""

    async def leave(self) -> None:
        """Removes what the trial made, or the whole control plane. Safe if `connect` failed."""


def _as_written(thing: T) -> T:
    return thing


@dataclass(frozen=True, slots=True)
class Placement:
    """How the nodes and pods of a trial are kept apart from those of others. Without it the cluster is the trial's alone."""

    workload: Callable[[Workload], Workload] = _as_written
    requests: Callable[[Requests], Requests] = _as_written
    nodes: Callable[[NodeChange], NodeChange] = _as_written
    group: Callable[[str], str] = _as_written  # name of a node group → what the scenario calls it
    preempts: bool = True  # pods of a higher priority evict others: not where these may belong to other users


class LiveCluster:
    """One trial on one API server.

    `plays`: the applications on fake nodes are ours to play. `dead` tells which components should run and do not. `explain` turns
    an error of the set-up into the one to raise.
    """

    def __init__(
        self,
        session: Session,
        host: Host,
        nodes: NodePool,
        requests: RequestLoad,
        placement: Placement | None = None,
        *,
        plays: bool = True,
        dead: Callable[[], list[str]] = list,
        explain: Callable[[BaseException], BaseException] = _as_written,
    ) -> None:
        self._session, self._host, self._nodes, self._requests = session, host, nodes, requests
        self._placement = placement or Placement()
        self._submitter = WorkloadSubmitter(session, self._placement.workload)
        self._watches = Watches(session, plays=plays)
        self._scraper: MetricsScraper | None = None
        self._priority = USUAL
        self._dead, self._explain = dead, explain
        self.ledger, self.now, self.broken = session.ledger, session.now, session.broken
        self.sent, self.target = requests.sent, host.target

    @property
    def wall_epoch(self) -> int:
        """The trial's epoch on the wall clock, in ns; 0 before it."""
        return self._session.wall_epoch

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        import uvloop

        with ahead() as self._priority, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.get_loop().set_exception_handler(_without_noise)
            return runner.run(main)

    async def up(self) -> None:
        """The caller calls `down` in any case, so that nothing is left after a problem."""
        try:
            await self._up()
        except BaseException as error:
            problem = self._explain(error)
            if problem is error:
                raise
            raise problem from error

    async def _up(self) -> None:
        session = self._session
        session.begin()
        await self._host.connect()
        namespaces = [session.namespace, *session.queue_namespaces]
        await make_namespaces(session.client, namespaces, session.labels)
        await self._make_priority_classes()
        self._submitter.connect(self._host.kubeconfig())
        await self._nodes.add(*session.trial.setup.nodes)
        await self._nodes.count_existing()
        await self._prepare_stack()
        if session.machines:
            await session.machines.start()
        await self._requests.prepare()
        await self._watches.sync()
        session.start_clock()
        self._requests.begin()
        self._scraper = self._host.scraper()
        if self._scraper:
            self._scraper.epoch = session.observer.epoch
            session.spawn(self._scraper.run())
        self._nodes.begin()
        self._watches.begin()

    async def _make_priority_classes(self) -> None:
        session, preempt = self._session, self._placement.preempts
        setup, values = session.trial.setup, priorities(session.trial)
        await session.apply(session.stack.real.priority_classes(setup, values, session.labels, preempt=preempt))

    async def _prepare_stack(self) -> None:
        """Prepares the objects that the stack needs beside its processes, for the current nodes."""
        session = self._session
        setup, capacity = session.trial.setup, self._nodes.capacity()
        await session.apply(session.stack.real.prepare(setup, capacity, session.labels, session.namespace))

    async def load(self, load: Load) -> Tally:
        return await self._submitter.load(load)

    async def delete(self, what: DeleteWorkloads) -> None:
        await self._submitter.delete(what)

    async def until(self, until: WaitForObjects, told: Callable[[int], None]) -> None:
        await self._requests.until(until, told)

    async def requests(self, phase: Requests) -> Tally:
        return await self._requests.run(self._placement.requests(phase))

    async def nodes(self, change: NodeChange) -> None:
        placed = self._placement.nodes(change)
        if placed.add:
            await self._nodes.add(placed.add)
        else:
            await self._nodes.change(placed)
        if placed.add or placed.change == "remove":
            await self._prepare_stack()

    def state(self) -> State:
        session, nodes = self._session, self._nodes
        fleet = session.trial.setup.fleet
        quota = None if fleet.queues else session.stack.quota(session.trial.setup.settings, nodes.capacity())
        state = state_of(
            self.now(),
            session.observer,
            self._submitter.workloads,
            nodes.groups,
            nodes.closed,
            quota,
            self._dead(),
        )
        return replace(state, fleet=fleet, counts_bound=session.stack.quota_from == SCHEDULED.name)

    def holders(self) -> tuple[int, Sequence[WorkloadState]]:
        workloads = self.state().workloads
        return len(workloads), workloads

    def at_rest(self) -> bool:
        return False

    def node_spans(self) -> list[dict[str, Any]]:
        return [{**span, "group": self._placement.group(span["group"])} for span in self._nodes.spans()]

    def sources(self) -> list[dict[str, Any]]:
        """An audit log has no gaps: what a watch missed is there."""
        error = self._session.watch_error
        return time_sources.table(error, self._watches.longest_gap() if error is None else 0)

    def validity(self) -> dict[str, Any]:
        return validity_of(self._session, self._watches, self._requests, self._scraper, self._priority)

    async def down(self) -> None:
        self._session.stop_clock()
        await self._session.stop_tasks()
        await self._watches.stop()
        await self._requests.stop()
        if self._session.machines:
            await self._session.machines.stop()
        if self._scraper:
            await self._scraper.finish()
        try:
            await self._host.leave()
        finally:
            self._requests.close()


def _without_noise(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """uvloop prints a traceback when a connection is given up during its TLS handshake."""
    if not str(context.get("message", "")).startswith("Fatal error on SSL protocol"):
        loop.default_exception_handler(context)
