"""From a kubeconfig to all that a connection needs: server, proxy, credentials, trusted authority.

`access_from` makes all checks that need no network, so that a wrong file, an unknown context or an expired certificate
is reported before anything is started.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from seatrial.kube.credentials import Certificate, Credentials, TokenFile, basic, bearer
from seatrial.kube.kubeconfig import Section, read_kubeconfig
from seatrial.kube.plugins import ExecPlugin, PluginCredentials
from seatrial.kube.proxies import Proxy, parse_proxy, proxy_for
from seatrial.model.errors import SetupProblem


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user to impersonate. Our own user needs permission for that."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def headers(self) -> list[tuple[str, str]]:
        """The Impersonate-* headers."""
        pairs = [("Impersonate-User", self.user), ("Impersonate-Uid", self.uid)]
        pairs += [("Impersonate-Group", group) for group in self.groups]
        for key, values in self.extra.items():
            pairs += [(f"Impersonate-Extra-{quote(key.lower(), safe='')}", value) for value in values]
        return [(name, value) for name, value in pairs if value]


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach one API server, and with which credentials."""

    host: str
    port: int
    credentials: Credentials
    tls: bool = True
    prefix: str = ""  # path prefix of all requests (Rancher has one)
    authority: bytes = b""  # PEM; empty: the system's authorities
    insecure: bool = False
    server_name: str = ""
    proxy: Proxy | None = None
    impersonate: Impersonation = Impersonation()
    namespace: str = "default"
    context: str = ""
    place: str = ""  # file and line of the server's address, for errors

    @property
    def server(self) -> str:
        """The server's URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.tls else ''}://{host}:{self.port}{self.prefix}"

    def with_token(self, token: str) -> Access:
        """The same server with this token, without our certificate: the server would prefer that one."""
        return replace(
            self, credentials=Credentials(None, bearer(token, "the token given")), impersonate=Impersonation()
        )

    def tls_context(self) -> ssl.SSLContext:
        """The TLS context of new connections, with the certificate that is valid now."""
        try:
            context = ssl.create_default_context(cadata=self.authority.decode("latin-1") or None)
        except ssl.SSLError:
            raise SetupProblem(
                f"{self.place}: the certificate authority is not PEM", "get it again from the cluster's administrator"
            ) from None
        # Python 3.13 refuses authorities without a key identifier, which Go accepts and many clusters have.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.credentials.certificate is not None:
            _add(context, self.credentials.certificate)
        context.set_alpn_protocols(["http/1.1"])
        return context


def _add(context: ssl.SSLContext, certificate: Certificate) -> None:
    """`ssl` reads certificates from files only; this file is private and removed before the call returns."""
    descriptor, name = tempfile.mkstemp(prefix="seatrial-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate.chain.rstrip() + b"\n" + certificate.key)
        context.load_cert_chain(name)
    except ssl.SSLError as error:
        raise SetupProblem(
            f"{certificate.place}: client certificate and key do not fit together ({error.reason or 'not PEM'})",
            "log in to the cluster again: that writes both",
        ) from None
    finally:
        Path(name).unlink()


def access_from(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    must_name: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Access:
    """The access that a kubeconfig describes. With `must_name`, the context must be named.

    `--on kubeconfig` passes `must_name`: a foreign cluster is never chosen by default.
    """
    environ = os.environ if environ is None else environ
    merged = read_kubeconfig(kubeconfig, environ)
    name, entry = merged.context(context, must_name=must_name)
    cluster_name, cluster = merged.cluster(entry)
    _, user = merged.user(entry)
    host, port, tls, prefix = _server(cluster)
    place = f"{cluster.where('server')} (cluster '{cluster_name}')"
    proxy_url = cluster.text("proxy-url")
    if proxy_url:
        proxy: Proxy | None = parse_proxy(proxy_url, cluster.where("proxy-url"))
    else:
        proxy = proxy_for(host, port, environ) if tls else None
    insecure = cluster.flag("insecure-skip-tls-verify")
    authority = cluster.data("certificate-authority")
    access = Access(
        host, port, Credentials(), tls, prefix, authority, insecure, cluster.text("tls-server-name"), proxy,
        _impersonation(user), entry.text("namespace") or "default", name, place,
    )  # fmt: skip
    access = replace(access, credentials=_credentials(user, access))
    if tls:
        access.tls_context()  # reports an unusable authority or key now, not at the first request
    return access


def _server(cluster: Section) -> tuple[str, int, bool, str]:
    server = cluster.text("server")
    where = cluster.where("server")
    try:
        parts = urlsplit(server if "://" in server else f"https://{server}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if not server or not host or parts.scheme not in ("https", "http"):
        raise SetupProblem(f"{where}: '{server}' is not the address of a server", "write it like https://10.0.0.1:6443")
    tls = parts.scheme == "https"
    return host, port or (443 if tls else 80), tls, parts.path.rstrip("/")


def _credentials(user: Section | None, access: Access) -> Credentials:
    if user is None:
        return Credentials()
    certificate = None
    chain, key = user.data("client-certificate"), user.data("client-key")
    if bool(chain) != bool(key):
        lacks = "client-key" if chain else "client-certificate"
        raise SetupProblem(f"{user.place}: the user has no {lacks}", "a certificate needs its key; log in again")
    if chain:
        certificate = Certificate(chain, key, user.where("client-certificate-data", "client-certificate"))
    token_file = user.path("tokenFile")
    if token_file is not None:
        return TokenFile(token_file, user.where("tokenFile"), certificate)
    if user.text("token"):
        return Credentials(certificate, bearer(user.text("token"), user.where("token")))
    if user.text("username"):
        return Credentials(certificate, basic(user.text("username"), user.text("password")))
    plugin = user.section("exec")
    if plugin is not None:
        return PluginCredentials(ExecPlugin.of(plugin, _cluster_info(access)))
    if user.section("auth-provider") is not None:
        raise SetupProblem(
            f"{user.where('auth-provider')}: 'auth-provider' was removed in Kubernetes 1.26",
            "log in with a current version of your provider's tool; it writes an exec plugin instead",
        )
    return Credentials(certificate)


def _cluster_info(access: Access) -> dict[str, Any]:
    """The cluster as a plugin with `provideClusterInfo` gets it."""
    info: dict[str, Any] = {
        "server": access.server,
        "tls-server-name": access.server_name,
        "insecure-skip-tls-verify": access.insecure,
        "certificate-authority-data": access.authority,  # msgspec encodes bytes as base64, as the API does
    }
    return {key: value for key, value in info.items() if value}


def _impersonation(user: Section | None) -> Impersonation:
    if user is None:
        return Impersonation()
    extra = user.section("as-user-extra")
    return Impersonation(
        user.text("as"), user.text("as-uid"), tuple(user.texts("as-groups")),
        {key: tuple(extra.texts(key)) for key in extra.names()} if extra is not None else {},
    )  # fmt: skip
