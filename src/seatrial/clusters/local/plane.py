"""One real control plane: its files, its processes and the objects it starts with, from nothing to ready and back.

Nothing of it outlives the process that called `up`: see `supervision.launcher` for the processes and `supervision.cluster_state`
for the files.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from seatrial.clusters.kwok import fake_nodes
from seatrial.clusters.kwok.kwok_process import STAGES
from seatrial.clusters.local.certificates import Authority, create_pki, write_kubeconfig
from seatrial.clusters.local.components import ADMIN, USER, PlaneOptions, describe, override
from seatrial.clusters.local.first_objects import SETTLE_S, create, established, role_binding, with_authority
from seatrial.clusters.programs.binaries import ensure_binaries, kept_files
from seatrial.clusters.supervision import inotify
from seatrial.clusters.supervision.cluster_state import DirectoryClaim, claim, reap
from seatrial.clusters.supervision.directories import Layout, check_name, write_private
from seatrial.clusters.supervision.ports import Ports
from seatrial.clusters.supervision.supervisor import Death, Supervisor
from seatrial.kube import NO_RETRY, ApiProblem, Client, Lost, Request, Unreachable, access_from
from seatrial.kube.resources import CRDS, LEASES, NODES, SERVICE_ACCOUNTS, delete_collection
from seatrial.kube.shapes import Object
from seatrial.model.control_plane import ControlPlane, GoBinary, Identity
from seatrial.model.errors import SetupProblem

Amend = Callable[[ControlPlane], ControlPlane]

# The API server delays every create of a kind by 2 s if the kind was established less than 2 s ago (whole seconds):
# apiextensions-apiserver, customresource_handler.go, `justCreated`. The first workloads must not wait for that.
NEW_KIND_S = 3.0


class LocalControlPlane:
    """etcd, API server, controller manager, scheduler and KWOK as processes that live as long as this one.

    `died` is told of every death of a component. `note`: fields of the cluster's state that other commands read.
    """

    def __init__(
        self,
        name: str = "",
        options: PlaneOptions | None = None,
        *,
        amend: Amend | None = None,
        binaries: Path | Mapping[str, Path] | None = None,
        kept: bool = False,
        note: Mapping[str, Any] | None = None,
        died: Callable[[Death], None] | None = None,
    ) -> None:
        self.name = check_name(name) if name else _throw_away_name()
        self.deaths: list[Death] = []
        self.took_s = 0.0  # from `up` until it was ready
        self._options = options or PlaneOptions()
        self._amend = amend
        self._binaries = binaries
        self._kept = kept
        self._note = dict(note or {})
        self._died = died
        self._ports = Ports()
        self._claim: DirectoryClaim | None = None
        self._plane: ControlPlane | None = None
        self._supervisor: Supervisor | None = None
        self._started: set[str] = set()  # components that were ready once
        self._paths: dict[str, Path] = {}
        self._established_at: float | None = None
        self._renewing_kwok: asyncio.Task[None] | None = None
        self._touching_pods: asyncio.Task[None] | None = None

    # ── what callers read once it is up ──

    @property
    def layout(self) -> Layout:
        """Its directory."""
        if self._claim is None:
            raise SetupProblem(f"the cluster '{self.name}' is not up", "Call `up` first.")
        return self._claim.layout

    @property
    def plane(self) -> ControlPlane:
        """The description it was started from, as amended."""
        if self._plane is None:
            raise SetupProblem(f"the cluster '{self.name}' is not up", "Call `up` first.")
        return self._plane

    @property
    def has_kubelets(self) -> bool:
        """Whether it runs kubelets; known before it is up."""
        return self._options.kubelets is not None

    @property
    def programs_given(self) -> Path | None:
        """The directory of ready-made programs (`--binaries`), if any."""
        return self._binaries if isinstance(self._binaries, Path) else None

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return self.plane.url

    @property
    def audit_log(self) -> Path | None:
        """The audit log; None without auditing."""
        return self.layout.audit_log if self._options.audit else None

    @property
    def pids(self) -> dict[str, int]:
        """Pids of the running components."""
        return self._supervisor.pids if self._supervisor else {}

    def kubeconfig(self, identity: str = USER.name) -> Path:
        """The kubeconfig of an identity."""
        return self.layout.kubeconfig(identity)

    def port(self, component: str) -> int | None:
        """The port of a component's /metrics and profiles (https, with a client certificate)."""
        return self._supervisor.port(component) if self._supervisor else None

    def client(self, identity: str = ADMIN.name, port: int = 0, connections: int = 1) -> Client:
        """A client of the API server, or of the component that listens on `port`."""
        access = access_from(self.kubeconfig(identity))
        return Client(dataclasses.replace(access, port=port or access.port), connections=connections)

    # ── life ──

    async def up(self) -> None:
        """Returns when the API answers, controllers run, and pods can be created in the namespace `default`."""
        begun = time.monotonic()
        reap()
        try:
            await self._prepare_and_start()
            self.took_s = time.monotonic() - begun
        except BaseException:
            await asyncio.shield(self.down())
            raise

    async def _prepare_and_start(self) -> None:
        if sys.platform != "linux":
            raise SetupProblem(
                f"a local control plane needs Linux, and this is {sys.platform}",
                "Run it in a Linux virtual machine, or use --on sim or --on kubeconfig.",
            )
        plane = describe(self._options, self._ports)
        plane = self._amend(plane) if self._amend else plane
        self._plane = plane = await asyncio.to_thread(override, plane, self._options.overrides or {})
        inotify.check(plane.components)
        programs = await asyncio.to_thread(self._programs, plane)
        self._paths = {c.binary.name: programs[c.name] for c in plane.components if isinstance(c.binary, GoBinary)}
        self._claim = claim(self.name, self._kept, **self._note)
        _write(self.layout, plane)  # not in a thread, which might still write keys after `down` removed them
        self._supervisor = Supervisor(
            self.layout.directory, self.layout.log, admin=lambda: access_from(self.kubeconfig(ADMIN.name)), restart=True,
            on_death=self._on_death, on_change=self._record, when_ready=self._when_ready,
            before_restart=self._before_restart,
        )  # fmt: skip
        await self._supervisor.start(plane.components, programs)
        await self._settled()
        self._record(up=True)

    def _programs(self, plane: ControlPlane) -> dict[str, Path]:
        given = self._binaries
        known, directory = (given, None) if isinstance(given, Mapping) else ({}, given)
        wanted = {c.name: c.binary for c in plane.components}
        missing = [b for b in wanted.values() if isinstance(b, GoBinary) and b.name not in known]
        known = {**known, **ensure_binaries(missing, directory)} if missing else known
        paths = {name: known[b.name] if isinstance(b, GoBinary) else b for name, b in wanted.items()}
        for name, path in paths.items():
            if not (path.is_file() and os.access(path, os.X_OK)):
                raise SetupProblem(f"{name}: {path} is not a program", "Name an executable file.")
        return paths

    async def down(self) -> None:
        """Stops everything in order and removes it. Safe at any moment, also twice."""
        supervisor, self._supervisor = self._supervisor, None
        for task in (self._renewing_kwok, self._touching_pods):
            if task:
                task.cancel()
        try:
            if supervisor:
                await supervisor.stop_or_kill()
        finally:
            self._ports.release()
            held, self._claim = self._claim, None
            if held:
                held.remove()

    def keep_logs(self, target: Path) -> None:
        """Copies the components' logs; `down` removes the originals."""
        target.mkdir(parents=True, exist_ok=True)
        for log in self.layout.logs.glob("*.log"):
            shutil.copyfile(log, target / log.name)

    def add_identity(self, identity: Identity) -> Path:
        """The kubeconfig of a new identity, which has no roles yet."""
        Authority.load(self.layout).issue_client(self.layout, identity)
        write_kubeconfig(self.layout, self.url, identity)
        return self.kubeconfig(identity.name)

    async def restage(self, stages: str) -> None:
        """Restarts KWOK with other stages."""
        assert self._supervisor is not None
        write_private(self.layout.directory / STAGES, stages.encode())
        await self._supervisor.replace(self.plane.component("kwok"))

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.down()

    # ── inside ──

    async def _when_ready(self, component: str) -> None:
        again = component in self._started
        self._started.add(component)
        if again and component in ("etcd", "kube-apiserver") and "kwok" in self.pids:
            self._renewing_kwok = asyncio.create_task(self._renew_kwok())
        if again and component == "kwok":
            self._touching_pods = asyncio.create_task(self._touch_pods())
        if component == "kube-apiserver":
            bindings = [role_binding(identity) for identity in self.plane.identities if identity.role]
            await self._create_all(bindings)

    async def _create_all(self, bindings: list[dict[str, Any]]) -> None:
        """Creates what must exist before other components start: definitions of kinds first, then objects of these kinds."""
        documents = await asyncio.to_thread(self._documents)
        kinds = [thing for thing in documents if thing["kind"] == CRDS.kind]
        objects = [with_authority(thing, self.layout.ca) for thing in self.plane.objects]
        async with self.client() as client:
            await create(client, *bindings, *kinds)
            await established(client, kinds)
            self._established_at = time.monotonic() if kinds else None
            await create(client, *(thing for thing in documents if thing not in kinds), *objects)

    def _documents(self) -> list[Any]:
        files = [file for binary in self.plane.manifests for file in kept_files(binary, self._paths[binary.name])]
        return [doc for file in files for doc in yaml.load_all(file.read_bytes(), yaml.CSafeLoader) if doc]

    async def _renew_kwok(self) -> None:
        """KWOK drops a stage for good when its PATCH is answered by 500 or cut off (`shouldRetry` knows refused connections
        and 503 only), which is what happens when etcd or the API server dies: a pod would stay as it is for ever. A new
        KWOK lists everything."""
        async with self.client() as client:
            while True:
                with contextlib.suppress(Lost, Unreachable):
                    answer = await client.send(Request("get", "", "GET", "/readyz", timeout=10.0), retry=NO_RETRY)
                    if answer.ok:
                        break
                await asyncio.sleep(0.1)
        if self._supervisor:
            self._supervisor.renew("kwok")

    async def _touch_pods(self) -> None:
        with contextlib.suppress(ApiProblem, Lost, Unreachable):  # without a proper answer KWOK is restarted as well
            async with self.client(connections=fake_nodes.TOUCHED_AT_ONCE) as client:
                nodes = {node.metadata.name for node in (await client.list(NODES, shape=Object)).items}
                await fake_nodes.touch_pods(client, nodes)

    async def _before_restart(self, component: str) -> None:
        """KWOK plays only nodes whose lease it holds: a new one would wait 40 s for the leases of the old one."""
        if component == "kwok":
            with contextlib.suppress(Lost, Unreachable):  # the API server does not run just now: KWOK waits
                async with self.client() as client:
                    await client.send(delete_collection(LEASES, "kube-node-lease"), retry=NO_RETRY)

    async def _settled(self) -> None:
        """Waits for the service account without which no pod is admitted; the controller manager makes it."""
        until = time.monotonic() + SETTLE_S
        async with self.client() as client:
            while time.monotonic() < until:
                if await client.find(SERVICE_ACCOUNTS, "default", "default", shape=Object):
                    if self._established_at is not None:
                        await asyncio.sleep(max(self._established_at + NEW_KIND_S - time.monotonic(), 0))
                    return
                await asyncio.sleep(0.02)
        raise SetupProblem(
            f"the controller manager made no service account within {SETTLE_S:.0f} s",
            f"Look into its log, {self.layout.log('kube-controller-manager')}.",
        )

    def _on_death(self, death: Death) -> None:
        self.deaths.append(death)
        if self._claim:
            restarts = self._claim.state.restarts
            restarts[death.component] = restarts.get(death.component, 0) + death.restarting
        if self._died:
            self._died(death)

    def _record(self, up: bool = False) -> None:
        if self._supervisor and self._claim:
            state = self._claim.state
            state.processes = self._supervisor.processes
            ports = {name: self._supervisor.port(name) for name in state.processes}
            state.ports = {name: port for name, port in ports.items() if port}
            state.url, state.up = self.url, state.up or up
            with contextlib.suppress(SetupProblem, OSError):  # a full disk must not hide that a component died
                self._claim.save()


_made = 0


def _throw_away_name() -> str:
    global _made  # noqa: PLW0603
    _made += 1
    return f"trial-{os.getpid()}-{_made}"


def _write(layout: Layout, plane: ControlPlane) -> None:
    create_pki(layout, plane.identities)
    for identity in plane.identities:
        write_kubeconfig(layout, plane.url, identity)
    for name, content in plane.files.items():
        text = content if isinstance(content, str) else json.dumps(content, indent=1)
        write_private(layout.directory / name, text.encode())
