"""Watches what a stack wants watched, and says of everything seen how far its time may be off.

A watch that broke and went on shows late what happened in between, and a list shows only what is so now. Both are recorded with
the doubt there is, beside what the objects say of themselves; the smaller error wins when the records are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seatrial.kube import Client, Patience, Watching, list_once, watch
from seatrial.kube.watching import LISTED
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.observe.observer import Observer, Watch

CATCH_UP = 5 * SECOND  # after a gap: how long what arrives may be old
STALLED = SECOND  # without a sign of life of our own: what arrived then was not stamped when it did
MOST_DOUBT = 2**31 - 1  # ms that a record has room for: 24 days

Also = Callable[[int, str, Any], None]


def doubt(observer: Observer, state: Watching, stamp: int, event: str) -> int:
    """How long, in ms, what is seen now may have been so; 0 if it just came about."""
    if event == LISTED:
        begin = state.silent or observer.epoch
    elif state.gaps and stamp < state.gaps[-1].end + CATCH_UP:
        begin = state.gaps[-1].begin
    elif observer.alive and stamp - observer.alive > STALLED:  # a sleep, or a processor that others had
        begin = observer.alive
    else:
        return 0
    return int(min(max((stamp - begin) // MILLISECOND, 1), MOST_DOUBT))


async def follow(
    client: Client, wanted: Watch, observer: Observer, state: Watching, *, also: Also | None = None, once: bool = False,
    patience: Patience | None = None, namespace: str = "", selector: str = "",
) -> None:  # fmt: skip
    """Until cancelled, or with `once` until all that is there was seen. `also` is told of everything after the observer."""

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
        await watch(client, wanted.resource, wanted.shape, handle, state=state, patience=patience, **query)
