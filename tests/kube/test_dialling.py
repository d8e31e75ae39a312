"""Why there is no connection: each cause in its own words, with what to do about it."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from typing import Any

import pytest

from seatrial.kube import Access, Client, RetryPolicy
from seatrial.kube.credentials import Credentials
from seatrial.kube.proxies import Proxy
from seatrial.model.errors import SetupProblem

VERSION = b'{"gitVersion": "v1.36.3"}'


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


async def probe(access: Access) -> str:
    async with Client(access) as client:
        return await client.probe()


def refused(run: Any, access: Access) -> SetupProblem:
    with pytest.raises(SetupProblem) as caught:
        run(probe(access))
    assert caught.value.exit_status == 3
    assert caught.value.remedy
    return caught.value


def test_a_dead_server(run: Any) -> None:
    problem = refused(run, Access("127.0.0.1", free_port(), Credentials(), place="config:7 (cluster 'c')"))
    assert problem.message.startswith("config:7 (cluster 'c'): no connection to https://127.0.0.1:")
    assert "nothing listens there" in problem.message


def test_a_name_that_nobody_knows(run: Any) -> None:
    assert "its name is not known" in refused(run, Access("no-such.invalid", 6443, Credentials())).message


def test_a_server_that_speaks_no_tls(run: Any) -> None:
    async def hello(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def story() -> None:
        server = await asyncio.start_server(hello, "127.0.0.1", 0)
        async with server:
            await probe(Access("127.0.0.1", server.sockets[0].getsockname()[1], Credentials()))

    with pytest.raises(SetupProblem, match="does not speak TLS"):
        run(story())


@pytest.mark.parametrize(
    ("change", "name", "says"),
    [
        ({"authority": b""}, "localhost", "not trusted by this system"),
        ({}, "elsewhere.example", "for another name"),
        ({"server_name": "elsewhere.example"}, "elsewhere.example", ""),
        ({"authority": b"", "insecure": True}, "elsewhere.example", ""),
        ({}, "localhost", ""),
    ],
)
def test_which_servers_are_trusted(run: Any, peers: Any, change: dict[str, Any], name: str, says: str) -> None:
    async def story() -> str:
        async with peers.start(lambda *_: peers.http(200, VERSION), name=name) as peer:
            return await probe(replace(peers.access(peer), **change))

    if says:
        with pytest.raises(SetupProblem, match=says):
            run(story())
    else:
        assert run(story()) == "v1.36.3"


@pytest.mark.parametrize(
    ("code", "body", "says"),
    [
        (401, b'{"message": "Unauthorized"}', "does not accept the credentials of context 'here': Unauthorized"),
        (200, b"<html>log in</html>", "no API server"),
        (404, b"nothing", "no API server"),
    ],
)
def test_a_server_that_answers_but_not_to_us(run: Any, peers: Any, code: int, body: bytes, says: str) -> None:
    async def story() -> str:
        async with peers.start(lambda *_: peers.http(code, body)) as peer:
            return await probe(peers.access(peer, context="here"))

    with pytest.raises(SetupProblem, match=says):
        run(story())


def test_a_server_that_has_just_come_back_is_asked_until_it_knows_its_roles(run: Any, peers: Any) -> None:
    forbidden = b'{"message": "user has no role"}'

    async def story(answers: list[bytes], retry: RetryPolicy) -> str:
        async with (
            peers.start(lambda *_: answers.pop(0) if len(answers) > 1 else answers[0]) as peer,
            Client(peers.access(peer, context="here"), retry=retry) as client,
        ):
            return await client.probe()

    refusal = peers.http(403, forbidden)
    assert run(story([refusal, refusal, peers.http(200, VERSION)], RetryPolicy())) == "v1.36.3"
    with pytest.raises(SetupProblem, match="its version to the user of context 'here': user has no role"):
        run(story([refusal], RetryPolicy(seconds=0.3)))


# -- through a proxy


class Tunnels:
    """A proxy that knows CONNECT and nothing else."""

    def __init__(self, refuse: str = "") -> None:
        self.refuse = refuse
        self.asked: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head)
        if self.refuse:
            writer.write(f"HTTP/1.1 {self.refuse}\r\n\r\n".encode())
            writer.close()
            return
        host, port = head.split(" ")[1].rsplit(":", 1)
        there_reader, there = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        self._tasks += [
            asyncio.ensure_future(self.pump(reader, there)),
            asyncio.ensure_future(self.pump(there_reader, writer)),
        ]

    @staticmethod
    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
        except OSError:
            pass
        finally:
            writer.close()

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@pytest.mark.parametrize(
    ("refuse", "says"),
    [("", ""), ("407 Proxy Authentication Required", "refuses to connect.*407"), ("403 Forbidden", "403 Forbidden")],
)
@pytest.mark.parametrize("tls", [False, True])
def test_a_proxy_is_asked_to_connect(
    run: Any, peers: Any, monkeypatch: pytest.MonkeyPatch, refuse: str, says: str, tls: bool
) -> None:
    monkeypatch.setenv(
        "SSL_CERT_FILE", str(peers.authority.certificate)
    )  # a proxy's certificate must be known to the system
    tunnels = Tunnels(refuse)

    async def story() -> str:
        context = peers.tls("localhost") if tls else None
        server = await asyncio.start_server(tunnels.serve, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        proxy = Proxy("localhost", port, tls, "Basic dTpw", "HTTPS_PROXY")
        try:
            async with peers.start(lambda *_: peers.http(200, VERSION)) as peer:
                return await probe(peers.access(peer, proxy=proxy))
        finally:
            server.close()
            await tunnels.end()
            await asyncio.sleep(0.02)

    if says:
        with pytest.raises(SetupProblem, match=says):
            run(story())
    else:
        assert run(story()) == "v1.36.3"
    assert tunnels.asked[0].startswith("CONNECT 127.0.0.1:")
    assert "Proxy-Authorization: Basic dTpw\r\n" in tunnels.asked[0]


def test_a_dead_proxy_is_named(run: Any) -> None:
    proxy = Proxy("127.0.0.1", free_port(), False, "", "HTTPS_PROXY")
    problem = refused(run, Access("10.255.255.1", 6443, Credentials(), proxy=proxy))
    assert "through the proxy 127.0.0.1" in problem.message
    assert "nothing listens there" in problem.message
