"""A phase of submissions that the machines of a load send together: started at one moment, told to the trial while they send.

Each machine has every n-th workload, due when it would be due with one client, and renders and sends it itself. The trial knows all
of them before the first is sent, so that no event of a watch is of an unknown workload.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from seatrial.clusters.live.session import Session
from seatrial.clusters.requests.load_machines import BEGIN_IN_S, LoadMachines, LoadSender, of_all, portable
from seatrial.clusters.requests.load_shares import LoadShare
from seatrial.clusters.requests.workload_share import Submitted, WorkloadShare
from seatrial.kube import Mark, clock
from seatrial.model.errors import SeatrialError
from seatrial.model.interfaces import Tally
from seatrial.model.labels import STUDY_LABEL
from seatrial.model.load import Load, lateness
from seatrial.model.plan import Workload
from seatrial.model.units import SECOND
from seatrial.observe import time_sources

TOLD_EVERY_S = 0.2
ROUND_IN_S = 0.01  # from the decision that a round begins: a call to the slowest machine arrives before

Known = Callable[[Workload, int], tuple[int, Workload]]  # a workload and its phase → its number, and what is sent
Answered = Callable[[int, Workload, int, str, int], None]  # number, workload, when it was sent, why refused, error


@dataclass(slots=True)
class _Progress:
    """The progress of a phase. `sent` are times of our clock, by index."""

    load: Load
    items: list[tuple[int, Workload]]
    sent: dict[int, int] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)  # per machine


class SharedSubmissions:
    """`known` makes a workload known to the trial, `answered` records what became of it."""

    def __init__(self, session: Session, machines: LoadMachines, known: Known, answered: Answered) -> None:
        self._session, self._machines, self._known, self._answered = session, machines, known, answered

    async def load(self, load: Load) -> Tally:
        """Submits them all; how close the machines together came to the times asked for."""
        phase = self._session.ledger.phase(load.phase)
        progress = _Progress(load, [self._known(load.item(index), phase) for index in range(load.count)])
        senders = self._machines.senders
        try:
            try:
                begin = await self._send(progress, senders)
            finally:
                await asyncio.shield(self._end(progress, senders))
        except SeatrialError as problem:
            self._machines.stopped(f"{load.phase}: {problem.message}")
            return Tally(load.phase, len(progress.sent), 0, 0)
        await self._machines.look_at_clocks(senders)
        self._account(progress, senders)
        took = max(progress.sent.values()) - min(progress.sent.values())
        if load.due is None:
            return Tally(load.phase, load.count, took, took)
        late = lateness(load.due, [progress.sent[index] - begin for index in range(load.count)])
        return Tally(load.phase, load.count, int(load.due[-1]), took, *late)

    async def _send(self, progress: _Progress, senders: Sequence[LoadSender]) -> int:
        """Sends all batches: a round each, or everything at once. Returns when the first began."""
        load = progress.load
        shares = await self._shares(progress, senders)
        await of_all(
            senders,
            (one.actor.prepare_workloads.remote(pickle.dumps(s)) for one, s in zip(senders, shares, strict=True)),
        )
        over = asyncio.Event()
        watching = asyncio.create_task(self._watch(progress, senders, over))
        first = begin = clock() + int(BEGIN_IN_S * SECOND)
        size = load.pace.size if load.due is None else load.count
        interval = SECOND / self._machines.rate if self._machines.rate else 0.0
        try:
            for end in range(size, load.count + size, size):
                sending = [
                    one.actor.submit.remote(load.phase, one.offset.theirs(begin), end, round(number * interval))
                    for number, one in enumerate(senders)
                ]
                await of_all(senders, sending)
                begin = max(begin + load.pace.every, clock() + int(ROUND_IN_S * SECOND))
        finally:
            over.set()  # not cancelled: what a machine has told once it does not tell again
            await asyncio.shield(asyncio.gather(watching, return_exceptions=True))
        return first

    async def _shares(self, progress: _Progress, senders: Sequence[LoadSender]) -> list[WorkloadShare]:
        session, load = self._session, progress.load
        access, agent = await portable(session.client.access), session.client.identity
        due = [0] * load.count if load.due is None else load.due.tolist()
        shares = []
        for number in range(len(senders)):
            indices = list(LoadShare(number, len(senders)).items(load.count))
            identity = msgspec.structs.replace(agent, user_agent=f"{agent.user_agent} machine-{number}")
            shares.append(
                WorkloadShare(
                    load.phase,
                    indices,
                    [progress.items[index][1] for index in indices],
                    [due[index] for index in indices],
                    access,
                    identity,
                    Mark(STUDY_LABEL, session.study),
                    session.stack,
                    session.trial.setup,
                    session.namespace,
                )
            )
        return shares

    async def _watch(self, progress: _Progress, senders: Sequence[LoadSender], over: asyncio.Event) -> None:
        while not over.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), TOLD_EVERY_S)
            told = await of_all(senders, (one.actor.submitted.remote(progress.load.phase) for one in senders))
            self._take(progress, senders, told)

    async def _end(self, progress: _Progress, senders: Sequence[LoadSender]) -> None:
        """The last news of every machine that is there; also of a phase that is ended in the middle."""
        asked = [one.actor.end_workloads.remote(progress.load.phase) for one in senders]
        told = await asyncio.gather(
            *(of_all([one], [answer]) for one, answer in zip(senders, asked, strict=True)), return_exceptions=True
        )
        self._take(progress, senders, [Submitted() if isinstance(one, BaseException) else one[0] for one in told])

    def _take(self, progress: _Progress, senders: Sequence[LoadSender], told: Sequence[Submitted]) -> None:
        for number, (sender, news) in enumerate(zip(senders, told, strict=True)):
            offset = sender.offset
            progress.attempts[number] = max(progress.attempts.get(number, 0), news.attempts)
            for index, at in [*((index, at) for index, at, _ in news.rows), *news.unanswered]:
                progress.sent[index] = offset.ours(at)
                name = progress.items[index][1].name
                self._session.observer.workload(name, "submitted", offset.ours(at), time_sources.CLIENT)
            for index, at, why in news.rows:
                workload = progress.items[index]
                self._answered(*workload, offset.ours(at), why, offset.error)

    def _account(self, progress: _Progress, senders: Sequence[LoadSender]) -> None:
        """A row for each machine that had something to send."""
        load, every = progress.load, sum(progress.attempts.values())
        for number, sender in enumerate(senders):
            indices = list(LoadShare(number, len(senders)).items(load.count))
            if not indices:
                continue
            wanted = achieved = None
            asked = 0 if load.due is None else int(load.due[indices[-1]] - load.due[indices[0]])
            if asked:
                took = max(progress.sent[index] for index in indices) - min(progress.sent[index] for index in indices)
                wanted = (len(indices) - 1) * SECOND / asked
                achieved = (len(indices) - 1) * SECOND / took if took else None
            self._machines.account(load.phase, sender, progress.attempts[number], every, wanted, achieved)
