"""The request phases of one trial: namespaces, a client per phase, and the objects that were created."""

from __future__ import annotations

import asyncio
import contextlib
import resource as limits
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from seatrial.clusters.requests.load_machine import MOST_OPEN
from seatrial.clusters.requests.load_machines import LoadMachines
from seatrial.clusters.requests.load_objects import CreatedObjects
from seatrial.clusters.requests.request_templates import template_of
from seatrial.clusters.requests.sending import PhaseProgress, Sender
from seatrial.kube import ApiProblem, Client, Lost, Unreachable
from seatrial.kube.resources import CONFIGMAPS, NAMESPACES, SERVICE_ACCOUNTS, Resource
from seatrial.kube.shapes import Object
from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.interfaces import Tally
from seatrial.model.labels import STUDY_LABEL
from seatrial.model.plan import Trial
from seatrial.record.request_log import RequestLog, write_starts
from seatrial.scenario.actions.send_requests import Requester, Requests
from seatrial.scenario.actions.wait import WaitForObjects

NAMESPACES_PER_S = 15.0  # a controller manager with default limits completes at least so many
SIDE_BY_SIDE = 32
SERVED_S = 10.0  # until a new kind (a CRD) is served

Acting = Callable[[Requester, int], Awaitable[Client]]  # a new client of an identity with so many connections


def load_namespaces(trial: Trial, namespace: str) -> list[str]:
    """The namespaces that the scenario defines (`namespaces: N`), or the trial's own."""
    return [f"{namespace}-{n}" for n in range(trial.namespaces)] or [namespace]


class RequestPhases:
    """Runs the phases. `stopped` is called with the reason if the server cannot go on; cluster-scoped kinds that a phase creates
    are added to `outside`. `machines` send the requests, if there are any."""

    def __init__(
        self, trial: Trial, client: Client, acting: Acting, labels: Mapping[str, str], namespace: str, directory: Path,
        stopped: Callable[[str], None], outside: set[Resource], machines: LoadMachines | None = None,
    ) -> None:  # fmt: skip
        self.namespaces = load_namespaces(trial, namespace)
        self.progress: dict[str, PhaseProgress] = {}
        self._trial, self._client, self._acting, self._labels, self._stopped = trial, client, acting, labels, stopped
        self._directory, self._outside = directory, outside
        self.log = RequestLog(directory)
        self._machines = machines
        self._tasks: list[asyncio.Task[None]] = []
        phases = {phase.name: phase for phase in trial.phases(Requests) if phase.verb == "create"}
        self._created = CreatedObjects(client, f"{STUDY_LABEL}={labels[STUDY_LABEL]}", phases)
        self.epoch = 0

    async def prepare(self) -> None:
        """Creates the namespaces and starts the watches."""
        _open_many_files()
        if self._trial.namespaces:
            await self._make_namespaces()
        untils = [phase for step in self._trial.steps for phase in step if isinstance(phase, WaitForObjects)]
        self._tasks += [asyncio.create_task(self._watch(one)) for one in self._created.watches(untils)]

    async def _watch(self, watching: Awaitable[None]) -> None:
        try:
            await watching
        except (ApiProblem, Lost, Unreachable) as error:
            self._stopped(f"the watch of created objects ended: {error}")

    async def _make_namespaces(self) -> None:
        names = iter(self.namespaces)

        async def work() -> None:
            for name in names:
                metadata = {"name": name, "labels": dict(self._labels)}
                body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
                await self._client.create(NAMESPACES, body, name)
                # At its 20 requests a second the controller manager would need 50 s for 1,000 of them.
                account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
                with contextlib.suppress(ApiProblem):  # the controller manager was faster
                    await self._client.create(SERVICE_ACCOUNTS, account, "default", name)

        async with asyncio.TaskGroup() as group:
            for _ in range(SIDE_BY_SIDE):
                group.create_task(work())
        until = time.monotonic() + 60 + len(self.namespaces) / NAMESPACES_PER_S
        while await self._settled() < len(self.namespaces):
            if time.monotonic() > until:
                raise SetupProblem("the namespaces were not completed in time", "is the controller manager running?")
            await asyncio.sleep(0.2)

    async def _settled(self) -> int:
        """The number of namespaces that have the ConfigMap of the controller manager."""
        found = await self._client.list(
            CONFIGMAPS, shape=Object, fieldSelector="metadata.name=kube-root-ca.crt", resourceVersion="0"
        )
        mine = set(self.namespaces)
        return sum(1 for one in found.items if one.metadata.namespace in mine)

    async def run(self, phase: Requests) -> Tally:
        """Sends all requests of a phase."""
        wanted = 1 if self._machines else MOST_OPEN if phase.per_s else phase.workers
        client = await self._acting(phase.identity, wanted)
        try:
            kinds = {(str(m["apiVersion"]), str(m["kind"])) for m in phase.objects}
            found = {kind: await self._where(*kind) for kind in kinds}
            if phase.verb == "create":
                self._outside |= {resource for resource in found.values() if not resource.namespaced}
            templates = [
                template_of(phase, m, found[str(m["apiVersion"]), str(m["kind"])], self._labels) for m in phase.objects
            ]
            if self._machines:
                progress = self.progress[phase.name] = PhaseProgress()
                return await self._machines.run(phase, templates, client, self.namespaces, self.epoch, progress)
            sender = Sender(phase, templates, client, self.namespaces, self.log, self.epoch, self._stopped)
            self.progress[phase.name] = sender.progress
            return await sender.run()
        finally:
            self.log.flush()
            await client.close()

    async def _where(self, api_version: str, kind: str) -> Resource:
        """The resource of a kind, also one whose CRD an earlier phase has just created."""
        until = time.monotonic() + SERVED_S
        while True:
            try:
                return await self._client.resource_of(api_version, kind)
            except UsageProblem:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.1)

    async def until(self, until: WaitForObjects, told: Callable[[int], None]) -> None:
        """Returns when the created objects are as awaited; `told` gets the count meanwhile."""
        for name in until.of if until.count else ():
            progress = self.progress.get(name)
            if progress and progress.refused and not progress.done:
                message = next(iter(progress.said), "")
                self._stopped(
                    f"{until.name}: all requests of '{name}' were refused ({message}): there is nothing to wait for"
                )
        await self._created.reach(until, told)

    @property
    def sent(self) -> int:
        """Attempts so far."""
        return sum(progress.requests for progress in list(self.progress.values()))

    def mean_ns(self) -> float:
        """The mean duration of an attempt."""
        return sum(progress.took for progress in self.progress.values()) / max(self.sent, 1)

    def notes(self) -> list[str]:
        """The server's messages for requests that it refused for good."""
        return [
            f"{phase}: {count:,} of {progress.requests:,} requests were answered {line}"
            for phase, progress in self.progress.items()
            for line, count in progress.said.items()
        ]

    async def stop(self) -> None:
        """Ends the watches."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def close(self) -> None:
        """Writes what is left to the trial's directory."""
        self.log.close()
        write_starts(self._directory, self._created.starts(self.epoch))

    async def remove(self) -> None:
        """Deletes the namespaces, for a cluster that stays."""
        for name in self.namespaces if self._trial.namespaces else ():
            await self._client.delete(NAMESPACES, name)


def _open_many_files() -> None:
    """Raises the soft limit of open files, usually 1,024: a thousand workers have a thousand connections."""
    soft, hard = limits.getrlimit(limits.RLIMIT_NOFILE)
    if soft < 65536 and soft != hard:
        limits.setrlimit(limits.RLIMIT_NOFILE, (min(65536, hard) if hard > 0 else 65536, hard))


def all_identities(phases: Sequence[Requests]) -> list[Requester]:
    """The identities of these phases, each once."""
    return list({phase.identity: None for phase in phases})
