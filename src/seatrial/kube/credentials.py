"""Credentials, and their renewal.

Tokens expire during a long run: token files are rotated, plugins issue tokens for fifteen minutes. Before a request is
sent, `fresh()` is asked (a comparison), and `refresh()` is called if the answer is no, or after a 401.
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from seatrial.model.errors import SetupProblem

LOOK_AGAIN = 5.0  # seconds between two reads of a token file


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate with its key, as PEM, and their place in the kubeconfig."""

    chain: bytes
    key: bytes
    place: str

    def check(self) -> None:
        """Raises for an expired or unreadable certificate; a TLS alert would say less."""
        try:
            certificate = x509.load_pem_x509_certificates(self.chain)[0]
        except ValueError:
            raise SetupProblem(
                f"{self.place}: the client certificate is not PEM", "log in to the cluster again"
            ) from None
        now = datetime.now(UTC)
        if certificate.not_valid_after_utc < now:
            raise SetupProblem(
                f"{self.place}: the client certificate expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC",
                "log in to the cluster again, or have a new certificate issued",
            )
        if certificate.not_valid_before_utc > now:
            raise SetupProblem(
                f"{self.place}: the client certificate is valid only from "
                f"{certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC",
                "check the clock of this machine",
            )


class Credentials:
    """Static credentials: a certificate, a token, a password or nothing. Credentials that change derive from it."""

    def __init__(self, certificate: Certificate | None = None, authorization: str = "") -> None:
        self.certificate = certificate
        self.authorization = authorization
        self.generation = 0  # increases with each new certificate, which needs new connections
        if certificate is not None:
            certificate.check()

    def fresh(self) -> bool:
        """Whether the credentials can be used as they are."""
        return True

    async def refresh(self, *, rejected: bool = False) -> bool:  # noqa: ARG002
        """Renews credentials that are due, or that the server rejected; True if they changed."""
        return False


def bearer(token: str, place: str) -> str:
    """The Authorization header of a token."""
    token = token.strip()
    if not token or any(c.isspace() or not c.isprintable() for c in token):
        raise SetupProblem(f"{place}: not a bearer token: it is empty or contains blanks", "log in again")
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    """The Authorization header of a user and password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class TokenFile(Credentials):
    """A token in a file that another program rotates. If the file cannot be read, the last token stays."""

    def __init__(self, path: Path, place: str, certificate: Certificate | None = None) -> None:
        super().__init__(certificate)
        self.path = path
        self.place = place
        self._seen: tuple[int, int, int] | None = None
        self._look_again = 0.0

    def fresh(self) -> bool:
        return time.monotonic() < self._look_again

    async def refresh(self, *, rejected: bool = False) -> bool:
        before = self.authorization
        try:
            stat = self.path.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen != self._seen or rejected:
                self.authorization = bearer(self.path.read_text("utf-8"), f"{self.place}: {self.path}")
                self._seen = seen
        except OSError as error:
            if not self.authorization:
                raise SetupProblem(
                    f"{self.place}: the token file {self.path} cannot be read: {error.strerror}",
                    "restore it, or log in to the cluster again",
                ) from None
        self._look_again = time.monotonic() + LOOK_AGAIN
        return self.authorization != before
