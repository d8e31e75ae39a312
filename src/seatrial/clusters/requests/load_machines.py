"""A load that several machines of a Ray send together: started at one moment of a common clock, one record in the end.

What the machines count, when, and how well their clocks are known goes into the trial's validity: a sum of rates hides the machine
that could not keep up.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from seatrial.clusters.requests.load_machine import LoadMachine, PhaseShare, Sent
from seatrial.clusters.requests.load_shares import LoadShare
from seatrial.clusters.requests.request_templates import RequestTemplate
from seatrial.clusters.requests.sending import PhaseProgress
from seatrial.kube import Access, Client, clock
from seatrial.kube.credentials import Credentials
from seatrial.machines.clock_offset import ClockOffset, clock_offset
from seatrial.machines.connection import Machine, imported_ray, machines
from seatrial.model.doubts import RATES, TIMES, Doubt
from seatrial.model.errors import SeatrialError, SetupProblem
from seatrial.model.interfaces import Tally
from seatrial.model.units import SECOND
from seatrial.scenario.actions.send_requests import Requests

BEGIN_IN_S = 0.5  # from when all are ready: a call to the slowest machine arrives before
POLL_S = 0.5
RECORDS_S = 20.0  # for a machine to hand over its record when the trial is interrupted
KEPT_UP = 0.95  # of its rate: a machine that reaches less was itself the bottleneck
WELL_KNOWN_S = 0.005  # a clock error above that touches times


@dataclass(slots=True)
class LoadSender:
    """A machine, its actor and its clock."""

    machine: Machine
    actor: Any
    offset: ClockOffset


class LoadMachines:
    """The machines of one trial's load."""

    def __init__(self, count: int, directory: Path, stopped: Callable[[str], None], rate: float | None = None) -> None:
        self.senders: list[LoadSender] = []
        self.rows: list[dict[str, Any]] = []  # per phase and machine, for trial.json
        self.doubts: list[Doubt] = []
        self.rate = rate  # of all of them together, for submissions
        self.stopped = stopped
        self._count, self._directory = count, directory

    async def start(self) -> None:
        """An actor on each of the machines, and its clock."""
        await asyncio.to_thread(self._start)

    def _start(self) -> None:
        ray = imported_ray()
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        found = sorted(machines(), key=lambda one: -one.cores)[: self._count]
        if len(found) < self._count:
            raise SetupProblem(
                f"the load comes from {self._count} machines, and the Ray has {len(found)} with a core for it",
                "add machines, or write fewer into `client: {machines: N}`",
            )
        actor_class = ray.remote(LoadMachine)
        for number, one in enumerate(found):
            strategy = NodeAffinitySchedulingStrategy(one.node, soft=False)
            actor = actor_class.options(num_cpus=1, scheduling_strategy=strategy, max_concurrency=8).remote(
                f"m{number}", self.rate / self._count if self.rate else None
            )
            self.senders.append(LoadSender(one, actor, ClockOffset(0, 0)))
        for sender in self.senders:
            sender.offset = _measured(ray, sender.actor)

    async def run(
        self, phase: Requests, templates: Sequence[RequestTemplate], client: Client, namespaces: Sequence[str],
        epoch: int, progress: PhaseProgress,
    ) -> Tally:  # fmt: skip
        """Sends all requests of a phase as this client would; `progress` gets what all machines have done."""
        most = len(self.senders)
        least = min(most, phase.count or most, most if phase.per_s else phase.workers)  # each has something to send
        senders = self.senders[:least]
        access, agent = await portable(client.access), client.identity
        agents = [  # the audit log tells them apart by it
            msgspec.structs.replace(agent, user_agent=f"{agent.user_agent} machine-{n}") for n in range(least)
        ]
        shares = [
            PhaseShare(
                phase,
                templates,
                access,
                agents[number],
                namespaces,
                one.offset.theirs(epoch),
                LoadShare(number, least),
            )
            for number, one in enumerate(senders)
        ]
        began = False
        try:
            await of_all(
                senders, (one.actor.prepare.remote(pickle.dumps(s)) for one, s in zip(senders, shares, strict=True))
            )
            begin = clock() + int(BEGIN_IN_S * SECOND)
            running = [one.actor.run.remote(phase.name, one.offset.theirs(begin)) for one in senders]
            began = True
            watching = asyncio.create_task(self._watch(phase.name, senders, progress))
            try:
                sent: list[Sent] = await of_all(senders, running)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
        except SeatrialError as problem:
            if not began:
                raise
            self.stopped(f"{phase.name}: {problem.message}")
            return Tally(phase.name, progress.requests, 0, 0)
        finally:
            await asyncio.shield(self._collect(phase.name, senders))
        _add_up([one.progress for one in sent], progress)
        await self.look_at_clocks(senders)
        return self._tally(phase, senders, sent)

    async def _watch(self, phase: str, senders: Sequence[LoadSender], progress: PhaseProgress) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            told = await of_all(senders, (one.actor.progress.remote(phase) for one in senders))
            _add_up([one for one, _ in told], progress)
            for sender, (_, why) in zip(senders, told, strict=True):
                if why:
                    self.stopped(f"{sender.machine}: {why}")

    async def _collect(self, phase: str, senders: Sequence[LoadSender]) -> None:
        """The machines' records become part of the trial's."""
        for sender in senders:
            try:
                async with asyncio.timeout(RECORDS_S):
                    files: dict[str, bytes] = await answer_of(sender, sender.actor.records.remote(phase))
            except (SeatrialError, TimeoutError) as problem:
                self.doubts.append(Doubt(f"the record of {sender.machine} is lost: {problem}"))
                continue
            for name, data in sorted(files.items()):
                await asyncio.to_thread((self._directory / Path(name).name).write_bytes, data)

    def _look_at_clocks(self, senders: Sequence[LoadSender]) -> None:
        ray = imported_ray()
        for sender in senders:
            sender.offset = sender.offset.drifted(_measured(ray, sender.actor))

    def _tally(self, phase: Requests, senders: Sequence[LoadSender], sent: Sequence[Sent]) -> Tally:
        """One tally for all machines, and a row for each."""
        every = sum(one.progress.requests for one in sent)
        for sender, one in zip(senders, sent, strict=True):
            gaps, took = max(one.items - 1, 0), one.last - one.first
            wanted = gaps / (one.wanted_ns / SECOND) if one.wanted_ns else None
            achieved = gaps / (took / SECOND) if phase.per_s and took > 0 else None
            self.account(phase.name, sender, one.progress.requests, every, wanted, achieved)
        first = min(sender.offset.ours(one.first) for sender, one in zip(senders, sent, strict=True))
        last = max(sender.offset.ours(one.last) for sender, one in zip(senders, sent, strict=True))
        items = sum(one.items for one in sent)
        wanted_ns = round((items - 1) / phase.per_s * SECOND) if phase.per_s and items > 1 else 0
        return Tally(phase.name, items if phase.per_s else every, wanted_ns, last - first if phase.per_s else 0)

    def account(
        self, phase: str, sender: LoadSender, requests: int, of: int, wanted: float | None, achieved: float | None
    ) -> None:
        """The row of one machine, of `of` requests that all of them sent, and what is to be doubted about it."""
        error = sender.offset.error
        self.rows.append({
            "phase": phase, "machine": str(sender.machine), "node": sender.machine.node[:12],
            "requests": requests, "share": requests / of if of else 0.0,
            "wanted_per_s": wanted, "achieved_per_s": achieved,
            "clock_offset_ms": sender.offset.offset / 1e6, "clock_error_ms": error / 1e6,
        })  # fmt: skip
        if wanted and achieved and achieved < KEPT_UP * wanted:
            short = f"{phase}: {sender.machine} was to send {wanted:.4g}/s and reached {achieved:.4g}/s"
            self.doubts.append(Doubt(short, (TIMES, RATES)))
        if error > WELL_KNOWN_S * SECOND:
            unclear = f"{phase}: the clock of {sender.machine} is known to {error / 1e6:.1f} ms only"
            self.doubts.append(Doubt(unclear, (TIMES,), error / SECOND))

    async def look_at_clocks(self, senders: Sequence[LoadSender]) -> None:
        """Once more: what they have drifted is part of their error."""
        await asyncio.to_thread(self._look_at_clocks, senders)

    async def stop(self) -> None:
        """The actors end."""
        ray = imported_ray()
        for sender in self.senders:
            with suppress(SeatrialError, TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await answer_of(sender, sender.actor.leave.remote())
            ray.kill(sender.actor)
        self.senders.clear()


async def portable(access: Access) -> Access:
    """The same access with what its credentials are now: files and plugins of this machine are not on the others."""
    credentials = access.credentials
    if not credentials.fresh():
        await credentials.refresh()
    return replace(access, credentials=Credentials(credentials.certificate, credentials.authorization))


def _measured(ray: Any, actor: Any) -> ClockOffset:
    ray.get(actor.clock.remote())  # the actor has started
    return clock_offset(lambda: int(ray.get(actor.clock.remote())), clock)


def _add_up(each: Sequence[PhaseProgress], whole: PhaseProgress) -> None:
    whole.requests, whole.done = sum(one.requests for one in each), sum(one.done for one in each)
    whole.refused, whole.took = sum(one.refused for one in each), sum(one.took for one in each)
    whole.said.clear()
    for one in each:
        for line, count in one.said.items():
            whole.said[line] = whole.said.get(line, 0) + count


async def of_all(senders: Sequence[LoadSender], asked: Iterable[Awaitable[Any]]) -> list[Any]:
    """The answers of all machines."""
    return await asyncio.gather(*(answer_of(one, reference) for one, reference in zip(senders, asked, strict=True)))


async def answer_of(sender: LoadSender, reference: Awaitable[Any]) -> Any:
    """The answer of one machine; its errors name it."""
    errors = imported_ray().exceptions
    try:
        return await reference
    except errors.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, SeatrialError):
            raise SetupProblem(f"{sender.machine}: {cause.message}", cause.remedy) from None
        raise
    except errors.RayActorError as error:
        raise SetupProblem(
            f"the machine {sender.machine} was lost in the middle of the load ({type(error).__name__})", "run it again"
        ) from None
