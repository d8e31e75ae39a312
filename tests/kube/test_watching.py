"""Watches on a real API server: what arrives, when, and what is said of the times when nothing could."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from seatrial.kube import ApiProblem, Client, ClientIdentity, Impersonation, Lost, RetryPolicy, WatchState, clock, watch
from seatrial.kube.resources import CONFIGMAPS, NAMESPACES, SECRETS, Resource
from seatrial.kube.shapes import Object, Shape
from seatrial.kube.watching import ADDED, DELETED, LISTED, MODIFIED, SYNCED

Seen = list[tuple[int, str, str]]


def configmap(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"of": "watching"}}}


async def until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def watched(
    client: Client, resource: Resource = CONFIGMAPS, **query: Any
) -> AsyncIterator[tuple[Seen, WatchState, asyncio.Task[None]]]:
    """A watch beside the test, with what it saw."""
    seen: Seen = []
    state = WatchState(resource.plural)

    def on_event(stamp: int, kind: str, obj: Object | None) -> None:
        seen.append((stamp, kind, obj.metadata.name if obj is not None else ""))

    task = asyncio.ensure_future(watch(client, resource, Object, on_event, state=state, **query))
    try:
        await until(lambda: state.synced or bool(state.since) or task.done())
        yield seen, state, task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task


@pytest.mark.local
def test_a_watch_tells_what_was_there_and_then_what_happens(run: Any, control_plane: Any) -> None:
    async def story() -> tuple[Seen, WatchState, int]:
        async with Client(control_plane.access) as client:
            await client.create(CONFIGMAPS, configmap("before"), "before", "default")
            async with watched(client, namespace="default", labelSelector="of=watching") as (seen, state, _):
                start = clock()
                await client.create(CONFIGMAPS, configmap("after"), "after", "default")
                await client.patch(CONFIGMAPS, {"data": {"x": "1"}}, "after", "default")
                await client.delete(CONFIGMAPS, "before", "default")
                await client.delete(CONFIGMAPS, "after", "default")
                await until(lambda: len(seen) >= 6)
                return seen, state, start

    seen, state, start = run(story())
    assert [(kind, name) for _, kind, name in seen] == [
        (LISTED, "before"), (SYNCED, ""), (ADDED, "after"), (MODIFIED, "after"),
        (DELETED, "before"), (DELETED, "after"),
    ]  # fmt: skip
    stamps = [stamp for stamp, _, _ in seen]
    assert stamps == sorted(stamps)
    assert seen[1][0] < start < seen[2][0]
    assert (state.events, state.gaps) == (4, [])
    assert 0 < state.lag_worst < 1e9


@pytest.mark.local
def test_a_place_that_the_server_forgot_is_listed_again_and_the_gap_recorded(run: Any, control_plane: Any) -> None:
    async def story() -> tuple[Seen, WatchState]:
        async with Client(control_plane.access) as client:
            await client.list(NAMESPACES, shape=Object)  # it answers again
            async with watched(client, NAMESPACES, since="1") as (seen, state, _):
                await until(lambda: bool(state.gaps))
                return seen, state

    control_plane.kill("kube-apiserver")  # one that has just begun remembers nothing from before
    seen, state = run(story())
    assert Counter(kind for _, kind, _ in seen)[LISTED] >= 4
    assert state.relists == 1
    assert state.gaps[0].missed
    assert "too old resource version" in state.gaps[0].reason
    assert state.gaps[0].begin <= state.gaps[0].end


@pytest.mark.local
def test_no_event_is_missed_when_the_api_server_is_killed(control_plane: Any) -> None:
    mine: dict[str, Any] = {"namespace": "default", "labelSelector": "of=watching"}
    names = {f"killed-{i}" for i in range(60)}

    async def story() -> tuple[Counter[str], WatchState]:
        async with Client(control_plane.access) as client, watched(client, **mine) as (seen, state, _):
            for i in range(60):
                if i == 30:
                    control_plane.kill("kube-apiserver")
                await create(client, f"killed-{i}")
            await until(lambda: names <= {name for _, _, name in seen})
            await client.delete_collection(CONFIGMAPS, **mine)
            await until(lambda: names <= {name for _, kind, name in seen if kind == DELETED})
            return Counter(kind for _, kind, _ in seen), state

    async def create(client: Client, name: str) -> None:
        try:
            await client.create(CONFIGMAPS, configmap(name), name, "default")
        except ApiProblem as problem:
            assert problem.code == 409  # its answer was lost, and without a mark nobody can say whose it is

    kinds, state = asyncio.run(story())
    assert kinds[DELETED] == 60
    assert state.gaps
    gap = state.gaps[0]
    assert gap.end - gap.begin > 50_000_000
    assert "closed" in gap.reason or "lost" in gap.reason


@pytest.mark.local
def test_a_watch_that_is_not_allowed_says_so(run: Any, control_plane: Any) -> None:
    async def story() -> None:
        async with Client(control_plane.access) as client:
            jane = client.acting_as(ClientIdentity("jane", impersonate=Impersonation("jane")))
            with pytest.raises(ApiProblem, match="403 Forbidden"):
                await watch(jane, SECRETS, Object, lambda *_: None, since="0")

    run(story())


@pytest.mark.local
def test_a_watch_is_observed_like_any_request(run: Any, control_plane: Any) -> None:
    rows: list[tuple[Any, ...]] = []

    async def story() -> None:
        client_of = Client(control_plane.access, observe=lambda *row: rows.append(row))
        async with client_of as client, watched(client, namespace="default") as (_, state, _):
            await until(lambda: bool(state.since))
            await asyncio.sleep(0.3)

    run(story())
    seen = [(request.verb, request.resource, answer.code) for request, _, _, answer, _ in rows]
    assert seen == [("list", "configmaps", 200), ("watch", "configmaps", 200)]


# -- what a peer must play


def line(kind: str, name: str, version: int) -> bytes:
    data = msgspec.json.encode({"type": kind, "object": {"metadata": {"name": name, "resourceVersion": str(version)}}})
    return b"%x\r\n%b\n\r\n" % (len(data) + 1, data)


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
LIST = b'{"metadata":{"resourceVersion":"10"},"items":[{"metadata":{"name":"a"}}]}'
GONE = msgspec.json.encode(
    {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"}}
)
QUICK = RetryPolicy(seconds=3.0, first=0.01, longest=0.05)


def follow(run: Any, peers: Any, watches: list[object], enough: int, **settings: Any) -> Any:
    """Answers lists with LIST and watches with these, one after another."""

    def answer(_method: str, path: str, _body: bytes) -> object:
        if "watch=true" not in path:
            return peers.http(200, LIST)
        return watches.pop(0) if watches else peers.silence

    async def story() -> Any:
        client_of = peers.client(answer, retry=QUICK, **settings)
        async with client_of as (client, peer), watched(client) as (seen, state, task):
            await until(lambda: len(seen) >= enough or task.done())
            if task.done():
                task.result()
            return seen, state, peer

    return run(story())


def test_an_ended_watch_is_resumed_from_its_last_event(run: Any, peers: Any) -> None:
    watches: list[object] = [
        HEAD + line("ADDED", "b", 12) + line("BOOKMARK", "", 20) + END,
        HEAD + line("ADDED", "c", 21) + b"CUT",
        HEAD + line("ADDED", "d", 22),
    ]
    seen, state, peer = follow(run, peers, watches, 5)
    assert [name for _, _, name in seen] == ["a", "", "b", "c", "d"]
    versions = [asked.split("resourceVersion=")[1].split("&")[0] for asked in peer.asked if "watch=" in asked]
    assert versions == ["10", "20", "21"]
    assert [gap.missed for gap in state.gaps] == [False, False]
    assert state.gaps[0].reason == "the server ended the watch"
    assert (state.relists, state.bookmarks) == (0, 1)


@pytest.mark.parametrize("how", ["event", "answer"])
def test_a_410_in_either_form_is_a_relist(run: Any, peers: Any, how: str) -> None:
    frame = b"%x\r\n%b\n\r\n" % (len(GONE) + 1, GONE)
    gone = HEAD + frame if how == "event" else peers.http(410, b'{"message":"old","code":410}')
    seen, state, _ = follow(run, peers, [gone, HEAD + line("ADDED", "b", 12)], 5)
    assert [(kind, name) for _, kind, name in seen] == [
        (LISTED, "a"), (SYNCED, ""), (LISTED, "a"), (SYNCED, ""), (ADDED, "b"),
    ]  # fmt: skip
    assert (state.relists, state.gaps[0].missed) == (1, True)
    assert "relisted: old" in state.gaps[0].reason


def test_a_busy_server_is_asked_again(run: Any, peers: Any) -> None:
    watches: list[object] = [peers.http(429, b"busy", "Retry-After: 0"), peers.cut, HEAD + line("ADDED", "b", 12)]
    seen, _, _ = follow(run, peers, watches, 3)
    assert [kind for _, kind, _ in seen] == [LISTED, SYNCED, ADDED]


def test_patience_ends(run: Any, peers: Any) -> None:
    with pytest.raises(Lost, match="503"):
        follow(run, peers, [peers.http(503)] * 1000, 99)


def test_what_the_callback_raises_ends_the_watch(run: Any, peers: Any) -> None:
    def on_event(_stamp: int, kind: str, _obj: Object | None) -> None:
        if kind == ADDED:
            raise ZeroDivisionError

    def answer(_method: str, path: str, _body: bytes) -> object:
        return HEAD + line("ADDED", "b", 12) if "watch=true" in path else peers.http(200, LIST)

    async def story() -> None:
        async with peers.client(answer) as (client, _):
            with pytest.raises(ZeroDivisionError):
                await watch(client, CONFIGMAPS, Object, on_event)

    run(story())


def test_a_burst_is_handled_in_slices_and_its_stamps_are_those_of_its_arrival(run: Any, peers: Any) -> None:
    """While the handler is slow, other connections are read, and stamps do not move with it."""

    class Nothing(Shape):
        pass

    burst = HEAD + b"".join(line("ADDED", f"p-{i}", 20 + i) for i in range(4000))
    stamps: list[int] = []
    handled: list[int] = []

    def on_event(stamp: int, kind: str, _obj: Nothing | None) -> None:
        if kind == ADDED:
            end = clock() + 50_000
            while clock() < end:
                pass
            stamps.append(stamp)
            handled.append(clock())

    def answer(_method: str, path: str, _body: bytes) -> object:
        return burst if "watch=true" in path else peers.http(200, LIST)

    async def story() -> tuple[float, WatchState]:
        state = WatchState("configmaps")
        async with peers.client(answer) as (client, _):
            task = asyncio.ensure_future(watch(client, CONFIGMAPS, Nothing, on_event, state=state))
            worst, loop = 0.0, asyncio.get_running_loop()
            while len(stamps) < 4000:
                before = loop.time()
                await asyncio.sleep(0)
                worst = max(worst, loop.time() - before)
            task.cancel()
            await asyncio.wait([task])
        return worst, state

    worst, state = run(story())
    assert worst < 0.15
    assert max(stamps) - min(stamps) < (handled[-1] - handled[0]) / 2
    assert state.lag_worst > 50_000_000
