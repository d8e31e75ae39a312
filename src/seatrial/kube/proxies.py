"""The proxy of a server: `proxy-url` of the kubeconfig, else HTTPS_PROXY and NO_PROXY by the rules of Go.

The rules of Go, because users set these variables for kubectl, and a tool that reads NO_PROXY differently hangs where
kubectl works.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from seatrial.model.errors import SetupProblem


@dataclass(frozen=True, slots=True)
class Proxy:
    """Address and credentials of a proxy that takes CONNECT."""

    host: str
    port: int
    tls: bool
    authorization: str
    place: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port} ({self.place})"


def parse_proxy(url: str, place: str) -> Proxy:
    """The proxy of this URL; `place` is where the URL was given, for errors."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
        parts = urlsplit("")
    if not host or parts.scheme not in ("http", "https"):
        raise SetupProblem(f"{place}: '{url}' is not the URL of a proxy", "write it like http://proxy.example:3128")
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    tls = parts.scheme == "https"
    return Proxy(host, port or (443 if tls else 80), tls, authorization, place)


def proxy_for(host: str, port: int, environ: Mapping[str, str]) -> Proxy | None:
    """The proxy of a TLS server by the environment variables."""
    for name in ("HTTPS_PROXY", "https_proxy"):
        if environ.get(name):
            excluded = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
            return None if bypasses(host, port, excluded) else parse_proxy(environ[name], name)
    return None


def bypasses(host: str, port: int, excluded: str) -> bool:
    """Whether NO_PROXY excludes the server. Entries are `*`, names with their subdomains, `.subdomains` alone,
    addresses and networks, each with an optional port."""
    host = host.lower().rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_excludes(entry.strip().lower(), host, port, address) for entry in excluded.split(",") if entry.strip())


def _excludes(entry: str, host: str, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, colon, last = entry.rpartition(":")
    if colon and last.isdigit() and ("]" in name or ":" not in name):
        if int(last) != port:
            return False
        entry = name
    entry = entry.strip("[]")
    if address is not None:
        try:
            return ipaddress.ip_address(entry) == address
        except ValueError:
            return False
    entry = entry.removeprefix("*")
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")
