"""A real control plane for what one can show, and a scripted peer for what it cannot be made to show."""

from __future__ import annotations

import asyncio
import datetime
import os
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from seatrial.kube import Access, Client, access_from
from seatrial.kube.credentials import Credentials

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest) -> Run[Any]:
    """Runs a coroutine on either event loop: the transport must work on both."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else None

    def run_one(main: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(main)

    return run_one


# -- a real control plane


@dataclass(frozen=True)
class ControlPlane:
    url: str
    kubeconfig: Path
    kill: Callable[[str], None]  # kill -9 of a component, which the supervisor then starts anew

    @property
    def access(self) -> Access:
        return access_from(self.kubeconfig)


@pytest.fixture(scope="session")
def clusters() -> Iterator[Callable[..., ControlPlane]]:
    """Starts control planes."""
    from seatrial.clusters import programs
    from seatrial.clusters.access import kept_clusters
    from seatrial.clusters.local import kept_planes
    from seatrial.clusters.local.components import PlaneOptions
    from seatrial.clusters.programs.binaries import ensure_binaries
    from seatrial.model.control_plane import Override

    names: list[str] = []

    def start(name: str, *args: str) -> ControlPlane:
        binaries = ensure_binaries(programs.CONTROL_PLANE)
        overrides = {"kube-apiserver": Override(args=args)} if args else None
        cluster = kept_planes.up(name, PlaneOptions(audit=False, overrides=overrides), binaries)
        names.append(name)

        def kill(component: str) -> None:
            os.kill(kept_clusters.find(name).pids[component], signal.SIGKILL)

        return ControlPlane(cluster.url, cluster.kubeconfig(), kill)

    try:
        yield start
    finally:
        for name in names:
            kept_planes.down(name)


@pytest.fixture(scope="session")
def control_plane(clusters: Callable[..., ControlPlane]) -> ControlPlane:
    return clusters("kube-tests")


# -- certificates and a scripted peer


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority for one test session."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = folder / f"{name}.crt"
        built = self._builder(self._name, self._key.public_key(), 1).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self.certificate.write_bytes(built.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePublicKey, days: int) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=9))
            .not_valid_after(now + datetime.timedelta(days=days))
        )

    def issue(self, name: str, *, days: int = 1) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = [x509.DNSName(name), *([x509.IPAddress(ip_address("127.0.0.1"))] if name == "localhost" else [])]
        built = self._builder(subject, key.public_key(), days).add_extension(
            x509.SubjectAlternativeName(names), critical=False
        )
        pair = Pair(self.folder / f"{name}{days}.crt", self.folder / f"{name}{days}.key")
        pair.certificate.write_bytes(built.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return pair


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"), "authority")


CUT = object()  # instead of an answer: the connection is closed
SILENCE = object()  # instead of an answer: nothing


@dataclass
class Peer:
    """Answers each request by a function, and remembers what was asked and on how many connections."""

    answer: Callable[[str, str, bytes], object]
    port: int = 0
    asked: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                method, path, _ = head.split("\r\n", 1)[0].split(" ")
                length = next((int(x[15:]) for x in head.split("\r\n") if x.startswith("Content-Length")), 0)
                body = await reader.readexactly(length)
                self.asked.append(f"{method} {path}")
                self.heads.append(head)
                answer = self.answer(method, path, body)
                if answer is SILENCE:
                    await asyncio.sleep(60)
                if not isinstance(answer, bytes):
                    return
                writer.write(answer)
                if b"\r\nConnection: close" in answer or b"CUT" in answer:
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError, ssl.SSLError):
            pass
        finally:
            writer.close()


def http(code: int, body: bytes = b"{}", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {code} Reason", f"Content-Length: {len(body)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


@dataclass(frozen=True)
class Peers:
    """Makes peers. `http` builds an answer; CUT and SILENCE are the lack of one."""

    authority: Authority
    http: Callable[..., bytes] = http
    cut: object = CUT
    silence: object = SILENCE

    def tls(self, name: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = self.authority.issue(name)
        context.load_cert_chain(pair.certificate, pair.key)
        return context

    @asynccontextmanager
    async def start(
        self, answer: Callable[[str, str, bytes], object], *, port: int = 0, name: str = "localhost"
    ) -> AsyncIterator[Peer]:
        peer = Peer(answer)
        context = self.tls(name)
        tasks: set[asyncio.Task[None]] = set()

        def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(peer.serve(reader, writer))
            tasks.add(task)

        server = await asyncio.start_server(met, "127.0.0.1", port, ssl=context)
        peer.port = server.sockets[0].getsockname()[1]
        try:
            yield peer
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0.02)

    @asynccontextmanager
    async def client(
        self, answer: Callable[[str, str, bytes], object], **settings: Any
    ) -> AsyncIterator[tuple[Client, Peer]]:
        async with self.start(answer) as peer, Client(self.access(peer), **settings) as client:
            yield client, peer

    def access(self, peer: Peer, credentials: Credentials | None = None, **more: Any) -> Access:
        return Access(
            "127.0.0.1", peer.port, credentials or Credentials(), authority=self.authority.certificate.read_bytes(),
            place="config:1", **more,
        )  # fmt: skip


@pytest.fixture
def peers(authority: Authority) -> Peers:
    return Peers(authority)
