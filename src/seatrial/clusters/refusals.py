"""Why a controller cannot create the pods of a workload, in its own words: the Job controller says so in Events alone.

Events are many and their watch is not cached by the API server, so they are asked for only while workloads stand without pods
and nothing moves.
"""

from __future__ import annotations

import asyncio
import contextlib
import re

from seatrial.kube import ApiProblem, Client, Lost, Unreachable, clock
from seatrial.kube.resources import EVENTS
from seatrial.kube.shapes import Event
from seatrial.model.units import SECOND
from seatrial.observe.observer import Observer

LOOK_S = 1.0
QUIET = 2 * SECOND  # the Job controller has tried by then; it tries again after 1 s, 2 s, 4 s …
AGAIN_S = 10.0
_REASON = "FailedCreate"
_POD = re.compile(r'pods "[^"]*"')  # without its name the same reason is the same words for every workload
_MOST = 100  # they mostly say the same


async def listen(client: Client, observer: Observer, namespace: str) -> None:
    """Until cancelled. Who may not list Events hears nothing."""
    while True:
        await asyncio.sleep(LOOK_S)
        if _stands(observer):
            with contextlib.suppress(ApiProblem, Lost, Unreachable):
                await _ask(client, observer, namespace)
            await asyncio.sleep(AGAIN_S)


def _stands(observer: Observer) -> bool:
    ledger = observer.ledger
    number = ledger.number
    over = sum(ledger.counts[number[stage]] for stage in ("failed", "deleted"))
    without = ledger.counts[number["created"]] - ledger.counts[number["pods_created"]] - over
    return without > 0 and clock() - observer.epoch - ledger.touched > QUIET


async def _ask(client: Client, observer: Observer, namespace: str) -> None:
    found = await client.list(EVENTS, namespace, shape=Event, fieldSelector=f"reason={_REASON}", limit=_MOST)
    for event in found.items:
        if event.regarding.kind == "Job":
            observer.says(event.regarding.name, f"{_REASON}: {_POD.sub('pods', event.note)}")
