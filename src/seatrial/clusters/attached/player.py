"""Our own KWOK for fake nodes on a foreign cluster: a process of this machine that acts as the user and sees only those nodes.

It runs in a directory like that of a local cluster, so what a killed run leaves of it (a kubeconfig that only the owner can
read, a log) is cleared away by the next command, and the process itself dies with ours.
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

from seatrial.clusters.local import programs
from seatrial.clusters.local.binaries import ensure_binaries
from seatrial.clusters.local.components import STAGES, kwok, kwok_config
from seatrial.clusters.local.places import write_private
from seatrial.clusters.local.processes import last_words
from seatrial.clusters.local.state import Claim, State, claim, read_state, reap
from seatrial.clusters.local.supervisor import Death, Supervisor
from seatrial.model.control_plane import Component, Ready
from seatrial.model.plan import Scalar

_KUBECONFIG = "kubeconfig.yaml"
_IDENTITY = re.compile(r'\bid"?[=:]\s*"?([\w.-]+_[0-9a-f-]{36})')


class Player:
    """`before_again` is awaited before KWOK is started anew: it must free the nodes from the one that died. `after_again` is run
    when it is ready again: its pods want to be reminded."""

    def __init__(
        self,
        study: str,
        selector: str,
        *,
        died: Callable[[Death], None],
        before_again: Callable[[], Awaitable[None]],
        after_again: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._study, self._selector = study, selector
        self._died, self._before_again, self._after_again = died, before_again, after_again
        self._anew = False
        self._after: asyncio.Task[None] | None = None
        self._claim: Claim | None = None
        self._state: State | None = None
        self._supervisor: Supervisor | None = None

    async def start(
        self,
        kubeconfig: Mapping[str, Any],
        stages: str,
        settings: Mapping[str, Scalar],
        server: str,
        binaries: Path | None = None,
    ) -> None:
        reap()
        program = (await asyncio.to_thread(ensure_binaries, [programs.KWOK], binaries))[programs.KWOK.name]
        self._claim = claim(f"kwok-{self._study}", kept=False)
        layout = self._claim.layout
        write_private(layout.directory / _KUBECONFIG, json.dumps(kubeconfig).encode())
        write_private(layout.directory / STAGES, stages.encode())
        write_private(layout.directory / "kwok.yaml", json.dumps(kwok_config(settings)).encode())
        self._state = read_state(layout)
        if self._state:
            self._state.url, self._state.up = server, True
        self._supervisor = Supervisor(
            layout.directory, layout.log, restart=True, on_death=self._died, on_change=self._record,
            before_again=self._again, when_ready=self._ready,
        )  # fmt: skip
        component = _component(self._selector)
        await self._supervisor.start([component], {component.name: program})

    @property
    def running(self) -> bool:
        return self._supervisor is not None

    def identity(self) -> str:
        """Under which name it holds leases, from its log; empty as long as that does not say it."""
        if self._claim is None:
            return ""
        try:
            text = self._claim.layout.log("kwok").read_text(errors="replace")
        except OSError:
            return ""
        found = _IDENTITY.findall(text)
        return str(found[-1]) if found else ""

    def last_words(self) -> str:
        return last_words(self._claim.layout.log("kwok")) if self._claim else ""

    def keep_log(self, target: Path) -> None:
        if self._claim and self._claim.layout.log("kwok").exists():
            shutil.copyfile(self._claim.layout.log("kwok"), target)

    async def stop(self) -> None:
        """The process, then everything of it on disk. Safe at any moment, also twice."""
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
        self._anew = True
        await self._before_again()

    async def _ready(self, _component: str) -> None:
        if self._anew:
            self._after = asyncio.create_task(self._after_again())

    def _record(self) -> None:
        if self._supervisor and self._state and self._claim:
            self._state.processes = self._supervisor.processes
            self._state.save(self._claim.layout)


def _component(selector: str) -> Component:
    """As on `local`, but without a certificate to serve with, and in the user's surroundings: plugins of the kubeconfig
    need HOME, profiles and proxies."""
    base = kwok(selector)
    args = tuple(arg for arg in base.args if not arg.startswith(("--tls-", "--kubeconfig=")))
    surroundings = {key: value for key, value in os.environ.items() if not key.startswith("KWOK")}
    return dataclasses.replace(
        base,
        args=(f"--kubeconfig={_KUBECONFIG}", *args),
        needs=(),
        ready=Ready("/healthz", tls=False),
        env=surroundings,
    )
