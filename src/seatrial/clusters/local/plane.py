"""One real control plane, from nothing to ready and back to nothing, for whoever runs an event loop.

A trial gets a fresh one (seconds, and leftovers of an earlier trial change results). Nothing of it outlives the process
that called `up`: see `launcher` for the processes and `state` for the files.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import json
import os
import shutil
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from seatrial.clusters import fakes
from seatrial.clusters.local.api import Api
from seatrial.clusters.local.binaries import ensure_binaries, kept_files
from seatrial.clusters.local.components import ADMIN, STAGES, USER, Wish, describe, override
from seatrial.clusters.local.kubeconfig import write_kubeconfig
from seatrial.clusters.local.pki import Authority, create_pki
from seatrial.clusters.local.places import Layout, check_name, write_private
from seatrial.clusters.local.ports import Ports
from seatrial.clusters.local.state import Claim, State, claim, read_state, reap
from seatrial.clusters.local.supervisor import Death, Supervisor
from seatrial.kube import ApiProblem, Client, Lost, Unreachable, access_from
from seatrial.kube.resources import NODES
from seatrial.kube.shapes import Object
from seatrial.model.control_plane import CA_BUNDLE, ControlPlane, GoBinary, Identity
from seatrial.model.errors import SetupProblem

Amend = Callable[[ControlPlane], ControlPlane]

SETTLE_S = 60.0
# The API server holds every create of a kind back for 2 s if the kind was established less than 2 s ago (whole seconds):
# apiextensions-apiserver, customresource_handler.go, `justCreated`. The first workloads must not pay for that.
NEW_KIND_S = 3.0


class LocalControlPlane:
    """etcd, API server, controller manager, scheduler and KWOK as processes that live as long as this one.

    `died` is told of every death of a component; `failed` is set once one died that is not restarted.
    """

    def __init__(
        self,
        name: str = "",
        wish: Wish | None = None,
        *,
        amend: Amend | None = None,
        binaries: Path | Mapping[str, Path] | None = None,
        kept: bool = False,
        note: Mapping[str, Any] | None = None,
        restart: bool = True,
        died: Callable[[Death], None] | None = None,
    ) -> None:
        self.name = check_name(name) if name else _throw_away_name()
        self.deaths: list[Death] = []
        self.failed = asyncio.Event()
        self.timings: dict[str, float] = {}  # component → seconds from `up` until it was ready
        self._wish = wish or Wish()
        self._amend = amend
        self._binaries = binaries
        self._kept = kept
        self._note = dict(note or {})  # fields of its state that others read
        self._restart = restart
        self._died = died
        self._ports = Ports()
        self._claim: Claim | None = None
        self._plane: ControlPlane | None = None
        self._supervisor: Supervisor | None = None
        self._state: State | None = None
        self._begun = 0.0
        self._paths: dict[str, Path] = {}
        self._established_at: float | None = None
        self._asking_anew: asyncio.Task[None] | None = None
        self._reminding: asyncio.Task[None] | None = None

    # ── what callers read once it is up ──

    @property
    def layout(self) -> Layout:
        if self._claim is None:
            raise SetupProblem(f"the cluster '{self.name}' is not up", "Call `up` first.")
        return self._claim.layout

    @property
    def plane(self) -> ControlPlane:
        """The description it was started from, with everything that amended it."""
        if self._plane is None:
            raise SetupProblem(f"the cluster '{self.name}' is not up", "Call `up` first.")
        return self._plane

    @property
    def url(self) -> str:
        return self.plane.url

    @property
    def ca(self) -> Path:
        return self.layout.ca

    @property
    def audit_log(self) -> Path | None:
        return self.layout.audit_log if self._wish.audit else None

    @property
    def pids(self) -> dict[str, int]:
        return self._supervisor.pids if self._supervisor else {}

    def kubeconfig(self, identity: str = USER.name) -> Path:
        return self.layout.kubeconfig(identity)

    def log(self, component: str) -> Path:
        return self.layout.log(component)

    def port(self, component: str) -> int | None:
        """Where a component serves /metrics and profiles (https, with a client certificate)."""
        return self._supervisor.port(component) if self._supervisor else None

    def api(self, identity: str = ADMIN.name) -> Api:
        return Api(self.layout, self.url, identity)

    # ── life ──

    async def up(self) -> None:
        """Ready: the API answers, the controllers run, pods may be created in the namespace `default`."""
        self._begun = time.monotonic()
        reap()
        try:
            await self._prepare_and_start()
        except BaseException:
            await asyncio.shield(self.down())
            raise

    async def _prepare_and_start(self) -> None:
        if sys.platform != "linux":
            raise SetupProblem(
                f"a local control plane needs Linux, and this is {sys.platform}",
                "Run it in a Linux virtual machine, or use --on sim or --on kubeconfig.",
            )
        plane = describe(self._wish, self._ports)
        plane = self._amend(plane) if self._amend else plane
        self._plane = plane = await asyncio.to_thread(override, plane, self._wish.overrides or {})
        programs = await asyncio.to_thread(self._programs, plane)
        self._paths = {c.binary.name: programs[c.name] for c in plane.components if isinstance(c.binary, GoBinary)}
        self._claim = claim(self.name, self._kept)
        self._state = read_state(self.layout)
        if self._state:
            self._state = dataclasses.replace(self._state, **self._note)
        _write(self.layout, plane)  # not in a thread, which would go on writing keys when `down` has removed them
        self._supervisor = Supervisor(
            self.layout.directory, self.layout.log, tls=self._client_tls, restart=self._restart,
            on_death=self._on_death, on_change=self._record, when_ready=self._when_ready,
            before_again=self._before_again,
        )  # fmt: skip
        await self._supervisor.start(plane.components, programs)
        await self._settled()
        self.timings["settled"] = time.monotonic() - self._begun
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
        """Everything stopped in order and removed. Safe to call at any moment, also twice."""
        supervisor, self._supervisor = self._supervisor, None
        for task in (self._asking_anew, self._reminding):
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
        """The kubeconfig to act as somebody whom the API server has not known until now, and who may do nothing yet."""
        Authority.load(self.layout).issue_client(self.layout, identity)
        write_kubeconfig(self.layout, self.url, identity)
        return self.kubeconfig(identity.name)

    async def restage(self, stages: str) -> None:
        """KWOK anew with other stages."""
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
        again = component in self.timings
        self.timings.setdefault(component, time.monotonic() - self._begun)
        if again and component in ("etcd", "kube-apiserver") and "kwok" in self.pids:
            self._asking_anew = asyncio.create_task(self._ask_anew())
        if again and component == "kwok":
            self._reminding = asyncio.create_task(self._remind())
        if component == "kube-apiserver":
            bindings = [_binding(identity) for identity in self.plane.identities if identity.role]
            await asyncio.to_thread(self._create_all, bindings)

    def _create_all(self, bindings: list[dict[str, Any]]) -> None:
        """What the description wants to exist before anybody else starts; kinds first, then things of these kinds."""
        api = self.api()
        files = [file for binary in self.plane.manifests for file in kept_files(binary, self._paths[binary.name])]
        documents = [doc for file in files for doc in yaml.load_all(file.read_bytes(), yaml.CSafeLoader) if doc]
        kinds = [thing for thing in documents if thing["kind"] == "CustomResourceDefinition"]
        _create(api, *bindings, *kinds)
        _established(api, kinds)
        self._established_at = time.monotonic() if kinds else None
        objects = [_with_authority(thing, self.layout.ca) for thing in self.plane.objects]
        _create(api, *(thing for thing in documents if thing not in kinds), *objects)

    async def _ask_anew(self) -> None:
        """KWOK drops a stage for good when its PATCH is answered by 500 or cut off (`shouldRetry` knows refused connections
        and 503 only), which is what happens when etcd or the API server dies: a pod would stay as it is for ever. A new
        KWOK lists everything."""
        api = self.api()
        while True:
            with contextlib.suppress(OSError):
                status, _ = await asyncio.to_thread(api.call, "GET", "/readyz")
                if status == 200:
                    break
            await asyncio.sleep(0.1)
        if self._supervisor:
            self._supervisor.renew("kwok")

    async def _remind(self) -> None:
        with contextlib.suppress(ApiProblem, Lost, Unreachable):  # no proper answer: KWOK is then started anew, too
            async with Client(access_from(self.kubeconfig(ADMIN.name)), connections=fakes.REMINDED_AT_ONCE) as client:
                nodes = {node.metadata.name for node in (await client.list(NODES, shape=Object)).items}
                await fakes.remind(client, nodes)

    async def _before_again(self, component: str) -> None:
        """KWOK plays only nodes whose lease it holds. A new one would wait 40 s for those of the old one."""
        if component == "kwok":
            with contextlib.suppress(OSError):  # no API server just now: then it waits
                await asyncio.to_thread(
                    self.api().call, "DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
                )

    async def _settled(self) -> None:
        """The controller manager makes the service account without which no pod is admitted."""
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        api, until = self.api(), time.monotonic() + SETTLE_S
        while time.monotonic() < until:
            status, _ = await asyncio.to_thread(api.call, "GET", path)
            if status == 200:
                if self._established_at is not None:
                    await asyncio.sleep(max(self._established_at + NEW_KIND_S - time.monotonic(), 0))
                return
            await asyncio.sleep(0.02)
        raise SetupProblem(
            f"the controller manager made no service account within {SETTLE_S:.0f} s",
            f"Look into its log, {self.log('kube-controller-manager')}.",
        )

    def _client_tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.layout.ca))
        context.load_cert_chain(self.layout.certificate(ADMIN.name), self.layout.key(ADMIN.name))
        return context

    def _on_death(self, death: Death) -> None:
        self.deaths.append(death)
        if self._state:
            self._state.restarts[death.component] = self._state.restarts.get(death.component, 0) + death.restarting
        if not death.restarting:
            self.failed.set()
        if self._died:
            self._died(death)

    def _record(self, up: bool = False) -> None:
        if self._supervisor and self._state and self._claim:
            self._state.processes = self._supervisor.processes
            ports = {name: self._supervisor.port(name) for name in self._state.processes}
            self._state.ports = {name: port for name, port in ports.items() if port}
            self._state.url = self.url
            self._state.up = self._state.up or up
            with contextlib.suppress(SetupProblem, OSError):  # a full disk must not hide that a component died
                self._state.save(self.layout)


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


def _binding(identity: Identity) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"seatrial:{identity.name}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": identity.role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": identity.user}],
    }


def _create(api: Api, *objects: Any) -> None:
    """One that is there already is fine. Plurals are regular wherever we or our stacks create something here."""
    for thing in objects:
        group, _, version = thing["apiVersion"].rpartition("/")
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        namespace = thing["metadata"].get("namespace")
        inside = f"/namespaces/{namespace}" if namespace else ""
        status, answer = api.call("POST", f"{root}{inside}/{_plural(thing['kind'])}", thing)
        if status not in (201, 409):
            said = answer.get("message", "") if isinstance(answer, dict) else str(answer)[:200]
            raise SetupProblem(
                f"{thing['kind']} {thing['metadata']['name']} could not be created ({status}): {said}",
                "This is a defect of seatrial or of what amended the control plane.",
            )


def _with_authority(thing: Any, certificate: Path) -> Any:
    bundle = base64.b64encode(certificate.read_bytes()).decode()
    return json.loads(json.dumps(thing).replace(CA_BUNDLE, bundle))


def _plural(kind: str) -> str:
    name = kind.lower()
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def _established(api: Api, kinds: list[Any]) -> None:
    """Until the API server serves them: a controller that lists one before that gives up."""
    until = time.monotonic() + SETTLE_S
    for kind in kinds:
        name = kind["metadata"]["name"]
        while not _is_established(api, name):
            if time.monotonic() > until:
                raise SetupProblem(
                    f"the kind {name} is not served after {SETTLE_S:.0f} s", "Look into the API server's log."
                )
            time.sleep(0.02)


def _is_established(api: Api, name: str) -> bool:
    _, answer = api.call("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
    conditions = (answer.get("status") or {}).get("conditions") if isinstance(answer, dict) else None
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions or ())
