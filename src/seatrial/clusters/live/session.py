"""Shared by the parts of a live cluster: the trial, the client to its API server, the trial's clock and its tasks.

Everything a trial makes carries the study's label, in a namespace of its own: the label alone is enough to find and remove it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from seatrial.clusters.access.applying import apply
from seatrial.clusters.kwok.fake_nodes import CONNECTIONS
from seatrial.clusters.requests.load_machines import LoadMachines
from seatrial.clusters.requests.request_phases import load_namespaces
from seatrial.clusters.supervision.supervisor import Death
from seatrial.kube import Access, Client, Mark, Resource, clock
from seatrial.model.doubts import Doubt
from seatrial.model.interfaces import Manifest, Stack
from seatrial.model.labels import STUDY_LABEL
from seatrial.model.plan import Trial, Workload
from seatrial.observe.observer import Observer
from seatrial.record.ledger import Ledger
from seatrial.record.submissions import Submissions
from seatrial.scenario.actions.send_requests import Requests
from seatrial.scenario.actions.submit_workloads import Submit


class Session:
    """One trial on one API server, from before it is connected until after it has left."""

    def __init__(
        self, trial: Trial, stack: Stack, ledger: Ledger, submissions: Submissions, directory: Path, study: str
    ) -> None:
        self.trial, self.stack, self.study = trial, stack, study
        self.ledger, self.submissions, self.directory = ledger, submissions, directory
        self.namespace = f"seatrial-{study}"
        self.labels = {STUDY_LABEL: study}
        self.observer = Observer(ledger)
        self.cluster_kinds: set[Resource] = set()  # kinds of objects that were made outside namespaces
        self.problems: list[str] = []  # of what we play on fake nodes
        self.deaths: list[str] = []  # of processes that we started
        self.mishaps: list[str] = []  # what went wrong when it left
        self.doubts: list[Doubt] = []  # reasons of the host's not to trust the figures
        self.evidence: dict[str, Any] = {}  # what the host measured, for the validity in trial.json
        self.watch_error: int | None = None  # of watch times, in ns; None: nothing to compare them with
        client = trial.setup.client  # its `machines` send the load, if it has more than one
        self.machines = (
            LoadMachines(client.machines, directory, self.break_off, client.rate) if client.machines > 1 else None
        )
        self.tasks: list[asyncio.Task[None]] = []
        self.wall_epoch = 0
        self._client: Client | None = None
        self._end: int | None = None
        self._broken: asyncio.Future[str] | None = None

    # the API server

    def connect(self, access: Access) -> Client:
        """Connects the client; objects that it creates carry the study's label."""
        self._client = Client(access, connections=CONNECTIONS, mark=Mark(STUDY_LABEL, self.study))
        return self._client

    @property
    def connected(self) -> bool:
        """Whether there is a client."""
        return self._client is not None

    @property
    def client(self) -> Client:
        """The client to the API server, as the user."""
        assert self._client is not None
        return self._client

    @property
    def selector(self) -> str:
        """Label selector of everything that the trial makes."""
        return f"{STUDY_LABEL}={self.study}"

    def namespace_of(self, workload: Workload) -> str:
        """The namespace of a workload's objects."""
        return self.stack.real.namespace(workload.queue, self.namespace)

    @cached_property
    def queue_namespaces(self) -> dict[str, str]:
        """Namespaces that are a queue of the stack → the queue; none if all workloads are in the trial's own namespace."""
        real, queues = self.stack.real, self.trial.setup.fleet.queues
        places = {real.namespace(queue.name, self.namespace): queue.name for queue in queues}
        return {namespace: queue for namespace, queue in places.items() if namespace != self.namespace}

    @property
    def watched(self) -> str:
        """The namespace to watch; empty for all of them: one watch by our label, however many queues there are."""
        return "" if self.queue_namespaces else self.namespace

    @property
    def where_to_watch(self) -> dict[str, str]:
        """For `seatrial sample`, in trial.json; nothing where that is the trial's own namespace."""
        return {"watched": self.watched} if self.watched != self.namespace else {}

    @property
    def load_namespaces(self) -> Sequence[str]:
        """Namespaces of the request phases; none if the trial has no such phase."""
        return load_namespaces(self.trial, self.namespace) if self.trial.phases(Requests) else ()

    async def apply(self, manifests: Sequence[Manifest]) -> None:
        """Creates or updates the objects, and remembers which kinds are not in our namespace."""
        self.cluster_kinds |= {manifest.resource for manifest in manifests if not manifest.resource.namespaced}
        await apply(self.client, manifests, self.namespace, self.study, self.stack.name)

    async def close(self) -> None:
        """Closes the client, if there is one."""
        if self._client is not None:
            await self._client.close()

    # the clock

    def start_clock(self) -> None:
        """The trial's epoch is now."""
        self.wall_epoch, self.observer.epoch = time.time_ns(), clock()
        self.observer.wall_epoch = self.wall_epoch

    def stop_clock(self) -> None:
        """Stops the clock: `now` no longer changes."""
        self._end = self.now()

    def now(self) -> int:
        """Nanoseconds since the trial's epoch; 0 before it."""
        if self._end is not None:
            return self._end
        return clock() - self.observer.epoch if self.observer.epoch else 0

    # tasks, and what ends a trial early

    def begin(self) -> None:
        """In the event loop of the trial, before anything else."""
        self._broken = asyncio.get_running_loop().create_future()

    def spawn(self, main: Coroutine[Any, Any, None]) -> None:
        """Runs beside the steps until the trial ends."""
        self.tasks.append(asyncio.create_task(main))

    async def stop_tasks(self) -> None:
        """Cancels all tasks and waits for them."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()

    def break_off(self, why: str) -> None:
        """The trial cannot continue."""
        if self._broken is not None and not self._broken.done():
            self._broken.set_result(why)

    async def broken(self) -> str:
        """Returns only if the trial cannot continue, with the reason."""
        assert self._broken is not None
        return await self._broken

    def died(self, death: Death) -> None:
        """A process of ours ended; the trial ends with it unless it is restarted."""
        self.deaths.append(str(death))
        if not death.restarting:
            self.break_off(str(death))


def priorities(trial: Trial) -> list[int]:
    """Priorities that need a class: workloads without one have priority 0."""
    return sorted({shape.priority for submit in trial.phases(Submit) for shape in submit.shapes} - {0})
