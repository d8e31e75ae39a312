"""Samples metrics of components, processes and the machine while a trial runs, on the timeline of the requests."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from seatrial.kube import Client, Lost, Unreachable, clock
from seatrial.kube.resources import Request
from seatrial.kube.retrying import NO_RETRY
from seatrial.model.units import SECOND
from seatrial.observe.machine import machine, processes
from seatrial.observe.scraping import samples
from seatrial.record.metrics import MetricsLog

TIMEOUT_S = 10.0


class MetricsScraper:
    """`servers` has a client per component, `pids` the components that run on this machine; `ours`: we share the machine."""

    def __init__(
        self, directory: Path, servers: Mapping[str, Client], pids: Callable[[], Mapping[str, int]], every_s: float,
        ours: bool = True,
    ) -> None:  # fmt: skip
        self.epoch = 0
        self.refused: dict[str, str] = {}  # component → why it does not serve metrics
        self._log = MetricsLog(directory)
        self._servers, self._pids, self._every, self._ours = servers, pids, every_s, ours

    async def run(self) -> None:
        """Samples until cancelled."""
        while True:
            due = clock() + int(self._every * SECOND)
            await self.look()
            await asyncio.sleep(max(0.05, (due - clock()) / SECOND))

    async def look(self) -> None:
        """Takes one sample."""
        if not self.epoch:
            return
        at = clock() - self.epoch
        if self._ours:
            self._log.add(at, "machine", machine())
        for name, found in processes({**self._pids(), "client": os.getpid()}).items():
            self._log.add(at, name, found)
        for name, client in self._servers.items():
            if name not in self.refused:
                await self._scrape(name, client)

    async def _scrape(self, name: str, client: Client) -> None:
        """The time of a scrape is that of its answer. A component that is restarting is skipped."""
        request = Request("get", "metrics", "GET", "/metrics", timeout=TIMEOUT_S)
        try:
            answer = await client.send(request, retry=NO_RETRY)
        except (Lost, Unreachable):
            return
        if answer.code in (401, 403, 404):
            self.refused[name] = f"{answer.code} {answer.reason}"
        elif answer.ok:
            found = await asyncio.to_thread(samples, answer.body)
            self._log.add(answer.done - self.epoch, name, found)

    async def finish(self) -> None:
        """Takes the last sample and closes the clients."""
        await self.look()
        self._log.close()
        for client in self._servers.values():
            await client.close()
