"""A pool of keep-alive connections, each a plain asyncio protocol.

A load test must not measure its client. One exchange costs a write, one or two reads and one future: with TLS on uvloop
and its record 30 to 45 µs of CPU, and 80 to 130 µs beside an API server on the same two cores, which is then the limit
(1,400 to 2,300 creates a second, docs/verified.md). HTTP/1.1 on purpose: the server treats connections alike, and a lost
connection loses one request only.

Times are nanoseconds of a clock that does not stop while a laptop sleeps. `intended` is when a request was due, `sent`
when it was written, `first` when the first byte of its answer came. If the client falls behind, `sent` is after `intended`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections import deque
from collections.abc import Callable

import msgspec

from seatrial.kube.api_errors import BadAnswer, Lost, Unreachable
from seatrial.kube.config import Access
from seatrial.kube.dialling import dial
from seatrial.kube.parsing import Response

Clock = Callable[[], int]
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
HANDSHAKES = 64  # at a time: with a thousand at once each takes longer than its timeout
RECOVERY_S = 10.0  # after a lost connection the server may still be restarting
READ = 1 << 16  # bytes read at once
TICK = 0.1  # seconds between checks for timeouts; a timer per request would cost 2 µs


def clock() -> int:
    """Nanoseconds of a monotonic clock that counts the time in which the machine sleeps."""
    return time.clock_gettime_ns(_CLOCK)


class Answer(msgspec.Struct, frozen=True, gc=False):
    """The answer to a request. `retry_after` is in seconds, −1 without the header; `body` is empty unless it was kept."""

    code: int
    reason: str
    retry_after: float
    body: bytes
    intended: int
    sent: int
    first: int
    done: int
    attempts: int = 1
    found: bool = False  # an earlier attempt, whose answer was lost, had been carried out

    @property
    def ok(self) -> bool:
        """Whether the request succeeded."""
        return self.code < 300


class Connection(asyncio.BufferedProtocol):
    """One connection with one exchange at a time."""

    __slots__ = (
        "_answer",
        "_first",
        "_intended",
        "_left",
        "_pool",
        "_response",
        "_sent",
        "deadline",
        "generation",
        "transport",
    )

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self.transport: asyncio.Transport | None = None
        self.generation = pool.access.credentials.generation
        self.deadline = 0.0
        self._response: Response | None = None
        self._answer: asyncio.Future[Answer] | None = None
        self._intended = self._sent = self._first = 0
        self._left = False  # whether we closed it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # with TLS it is a Transport in all but name
        self._pool.made(self)

    def send(self, data: bytes, keep: bool, intended: int, deadline: float) -> asyncio.Future[Answer]:
        """Begins an exchange."""
        assert self.transport is not None and self._answer is None
        self._response = Response(keep)
        self._answer = answer = self._pool.loop.create_future()
        self._first = 0
        self.deadline = deadline
        self._sent = sent = self._pool.clock()
        self._intended = intended or sent
        self.transport.write(data)
        return answer

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._pool.buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = self._pool.buffer[:nbytes].tobytes()
        now = self._pool.clock()
        response = self._response
        if response is None:  # an answer without a request: the server is about to close the connection
            self.abort()
            return
        if not self._first:
            self._first = now
        try:
            whole = response.feed(data)
        except BadAnswer as error:
            self.lose(f"what came back is not HTTP: {error}")
            return
        if whole:
            self._finish(response, now)

    def _finish(self, response: Response, now: int) -> None:
        head, answer = response.head, self._answer
        assert head is not None and answer is not None
        self._response = self._answer = None
        if head.close or response.surplus:
            self.abort()
        else:
            self._pool.release(self)
        if not answer.done():
            times = (self._intended, self._sent, self._first, now)
            answer.set_result(Answer(head.code, head.reason, head.retry_after, response.body, *times))

    def connection_lost(self, exc: Exception | None) -> None:
        response = self._response
        if response is not None and response.end():
            assert response.head is not None
            response.head.close = True
            self._finish(response, self._pool.clock())
        elif self._answer is not None:
            self._pool.note_loss()
            how = f" ({exc})" if exc is not None and str(exc) else ""
            cut = "in the middle of the answer" if self._first else "before an answer came"
            self.lose(f"the connection was lost {cut}{how}")
        elif not self._left:
            self._pool.note_loss()  # idle, closed by the server: it may have been restarted between two requests
        self.transport = None
        self._pool.gone(self)

    def lose(self, why: str) -> None:
        """Fails the exchange and closes the connection."""
        answer, self._answer, self._response = self._answer, None, None
        self.abort()
        if answer is not None and not answer.done():
            answer.set_exception(Lost(why))

    @property
    def usable(self) -> bool:
        """Whether the connection is open."""
        return self.transport is not None and not self.transport.is_closing()

    @property
    def busy(self) -> bool:
        """Whether an exchange is under way."""
        return self._answer is not None

    def abort(self) -> None:
        """Closes the connection at once."""
        self._response, self._left = None, True
        if self.transport is not None:
            self.transport.abort()

    def close(self) -> None:
        """Closes the connection after what was written is sent."""
        self._left = True
        if self.transport is not None:
            self.transport.close()


class ConnectionPool:
    """At most `size` connections to one server, opened as needed, given to the request that has waited longest."""

    def __init__(self, access: Access, size: int = 8, clock: Clock = clock) -> None:
        self.access = access
        self.size = size
        self.clock = clock
        self.loop: asyncio.AbstractEventLoop = None  # type: ignore[assignment]  # set by the first exchange
        self.buffer = memoryview(bytearray(READ))
        self._open: set[Connection] = set()
        self._opening = 0
        self._handshakes = asyncio.Semaphore(HANDSHAKES)
        self._idle: list[Connection] = []
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._ticker: asyncio.TimerHandle | None = None
        self._empty: asyncio.Future[None] | None = None
        self._tls: tuple[int, ssl.SSLContext | None] = (-1, None)
        self._closed = False
        self._lost_at = -RECOVERY_S  # when a connection was last lost, or could not be made

    def recovering(self) -> bool:
        """Whether a connection was lost, or could not be made, within the last seconds."""
        return time.monotonic() < self._lost_at + RECOVERY_S

    def note_loss(self) -> None:
        """The server may have been restarted just now."""
        self._lost_at = time.monotonic()

    async def exchange(self, data: bytes, *, keep: bool = True, intended: int = 0, timeout: float = 60.0) -> Answer:
        """Sends one request. `timeout` counts from the write. Raises `Lost` or `Unreachable`."""
        connection = self._idle.pop() if self._idle else await self._acquire()
        if not connection.usable:
            connection = await self._acquire()
        answer = connection.send(data, keep, intended, self.loop.time() + timeout)
        if self._ticker is None:
            self._ticker = self.loop.call_later(TICK, self._tick)
        try:
            return await answer
        except asyncio.CancelledError:
            connection.lose("the request was cancelled")
            raise

    async def open(self, count: int | None = None) -> None:
        """Opens connections ahead of a load, so that its first requests do not wait for handshakes."""
        wanted = min(count or self.size, self.size) - len(self._open)
        got = await asyncio.gather(*(self._acquire() for _ in range(wanted)), return_exceptions=True)
        failed = [one for one in got if isinstance(one, BaseException)]
        for one in got:
            if isinstance(one, Connection):
                self.release(one)
        if failed:
            raise failed[0]

    def release(self, connection: Connection) -> None:
        """Takes back a connection after an exchange."""
        connection.deadline = 0.0
        if self._closed or connection.generation != self.access.credentials.generation:
            connection.close()
            return
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        self._idle.append(connection)

    def gone(self, connection: Connection) -> None:
        """A connection ended; a waiting request may open another."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._wake()
        if not self._open and self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    def _wake(self) -> None:
        while self._waiting and len(self._open) + self._opening < self.size:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def _acquire(self) -> Connection:
        self.loop = asyncio.get_running_loop()
        while not self._closed:
            while self._idle:
                connection = self._idle.pop()
                if connection.usable:
                    return connection
            if len(self._open) + self._opening < self.size:
                connection = await self._connect()
                if connection.usable:
                    return connection
                continue
            waiter: asyncio.Future[Connection | None] = self.loop.create_future()
            self._waiting.append(waiter)
            try:
                given = await waiter
            except asyncio.CancelledError:
                self._give_back(waiter)
                raise
            if given is not None and given.usable:
                return given
        raise Unreachable(f"the client of {self.access.server} is closed", "open a new one")

    def _give_back(self, waiter: asyncio.Future[Connection | None]) -> None:
        """The connection of a request that was cancelled at that moment goes to the next."""
        if waiter.done() and not waiter.cancelled():
            given = waiter.result()
            if given is None:
                self._wake()
            elif given.usable:
                self.release(given)

    async def _connect(self) -> Connection:
        self._opening += 1
        try:
            async with self._handshakes:
                connection = await dial(self.access, lambda: Connection(self), self.tls())
        except BaseException as error:
            self._opening -= 1
            if isinstance(error, Unreachable):
                self.note_loss()
            self._wake()
            raise
        self._opening -= 1
        return connection

    def made(self, connection: Connection) -> None:
        """A connection was opened."""
        self._open.add(connection)

    def tls(self) -> ssl.SSLContext | None:
        """The TLS context of new connections; a new one after each change of the certificate."""
        if not self.access.tls:
            return None
        generation = self.access.credentials.generation
        if self._tls[0] != generation:
            self._tls = (generation, self.access.tls_context())
        return self._tls[1]

    def _tick(self) -> None:
        now, busy = self.loop.time(), False
        for connection in tuple(self._open):
            if connection.busy:
                busy = True
                if connection.deadline < now:
                    connection.lose("no answer came in time")
        self._ticker = self.loop.call_later(TICK, self._tick) if busy else None

    async def close(self) -> None:
        """Closes all connections; aborts those that are still open after a second."""
        self._closed = True
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        if not self._open:
            return
        self._empty = self.loop.create_future()
        for connection in tuple(self._open):
            connection.lose("the client was closed") if connection.busy else connection.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._empty), 1.0)
        for connection in tuple(self._open):
            connection.abort()
