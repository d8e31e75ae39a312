"""An admission webhook that only delays: requests stay in flight inside the API server and cost it no CPU.

It allows every request after the delay. It serves HTTP/1.1 on loopback, with a certificate that its configuration trusts. The API
server calls it only for objects of the load written by the load's users, so nothing else in the cluster waits.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from seatrial.model.labels import PHASE_LABEL
from seatrial.model.plan import Delay
from seatrial.model.units import SECOND

TIMEOUT_S = 30  # the maximum of the API
NAME = "hold.seatrial.dev"


class _Asked(msgspec.Struct):
    uid: str


class _Review(msgspec.Struct):
    request: _Asked


_review = msgspec.json.Decoder(_Review)


class _Connection(asyncio.Protocol):
    """One connection of the API server, one request at a time."""

    def __init__(self, webhook: DelayWebhook) -> None:
        self._webhook = webhook
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._webhook.connections.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._webhook.connections.discard(self._transport)
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        if not end:
            return
        lines = head.lower().split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
        if len(rest) < length:
            return
        del self._buffer[: len(head) + 4 + length]
        asyncio.get_running_loop().call_later(self._webhook.delay / SECOND, self._answer, rest[:length])
        self._webhook.held += 1

    def _answer(self, body: bytes) -> None:
        self._webhook.held -= 1
        if self._transport is None:
            return
        try:
            uid = _review.decode(body).request.uid
        except msgspec.MsgspecError:
            self._transport.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            return
        response = {"uid": uid, "allowed": True}
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        answer = msgspec.json.encode(review)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(answer)
        self._transport.write(head + answer)
        self._webhook.answered += 1


class DelayWebhook:
    """The webhook's server, on a free port of loopback."""

    def __init__(self, delay: int, certificate: Path, key: Path) -> None:
        self.delay = delay
        self.held = 0
        self.answered = 0
        self.connections: set[Any] = set()
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificate, key)
        self._context.set_alpn_protocols(["http/1.1"])
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        """Listens on `port`."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self), "127.0.0.1", 0, ssl=self._context, backlog=4096
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Closes all connections."""
        if self._server:
            self._server.close()
            for transport in list(self.connections):
                transport.abort()


def configuration(
    delay: Delay, port: int, authority: bytes, labels: Mapping[str, str], phases: Sequence[str], users: Sequence[str]
) -> dict[str, Any]:
    """The webhook configuration. If the webhook cannot be reached, requests fail, so that it is noticed."""
    kind = "Validating" if delay.webhook == "validating" else "Mutating"
    named = ", ".join(f"'{user}'" for user in users)
    webhook: dict[str, Any] = {
        "name": NAME,
        "clientConfig": {"url": f"https://127.0.0.1:{port}/hold", "caBundle": base64.b64encode(authority).decode()},
        "rules": [
            {
                "operations": ["CREATE", "UPDATE"],
                "apiGroups": ["*"],
                "apiVersions": ["*"],
                "resources": ["*"],
                "scope": "*",
            }
        ],
        "objectSelector": {
            "matchLabels": dict(labels),
            "matchExpressions": [{"key": PHASE_LABEL, "operator": "In", "values": list(phases)}],
        },
        "matchConditions": [{"name": "load", "expression": f"request.userInfo.username in [{named}]"}],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_S,
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": NAME, "labels": dict(labels)},
        "webhooks": [webhook],
    }
