"""KWOK as a process: its description for a control plane, and a KWOK of our own for fake nodes on a foreign cluster.

The latter runs on this machine, acts as the user, and plays only nodes of the study. It has a directory like that of a local
cluster: the next command clears away what a killed run left (a kubeconfig that only the owner can read, a log). The process
dies with ours.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from seatrial.clusters import programs
from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.clusters.supervision.cluster_state import DirectoryClaim, claim, reap
from seatrial.clusters.supervision.directories import write_private
from seatrial.clusters.supervision.ports import HOST
from seatrial.clusters.supervision.spawning import roomy
from seatrial.clusters.supervision.supervisor import Death, Supervisor
from seatrial.model.control_plane import Component, Ready
from seatrial.model.plan import Scalar

LEASE_S = 40  # what kubelets ask for; without leases the node lifecycle controller takes the nodes away
STAGES = "stages.yaml"
_KUBECONFIG = "kubeconfig.yaml"
_IDENTITY = re.compile(r'\bid"?[=:]\s*"?([\w.-]+_[0-9a-f-]{36})')


def kwok(managed_nodes: str) -> Component:
    """The lock is there because two KWOKs silently fight over the same nodes. KWOK has no client limits."""
    managed = f"--manage-nodes-with-label-selector={managed_nodes}" if managed_nodes else "--manage-all-nodes=true"
    return Component(
        "kwok",
        programs.KWOK,
        (
            "--kubeconfig=kubeconfig/kwok.yaml",
            "--config=kwok.yaml",
            f"--config={STAGES}",
            managed,
            f"--node-lease-duration-seconds={LEASE_S}",
            f"--server-address={HOST}:0",
            "--tls-cert-file=pki/serving.crt",
            "--tls-private-key-file=pki/serving.key",
        ),
        needs=("kube-apiserver",),
        ready=Ready("/healthz"),
        lock="kwok.lock",
        env=roomy(1 / 8),
    )


def kwok_config(settings: Mapping[str, Scalar]) -> dict[str, Any]:
    """All options, because KWOK has no defaults for those that a configuration omits."""
    parallelism = settings.get("parallelism", 64)
    options: dict[str, Any] = {
        "cidr": "10.0.0.0/24",
        "enableDebuggingHandlers": True,
        "enableProfilingHandler": True,
        "podPlayStageParallelism": parallelism,
        "nodePlayStageParallelism": parallelism,
        "nodeLeaseParallelism": parallelism,  # with its own 4, a rejected heartbeat held up those of other nodes
        "podsOnNodeSyncParallelism": 1,
        "enablePodsOnNodeSyncListPager": True,
        "enablePodsOnNodeSyncStreamWatch": False,
    }
    return {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "options": options}


class KwokProcess:
    """KWOK for the nodes of one study on a foreign cluster.

    `before_restart` runs before KWOK is restarted and must free the leases of the one that died; `after_restart` runs once it is
    ready again, to touch its pods.
    """

    def __init__(
        self,
        study: str,
        selector: str,
        *,
        died: Callable[[Death], None],
        before_restart: Callable[[], Awaitable[None]],
        after_restart: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._study, self._selector = study, selector
        self._died, self._before_restart, self._after_restart = died, before_restart, after_restart
        self._restarted = False
        self._after: asyncio.Task[None] | None = None
        self._claim: DirectoryClaim | None = None
        self._supervisor: Supervisor | None = None

    async def start(
        self,
        kubeconfig: Mapping[str, Any],
        stages: str,
        settings: Mapping[str, Scalar],
        server: str,
        binaries: Path | None = None,
    ) -> None:
        """Builds KWOK if needed and returns when it is ready."""
        reap()
        program = (await asyncio.to_thread(ensure_binaries, [programs.KWOK], binaries))[programs.KWOK.name]
        self._claim = claim(f"kwok-{self._study}", kept=False, url=server, up=True)
        layout = self._claim.layout
        write_private(layout.directory / _KUBECONFIG, json.dumps(kubeconfig).encode())
        write_private(layout.directory / STAGES, stages.encode())
        write_private(layout.directory / "kwok.yaml", json.dumps(kwok_config(settings)).encode())
        self._supervisor = Supervisor(
            layout.directory, layout.log, restart=True, on_death=self._died, on_change=self._record,
            before_restart=self._again, when_ready=self._ready,
        )  # fmt: skip
        component = _foreign_component(self._selector)
        await self._supervisor.start([component], {component.name: program})

    def identity(self) -> str:
        """The name under which it holds leases, from its log; empty until it is there."""
        if self._claim is None:
            return ""
        try:
            text = self._claim.layout.log("kwok").read_text(errors="replace")
        except OSError:
            return ""
        found = _IDENTITY.findall(text)
        return str(found[-1]) if found else ""

    def keep_log(self, target: Path) -> None:
        """Copies the log, if there is one."""
        if self._claim and self._claim.layout.log("kwok").exists():
            shutil.copyfile(self._claim.layout.log("kwok"), target)

    async def stop(self) -> None:
        """Stops the process, then removes its directory. Safe at any moment, also twice."""
        supervisor, self._supervisor = self._supervisor, None
        if self._after:
            self._after.cancel()
        try:
            if supervisor:
                await supervisor.stop_or_kill()
        finally:
            held, self._claim = self._claim, None
            if held:
                held.remove()

    async def _again(self, _component: str) -> None:
        self._restarted = True
        await self._before_restart()

    async def _ready(self, _component: str) -> None:
        if self._restarted:
            self._after = asyncio.create_task(self._after_restart())

    def _record(self) -> None:
        if self._supervisor and self._claim:
            self._claim.state.processes = self._supervisor.processes
            self._claim.save()


def _foreign_component(selector: str) -> Component:
    """As on `local`, but without a serving certificate, and in the user's environment: plugins of the kubeconfig need HOME,
    profiles and proxies."""
    base = kwok(selector)
    args = tuple(arg for arg in base.args if not arg.startswith(("--tls-", "--kubeconfig=")))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("KWOK")}
    return dataclasses.replace(
        base,
        args=(f"--kubeconfig={_KUBECONFIG}", *args),
        needs=(),
        ready=Ready("/healthz", tls=False),
        env=environment,
    )
