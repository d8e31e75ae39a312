"""Trying again, without ever doing a thing twice.

What may be repeated depends on what is known. A 429 was not carried out, nor a create in conflict over a quota. A lost
answer (a cut connection, a time-out, most 5xx) leaves that open: reads, deletes and patches are simply sent again; a
create is first looked up, and counts as made if the object is there and carries our mark. A create that still runs in
the server while we look makes the second one a 409, which is settled the same way: names are unique, so an object can
never be there twice.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import msgspec

from seatrial.kube.errors import Lost, Unreachable, read_status
from seatrial.kube.resources import NEVER, SETTLE, Request
from seatrial.kube.transport import Answer


class Mark(msgspec.Struct, frozen=True):
    """The label that says an object is ours: of this run, so that another run's equal names are not taken for ours."""

    key: str
    value: str


class Patience(msgspec.Struct, frozen=True):
    """How long to keep trying. The default outlives the restart of an API server."""

    seconds: float = 60.0  # for one request, waits included
    first: float = 0.1
    longest: float = 5.0
    busy: float = 1.0  # for a 429 that does not say how long to wait
    internal: float = 10.0  # for a 500: etcd that restarts is worth it, a webhook broken for good is not

    def pause(self, attempt: int) -> float:
        return float(min(self.longest, self.first * 2.0 ** (attempt - 1)) * random.uniform(0.7, 1.3))


ONCE = Patience(seconds=0.0)

_UNSURE = (500, 502, 503, 504)  # the server may have done it, or a proxy may have lost the answer

Once = Callable[[Request, int], Awaitable[Answer]]


class _Object(msgspec.Struct):
    metadata: _Meta


class _Meta(msgspec.Struct):
    labels: dict[str, str] | None = None


_labels = msgspec.json.Decoder(_Object)


class Persistence:
    """Sends until settled. `shaken` says whether the server was just gone.

    An API server that comes back answers 403 to everyone until its cache of roles is filled (0.3 s, before it calls
    itself ready): just after a loss, a 403 is not the last word.
    """

    def __init__(
        self, once: Once, mark: Mark | None, now: Callable[[], int], shaken: Callable[[], bool] = lambda: False
    ) -> None:
        self._once = once
        self._mark = mark
        self._now = now
        self._shaken = shaken

    async def send(self, request: Request, intended: int, patience: Patience) -> Answer:
        """The answer, tried for until it is settled or patience ends; then the last answer, or the lack of one."""
        loop = asyncio.get_running_loop()
        intended = intended or self._now()
        began, due = loop.time(), intended
        attempt = 0
        unsure = False  # whether an earlier attempt may have been carried out
        while True:
            attempt += 1
            answer: Answer | None = None
            failure: Exception | None = None
            try:
                answer = await self._once(request, due)
                if answer.code < 400 and attempt == 1:
                    return answer
                final = await self._final(request, answer, unsure)
                if final is not None:
                    return msgspec.structs.replace(final, attempts=attempt, intended=intended)
                unsure = unsure or answer.code in _UNSURE
            except Lost as error:
                unsure, failure = True, error
            except Unreachable as error:
                failure = error
            pause = _pause(answer, attempt, patience)
            enough = patience.internal if answer is not None and answer.code in (403, 409, 500) else patience.seconds
            if (unsure and request.again == NEVER) or loop.time() + pause > began + min(enough, patience.seconds):
                if answer is None:
                    raise failure or AssertionError
                return msgspec.structs.replace(answer, attempts=attempt, intended=intended)
            await asyncio.sleep(pause)
            due = self._now()
            if unsure and request.again == SETTLE:
                found = await self._look(request)
                if found is not None:
                    return msgspec.structs.replace(found, attempts=attempt, intended=intended)

    async def _final(self, request: Request, answer: Answer, unsure: bool) -> Answer | None:
        """The answer as the caller should see it; None if it is worth another try."""
        code = answer.code
        if code == 429 or code in _UNSURE or (code == 403 and self._shaken()):
            return None
        if code == 409 and request.again == SETTLE:
            said = read_status(409, answer.body).reason
            if said == "Conflict":
                return None  # two creates charged the same quota: one of them is asked to come again
            if said == "AlreadyExists" and (self._mark is not None or unsure):
                return await self._look(request)  # not told, or gone by now: then it is created again
        elif code == 404 and request.verb == "delete" and unsure:
            return msgspec.structs.replace(answer, code=200, found=True)  # the delete with the lost answer did it
        return answer

    async def _look(self, request: Request) -> Answer | None:
        """Is the object of this create there? If it is ours the create is done; None if there is no such object."""
        look = Request("get", request.resource, "GET", request.object_path, timeout=request.timeout)
        try:
            answer = await self._once(look, 0)
        except (Lost, Unreachable):
            return None  # the create is tried again and runs into the same, or into a 409
        if answer.code != 200:
            return None
        labels = _labels.decode(answer.body).metadata.labels or {}
        if self._mark is not None and labels.get(self._mark.key) == self._mark.value:
            return msgspec.structs.replace(answer, code=201, found=True)
        what = f"{request.object_path} is there already, and nothing shows that it is ours"
        status = {"message": what, "reason": "AlreadyExists", "code": 409}
        return msgspec.structs.replace(answer, code=409, reason="Conflict", body=msgspec.json.encode(status))


def _pause(answer: Answer | None, attempt: int, patience: Patience) -> float:
    if answer is not None and answer.retry_after >= 0:
        return answer.retry_after
    if answer is not None and answer.code == 429:
        return patience.busy
    return patience.pause(attempt)
