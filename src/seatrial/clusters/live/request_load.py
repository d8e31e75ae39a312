"""The requests of a trial's load, and the identities that send them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from seatrial.clusters.live.session import Session
from seatrial.clusters.requests.metrics_scraper import MetricsScraper
from seatrial.clusters.requests.request_phases import Acting, RequestPhases
from seatrial.clusters.requests.role_bindings import RoleBindings
from seatrial.kube import Client, ClientIdentity, Impersonation
from seatrial.kube.resources import CLUSTER_ROLE_BINDINGS
from seatrial.model.interfaces import Tally
from seatrial.scenario.actions.send_requests import Requester, Requests
from seatrial.scenario.actions.wait import WaitForObjects

SCRAPE_EVERY_S = 1.0  # of the server and the machine while a load runs


def user_of(identity: Requester, namespace: str) -> str:
    """Username the API server sees; empty for our own."""
    account = identity.service_account
    return identity.user or (f"system:serviceaccount:{namespace}:{account}" if account else "")


def impersonation(session: Session) -> Acting:
    """Clients that impersonate an identity."""

    async def client_as(identity: Requester, connections: int) -> Client:
        agent = ClientIdentity(identity.name, identity.user_agent)
        if user := user_of(identity, session.namespace):
            agent = msgspec.structs.replace(agent, impersonate=Impersonation(user, groups=identity.groups))
        return Client(session.client.access, connections=connections, identity=agent)

    return client_as


def apiserver_scraper(session: Session) -> MetricsScraper | None:
    """Scrapes the API server's own figures while a load runs, where it lets us."""
    if not session.trial.phases(Requests):
        return None
    server = Client(session.client.access, connections=1)
    return MetricsScraper(session.directory, {"kube-apiserver": server}, dict, SCRAPE_EVERY_S, ours=False)


class RequestLoad:
    """`client_as` gives an identity a client of its own. `namespaces`: where identities may do everything; none means the whole
    cluster, because it is ours. `before` is awaited before the phases are prepared."""

    def __init__(
        self,
        session: Session,
        client_as: Acting,
        namespaces: Sequence[str] = (),
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.phases: RequestPhases | None = None  # there if the trial has requests to send
        self._session, self._client_as, self._namespaces, self._before = session, client_as, namespaces, before
        self._bindings: RoleBindings

    async def prepare(self) -> None:
        """Namespaces, watches and whatever else the phases need; nothing if there are none."""
        session = self._session
        if not session.trial.phases(Requests):
            return
        self._bindings = RoleBindings(session.client, session.namespace, session.labels)
        self.phases = RequestPhases(
            session.trial, session.client, self._acting, session.labels, session.namespace, session.directory,
            session.break_off, session.cluster_kinds, session.machines,
        )  # fmt: skip
        if self._before:
            await self._before()
        await self.phases.prepare()

    async def _acting(self, identity: Requester, connections: int) -> Client:
        if user := user_of(identity, self._session.namespace):
            if not self._namespaces:
                self._session.cluster_kinds.add(CLUSTER_ROLE_BINDINGS)
            await self._bindings.give(user, self._namespaces)
        return await self._client_as(identity, connections)

    def begin(self) -> None:
        """The trial's time begins."""
        if self.phases:
            self.phases.epoch = self._session.observer.epoch

    async def run(self, phase: Requests) -> Tally:
        """Sends all requests of the phase."""
        assert self.phases is not None
        return await self.phases.run(phase)

    async def until(self, until: WaitForObjects, told: Callable[[int], None]) -> None:
        """Waits for what was created."""
        assert self.phases is not None
        await self.phases.until(until, told)

    def sent(self) -> int:
        """How many requests were sent."""
        return self.phases.sent if self.phases else 0

    async def stop(self) -> None:
        """Ends the watches of what was created."""
        if self.phases:
            await self.phases.stop()

    def close(self) -> None:
        """Closes the log of requests."""
        if self.phases:
            self.phases.close()

    async def remove(self) -> None:
        """Deletes the namespaces of the load, on a cluster that stays."""
        if self.phases:
            await self.phases.remove()
