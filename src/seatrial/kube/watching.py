"""Watching objects: every event is stamped when its bytes arrive, before anyone looks at them.

A figure is as good as its stamp. The connection does nothing but read the clock and put the bytes aside; framing,
splitting and decoding come later, in slices of a few milliseconds, so that a burst of ten thousand events does not
delay the stamps of those behind it. The time from arrival to handling is measured: it is part of a trial's validity.

A watch that breaks is resumed where it ended. What that means for the figures is a `Gap`: events of a resumed watch
are late (their stamps are those of the reconnection); after a relist (the server had forgotten the place: 410)
transitions may be missing altogether. Gaps are recorded, never papered over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from seatrial.kube.client import Client, ListMeta
from seatrial.kube.dialling import dial
from seatrial.kube.errors import ApiProblem, BadAnswer, Lost, Unreachable, read_status
from seatrial.kube.parsing import Head
from seatrial.kube.resources import Request, Resource, listing
from seatrial.kube.retrying import Patience
from seatrial.kube.streaming import ADDED, DELETED, MODIFIED, Lines, Stale, Stream
from seatrial.model.units import SECOND

T = TypeVar("T")

LISTED = "LISTED"  # was there when the list was made: since when, nobody knows
SYNCED = "SYNCED"  # the list is complete: what is known and was not in it is gone

LONGEST = (
    6 * 3600
)  # seconds until the server ends a watch by itself; its default of 30–60 minutes makes gaps for nothing
PAGE = 2000  # objects of a list in memory at a time: 100,000 pods in one piece are half a gigabyte


class Gap(msgspec.Struct, frozen=True):
    """A stretch in which nothing could arrive. Times as those of the stamps."""

    begin: int
    end: int
    reason: str
    missed: bool  # transitions may be missing; otherwise they came, but late


class Watching(msgspec.Struct):
    """What a watch says of itself while it runs and afterwards."""

    resource: str
    events: int = 0
    bookmarks: int = 0
    relists: int = 0
    bytes: int = 0
    synced: bool = False  # the first list is through
    since: str = ""  # the resource version from which a watch was last begun
    gaps: list[Gap] = []
    silent: int = 0  # since when nothing can arrive; 0 while it can, and before the first list
    lag_total: int = 0  # nanoseconds from arrival to handled, summed over events
    lag_worst: int = 0

    @property
    def lag_mean(self) -> float:
        return self.lag_total / self.events if self.events else 0.0


class _RawListing(msgspec.Struct):
    metadata: ListMeta
    items: list[msgspec.Raw] = []


class _Watch(Generic[T]):
    """One watch with all that it remembers between connections."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        shape: type[T],
        on_event: Callable[[int, str, Any], None],
        state: Watching,
        query: dict[str, Any],
    ) -> None:
        self.client = client
        self.resource = resource
        self.shape = shape
        self.on_event = on_event
        self.state = state
        self.namespace: str = query.pop("namespace", "")
        self.query = query
        self.well = asyncio.get_running_loop().time()  # when the watch was last known to work; a sleep does not count
        self.joined = 0  # when it last began to
        self.broke: tuple[int, str] | None = None  # since when, and why, nothing can arrive
        self.missed = False
        self.failures = 0
        self._decoder = msgspec.json.Decoder(shape)

    async def list(self) -> str:
        """Everything there is, as of one moment, page by page. Gives the place to go on from."""
        self.state.silent = self.broke[0] if self.broke else 0
        query, since = {**self.query, "limit": PAGE}, ""
        while True:
            request = listing(self.resource, self.namespace, **query)
            answer = await self.client.send(request)
            if answer.code == 410:  # the server has forgotten that moment before the last page
                raise Stale(read_status(410, answer.body).message)
            if answer.code >= 300:
                raise ApiProblem.of(answer.code, answer.body, str(request))
            page = msgspec.json.decode(answer.body, type=_RawListing)
            since = since or page.metadata.resource_version
            for count, item in enumerate(page.items, 1):
                self.on_event(answer.done, LISTED, self._decoder.decode(item))
                if count % 500 == 0:
                    await asyncio.sleep(0)
            if not page.metadata.continue_:
                break
            query["continue_"] = page.metadata.continue_
        self.on_event(answer.done, SYNCED, None)
        self.state.synced = True
        return since

    async def follow(self, since: str) -> str:
        """One connection's worth of events. Gives the resource version to go on from."""
        client = self.client
        request = Request("watch", self.resource.plural, "GET", self._path(since))
        lines: Lines[T] = Lines(self.shape)
        self.state.since = since
        handle = partial(self._handle, lines)
        fields = await client.fields()
        start = client.clock()
        stream = await dial(client.access, lambda: Stream(client.clock, handle), client.pool.tls())
        code, reason = 0, ""
        try:
            stream.begin(client.encode(request, fields))
            async with asyncio.timeout(client.timeout):
                head = await stream.head
            code, reason = head.code, "" if head.code == 200 else head.reason
            if code != 200:
                await self._refused(head, stream.refusal, str(request))
            self._joined(stream.last)
            ending = await stream.ended
            if not ending.orderly:
                client.pool.trouble()
            self.broke, reason = (ending.since, ending.why), "" if ending.orderly else ending.why
            return lines.place() or since
        except TimeoutError:
            raise Lost("no answer came in time", str(request)) from None
        except BadAnswer as error:
            raise Lost(f"what came back is not HTTP: {error}", str(request)) from None
        finally:
            if code == 200:
                self.well = asyncio.get_running_loop().time()
            stream.close()
            client.saw(start, "watch", self.resource.plural, code, reason)

    def _handle(self, lines: Lines[T], stamp: int, piece: bytes) -> None:
        state, now = self.state, self.client.clock
        state.bytes += len(piece)
        for line in lines.split(piece):
            kind, obj = lines.decode(line)
            if obj is None:
                state.bookmarks += 1
                continue
            self.on_event(stamp, kind, obj)
            state.events += 1
            lag = now() - stamp
            state.lag_total += lag
            state.lag_worst = max(state.lag_worst, lag)

    async def _refused(self, head: Head, body: bytes, asked: str) -> None:
        if head.code == 410:
            raise Stale(read_status(410, body).message)
        if head.code == 401 and await self.client.access.credentials.refresh(rejected=True):
            raise Lost("the credentials had expired", asked)
        if head.code == 429 or head.code >= 500 or (head.code == 403 and self.client.pool.shaken()):
            await asyncio.sleep(max(0.0, head.retry_after))
            raise Lost(f"the server answered {head.code} {head.reason}", asked)
        raise ApiProblem.of(head.code, body, asked)

    def _joined(self, now: int) -> None:
        """Events can arrive again: what was in between is a gap."""
        if self.broke is not None:
            self.state.gaps.append(Gap(self.broke[0], now, self.broke[1], self.missed))
        self.broke, self.missed, self.failures, self.joined = None, False, 0, now
        self.state.silent = 0

    def expired(self, said: str) -> None:
        """The place to resume from is gone: only a new list helps, and what happened before it may never be known."""
        since, why = self.broke or (self.client.clock(), "")
        self.broke = (since, "; ".join(filter(None, (why, f"relisted: {said or 'too old resource version'}"))))
        self.missed = True
        self.state.relists += 1

    def _path(self, since: str) -> str:
        query = {**self.query, "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": since,
                 "timeoutSeconds": LONGEST}  # fmt: skip
        return listing(self.resource, self.namespace, **query).path


async def list_once(
    client: Client, resource: Resource, shape: type[T], on_event: Callable[[int, str, T], None], *,
    state: Watching, **query: object,
) -> None:  # fmt: skip
    """What `watch` begins with, and no more."""
    one = _Watch(client, resource, shape, on_event, state, dict(query))
    while True:
        try:
            await one.list()
            return
        except Stale:
            state.relists += 1


async def watch(
    client: Client,
    resource: Resource,
    shape: type[T],
    on_event: Callable[[int, str, T], None],
    *,
    state: Watching | None = None,
    since: str = "",
    patience: Patience | None = None,
    **query: object,
) -> None:
    """Lists, then watches until cancelled. `on_event(stamp, type, object)` is called in the order of the server.

    Types are those of the API (ADDED, MODIFIED, DELETED) and two of ours: LISTED for what the list has, and SYNCED,
    with None for the object, when a list is complete. With `since` (a resource version) there is no first list.
    `query` takes `namespace`, `labelSelector` and `fieldSelector`. Raises `ApiProblem` where the server refuses,
    `Lost` or `Unreachable` when it was gone for longer than patience lasts. What `on_event` raises ends the watch.
    """
    patience = patience or client.patience
    one = _Watch(client, resource, shape, on_event, state or Watching(resource.plural), dict(query))
    while True:
        try:
            since = since or await one.list()
            since = await one.follow(since)
            if client.clock() - one.joined < SECOND:  # a server that hangs up at once is not asked at full speed
                await asyncio.sleep(patience.first)
        except Stale as stale:
            one.expired(str(stale))
            since = ""
        except (Lost, Unreachable) as error:
            one.failures += 1
            one.broke = one.broke or (client.clock(), error.message)
            one.state.silent = one.broke[0]
            pause = patience.pause(one.failures)
            if asyncio.get_running_loop().time() + pause > one.well + patience.seconds:
                raise
            await asyncio.sleep(pause)


__all__ = ["ADDED", "DELETED", "LISTED", "MODIFIED", "SYNCED", "Gap", "Watching", "list_once", "watch"]
