"""Retries of requests that never do a thing twice.

A 429 was not carried out, nor was a create that conflicted with another over a quota: both are sent again. A lost answer
(a cut connection, a timeout, most 5xx) leaves open whether the request was carried out. Reads, deletes and patches are
resent. For a create the object is looked up first, and the create succeeded if the object carries our mark. If the
server still runs the first create during the lookup, the second one gets a 409, which is settled by a lookup too: names
are unique, so no object is created twice.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import msgspec

from seatrial.kube.api_errors import Lost, Unreachable, read_status
from seatrial.kube.resources import LOOK_UP, NEVER, RESEND, Request
from seatrial.kube.shapes import Object
from seatrial.kube.transport import Answer

SPREAD_S = 0.1  # added to the pause after a 429 at random: requests rejected together do not return together
_UNSURE = (500, 502, 503, 504)  # the server may have carried it out, or a proxy may have lost the answer

Attempt = Callable[[Request, int, int], Awaitable[Answer]]  # the request, when it was due, the attempt's number
Sleep = Callable[[float], Awaitable[None]]


class Mark(msgspec.Struct, frozen=True):
    """The label that marks objects of this run, so that equal names of another run are not taken for ours."""

    key: str
    value: str


class RetryPolicy(msgspec.Struct, frozen=True):
    """How long a request is retried, in seconds. The default outlives the restart of an API server."""

    seconds: float = 60.0  # for one request, pauses included
    first: float = 0.1
    longest: float = 5.0
    busy: float = 1.0  # pause after a 429 without Retry-After
    internal: float = (
        10.0  # from the first 500: worth it while etcd restarts, not for a webhook that is broken for good
    )
    throttled: bool = True  # whether a 429 is retried
    restarting: bool = True  # whether a 403 is retried shortly after a lost connection

    def pause(self, attempt: int) -> float:
        """Exponential backoff with jitter."""
        return float(min(self.longest, self.first * 2.0 ** (attempt - 1)) * random.uniform(0.7, 1.3))


NO_RETRY = RetryPolicy(seconds=0.0)


class Retrier:
    """Sends a request until its answer is final. `recovering` says whether a connection was lost just now.

    A restarted API server answers 403 to everyone until its cache of roles is filled (0.3 s, before it reports ready):
    shortly after a lost connection a 403 is not final.
    """

    def __init__(
        self, attempt: Attempt, mark: Mark | None, now: Callable[[], int], recovering: Callable[[], bool]
    ) -> None:
        self._attempt = attempt
        self._mark = mark
        self._now = now
        self._recovering = recovering

    async def send(self, request: Request, intended: int, policy: RetryPolicy, sleep: Sleep = asyncio.sleep) -> Answer:
        """The final answer. Where the policy ends before, the last answer, or the failure of the last attempt.

        `sleep` makes the pause before the next attempt; what it raises ends the request.
        """
        loop = asyncio.get_running_loop()
        intended = intended or self._now()
        began, due = loop.time(), intended
        number, answered = 0, 0.0  # answered: when the first 403, 409 or 500 came
        unsure = False  # whether an earlier attempt may have been carried out
        while True:
            number += 1
            answer: Answer | None = None
            failure: Exception | None = None
            try:
                answer = await self._attempt(request, due, number)
                if answer.code < 400 and number == 1:
                    return answer
                final = await self._final(request, answer, unsure, policy)
                if final is not None:
                    return msgspec.structs.replace(final, attempts=number, intended=intended)
                unsure = unsure or answer.code in _UNSURE
            except Lost as error:
                unsure, failure = True, error
            except Unreachable as error:
                failure = error
            pause = _pause(answer, number, policy)
            deadline = began + policy.seconds
            if answer is not None and answer.code in (403, 409, 500):
                answered = answered or loop.time()
                deadline = min(deadline, answered + policy.internal)
            if (unsure and request.if_lost == NEVER) or loop.time() + pause > deadline:
                if answer is None:
                    raise failure or AssertionError
                return msgspec.structs.replace(answer, attempts=number, intended=intended)
            await sleep(pause)
            due = self._now()
            if unsure and request.if_lost == LOOK_UP:
                found = await self._look_up(request)
                if found is not None:
                    return msgspec.structs.replace(found, attempts=number, intended=intended)

    async def _final(self, request: Request, answer: Answer, unsure: bool, policy: RetryPolicy) -> Answer | None:
        """The answer for the caller; None if the request should be retried."""
        code = answer.code
        if is_temporary(code, policy.restarting and self._recovering()):
            return answer if code == 429 and not policy.throttled else None
        if code == 409 and request.verb == "create" and request.if_lost != NEVER:
            reason = read_status(409, answer.body).reason
            if request.if_lost == LOOK_UP:
                if reason == "Conflict":
                    return None  # two creates charged the same quota: the server asks one of them to retry
                if reason == "AlreadyExists" and (self._mark is not None or unsure):
                    return await self._look_up(request)  # None: deleted meanwhile, or no answer; created again
            elif request.if_lost == RESEND and reason == "AlreadyExists" and unsure:
                return msgspec.structs.replace(answer, code=201, found=True)
        elif code == 404 and request.verb == "delete" and unsure:
            return msgspec.structs.replace(answer, code=200, found=True)  # the delete whose answer was lost did it
        return answer

    async def _look_up(self, request: Request) -> Answer | None:
        """Success if the object of this create exists and is ours, 409 if it is not ours, None if it does not exist."""
        look = Request("get", request.resource, "GET", request.object_path, timeout=request.timeout)
        try:
            answer = await self._attempt(look, 0, 1)
        except (Lost, Unreachable):
            return None  # the create is retried and meets the same failure, or a 409
        if answer.code != 200:
            return None
        labels = msgspec.json.decode(answer.body, type=Object).metadata.labels
        if self._mark is not None and labels.get(self._mark.key) == self._mark.value:
            return msgspec.structs.replace(answer, code=201, found=True)
        what = f"{request.object_path} exists already and does not carry the label of this run"
        status = {"message": what, "reason": "AlreadyExists", "code": 409}
        return msgspec.structs.replace(answer, code=409, reason="Conflict", body=msgspec.json.encode(status))


def is_temporary(code: int, recovering: bool) -> bool:
    """Whether the server may answer otherwise soon. `recovering`: it may have been restarted just now."""
    return code == 429 or code in _UNSURE or (code == 403 and recovering)


def _pause(answer: Answer | None, attempt: int, policy: RetryPolicy) -> float:
    if answer is None or (answer.retry_after < 0 and answer.code != 429):
        return policy.pause(attempt)
    pause = answer.retry_after if answer.retry_after >= 0 else policy.busy
    return pause + random.uniform(0, SPREAD_S) if answer.code == 429 else pause
