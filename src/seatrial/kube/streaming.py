"""The connection of a watch, and the decoding of its bytes into events.

`Stream` timestamps what arrives and queues it; `EventLines` splits at newlines and decodes each line into a narrow struct.
Lists, gaps and retries are in `watching`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from seatrial.kube.api_errors import ApiProblem, BadAnswer, Lost, Status
from seatrial.kube.parsing import Chunks, Response, ResponseHead
from seatrial.kube.shapes import Object
from seatrial.kube.transport import Clock

T = TypeVar("T")

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

SLICE = 3_000_000  # nanoseconds of handling before other connections are read
READ = 1 << 18  # bytes read at once
BACKLOG = 64 << 20  # queued bytes before reading pauses and the server has to wait


class _Event(msgspec.Struct, Generic[T]):
    type: str
    object: T


class _Line(msgspec.Struct):
    """An event whose object is not decoded."""

    type: str
    object: msgspec.Raw


_line = msgspec.json.Decoder(_Line)
_status = msgspec.json.Decoder(Status)


class Stale(Exception):
    """The server no longer has the resource version (410 Gone)."""


class EventLines(Generic[T]):
    """Splits the payload of a watch at newlines and decodes events."""

    __slots__ = ("_carry", "_decoder", "last")

    def __init__(self, shape: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(_Event[shape])  # type: ignore[valid-type]
        self._carry: list[bytes] = []
        self.last = b""  # the last complete event; its version is read only to resume

    def split(self, piece: bytes) -> list[bytes]:
        """The lines that these bytes complete."""
        if not self._carry and piece.find(b"\n") == len(piece) - 1:
            return [piece]  # as the server sends events: one per chunk
        *whole, rest = piece.split(b"\n")
        lines: list[bytes] = []
        for part in whole:
            self._carry.append(part)
            line = b"".join(self._carry)
            self._carry.clear()
            if line:
                lines.append(line)
        if rest:
            self._carry.append(rest)
        return lines

    def decode(self, line: bytes) -> tuple[str, T | None]:
        """Type and object; no object for a bookmark. An ERROR event is raised."""
        if not line.startswith((b'{"type":"BOOKMARK"', b'{"type":"ERROR"')):
            try:
                event = self._decoder.decode(line)
                if event.type in (ADDED, MODIFIED, DELETED):
                    self.last = line
                    return event.type, event.object
            except msgspec.ValidationError:
                if _line.decode(line).type != "ERROR":
                    raise
        other = _line.decode(line)
        if other.type == "ERROR":
            status = _status.decode(other.object)
            if status.code == 410 or status.reason in ("Expired", "Gone"):
                raise Stale(status.message)
            raise ApiProblem(status.code, status, "a watch")
        self.last = line
        return other.type, None

    def place(self) -> str:
        """The resource version of the last event."""
        if not self.last:
            return ""
        return msgspec.json.decode(_line.decode(self.last).object, type=Object).metadata.resource_version


class Ending(msgspec.Struct, frozen=True):
    """How a stream ended, and since when nothing could arrive."""

    why: str
    since: int
    orderly: bool = False


class Stream(asyncio.BufferedProtocol):
    """The connection of one watch: timestamps and queues what arrives until `_drain` handles it."""

    def __init__(self, now: Clock, handle: Callable[[int, bytes], None]) -> None:
        self.arrived: deque[tuple[int, bytes]] = deque()
        self.last = 0  # when anything last arrived
        self.head: asyncio.Future[ResponseHead] = asyncio.get_running_loop().create_future()
        self.ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self.refusal = b""  # the body of an error
        self._buffer = memoryview(bytearray(READ))
        self._loop = asyncio.get_running_loop()
        self._now = now
        self._handle = handle
        self._transport: asyncio.Transport | None = None
        self._response: Response | None = Response(keep=True)
        self._chunks: Chunks | None = None
        self._start = b""
        self._pieces: deque[bytes] = deque()  # payload of the bytes that arrived at `_stamp`
        self._stamp = 0
        self._waiting = 0
        self._paused = False
        self._draining = False
        self._how = Ending("the connection was lost", since=0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def begin(self, data: bytes) -> None:
        """Sends the request."""
        assert self._transport is not None
        self._transport.write(data)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.last = stamp = self._now()
        data = self._buffer[:nbytes].tobytes()
        if self._response is not None:
            data = self._read_head(data)
            if not data:
                return
        self.arrived.append((stamp, data))
        self._waiting += len(data)
        if self._waiting > BACKLOG and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        if not self._draining:
            self._draining = True
            self._loop.call_soon(self._drain)

    def _read_head(self, data: bytes) -> bytes:
        """Bytes of the body that came with the head. Any answer but 200 is read as a whole."""
        assert self._response is not None
        self._start += data
        end = self._start.find(b"\r\n\r\n")
        try:
            if end < 0 or self._start.startswith(b"HTTP/1.1 200"):
                if end < 0:
                    return b""
                head = ResponseHead(self._start[: end + 2])
                self._response = None
                self._chunks = Chunks() if head.chunked else None
                self.head.set_result(head)
                return self._start[end + 4 :]
            whole = self._response.feed(data if self._response.head is not None else self._start)
        except BadAnswer as error:
            self._end(Ending(f"what came back is not HTTP: {error}", self.last))
            return b""
        if whole and self._response.head is not None and not self.head.done():
            self.refusal = self._response.body
            self.head.set_result(self._response.head)
        return b""

    def _drain(self) -> None:
        """Handles queued bytes in order for one slice; then other connections are read first."""
        until = self._now() + SLICE
        try:
            while self._pieces or self._unframe():
                self._handle(self._stamp, self._pieces.popleft())
                if self._now() > until:
                    self._loop.call_soon(self._drain)
                    return
        except Exception as error:
            self.arrived.clear()
            self._pieces.clear()
            self._fail(error)
            return
        self._draining = False
        if self._transport is None:
            self._end(self._how)

    def _unframe(self) -> bool:
        """Takes the next queued bytes apart into pieces of payload; False if none are left."""
        while self.arrived and not self._pieces:
            self._stamp, data = self.arrived.popleft()
            self._waiting -= len(data)
            if self._paused and self._waiting < BACKLOG // 2 and self._transport is not None:
                self._paused = False
                self._transport.resume_reading()
            if self._chunks is None:
                self._pieces.append(data)
                continue
            self._pieces.extend(self._chunks.feed(data))
            if self._chunks.done:
                self._how = Ending("the server ended the watch", self._now(), orderly=True)
                self.close()
        return bool(self._pieces)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if not self._how.orderly:
            # A server that stops closes at once; an error may report late that the peer has vanished.
            lost = f"the connection was lost ({exc})" if exc is not None else "the server closed the connection"
            self._how = Ending(lost, self.last if exc is not None else self._now())
        if not self._draining:
            self._end(self._how)

    def _end(self, how: Ending) -> None:
        if not self.head.done():
            self.head.set_exception(Lost(how.why, "a watch"))
        if not self.ended.done():
            self.ended.set_result(how)
        self.close()

    def _fail(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        if self._transport is not None:
            self._transport.abort()
