"""What a load of requests gets on an API server that is ours: flow objects, a webhook that delays writes, and identities with
certificates or tokens of their own."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec

from seatrial.clusters.live.session import Session
from seatrial.clusters.local.certificates import WEBHOOKS
from seatrial.clusters.local.plane import LocalControlPlane
from seatrial.clusters.requests import flow_control
from seatrial.clusters.requests.delay_webhook import DelayWebhook, configuration
from seatrial.clusters.requests.request_phases import Acting
from seatrial.kube import Access, Client, ClientIdentity, access_from
from seatrial.kube.resources import SERVICE_ACCOUNTS, create
from seatrial.model import control_plane
from seatrial.scenario.actions.send_requests import Requester, Requests

TOKEN_S = 24 * 3600


class LoadSetup:
    """The flow objects of the set-up, and the webhook for its `delay`. `users` are those that the load acts as."""

    def __init__(self, session: Session, plane: LocalControlPlane, users: Sequence[str]) -> None:
        self._session, self._plane, self._users = session, plane, users
        self._webhook: DelayWebhook | None = None

    async def prepare(self) -> None:
        """Before the first request."""
        session, setup = self._session, self._session.trial.setup
        await flow_control.apply(session.client, setup, session.labels)
        if setup.delay is None:
            return
        layout = self._plane.layout
        self._webhook = DelayWebhook(setup.delay.duration, layout.certificate(WEBHOOKS), layout.key(WEBHOOKS))
        await self._webhook.start()
        phases = setup.delay.of or tuple(
            phase.name for phase in session.trial.phases(Requests) if phase.verb == "create"
        )
        authority = layout.ca.read_bytes()
        body = configuration(setup.delay, self._webhook.port, authority, session.labels, phases, self._users)
        kind = await session.client.resource_of(body["apiVersion"], body["kind"])
        await session.client.create(kind, body, body["metadata"]["name"])

    async def stop(self) -> None:
        """Stops the webhook, if there is one."""
        if self._webhook:
            await self._webhook.stop()


class _TokenStatus(msgspec.Struct):
    token: str


class _TokenRequest(msgspec.Struct):
    status: _TokenStatus


def logins(session: Session, plane: LocalControlPlane) -> Acting:
    """Clients that log in as an identity: with a certificate of its own, or a token of its service account."""
    known: dict[str, Access] = {}  # identities that have a certificate

    async def client_as(identity: Requester, connections: int) -> Client:
        access = session.client.access
        if identity.service_account:
            access = access.with_token(await _token(session, identity.service_account))
        elif identity.user:
            name = f"load-{zlib.crc32(repr((identity.user, identity.groups)).encode()):08x}"
            if name not in known:
                one = control_plane.Identity(name, identity.user, identity.groups)
                known[name] = access_from(plane.add_identity(one))
            access = known[name]
        agent = ClientIdentity(identity.name, identity.user_agent)
        return Client(access, connections=connections, identity=agent)

    return client_as


async def _token(session: Session, name: str) -> str:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "labels": session.labels}}
    await session.client.create(SERVICE_ACCOUNTS, account, name, session.namespace)
    wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
              "spec": {"expirationSeconds": TOKEN_S}}  # fmt: skip
    request = create(SERVICE_ACCOUNTS, wanted, name, session.namespace, subresource="token")
    return (await session.client.ask(request, _TokenRequest)).status.token
