"""The request phases of one trial on one API server: namespaces upfront, an identity for each phase, and what was made."""

from __future__ import annotations

import asyncio
import contextlib
import resource as limits
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from seatrial.clusters.requests.created import Created
from seatrial.clusters.requests.forms import form_of
from seatrial.clusters.requests.sending import Progress, Sender
from seatrial.kube import ApiProblem, Client, Lost, Unreachable
from seatrial.kube.resources import CONFIGMAPS, NAMESPACES, SERVICE_ACCOUNTS, Resource
from seatrial.kube.shapes import Object
from seatrial.model.errors import SetupProblem, UsageProblem
from seatrial.model.interfaces import Tally
from seatrial.model.labels import STUDY_LABEL
from seatrial.model.plan import Identity, Requests, Trial, Until
from seatrial.record.requests import RequestLog
from seatrial.record.starts import write_starts

MOST_OPEN = 4000  # connections of an open loop
PER_S = 15.0  # what a controller manager as shipped does at least
SIDE_BY_SIDE = 32
SERVED_S = 10.0

Acting = Callable[[Identity, int], Awaitable[Client]]  # a client of its own with so many connections


class Asking:
    """`acting` gives a client for an identity; `stopped` is told when the server cannot go on; `outside` learns of kinds that
    were made outside namespaces."""

    def __init__(
        self, trial: Trial, client: Client, acting: Acting, labels: Mapping[str, str], namespace: str, directory: Path,
        stopped: Callable[[str], None], outside: set[Resource],
    ) -> None:  # fmt: skip
        self.namespaces = [f"{namespace}-{n}" for n in range(trial.namespaces)] or [namespace]
        self.progress: dict[str, Progress] = {}
        self._trial, self._client, self._acting, self._labels, self._stopped = trial, client, acting, labels, stopped
        self._directory, self._outside = directory, outside
        self._log = RequestLog(directory)
        self._tasks: list[asyncio.Task[None]] = []
        phases = {phase.name: phase for phase in trial.requests() if phase.verb == "create"}
        self.created = Created(client, f"{STUDY_LABEL}={labels[STUDY_LABEL]}", phases)
        self.epoch = 0
        self._senders: list[Sender] = []

    @property
    def log(self) -> RequestLog:
        return self._log

    async def prepare(self) -> None:
        """Namespaces with all that their controllers put there, and the watches."""
        _open_many_files()
        if self._trial.namespaces:
            await self._make_namespaces()
        untils = [phase for step in self._trial.steps for phase in step if isinstance(phase, Until)]
        self._tasks += [asyncio.create_task(self._watch(one)) for one in self.created.watches(untils)]

    async def _watch(self, watching: Awaitable[None]) -> None:
        try:
            await watching
        except (ApiProblem, Lost, Unreachable) as error:
            self._stopped(f"the watch of what was created ended: {error}")

    async def _make_namespaces(self) -> None:
        names = iter(self.namespaces)

        async def work() -> None:
            for name in names:
                body = {
                    "apiVersion": "v1",
                    "kind": "Namespace",
                    "metadata": {"name": name, "labels": dict(self._labels)},
                }
                await self._client.create(NAMESPACES, body, name)
                # Through its 20 requests a second the controller manager would need 50 s for 1,000 of them.
                account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
                with contextlib.suppress(ApiProblem):  # it was faster
                    await self._client.create(SERVICE_ACCOUNTS, account, "default", name)

        async with asyncio.TaskGroup() as group:
            for _ in range(SIDE_BY_SIDE):
                group.create_task(work())
        until = time.monotonic() + 60 + len(self.namespaces) / PER_S
        while await self._settled() < len(self.namespaces):
            if time.monotonic() > until:
                raise SetupProblem("the namespaces did not settle", "is the controller manager running?")
            await asyncio.sleep(0.2)

    async def _settled(self) -> int:
        """How many of them have what the controller manager puts into each."""
        found = await self._client.list(
            CONFIGMAPS, shape=Object, fieldSelector="metadata.name=kube-root-ca.crt", resourceVersion="0"
        )
        mine = set(self.namespaces)
        return sum(1 for one in found.items if one.metadata.namespace in mine)

    async def run(self, phase: Requests) -> Tally:
        wanted = MOST_OPEN if phase.per_s else phase.workers
        client = await self._acting(phase.identity, wanted)
        try:
            kinds = {(str(m["apiVersion"]), str(m["kind"])) for m in phase.objects}
            found = {kind: await self._where(*kind) for kind in kinds}
            if phase.verb == "create":
                self._outside |= {resource for resource in found.values() if not resource.namespaced}
            forms = [
                form_of(phase, m, found[str(m["apiVersion"]), str(m["kind"])], self._labels, client.access.prefix)
                for m in phase.objects
            ]
            sender = Sender(phase, forms, client, self.namespaces, self._log, self.epoch, self._stopped)
            self.progress[phase.name] = sender.progress
            return await sender.run()
        finally:
            self._log.flush()
            await client.close()

    async def _where(self, api_version: str, kind: str) -> Resource:
        """A kind that an earlier phase has just made (a CRD) takes a moment to be served."""
        until = time.monotonic() + SERVED_S
        while True:
            try:
                return await self._client.resource_of(api_version, kind)
            except UsageProblem:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.1)

    async def until(self, until: Until, told: Callable[[int], None]) -> None:
        for name in until.of if until.count else ():
            progress = self.progress.get(name)
            if progress and progress.refused and not progress.done:
                words = next(iter(progress.said), "")
                self._stopped(
                    f"{until.name}: all that '{name}' asked for was refused ({words}): there is nothing to wait for"
                )
        await self.created.reach(until, told)

    @property
    def sent(self) -> int:
        return sum(progress.requests for progress in list(self.progress.values()))

    def mean_ns(self) -> float:
        """What a request took on average."""
        return sum(progress.took for progress in self.progress.values()) / max(self.sent, 1)

    def notes(self) -> list[str]:
        """What the server refused for good, in its words."""
        return [
            f"{phase}: {count:,} of {progress.requests:,} requests were answered {line}"
            for phase, progress in self.progress.items()
            for line, count in progress.said.items()
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def close(self) -> None:
        self._log.close()
        write_starts(self._directory, self.created.starts(self.epoch))

    async def remove(self) -> None:
        """The namespaces, on a cluster that stays; what is in them goes with them."""
        for name in self.namespaces if self._trial.namespaces else ():
            await self._client.delete(NAMESPACES, name)


def _open_many_files() -> None:
    """A thousand workers have a thousand connections; the usual soft limit is 1,024."""
    soft, hard = limits.getrlimit(limits.RLIMIT_NOFILE)
    if soft < 65536 and soft != hard:
        limits.setrlimit(limits.RLIMIT_NOFILE, (min(65536, hard) if hard > 0 else 65536, hard))


def all_identities(phases: Sequence[Requests]) -> list[Identity]:
    return list({phase.identity: None for phase in phases})


__all__ = ["Asking", "all_identities"]
