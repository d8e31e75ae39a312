"""One phase of requests: workers in a closed loop, or items due at a rate; every attempt is recorded.

Retries are those of `kube.retrying`, by the worker that sent the request. A request that the server throttles is resent after
Retry-After. A request whose answer was lost is resent; a create that is then answered AlreadyExists counts as done, since
names are unique.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from seatrial.clusters.requests.load_shares import WHOLE, LoadShare
from seatrial.clusters.requests.request_templates import RequestTemplate
from seatrial.kube import Answer, Client, Request, RetryPolicy, Status, clock
from seatrial.kube.api_errors import read_status
from seatrial.kube.client import ListMeta
from seatrial.model.interfaces import Tally
from seatrial.model.units import SECOND
from seatrial.record.request_log import CLIENT, RequestLog
from seatrial.scenario.actions.send_requests import Requests

ANSWER_S = 75.0  # timeout of a request; the server's own is 60
STOPPED_S = 60.0  # a server without a final answer for so long has stopped
RETRY = RetryPolicy(seconds=math.inf, internal=math.inf, first=0.2, restarting=False)
WEBHOOK_FAILED = 'failed calling webhook "hold.seatrial.dev"'
FULL = "database space exceeded"


class _Page(msgspec.Struct):
    metadata: ListMeta


_page = msgspec.json.Decoder(_Page)


class _PhaseOver(Exception):
    """The phase ends before a request may be retried."""


@dataclass(slots=True)
class PhaseProgress:
    """The progress of a phase. `said` counts the server's messages for requests it refused for good."""

    requests: int = 0  # attempts
    done: int = 0  # successful requests
    refused: int = 0  # requests with an error that is not retried
    took: int = 0  # nanoseconds of all attempts together, without watches
    said: dict[str, int] = field(default_factory=dict)


class Sender:
    """Sends the items of one phase through one client. `stopped` is called with the reason if the server cannot go on."""

    def __init__(
        self, phase: Requests, templates: Sequence[RequestTemplate], client: Client, namespaces: Sequence[str],
        log: RequestLog, epoch: int, stopped: Callable[[str], None], share: LoadShare = WHOLE,
    ) -> None:  # fmt: skip
        self.share = share
        self.progress = PhaseProgress()
        self._phase, self._templates, self._log, self._epoch = phase, templates, log, epoch
        retry = msgspec.structs.replace(RETRY, throttled=phase.retry)
        self._client = client.acting_as(client.identity, observe=self._record, retry=retry)
        self._namespaces = namespaces
        self._stopped = stopped
        self._over = False
        self._until = 0
        self._watches = phase.verb == "watch"  # one long answer
        self._timeout = ANSWER_S + (phase.lasting / SECOND if self._watches else 0)
        number = log.number
        self._verb, self._identity = number(phase.verb), number(phase.identity.name)
        self._name, self._seen_by, self._nothing = number(phase.name), number(CLIENT), number("")
        self._resources = {template.resource: number(template.resource) for template in templates}
        self.first = self.last = self._settled = 0  # sends; settled: when an answer was last final, or a 429
        self._failure = ""  # reason of the last attempt that failed

    async def connect(self) -> None:
        """Opens connections ahead, so that the first requests do not wait for handshakes."""
        phase = self._phase
        wanted = self.share.part(phase.workers) if not phase.per_s else min(64, self._client.pool.size)
        await self._client.pool.open(wanted)

    async def run(self, begin: int = 0) -> Tally:
        """Sends all items; returns when the phase is over. `begin`: when the phase begins, if not at once."""
        phase = self._phase
        await self.connect()
        if (wait := begin - clock()) > 0:
            await asyncio.sleep(wait / SECOND)
        start = begin or clock()
        self.first = self.last = self._settled = start
        self._until = start + phase.lasting if phase.lasting else 0
        if phase.per_s:
            await self._at_a_rate(start)
        else:
            await self._in_turn()
        sent = self.progress.requests
        whole = phase.count if phase.count is not None else round(phase.lasting / SECOND * phase.per_s)
        items = self.share.part(whole)
        wanted = round((items - 1) * self.share.of / phase.per_s * SECOND) if phase.per_s and items > 1 else 0
        return Tally(phase.name, items if phase.per_s else sent, wanted, self.last - self.first if phase.per_s else 0)

    def _items(self) -> Iterator[int]:
        """The numbers of the items until the phase is over."""
        for item in self.share.items(self._phase.count):
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
            for _ in range(self.share.part(self._phase.workers)):
                group.create_task(work())

    async def _at_a_rate(self, start: int) -> None:
        every = SECOND / self._phase.per_s
        async with asyncio.TaskGroup() as group:
            for item in self.share.items(self._phase.count):
                due = start + round(item * every)
                if self._over or (self._until and due >= self._until):
                    return
                wait = due - clock()
                if wait > 0:
                    await asyncio.sleep(wait / SECOND)
                self.last = clock()
                group.create_task(self._item(item, due))

    async def _item(self, item: int, due: int) -> bool:
        """Sends one item. False if the phase is over."""
        number, space = self._phase.place(item)
        try:
            for template in self._templates:
                await self._object(template, number, self._namespaces[space], due)
                due = 0
                if self._over:
                    return False
        except _PhaseOver:
            return False
        return True

    async def _object(self, template: RequestTemplate, number: int, namespace: str, due: int) -> None:
        """The request for one object, and the further pages of a list."""
        more = ""
        if self._watches:
            left = (self._until - clock() if self._until else self._phase.lasting) / SECOND
            more = f"&timeoutSeconds={max(1, round(left))}"
        while True:
            request = template.request(number, namespace, self._timeout, more)
            answer = await self._client.send(request, due, sleep=self._pause)
            if answer.ok:
                self.progress.done += 1
            else:
                self._refused(answer)
            place = _page.decode(answer.body).metadata.continue_ if template.keep and answer.ok else ""
            if not place:
                return
            more, due = f"&continue={place}", 0

    async def _pause(self, seconds: float) -> None:
        """Waits before a retry. Ends the phase if the server has stopped."""
        now = clock()
        if now - self._settled > STOPPED_S * SECOND and not self._watches:
            self._give_up(f"the API server settled nothing for {STOPPED_S:.0f} s: {self._failure}")
        if self._over:
            raise _PhaseOver
        if self._until and now + seconds * SECOND >= self._until:
            # With its next item at once the worker would do what the server asked it not to do, over and over.
            await asyncio.sleep(max(0.0, (self._until - now) / SECOND))
            raise _PhaseOver
        await asyncio.sleep(seconds)
        if self._over:
            raise _PhaseOver

    def _record(self, request: Request, number: int, start: int, answer: Answer | None, failure: Status | None) -> None:
        """Sees every attempt. Some failures end the phase: no retry would help."""
        self.progress.requests += 1
        sent, end, code = (answer.sent, answer.done, answer.code) if answer else (start, clock(), 0)
        if 0 < code < 500:
            self._settled = end
        epoch, why = self._epoch, self._nothing
        self.progress.took += 0 if self._watches else end - start
        if failure is not None:
            self._failure = failure.reason
            why = self._log.number(failure.reason) if failure.reason else why
        self._log.add(
            start - epoch, sent - epoch, end - start, self._verb, self._resources[request.resource], self._identity, code,
            why, answer.retry_after if answer else -1.0, number, self._name, self._seen_by,
        )  # fmt: skip
        if failure is not None and WEBHOOK_FAILED in failure.message:
            self._give_up(f"our webhook could not be reached: {failure.message}")
        elif failure is not None and FULL in failure.message:
            self._give_up("etcd is out of space (raise --quota-backend-bytes, or create less)")

    def _refused(self, answer: Answer) -> None:
        self.progress.refused += 1
        status, said = read_status(answer.code, answer.body), self.progress.said
        line = f"{answer.code}: {status.message or status.reason or answer.reason}"
        if line in said or len(said) < 5:
            said[line] = said.get(line, 0) + 1

    def _give_up(self, why: str) -> None:
        if not self._over:
            self._over = True
            self._stopped(f"{self._phase.name}: {why}")
