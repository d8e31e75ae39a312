"""Who we are to the API server, and how that is kept fresh.

Tokens run out in the middle of a long run: files are rewritten by whoever rotates them, plugins give a token for
fifteen minutes. A request therefore asks `fresh()` (a comparison) before it is sent and `refresh()` only when that
says no, or when the server answered 401.
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from seatrial.model.errors import SetupProblem

LOOK_AGAIN = 5.0  # seconds between two looks at a token file


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate with its key, as PEM, and where they were given."""

    chain: bytes
    key: bytes
    place: str

    def check(self) -> None:
        """Says what is wrong before a TLS alert does, which says less."""
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
    """Static ones: a certificate, a token, a password or nothing. Those that change derive from it."""

    def __init__(self, certificate: Certificate | None = None, authorization: str = "") -> None:
        self.certificate = certificate
        self.authorization = authorization
        self.generation = 0  # counts changes of the certificate, which need new connections
        if certificate is not None:
            certificate.check()

    def fresh(self) -> bool:
        return True

    async def refresh(self, *, rejected: bool = False) -> bool:  # noqa: ARG002
        """Gets new ones where they are due, or where the server rejected the old; True if they changed."""
        return False


def bearer(token: str, place: str) -> str:
    """The Authorization header of a token."""
    token = token.strip()
    if not token or any(c.isspace() or not c.isprintable() for c in token):
        raise SetupProblem(f"{place}: this is not a bearer token: it is empty or has blanks in it", "log in again")
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class TokenFile(Credentials):
    """A token that someone else keeps fresh in a file. The last one that could be read counts."""

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
