"""Failures of requests, distinguished by what became of the request.

`ApiProblem`: the server answered with an error. `Lost`: no answer came, and the request may have been carried out or not.
`Unreachable`: no connection could be made, so the request was never sent.
"""

from __future__ import annotations

import msgspec

from seatrial.model.errors import SeatrialError, SetupProblem


class Cause(msgspec.Struct, frozen=True):
    """One of several causes in a Status, such as an invalid field."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """The object that a Status is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[Cause, ...] = ()


class Status(msgspec.Struct, frozen=True):
    """The API server's description of a failure."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None


_decoder = msgspec.json.Decoder(Status)


def read_status(code: int, body: bytes) -> Status:
    """The Status in a body. Plain text, as from Priority & Fairness, proxies and panics, becomes its message."""
    try:
        status = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Status(message=body[:400].decode("utf-8", "replace").strip(), code=code)
    return msgspec.structs.replace(status, code=status.code or code)


_REMEDIES = {
    401: "the server does not accept these credentials; renew them (`kubectl auth whoami` shows the user)",
    403: "the user of this kubeconfig lacks that permission; `kubectl auth can-i --list` shows what it has",
    404: "check the name and the namespace, and that the server has this kind of object (`kubectl api-resources`)",
    409: "another client created or changed the same object; `seatrial clean` removes leftovers of earlier runs",
    422: "the server's message names the field that is wrong",
    429: "the server is busy; lower the rate or the number of workers, or raise its in-flight limits",
    507: "the server's storage is full",
}


class ApiProblem(SeatrialError):
    """The server answered with an error; `status` has its words."""

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
        """The problem that an answer with this code and body describes."""
        return cls(code, read_status(code, body), asked)


class Lost(SeatrialError):
    """The request was sent without a complete answer: it may have been carried out or not."""

    def __init__(self, why: str, asked: str = "") -> None:
        super().__init__(
            f"{asked or 'a request'} was sent, but {why}",
            "check that the API server still runs and the network to it is up",
        )
        self.why = why


class Unreachable(SetupProblem):
    """No connection to the API server could be made; nothing was sent."""


class BadAnswer(Exception):
    """Bytes that are not HTTP/1.1; their connection cannot be used any more."""
