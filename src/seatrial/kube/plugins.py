"""Credentials from exec plugins, as managed clusters (EKS, GKE, AKS) and single sign-on use them.

A plugin is a program that prints an ExecCredential (`client.authentication.k8s.io/v1` or `v1beta1`). It takes up to
seconds, so it runs in a thread, once per expiry, and all requests that need the credential wait for the same run.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from seatrial.kube.credentials import Certificate, Credentials, bearer
from seatrial.kube.kubeconfig import Section
from seatrial.model.errors import SetupProblem

_log = logging.getLogger(__name__)

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
TIMEOUT_S = 60.0  # a plugin that waits for a log-in in the browser may take that long


class PluginStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of an ExecCredential."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class PluginAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """An ExecCredential."""

    api_version: str = ""
    kind: str = ""
    status: PluginStatus | None = None


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A plugin as the kubeconfig describes it."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    version: str
    install_hint: str
    interactive: str
    folder: Path
    place: str
    cluster: Mapping[str, Any] = field(default_factory=dict)  # passed to the plugin if the plugin asks for it

    @classmethod
    def of(cls, section: Section, cluster: Mapping[str, Any]) -> ExecPlugin:
        """The plugin that an `exec` section describes."""
        version, place = section.text("apiVersion"), section.place
        if version not in VERSIONS:
            raise SetupProblem(
                f"{section.where('apiVersion')}: exec plugin with unknown apiVersion '{version}'",
                f"supported are {' and '.join(VERSIONS)}; update the plugin's entry in the kubeconfig",
            )
        if not section.text("command"):
            raise SetupProblem(f"{place}: exec plugin without a command", "name the program to run as 'command'")
        interactive = section.text("interactiveMode") or "IfAvailable"
        if interactive not in ("Never", "IfAvailable", "Always"):
            raise SetupProblem(
                f"{section.where('interactiveMode')}: interactiveMode '{interactive}'",
                "it is Never, IfAvailable or Always",
            )
        return cls(
            command=section.text("command"), args=tuple(section.texts("args")),
            env={entry.text("name"): entry.text("value") for entry in section.sections("env")},
            version=version, install_hint=section.text("installHint"), interactive=interactive,
            folder=section.file.parent, place=place, cluster=cluster if section.flag("provideClusterInfo") else {},
        )  # fmt: skip

    def run(self) -> PluginStatus:
        """Runs the plugin and parses its output. Blocks."""
        environ = {**os.environ, **self.env}
        command = self.command
        if os.sep in command:
            command = str(self.folder / command)
        found = shutil.which(command, path=environ.get("PATH"))
        if found is None:
            raise self._failed("is not installed", self.install_hint)
        terminal = sys.stdin is not None and sys.stdin.isatty() and self.interactive != "Never"
        if self.interactive == "Always" and not terminal:
            raise self._failed("needs a terminal, and there is none", "run it once by hand to log in")
        spec: dict[str, Any] = {"interactive": terminal, **({"cluster": self.cluster} if self.cluster else {})}
        info = {"apiVersion": self.version, "kind": "ExecCredential", "spec": spec}
        environ["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(info).decode()
        try:
            done = subprocess.run(
                [found, *self.args], env=environ, timeout=TIMEOUT_S, capture_output=True, check=False,
                stdin=None if terminal else subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise self._failed(
                f"did not answer within {TIMEOUT_S:.0f} s", "run it by hand to see what it waits for"
            ) from None
        except OSError as error:
            raise self._failed(f"cannot be run: {error.strerror}", self.install_hint) from None
        _log.info("credential plugin %s ended with status %d", found, done.returncode)
        if done.returncode:
            said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
            raise self._failed(f"ended with status {done.returncode}" + (f": {said[-1][:300]}" if said else ""))
        return self._read(done.stdout)

    def _read(self, output: bytes) -> PluginStatus:
        try:
            answer = msgspec.json.decode(output, type=PluginAnswer)
        except msgspec.MsgspecError as error:
            raise self._failed(f"printed something that is not an ExecCredential: {error}") from None
        if answer.kind != "ExecCredential" or answer.api_version != self.version:
            raise self._failed(
                f"printed {answer.kind or 'no kind'} of '{answer.api_version}', the kubeconfig says '{self.version}'",
                "make the apiVersion in the kubeconfig the one that the plugin speaks",
            )
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data):
            raise self._failed("gave neither a token nor a certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._failed("gave a certificate without its key, or a key without its certificate")
        return status

    def _failed(self, what: str, remedy: str = "") -> SetupProblem:
        line = " ".join((self.command, *self.args))
        return SetupProblem(
            f"{self.place}: the exec plugin '{self.command}' {what}", remedy or f"run it by hand: {line}"
        )


class PluginCredentials(Credentials):
    """The credential of a plugin, used until it expires; without an expiry, until the server rejects it."""

    def __init__(self, plugin: ExecPlugin) -> None:
        super().__init__()
        self.plugin = plugin
        self._until = 0.0  # wall clock, as the expiry is
        self._running: asyncio.Lock | None = None
        self._runs = 0

    def fresh(self) -> bool:
        return time.time() < self._until

    async def refresh(self, *, rejected: bool = False) -> bool:  # noqa: ARG002
        runs = self._runs
        self._running = self._running or asyncio.Lock()
        async with self._running:
            if self._runs != runs:  # another request ran the plugin meanwhile
                return True
            self._take(await asyncio.to_thread(self.plugin.run))
            self._runs += 1
        return True

    def _take(self, status: PluginStatus) -> None:
        place = f"{self.plugin.place}: exec plugin '{self.plugin.command}'"
        self.authorization = bearer(status.token, place) if status.token else ""
        if status.client_certificate_data:
            pair = Certificate(_pem(status.client_certificate_data), _pem(status.client_key_data), place)
            pair.check()
            if pair != self.certificate:
                self.certificate = pair
                self.generation += 1
        expiry = status.expiration_timestamp
        self._until = expiry.timestamp() if expiry is not None else float("inf")
        if self._until <= time.time():
            raise self.plugin._failed(f"gave a credential that expired at {expiry}", "check the clock of this machine")


def _pem(text: str) -> bytes:
    """PEM as the API specifies; some plugins encode it in base64 once more."""
    data = text.encode()
    return data if data.lstrip().startswith(b"-----") else base64.b64decode(data)
