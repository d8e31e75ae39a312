"""Parses HTTP/1.1 responses from bytes, however the network split them. No I/O.

An HTTP library costs more than the request it carries (aiohttp about 380 µs, our whole client about 90 µs), because it
builds headers and streams that nobody reads. Of the answer to a create we need the code, the length and Retry-After:
these are read, and the body is skipped by its length unless the caller wants it.
"""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

from seatrial.kube.api_errors import BadAnswer

ONE = ord("1")  # of HTTP/1.1
LONGEST_HEAD = 1 << 16  # bytes; more is not an API server


class ResponseHead:
    """The fields of a response's head that we need. `length` is −1 if the head does not give it."""

    __slots__ = ("chunked", "close", "code", "length", "reason", "retry_after")

    def __init__(self, head: bytes) -> None:
        """`head` includes the line end of its last field, not the empty line."""
        if not head.startswith(b"HTTP/1."):
            raise BadAnswer(f"not an HTTP/1.1 answer: {head[:40]!r}")
        try:
            self.code = int(head[9:12])
        except ValueError:
            raise BadAnswer(f"no status code in {head[:40]!r}") from None
        self.reason, self.retry_after, self.chunked, self.close = "", -1.0, False, False
        # Fast path: nearly all answers are a success with a length, formatted as Go does.
        length = _field(head, b"\r\nContent-Length: ") if self.code < 300 else None
        if length is not None and length.isdigit() and b"\r\nConnection:" not in head and head[7] == ONE:
            self.length = int(length)
        else:
            self._read(head)

    def _read(self, head: bytes) -> None:
        self.reason = head[13 : head.find(b"\r\n")].decode("latin-1")
        fields = head.lower()
        length = _field(fields, b"\r\ncontent-length:")
        self.length = -1
        if length is not None:
            if not length.isdigit():
                raise BadAnswer(f"content-length {length!r}")
            self.length = int(length)
        coding = None if self.length >= 0 else _field(fields, b"\r\ntransfer-encoding:")
        self.chunked = coding is not None and b"chunked" in coding
        connection = _field(fields, b"\r\nconnection:")
        self.close = head[7] != ONE if connection is None else b"close" in connection
        wait = None if self.code < 300 else _field(fields, b"\r\nretry-after:")
        if wait is not None:
            self.retry_after = _seconds(wait)
        if self.code in (204, 304):
            self.length, self.chunked = 0, False


def _field(fields: bytes, name: bytes) -> bytes | None:
    at = fields.find(name)
    if at < 0:
        return None
    at += len(name)
    return fields[at : fields.find(b"\r\n", at)].strip()


def _seconds(wait: bytes) -> float:
    """Retry-After in seconds from now: a number, or a date as proxies send it."""
    try:
        return max(0.0, float(wait))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(wait.decode("latin-1")).timestamp() - time.time())
    except ValueError:
        return -1.0


class Chunks:
    """Removes the framing of `Transfer-Encoding: chunked`."""

    __slots__ = ("_carry", "_left", "_trailer", "done", "surplus")

    def __init__(self) -> None:
        self.done = False
        self.surplus = b""  # bytes after the last chunk
        self._carry = b""  # an incomplete size line
        self._left = 0  # missing bytes of the current chunk, including its CRLF
        self._trailer = False

    def feed(self, data: bytes) -> list[bytes]:
        """The payload in these bytes, in the pieces in which it arrived."""
        pieces: list[bytes] = []
        if self._carry:
            data = self._carry + data
            self._carry = b""
        at, end = 0, len(data)
        while at < end and not self.done:
            if self._left > 2:
                stop = min(at + self._left - 2, end)
                pieces.append(data[at:stop])
                self._left -= stop - at
                at = stop
            elif self._left:
                stop = min(at + self._left, end)
                self._left -= stop - at
                at = stop
            else:
                line = data.find(b"\r\n", at)
                if line < 0:
                    self._carry = data[at:]
                    if len(self._carry) > LONGEST_HEAD:
                        raise BadAnswer("a chunk's size that does not end")
                    break
                self._size(data[at:line])
                at = line + 2
        if self.done:
            self.surplus = data[at:]
        return pieces

    def _size(self, line: bytes) -> None:
        if self._trailer:
            self.done = not line
            return
        try:
            size = int(line.split(b";", 1)[0], 16)
        except ValueError:
            raise BadAnswer(f"not the size of a chunk: {line[:40]!r}") from None
        if size < 0:
            raise BadAnswer(f"not the size of a chunk: {line[:40]!r}")
        if size:
            self._left = size + 2
        else:
            self._trailer = True


class Response:
    """One response. `feed` returns True when it is complete. The body is kept if `keep`, and always for errors."""

    __slots__ = ("_chunks", "_left", "_parts", "_start", "head", "keep", "surplus")

    def __init__(self, keep: bool) -> None:
        self.keep = keep
        self.head: ResponseHead | None = None
        self.surplus = b""  # bytes after the end, which no request asked for
        self._start = b""
        self._parts: list[bytes] = []
        self._chunks: Chunks | None = None
        self._left = -1

    @property
    def body(self) -> bytes:
        """The bytes of the body that were kept."""
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def feed(self, data: bytes) -> bool:
        """Takes bytes as they arrive; True when the response is complete."""
        if self.head is None:
            rest = self._feed_head(data)
            if rest is None:
                return False
            data = rest
        if self._chunks is not None:
            pieces = self._chunks.feed(data)
            if self.keep:
                self._parts += pieces
            self.surplus = self._chunks.surplus
            return self._chunks.done
        if self._left < 0:  # until the connection ends
            self._parts.append(data)
            return False
        if len(data) > self._left:
            data, self.surplus = data[: self._left], data[self._left :]
        self._left -= len(data)
        if self.keep and data:
            self._parts.append(data)
        return self._left == 0

    def end(self) -> bool:
        """Whether the response is complete, now that the connection has ended."""
        return self.head is not None and self._chunks is None and self._left <= 0

    def _feed_head(self, data: bytes) -> bytes | None:
        """The bytes after the head; None while the head is incomplete."""
        if self._start:
            data = self._start + data
        while True:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > LONGEST_HEAD or not data.startswith(b"HTTP/1."[: len(data)]):
                    raise BadAnswer(f"not an HTTP/1.1 answer: {data[:40]!r}")
                self._start = data
                return None
            head = ResponseHead(data[: end + 2])
            if head.code >= 200:
                break
            data = data[end + 4 :]  # 100 Continue and the like: the answer follows
        self.head = head
        self.keep = self.keep or head.code >= 300
        if head.chunked:
            self._chunks = Chunks()
        else:
            self._left = head.length
        return data[end + 4 :]
