"""The part of a phase of submissions that one machine of a load sends, with what the server answered.

The caller knows every workload before a machine sends it: the watch of a trial may be faster than this machine's news.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from seatrial.clusters.access.submitting import NoVerdict, RateLimit, SubmitByApi
from seatrial.kube import Access, Answer, Client, ClientIdentity, Lost, Mark, Request, Status, Unreachable, clock
from seatrial.model.interfaces import Stack
from seatrial.model.plan import Setup, Workload

CONNECTIONS = 32  # requests in flight, as of one client; each machine has so many
ENCODED_AHEAD = 4  # workloads per connection, so that no connection waits for us
ANSWER_S = 1.0  # how long requests in flight may still take when the phase is ended in the middle


@dataclass(frozen=True, slots=True)
class WorkloadShare:
    """What one machine submits of a phase, and as whom. `due`: ns after the beginning of a batch, per workload."""

    phase: str
    indices: Sequence[int]
    workloads: Sequence[Workload]
    due: Sequence[int]
    access: Access
    identity: ClientIdentity
    mark: Mark
    stack: Stack
    setup: Setup
    namespace: str  # of the trial; a queue of the stack may have its own


@dataclass(slots=True)
class Submitted:
    """What a machine did since it was last asked: per workload its index, when it was sent on that machine's clock, and why it was
    refused (empty: it was not). `attempts`: requests of the phase so far."""

    rows: list[tuple[int, int, str]] = field(default_factory=list)
    attempts: int = 0
    unanswered: list[tuple[int, int]] = field(default_factory=list)  # sent, when the phase was ended in the middle


class WorkloadSender:
    """Submits a share. `limit` is shared by all phases of this machine."""

    def __init__(self, share: WorkloadShare, limit: RateLimit) -> None:
        self._share, self._limit = share, limit
        self._client = Client(
            share.access, connections=CONNECTIONS, identity=share.identity, mark=share.mark, observe=self._count
        )
        self._real = share.stack.real.for_setup(share.setup)
        self._method = SubmitByApi(self._client, lambda one: share.stack.real.namespace(one.queue, share.namespace))
        self._slots = asyncio.Semaphore(CONNECTIONS * ENCODED_AHEAD)
        self._news = Submitted()
        self._flying: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: BaseException | None = None
        self._next = 0  # place of the next workload in the share

    async def connect(self) -> None:
        """Opens connections ahead, so that the first workloads do not wait for handshakes."""
        await self._client.pool.open(min(CONNECTIONS, len(self._share.indices)))

    async def send(self, begin: int, end: int) -> None:
        """Submits its workloads with an index below `end` that are left, from `begin` on; returns when all are answered."""
        share = self._share
        while self._next < len(share.indices) and share.indices[self._next] < end:
            place, self._next = self._next, self._next + 1
            await self._limit.turn(begin + share.due[place])
            await self._slots.acquire()
            task = asyncio.create_task(self._submit(place))
            self._tasks.add(task)
            task.add_done_callback(self._answered)
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._failed:
            raise self._failed

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._slots.release()
        if not task.cancelled():
            self._failed = self._failed or task.exception()

    async def _submit(self, place: int) -> None:
        share = self._share
        workload, index = share.workloads[place], share.indices[place]
        manifests = self._real.render(workload, {share.mark.key: share.mark.value})
        at = self._flying[index] = clock()
        try:
            why = (await self._method.send(workload, manifests)).refused
        except (Lost, Unreachable, NoVerdict) as error:
            why = error.message
        del self._flying[index]
        self._news.rows.append((index, at, why))

    def _count(self, _: Request, __: int, ___: int, ____: Answer | None, _____: Status | None) -> None:
        self._news.attempts += 1

    def news(self) -> Submitted:
        """Submissions since the last call."""
        news, self._news = self._news, Submitted(attempts=self._news.attempts)
        return news

    async def end(self) -> Submitted:
        """Ends the phase, also in the middle; the last news."""
        self._next = len(self._share.indices)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=ANSWER_S)
        for task in list(self._tasks):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()
        news = self.news()
        news.unanswered = sorted(self._flying.items())
        return news
