"""Runs a watch of a stack, and gives every transition an error bound.

After a gap a watch shows events late, and a list shows only the present state. Both are recorded with their possible error, beside
the objects' own timestamps; when the records are read, the smaller error wins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from seatrial.kube import Client, RetryPolicy, WatchState, list_once, watch
from seatrial.kube.watching import LISTED
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.observe.observer import Observer, Watch

CATCH_UP = 5 * SECOND  # after a gap: how long events may still be old
STALLED = SECOND  # without a heartbeat of this process: timestamps may be late
MOST_DOUBT = 2**31 - 1  # ms, the maximum of a record: 24 days

Also = Callable[[int, str, Any], None]


class Watching(Protocol):
    """Who follows a watch: since when it may have missed something, and when it last ran (0: it does not say)."""

    epoch: int
    alive: int


def doubt(observer: Watching, state: WatchState, stamp: int, event: str) -> int:
    """How many ms ago an observed state may have begun; 0 if it has just begun."""
    if event == LISTED:
        begin = state.silent or observer.epoch
    elif state.gaps and stamp < state.gaps[-1].end + CATCH_UP:
        begin = state.gaps[-1].begin
    elif observer.alive and stamp - observer.alive > STALLED:  # the machine slept, or the process did not run
        begin = observer.alive
    else:
        return 0
    return int(min(max((stamp - begin) // MILLISECOND, 1), MOST_DOUBT))


async def follow(
    client: Client, wanted: Watch, observer: Observer, state: WatchState, *, also: Also | None = None, once: bool = False,
    retry: RetryPolicy | None = None, namespace: str = "", selector: str = "",
) -> None:  # fmt: skip
    """Watches until cancelled, or with `once` lists all objects. `also` gets every event after the observer."""

    def handle(stamp: int, event: str, thing: Any) -> None:
        if thing is not None:
            observer.doubt = doubt(observer, state, stamp, event)
            wanted.handle(observer, stamp, event, thing)
            observer.doubt = 0
        if also is not None:
            also(stamp, event, thing)

    query = {
        "namespace": namespace if wanted.resource.namespaced else "",
        "labelSelector": selector if wanted.labelled else "",
    }
    if once:
        await list_once(client, wanted.resource, wanted.shape, handle, state=state, **query)
    else:
        await watch(client, wanted.resource, wanted.shape, handle, state=state, retry=retry, **query)
