"""Submits the workloads of a trial: each when it is due, through the API or the user's own command, and recorded either way."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

import numpy as np

from seatrial.clusters.access.submitting import (
    NoVerdict,
    RateLimit,
    SubmitByApi,
    SubmitByCommand,
    SubmitMethod,
    command_values,
    in_rounds,
)
from seatrial.clusters.kwok.fake_nodes import CONNECTIONS
from seatrial.clusters.live.session import Session
from seatrial.clusters.live.shared_submissions import SharedSubmissions
from seatrial.kube import Lost, Unreachable, clock
from seatrial.model.closed_loop import ReadyItems
from seatrial.model.interfaces import Manifest, Tally
from seatrial.model.lifecycle import ADMITTED
from seatrial.model.load import Load, lateness
from seatrial.model.plan import Workload
from seatrial.model.preempted_jobs import survives_preemption
from seatrial.model.settings import own
from seatrial.model.units import SECOND
from seatrial.observe import time_sources
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.submit_workloads import Submit

_NOBODY_ADMITS = "failed calling webhook"  # how the API server begins when it cannot ask a stack's webhook


class WorkloadSubmitter:
    """`place` says where the pods of a workload may run."""

    def __init__(self, session: Session, place: Callable[[Workload], Workload]) -> None:
        self.workloads: list[Workload] = []
        self._session, self._place = session, place
        priorities = {shape.priority for submit in session.trial.phases(Submit) for shape in submit.shapes}
        # Where a queue admits workloads, its priorities are not those of pods.
        self._preempts = len(priorities) > 1 and ADMITTED.name not in session.ledger.number
        self._limit = RateLimit.of(session.trial.setup.client.rate)
        self._method: SubmitMethod
        self._shared = (
            SharedSubmissions(session, session.machines, self._known, self._answered) if session.machines else None
        )

    def connect(self, kubeconfig: str) -> None:
        """Chooses the way: the user's `submit.command` with this kubeconfig, else the API."""
        session = self._session
        command = str(own(session.trial.setup.settings, "submit", "command"))
        values = command_values(kubeconfig, session.client.access.context) if command else {}
        self._method = (
            SubmitByCommand(command, session.client, session.namespace_of, values)
            if command
            else SubmitByApi(session.client, session.namespace_of)
        )

    async def load(self, load: Load) -> Tally:
        """Submits them all; how close the client came to the times asked for."""
        if not load.count:
            return Tally(load.phase, 0, 0, 0)
        if self._shared:
            return await self._shared.load(load)
        phase = self._session.ledger.phase(load.phase)
        sent: list[int] = []
        if load.due is None:
            send = lambda index: self._submit(load.item(index), phase, sent)  # noqa: E731
            await in_rounds(range(load.count), load.pace, self._limit, send)
            return Tally(load.phase, load.count, max(sent) - min(sent), max(sent) - min(sent))
        start = clock()
        if load.after is not None:
            return await self._in_a_loop(load, phase, start)
        await self._on_time(load, phase, [start + due for due in load.due.tolist()], sent)
        late = lateness(load.due, [at - start for at in sent])
        return Tally(load.phase, load.count, int(load.due[-1]), max(sent) - min(sent), *late)

    async def _on_time(self, load: Load, phase: int, due: list[int], sent: list[int]) -> None:
        """Each item when it is due, answered or not; without due times as fast as the connections allow."""
        slots = asyncio.Semaphore(CONNECTIONS * 4)  # encoded ahead, so that no connection waits for us
        async with asyncio.TaskGroup() as group:
            for index in range(load.count):
                await self._limit.turn(due[index])
                await slots.acquire()
                task = group.create_task(self._submit(load.item(index), phase, sent))
                task.add_done_callback(lambda _: slots.release())

    async def _in_a_loop(self, load: Load, phase: int, start: int) -> Tally:
        """Each item when it is due; what follows another, a thinking time after that one ended."""
        assert load.due is not None and load.after is not None and load.think is not None
        items, woken = ReadyItems(load.due, load.after, load.think), asyncio.Event()
        places: dict[str, int] = {}
        due: list[int] = []
        sent: list[int] = []

        def over(number: int) -> None:
            index = places.get(self.workloads[number].name) if number < len(self.workloads) else None
            if index is not None and items.ended(index, clock() - start):
                woken.set()

        self._session.ledger.tell_ends(over)
        async with asyncio.TaskGroup() as group:
            while items.left:
                at = items.next_due
                if at is None or start + at > clock():
                    woken.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(None if at is None else (start + at - clock()) / SECOND):
                            await woken.wait()
                    continue
                await self._limit.turn()
                index, at = items.take()
                item = load.item(index)
                places[item.name] = index
                due.append(at)
                group.create_task(self._submit(item, phase, sent))
        took = max(sent) - min(sent)
        late = lateness(np.asarray(due, dtype=np.int64), [at - start for at in sent])
        return Tally(load.phase, load.count, took, took, *late)

    def _known(self, item: Workload, phase: int) -> tuple[int, Workload]:
        """Makes a workload known before its request leaves: the watch may be faster than the answer."""
        session, observer, workload = self._session, self._session.observer, self._place(item)
        if self._preempts and not workload.shape.image:
            workload = survives_preemption(workload)
        number = session.ledger.workload(phase, workload.pods)
        observer.workloads[workload.name] = number
        self.workloads.append(workload)
        if workload.interactive:
            observer.interactive.add(workload.name)
        return number, workload

    async def _submit(self, item: Workload, phase: int, sent: list[int]) -> None:
        number, workload = self._known(item, phase)
        manifests = self._rendered(workload)
        now = clock()
        sent.append(now)
        self._session.observer.workload(workload.name, "submitted", now, time_sources.CLIENT)
        try:
            why = (await self._method.send(workload, manifests)).refused
        except (Lost, Unreachable, NoVerdict) as error:
            why = error.message
        self._answered(number, workload, now, why)

    def _rendered(self, workload: Workload) -> Sequence[Manifest]:
        session = self._session
        return session.stack.real.for_setup(session.trial.setup).render(workload, session.labels)

    def _answered(self, number: int, workload: Workload, sent: int, why: str, error: int = 0) -> None:
        """The server took the workload, or refused it (`why`). `sent` is known to `error` ns."""
        session, observer = self._session, self._session.observer
        session.submissions.add(number, workload, sent - observer.epoch, why, error)
        session.submissions.flush()
        if why:
            observer.failures[why] = observer.failures.get(why, 0) + 1
            if _NOBODY_ADMITS in why:  # not the workload's fault: it is not over while somebody else does not act
                observer.trouble(f"workloads are refused: {why}")
            else:
                observer.workload(workload.name, "failed", clock(), time_sources.CLIENT)

    async def delete(self, what: DeleteWorkloads) -> None:
        """Deletes the workloads of these phases; that one is gone already is fine."""
        session = self._session
        phases = {session.ledger.phase(name) for name in what.of}
        for number, phase in enumerate(session.ledger.workload_phase):
            if phase in phases:
                workload = self.workloads[number]
                namespace = session.namespace_of(workload)
                for manifest in self._rendered(workload):
                    await session.client.delete(manifest.resource, manifest.name, namespace)
