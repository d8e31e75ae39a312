"""What can go wrong between us and an API server, told apart by what it means for the request.

An `ApiProblem` is an answer: the server said no, and why. `Lost` is no answer: the request may have been carried out or
not, and only whoever sent it can find out. `Unreachable` is a request that never left: no connection could be made.
"""

from __future__ import annotations

import msgspec

from seatrial.model.errors import SeatrialError, SetupProblem


class Cause(msgspec.Struct, frozen=True):
    """One reason of several in a Status, e.g. a field that is invalid."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """Which object a Status is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True):
    """The API server's own account of a failure."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


_decoder = msgspec.json.Decoder(Status)


def read_status(code: int, body: bytes) -> Status:
    """The Status in a body. Priority & Fairness, proxies and panics answer in plain text: that becomes the message."""
    try:
        status = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Status(message=body[:400].decode("utf-8", "replace").strip(), code=code)
    return msgspec.structs.replace(status, code=status.code or code)


_REMEDIES = {
    401: "the server does not accept these credentials; renew them (kubectl whoami: `kubectl auth whoami`)",
    403: "the user of this kubeconfig lacks that permission; `kubectl auth can-i --list` shows what it has",
    404: "check the name and the namespace, and that the server has this kind of object (`kubectl api-resources`)",
    409: "something else made or changed the same object; `seatrial clean` removes what earlier runs left",
    422: "the server's message names the field that is wrong",
    429: "the server is busy; lower the rate or the number of workers, or raise its in-flight limits",
    507: "the server's storage is full",
}


class ApiProblem(SeatrialError):
    """The server answered, and the answer is no. Carries the server's Status."""

    def __init__(self, code: int, status: Status, asked: str) -> None:
        said = status.message or status.reason or "no message"
        remedy = _REMEDIES.get(code, "the log of the API server says more")
        if "etcdserver: mvcc: database space exceeded" in said:
            remedy = "etcd is out of space: compact and defragment it, or raise --quota-backend-bytes"
        super().__init__(
            f"{asked}: the API server answered {code} {status.reason}: {said}".replace(" : ", ": "), remedy
        )
        self.code = code
        self.status = status
        self.reason = status.reason
        self.details = status.details

    @classmethod
    def of(cls, code: int, body: bytes, asked: str) -> ApiProblem:
        return cls(code, read_status(code, body), asked)


class Lost(SeatrialError):
    """The request was sent and no whole answer came: it may have been carried out or not."""

    def __init__(self, why: str, asked: str = "") -> None:
        super().__init__(
            f"{asked or 'a request'} was sent, but {why}",
            "check that the API server still runs and the network to it is up",
        )
        self.why = why


class Unreachable(SetupProblem):
    """No connection to the API server could be made; nothing was sent."""


class BadAnswer(Exception):
    """Bytes that are not HTTP/1.1. The connection they came on is of no use any more."""
