"""Makes a connection: TCP, CONNECT through a proxy, TLS; and explains in plain words why it failed.

A failed connection has a dozen causes with a dozen remedies. The layers below report them in their own terms
(`gaierror`, `WRONG_VERSION_NUMBER`, `certificate verify failed`), which are translated here.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Any, TypeVar

from seatrial.kube.api_errors import Unreachable
from seatrial.kube.config import Access
from seatrial.kube.proxies import Proxy

P = TypeVar("P", bound=asyncio.BaseProtocol)

KEEPALIVE = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))  # detects a dead peer after 35 s
TIMEOUT_S = 10.0


async def dial(access: Access, make: Callable[[], P], context: ssl.SSLContext | None) -> P:
    """A connected protocol, or `Unreachable` with cause and remedy. `context` is that of `access`, kept by the pool."""
    loop = asyncio.get_running_loop()
    name = (access.server_name or access.host) if context is not None else None
    try:
        async with asyncio.timeout(TIMEOUT_S):
            if access.proxy is None:
                transport, protocol = await loop.create_connection(
                    make, access.host, access.port, ssl=context, server_hostname=name
                )
            else:
                transport, protocol = await _through(access.proxy, access, make, context, name)
    except (OSError, TimeoutError, EOFError) as error:  # ssl.SSLError is an OSError
        raise _unreachable(access, error) from None
    _keep_alive(transport)
    return protocol


def _keep_alive(transport: asyncio.BaseTransport) -> None:
    """A watch may be silent for minutes; without keepalive a vanished peer would never be noticed."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE:
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class _Tunnel(asyncio.Protocol):
    """Reads a proxy's answer to CONNECT, and nothing after it."""

    def __init__(self, answer: asyncio.Future[bytes]) -> None:
        self.answer = answer
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data
        if b"\r\n\r\n" in self.data and not self.answer.done():
            self.answer.set_result(self.data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_exception(exc or ConnectionResetError("the proxy closed the connection"))


async def _through(
    proxy: Proxy, access: Access, make: Callable[[], P], context: ssl.SSLContext | None, name: str | None
) -> tuple[asyncio.Transport, P]:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()
    outer = ssl.create_default_context() if proxy.tls else None
    transport, _ = await loop.create_connection(
        lambda: _Tunnel(answer), proxy.host, proxy.port, ssl=outer, server_hostname=proxy.host if proxy.tls else None
    )
    try:
        host = f"[{access.host}]" if ":" in access.host else access.host
        credentials = f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
        transport.write(
            f"CONNECT {host}:{access.port} HTTP/1.1\r\nHost: {host}:{access.port}\r\n{credentials}\r\n".encode()
        )
        line = (await answer).split(b"\r\n", 1)[0].decode("latin-1")
        if line[9:10] != "2":
            remedy = "give user and password in the proxy's URL" if line[9:12] == "407" else "check the proxy's rules"
            raise Unreachable(
                f"{access.place}: the proxy {proxy} refuses to connect to {access.server}: {line}", remedy
            )
        protocol = make()
        if context is None:
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
            return transport, protocol
        inner = await loop.start_tls(transport, protocol, context, server_hostname=name)
        if inner is None:
            raise ConnectionResetError("the connection ended during the TLS handshake")
        protocol.connection_made(inner)
        return inner, protocol
    except BaseException:
        transport.abort()
        raise


def _unreachable(access: Access, error: BaseException) -> Unreachable:
    what, remedy = _explain(access, error)
    way = f" through the proxy {access.proxy}" if access.proxy else ""
    where = f"{access.place}: " if access.place else ""
    return Unreachable(f"{where}no connection to {access.server}{way}: {what}", remedy)


def _explain(access: Access, error: BaseException) -> tuple[str, str]:
    match error:
        case ssl.SSLCertVerificationError():
            return _verification(access, error)
        case ssl.SSLError() if "WRONG_VERSION_NUMBER" in str(error) or "HTTP_REQUEST" in str(error):
            return "the server does not speak TLS", "check the port and whether the address begins with https://"
        case ssl.SSLError():
            return f"TLS failed: {error.reason or error}", "check that this is the address of an API server"
        case socket.gaierror():
            return "its name is not known", "check the address, DNS, and whether a VPN is needed"
        case ConnectionRefusedError():
            return "nothing listens there", "start the cluster, or correct the address in the kubeconfig"
        case TimeoutError():
            return f"no answer within {TIMEOUT_S:g} s", "check that the cluster runs and that no firewall is in the way"
        case _:
            said: Any = getattr(error, "strerror", None) or error
            return f"{said or type(error).__name__}", "check that the cluster runs and the network to it is up"


def _verification(access: Access, error: ssl.SSLCertVerificationError) -> tuple[str, str]:
    said = error.verify_message
    if "expired" in said or "not yet valid" in said:
        return (
            f"the server's certificate: {said}",
            "renew the server's certificate, and check the clock of this machine",
        )
    if "ostname" in said or "IP address" in said:
        return f"the server's certificate is for another name: {said}", "set tls-server-name in the kubeconfig"
    source = "the kubeconfig's certificate-authority" if access.authority else "this system"
    return f"the server's certificate is not trusted by {source}: {said}", "put the cluster's CA in the kubeconfig"
