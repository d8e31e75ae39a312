"""One phase of requests: workers in a closed loop, or items due at a rate; every attempt has its record.

What the server rejects is sent again after the time it asks for, by the worker that sent it: a client that obeys. An answer that
was lost is asked for again; a create that was made then answers 409, which counts as done, since names are unique.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from seatrial.clusters.requests.forms import Form
from seatrial.kube import Client, Lost, Unreachable, clock
from seatrial.kube.errors import read_status
from seatrial.kube.transport import Answer
from seatrial.model.interfaces import Tally
from seatrial.model.plan import Requests
from seatrial.model.units import SECOND
from seatrial.record.requests import CLIENT, RequestLog

ANSWER_S = 75.0  # the server itself gives up after 60
STOPPED_S = 60.0  # a server that settles nothing for so long has stopped
BUSY_S = 1.0  # for a 429 that does not say how long to wait
NOBODY_HOLDS = 'failed calling webhook "hold.seatrial.dev"'
FULL = "database space exceeded"
_UNSURE = (500, 502, 503, 504)


class _Page(msgspec.Struct):
    metadata: _PageMeta


class _PageMeta(msgspec.Struct):
    continue_: str = msgspec.field(default="", name="continue")


_page = msgspec.json.Decoder(_Page)


@dataclass(slots=True)
class Progress:
    """What a phase has done so far; `said` are the server's words for what it refused for good → how often."""

    requests: int = 0  # sent, each attempt
    done: int = 0  # answered well
    refused: int = 0  # answered, and not to be sent again
    took: int = 0  # of all of them together, in nanoseconds; watches left out
    said: dict[str, int] = field(default_factory=dict)


class Sender:
    """Sends one phase's items through one client. `stopped` is told when the server cannot go on, and why."""

    def __init__(
        self, phase: Requests, forms: Sequence[Form], client: Client, namespaces: Sequence[str], log: RequestLog, epoch: int,
        stopped: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.progress = Progress()
        self._phase, self._forms, self._client, self._log, self._epoch = phase, forms, client, log, epoch
        self._namespaces = [name.encode() for name in namespaces]
        self._stopped = stopped
        self._over = False
        self._until = 0
        self._fields = b""
        number = log.number
        self._verb, self._identity = number(phase.verb), number(phase.identity.name)
        self._name, self._seen_by, self._nothing = number(phase.name), number(CLIENT), number("")
        self._resources = {form.resource: number(form.resource) for form in forms}
        self._first = self._last = self._alive = 0

    async def run(self) -> Tally:
        phase = self._phase
        self._fields = await self._client.fields()
        await self._client.pool.open(phase.workers if not phase.per_s else min(64, self._client.pool.size))
        start = clock()
        self._first = self._last = self._alive = start
        self._until = start + phase.lasting if phase.lasting else 0
        if phase.per_s:
            await self._at_a_rate(start)
        else:
            await self._in_turn()
        sent = self.progress.requests
        items = phase.count if phase.count is not None else round(phase.lasting / SECOND * phase.per_s)
        wanted = round((items - 1) / phase.per_s * SECOND) if phase.per_s and items > 1 else 0
        return Tally(phase.name, items if phase.per_s else sent, wanted, self._last - self._first if phase.per_s else 0)

    def _items(self) -> Iterator[int]:
        """The numbers of the items as long as there are more and there is time."""
        for item in itertools.count() if self._phase.count is None else range(self._phase.count):
            if self._over or (self._until and clock() >= self._until):
                return
            yield item

    async def _in_turn(self) -> None:
        items = self._items()

        async def work() -> None:
            for item in items:
                if not await self._item(item, 0):
                    return

        async with asyncio.TaskGroup() as group:
            for _ in range(self._phase.workers):
                group.create_task(work())

    async def _at_a_rate(self, start: int) -> None:
        every = SECOND / self._phase.per_s
        async with asyncio.TaskGroup() as group:
            for item in range(self._phase.count) if self._phase.count is not None else itertools.count():
                due = start + round(item * every)
                if self._over or (self._until and due >= self._until):
                    return
                wait = due - clock()
                if wait > 0:
                    await asyncio.sleep(wait / SECOND)
                self._last = clock()
                group.create_task(self._item(item, due))

    async def _item(self, item: int, due: int) -> bool:
        """Whether the worker may go on: not if it was told to wait beyond the end of the phase."""
        number, space = self._phase.place(item)
        text, namespace = b"%d" % number, self._namespaces[space]
        for form in self._forms:
            if not await self._object(form, text, namespace, due) or self._over:
                return False
            due = 0
        return True

    async def _object(self, form: Form, number: bytes, namespace: bytes, due: int) -> bool:
        """One object's request, and the further pages of a list; whether there is time for more."""
        more = b""
        if self._phase.verb == "watch":
            left = (self._until - clock()) / SECOND if self._until else self._phase.lasting / SECOND
            more = b"&timeoutSeconds=%d" % max(1, round(left))
        while True:
            answer = await self._settled(form, form.encode(self._fields, number, namespace, more), due)
            if answer is None:
                return False
            place = _page.decode(answer.body).metadata.continue_ if form.keep and answer.ok else ""
            if not place:
                return True
            more, due = b"&continue=" + place.encode(), 0

    async def _settled(self, form: Form, data: bytes, due: int) -> Answer | None:
        """Sent until there is nothing more to be gained from sending it again; None: the phase is over before that."""
        phase, pool, progress = self._phase, self._client.pool, self.progress
        resource = self._resources[form.resource]
        patience = ANSWER_S + (phase.lasting / SECOND if phase.verb == "watch" else 0)
        attempt, unsure = 0, False
        while not self._over:
            attempt += 1
            at = due or clock()
            progress.requests += 1
            try:
                answer = await pool.exchange(data, keep=form.keep, intended=at, timeout=patience)
            except (Lost, Unreachable) as error:
                why = error.why if isinstance(error, Lost) else error.message
                self._note(at, at, clock() - at, resource, 0, why, -1.0, attempt)
                unsure, pause = True, min(5.0, 0.1 * 2**attempt)
            else:
                code = answer.code
                if code not in _UNSURE:
                    self._alive = answer.done
                if code < 300:
                    self._note(at, answer.sent, answer.done - at, resource, code, "", -1.0, attempt)
                    progress.done += 1
                    return answer
                status = read_status(code, answer.body)
                why = status.reason or answer.reason
                self._note(at, answer.sent, answer.done - at, resource, code, why, answer.retry_after, attempt)
                if NOBODY_HOLDS in status.message:
                    self._give_up(f"our webhook could not be reached: {status.message}")
                    return None
                if FULL in status.message:
                    self._give_up("etcd is out of space (raise --quota-backend-bytes, or create less)")
                    return None
                if unsure and ((code == 409 and phase.verb == "create") or (code == 404 and phase.verb == "delete")):
                    progress.done += 1
                    return answer
                if code not in (429, *_UNSURE) or (code == 429 and not phase.retry):
                    self._refused(code, status.message or why)
                    return answer
                unsure = unsure or code in _UNSURE
                pause = answer.retry_after if answer.retry_after >= 0 else BUSY_S if code == 429 else 0.1 * 2**attempt
                if code == 429:
                    pause += random.uniform(0, 0.1)  # else all that were rejected together come again together
            now = clock()
            if now - self._alive > STOPPED_S * SECOND and phase.verb != "watch":  # which is one long answer
                self._give_up(f"the API server settled nothing for {STOPPED_S:.0f} s: {why}")
                return None
            if self._until and now + pause * SECOND >= self._until:
                # Its next item at once would be what the server asked it not to do, over and over.
                await asyncio.sleep(max(0.0, (self._until - now) / SECOND))
                return None
            await asyncio.sleep(min(pause, 5.0) if unsure else pause)
            due = 0
        return None

    def _note(
        self, at: int, sent: int, took: int, resource: int, code: int, reason: str, retry_after: float, attempt: int
    ) -> None:
        epoch = self._epoch
        self.progress.took += took if self._phase.verb != "watch" else 0
        why = self._log.number(reason) if reason else self._nothing
        self._log.add(
            at - epoch, sent - epoch, took, self._verb, resource, self._identity, code, why, retry_after, attempt, self._name,
            self._seen_by,
        )  # fmt: skip

    def _refused(self, code: int, words: str) -> None:
        self.progress.refused += 1
        said = self.progress.said
        line = f"{code}: {words}"
        if line in said or len(said) < 5:
            said[line] = said.get(line, 0) + 1

    def _give_up(self, why: str) -> None:
        if not self._over:
            self._over = True
            self._stopped(f"{self._phase.name}: {why}")
