"""Watches objects: every event gets its timestamp when its bytes arrive, before they are decoded.

The connection only reads the clock and queues the bytes. Unframing, splitting and decoding follow in slices of a few
milliseconds, so that a burst of ten thousand events does not delay the timestamps of later ones. The time from arrival
to handling is measured: it is part of a trial's validity.

A watch that breaks is resumed at its last resource version, and the time between is recorded as a `Gap`. Events after a
resume are late: their timestamps are those of the reconnection. After a relist (the server no longer has the version:
410) transitions may be missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from seatrial.kube.api_errors import ApiProblem, BadAnswer, Lost, Unreachable, read_status
from seatrial.kube.client import Client, ListMeta
from seatrial.kube.parsing import ResponseHead
from seatrial.kube.resources import Request, Resource, listing
from seatrial.kube.retrying import RetryPolicy, is_temporary
from seatrial.kube.streaming import ADDED, DELETED, MODIFIED, EventLines, Stale
from seatrial.model.units import SECOND

_log = logging.getLogger(__name__)

T = TypeVar("T")

LISTED = "LISTED"  # the object is in a list; it is unknown since when it is as it is
SYNCED = "SYNCED"  # the list is complete; known objects that are not in it are gone

LONGEST_S = 6 * 3600  # until the server ends a watch; its default of 30 to 60 minutes would make needless gaps
PAGE = 2000  # objects of a list in memory at a time: 100,000 pods at once are half a gigabyte


class Gap(msgspec.Struct, frozen=True):
    """A time in which nothing could arrive, in nanoseconds of `clock`."""

    begin: int
    end: int
    reason: str
    missed: bool  # transitions may be missing; otherwise they are late


class WatchState(msgspec.Struct):
    """Counters and gaps of a watch, while it runs and afterwards."""

    resource: str
    events: int = 0
    bookmarks: int = 0
    relists: int = 0
    bytes: int = 0
    synced: bool = False  # the first list is complete
    since: str = ""  # the resource version from which a watch was last begun
    gaps: list[Gap] = []
    silent: int = 0  # since when nothing can arrive; 0 while it can, and before the first list
    lag_worst: int = 0  # nanoseconds from arrival to handled


class _RawListing(msgspec.Struct):
    metadata: ListMeta
    items: list[msgspec.Raw] = []


class _Watch(Generic[T]):
    """One watch, with its state across connections."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        shape: type[T],
        on_event: Callable[[int, str, Any], None],
        state: WatchState,
        query: dict[str, Any],
    ) -> None:
        self.client = client
        self.resource = resource
        self.shape = shape
        self.on_event = on_event
        self.state = state
        self.namespace: str = query.pop("namespace", "")
        self.query = query
        self.well = asyncio.get_running_loop().time()  # when it last worked; the clock stops while the machine sleeps
        self.joined = 0  # when the last connection began
        self.broke: tuple[int, str] | None = None  # since when, and why, nothing can arrive
        self.missed = False
        self.failures = 0
        self._decoder = msgspec.json.Decoder(shape)

    async def list(self) -> str:
        """Lists all objects page by page. Returns the resource version to watch from."""
        self.state.silent = self.broke[0] if self.broke else 0
        query, since = {**self.query, "limit": PAGE}, ""
        while True:
            request = listing(self.resource, self.namespace, **query)
            answer = await self.client.send(request)
            if answer.code == 410:  # the version expired before the last page
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
        """The events of one connection. Returns the resource version to resume from."""
        client = self.client
        request = Request("watch", self.resource.plural, "GET", self._path(since))
        lines: EventLines[T] = EventLines(self.shape)
        self.state.since = since
        start = client.clock()
        stream = await client.stream(request, partial(self._handle, lines))
        code, reason = 0, ""
        try:
            async with asyncio.timeout(client.timeout):
                head = await stream.head
            code, reason = head.code, "" if head.code == 200 else head.reason
            if code != 200:
                await self._refused(head, stream.refusal, str(request))
            _log.debug("GET %s%s: %d, watching", client.access.server, request.path, code)
            self._joined(stream.last)
            ending = await stream.ended
            if not ending.orderly:
                client.pool.note_loss()
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
            client.report_stream(request, start, code, reason)

    def _handle(self, lines: EventLines[T], stamp: int, piece: bytes) -> None:
        state, now = self.state, self.client.clock
        state.bytes += len(piece)
        for line in lines.split(piece):
            kind, obj = lines.decode(line)
            if obj is None:
                state.bookmarks += 1
                continue
            self.on_event(stamp, kind, obj)
            state.events += 1
            state.lag_worst = max(state.lag_worst, now() - stamp)

    async def _refused(self, head: ResponseHead, body: bytes, asked: str) -> None:
        if head.code == 410:
            raise Stale(read_status(410, body).message)
        if head.code == 401 and await self.client.access.credentials.refresh(rejected=True):
            raise Lost("the credentials had expired", asked)
        if head.code >= 500 or is_temporary(head.code, self.client.pool.recovering()):
            await asyncio.sleep(max(0.0, head.retry_after))
            raise Lost(f"the server answered {head.code} {head.reason}", asked)
        raise ApiProblem.of(head.code, body, asked)

    def _joined(self, now: int) -> None:
        """Events can arrive again; the time since the break is a gap."""
        if self.broke is not None:
            self.state.gaps.append(Gap(self.broke[0], now, self.broke[1], self.missed))
        self.broke, self.missed, self.failures, self.joined = None, False, 0, now
        self.state.silent = 0

    def expired(self, said: str) -> None:
        """The version to resume from expired: a new list follows, and transitions before it may be missing."""
        since, why = self.broke or (self.client.clock(), "")
        self.broke = (since, "; ".join(filter(None, (why, f"relisted: {said or 'too old resource version'}"))))
        self.missed = True
        self.state.relists += 1

    def _path(self, since: str) -> str:
        query = {**self.query, "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": since,
                 "timeoutSeconds": LONGEST_S}  # fmt: skip
        return listing(self.resource, self.namespace, **query).path


async def list_once(
    client: Client, resource: Resource, shape: type[T], on_event: Callable[[int, str, T], None], *,
    state: WatchState, **query: object,
) -> None:  # fmt: skip
    """Lists all objects once, as `watch` does at its beginning."""
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
    state: WatchState | None = None,
    since: str = "",
    retry: RetryPolicy | None = None,
    **query: object,
) -> None:
    """Lists, then watches until cancelled. `on_event(stamp, type, object)` is called in the order of the server.

    Types are those of the API (ADDED, MODIFIED, DELETED) and two of ours: LISTED for what the list has, and SYNCED,
    with None for the object, when a list is complete. With `since` (a resource version) there is no first list.
    `query` takes `namespace`, `labelSelector` and `fieldSelector`. Raises `ApiProblem` where the server refuses,
    `Lost` or `Unreachable` when it was gone for longer than the retry policy allows. What `on_event` raises ends the watch.
    """
    retry = retry or client.retry
    one = _Watch(client, resource, shape, on_event, state or WatchState(resource.plural), dict(query))
    while True:
        try:
            since = since or await one.list()
            since = await one.follow(since)
            if client.clock() - one.joined < SECOND:  # a server that closes at once is not asked at full speed
                await asyncio.sleep(retry.first)
        except Stale as stale:
            one.expired(str(stale))
            since = ""
        except (Lost, Unreachable) as error:
            one.failures += 1
            one.broke = one.broke or (client.clock(), error.message)
            one.state.silent = one.broke[0]
            pause = retry.pause(one.failures)
            if asyncio.get_running_loop().time() + pause > one.well + retry.seconds:
                raise
            await asyncio.sleep(pause)


__all__ = ["ADDED", "DELETED", "LISTED", "MODIFIED", "SYNCED", "Gap", "WatchState", "list_once", "watch"]
