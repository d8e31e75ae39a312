"""However the network cuts a stream of bytes, the same responses and the same events come out."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.kube.api_errors import ApiProblem, BadAnswer
from seatrial.kube.parsing import Chunks, Response
from seatrial.kube.shapes import Pod
from seatrial.kube.streaming import EventLines, Stale

# As kube-apiserver 1.36 sent it.
CREATED = (
    b"HTTP/1.1 201 Created\r\nAudit-Id: 3a4ff1e5-4a3c-4d4e-8d3f-8b5d3e6f7a11\r\nCache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\nX-Kubernetes-Pf-Flowschema-Uid: 45bd83ad-40c4-4c53-a3c7-6a41c2b5a5be\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 6d0b6f39-1a6b-4f55-9b0e-5c0a0f5b7a1f\r\n"
    b"Date: Sun, 15 Nov 2026 17:44:04 GMT\r\n"
    b'Content-Length: 15\r\n\r\n{"kind":"This"}'
)
BUSY = (
    b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain; charset=utf-8\r\nRetry-After: 1\r\n"
    b"X-Content-Type-Options: nosniff\r\nContent-Length: 43\r\n\r\nToo many requests, please try again later.\n"
)
CHUNKED = (
    b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nconnection: Close\r\n\r\n8\r\n{"kind":\r\n7;x=y\r\n"This"}\r\n'
    b"0\r\nTrailer: x\r\n\r\n"
)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(edges)]


cuts = st.lists(st.integers(0, 10_000), max_size=40)


@pytest.mark.parametrize(
    ("data", "code", "body", "retry_after", "close"),
    [
        (CREATED, 201, b'{"kind":"This"}', -1.0, False),
        (BUSY, 429, b"Too many requests, please try again later.\n", 1.0, False),
        (CHUNKED, 200, b'{"kind":"This"}', -1.0, True),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + CREATED, 201, b'{"kind":"This"}', -1.0, False),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", -1.0, False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", 200, b"ok", -1.0, True),
    ],
)
@given(places=cuts)
def test_any_cutting_gives_the_same_response(
    data: bytes, code: int, body: bytes, retry_after: float, close: bool, places: list[int]
) -> None:
    response = Response(keep=True)
    whole = [response.feed(piece) for piece in cut(data, places)]
    assert whole == [False] * (len(whole) - 1) + [True]
    assert response.head is not None
    assert (response.head.code, response.body) == (code, body)
    assert (response.head.retry_after, response.head.close) == (retry_after, close)


def test_a_body_that_nobody_wants_is_counted_and_not_kept() -> None:
    response = Response(keep=False)
    assert response.feed(CREATED)
    assert response.body == b""


def test_an_error_keeps_its_body_though_nobody_asked() -> None:
    response = Response(keep=False)
    assert response.feed(BUSY)
    assert response.body.startswith(b"Too many requests")


def test_what_follows_an_answer_is_told_apart() -> None:
    response = Response(keep=True)
    assert response.feed(CREATED + b"HTTP/1.1 408")
    assert (response.body, response.surplus) == (b'{"kind":"This"}', b"HTTP/1.1 408")


def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    response = Response(keep=True)
    assert not response.feed(b"HTTP/1.1 200 OK\r\n\r\nsome")
    assert not response.feed(b"thing")
    assert response.end()
    assert response.body == b"something"


def test_half_an_answer_is_none() -> None:
    response = Response(keep=True)
    assert not response.feed(CREATED[:-1])
    assert not response.end()


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
    ],
)
def test_what_is_not_http_is_said_to_be_so(data: bytes) -> None:
    with pytest.raises(BadAnswer):
        Response(keep=True).feed(data)


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), cuts)
def test_chunk_framing_comes_off_whatever_is_inside(payloads: list[bytes], places: list[int]) -> None:
    data = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in payloads) + b"0\r\n\r\n"
    chunks = Chunks()
    assert b"".join(p for piece in cut(data, places) for p in chunks.feed(piece)) == b"".join(payloads)
    assert chunks.done


@given(st.binary(max_size=200), cuts)
def test_garbage_never_crashes_the_parser(data: bytes, places: list[int]) -> None:
    response = Response(keep=True)
    try:
        for piece in cut(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + data, places):
            if response.feed(piece):
                break
    except BadAnswer:
        pass


# -- watches


def event(kind: str, name: str, version: int) -> bytes:
    pod = {"kind": "Pod", "metadata": {"name": name, "resourceVersion": str(version)}, "spec": {"nodeName": "näh\n"}}
    return msgspec.json.encode({"type": kind, "object": pod}) + b"\n"


WATCH = [event("ADDED", "a", 5), event("MODIFIED", "a", 6), event("BOOKMARK", "", 9), event("DELETED", "a", 11)]


@given(frames=cuts, places=cuts)
def test_any_cutting_and_framing_gives_the_same_events(frames: list[int], places: list[int]) -> None:
    framed = b"".join(b"%x\r\n%b\r\n" % (len(f), f) for f in cut(b"".join(WATCH), frames))
    chunks, lines = Chunks(), EventLines(Pod)
    seen = [
        (kind, pod.metadata.name if pod is not None else None, lines.place())
        for piece in cut(framed, places)
        for payload in chunks.feed(piece)
        for line in lines.split(payload)
        for kind, pod in [lines.decode(line)]
    ]
    assert seen == [("ADDED", "a", "5"), ("MODIFIED", "a", "6"), ("BOOKMARK", None, "9"), ("DELETED", "a", "11")]


@pytest.mark.parametrize("code", [410, 500])
def test_a_status_in_a_watch_is_an_error_and_no_object(code: int) -> None:
    status = {"kind": "Status", "status": "Failure", "message": "too old", "reason": "X", "code": code}
    for line in (
        msgspec.json.encode({"type": "ERROR", "object": status}),
        msgspec.json.encode({"object": status, "type": "ERROR"}),  # as no server sends it, but may
    ):
        with pytest.raises(Stale if code == 410 else ApiProblem, match="too old"):
            EventLines(Pod).decode(line)
