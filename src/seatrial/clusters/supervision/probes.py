"""Readiness probes: does a component answer on its port, or listen on its Unix socket?"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from seatrial.clusters.supervision.procfs import listens_on
from seatrial.kube import NO_RETRY, Access, Client, Lost, Request, Unreachable
from seatrial.kube.credentials import Credentials
from seatrial.model.control_plane import Ready

ANSWER_S = 5.0


class Probe:
    """Asks one process whether it is ready. `admin` gives the credentials for components that serve TLS."""

    def __init__(self, ready: Ready, pid: int, directory: Path, admin: Callable[[], Access] | None) -> None:
        self.ports: set[int] = set()  # on which the process listens
        self._ready, self._pid, self._directory, self._admin = ready, pid, directory, admin
        self._client: Client | None = None

    async def problem(self) -> str:
        """Empty if the process is ready. An answer is not enough: this process must be the one that listens."""
        ready = self._ready
        if ready.socket:
            return await asyncio.to_thread(probe_socket, self._directory / ready.socket)
        self.ports = await asyncio.to_thread(listens_on, self._pid)
        port = ready.port or min(self.ports, default=0)
        if port not in self.ports:
            return f"it does not listen on port {port}" if port else "it does not listen"
        return await self._ask(port, ready.path) if ready.path else ""

    async def _ask(self, port: int, path: str) -> str:
        if self._client is None or self._client.access.port != port:
            await self.close()
            if self._ready.tls and self._admin:
                access = replace(self._admin(), port=port)
            else:
                access = Access("127.0.0.1", port, Credentials(), tls=self._ready.tls)
            self._client = Client(access, connections=1, timeout=ANSWER_S)
        try:
            answer = await self._client.send(Request("get", "", "GET", path), retry=NO_RETRY)
        except (Lost, Unreachable) as error:
            return f"{path}: {error.message}"
        text = answer.body.decode(errors="replace")
        failed = " ".join(line for line in text.splitlines() if line.startswith("[-]"))
        return "" if answer.code == 200 else f"{path} says {answer.code}: {failed or text[:200]}"

    async def close(self) -> None:
        """Closes the connection to the process."""
        if self._client is not None:
            await self._client.close()


def probe_socket(path: Path) -> str:
    """Empty if somebody listens on the Unix socket, else what is wrong.

    Through a descriptor of its directory: a socket's path may have 107 bytes only, and state directories are longer.
    """
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        return f"{path.parent}: {error.strerror}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            probe.connect(f"/proc/self/fd/{directory}/{path.name}")
    except OSError as error:
        return f"{path.name}: {error.strerror or error}"
    finally:
        os.close(directory)
    return ""
