"""A trial on a real control plane of this machine: fresh for the trial, gone after it.

A fresh one costs seconds, and leftovers of an earlier trial change results. What the components measured of themselves is kept
in the trial's directory, and what they logged if one died or work was left; the audit log is read into the observations and goes.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import ssl
import urllib.request
from pathlib import Path
from typing import Any

from seatrial.clusters import fakes
from seatrial.clusters.fakes import CONNECTIONS
from seatrial.clusters.live import LiveCluster
from seatrial.clusters.local import kept
from seatrial.clusters.local.components import Wish, for_fake_nodes
from seatrial.clusters.local.plane import LocalControlPlane
from seatrial.clusters.local.supervisor import Death
from seatrial.clusters.playing import bind_claims
from seatrial.kube import Client, Mark, access_from
from seatrial.model.control_plane import ControlPlane, Override
from seatrial.model.errors import SeatrialError
from seatrial.model.interfaces import Stack
from seatrial.model.labels import STUDY_LABEL
from seatrial.model.plan import NodeGroup, Part, Trial
from seatrial.observe import audit, sources
from seatrial.record.ledger import Ledger
from seatrial.record.submissions import Submissions

SCRAPED = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
SCRAPE_EVERY_S = 15.0
LAST_LINES = 3  # of a dead component's log in a diagnosis; all of it is kept in the trial's directory
PROFILE_S = 2  # a stretch that is cut off by the end of the trial is lost


class LocalCluster(LiveCluster):
    """A control plane of the trial's own."""

    def __init__(self, trial: Trial, stack: Stack, ledger: Ledger, submissions: Submissions, directory: Path) -> None:
        super().__init__(trial, stack, ledger, submissions, "trial")
        self._directory = directory
        self._agreement: audit.Agreement | None = None
        self._scrapes = 0
        wish = Wish(
            settings=trial.setup.settings,
            stages=fakes.stages(trial.node_groups()),
            audit_policy=audit.policy(*stack.created_as),
            overrides={name: _override(part) for name, part in trial.setup.components.items()},
        )
        binaries = Path(trial.target.binaries) if trial.target.binaries else None
        self._plane = LocalControlPlane(wish=wish, amend=self._amend, binaries=binaries, died=self._died)

    def _amend(self, plane: ControlPlane) -> ControlPlane:
        amended: ControlPlane = self.stack.amend(for_fake_nodes(plane), self.trial.setup.settings)
        return amended

    async def connect(self) -> Client:
        await self._plane.up()
        access = access_from(self._plane.kubeconfig())
        client = Client(access, connections=CONNECTIONS, mark=Mark(STUDY_LABEL, self.labels[STUDY_LABEL]))
        self._tasks.append(asyncio.create_task(bind_claims(client, self._problems.append)))
        self._tasks.append(asyncio.create_task(self._scrape_now_and_then()))
        for component in self.trial.target.profile:
            self._tasks.append(asyncio.create_task(self._profile(component)))
        return client

    def kubeconfig(self) -> str:
        return str(self._plane.kubeconfig())

    def _died(self, death: Death) -> None:
        self.deaths.append(str(death))
        if not death.restarting:
            self.break_off(str(death))

    def dead(self) -> list[str]:
        """With how it ended and its last words; one that is being restarted counts until it runs."""
        missing = {component.name for component in self._plane.plane.components} - set(self._plane.pids)
        last = {death.component: death for death in self._plane.deaths if death.component in missing}
        return [f"{death}; its last words: {_end_of(death.log_tail)}" for death in last.values()]

    async def leave(self) -> None:
        try:
            if hasattr(self, "client"):
                await self.client.close()
            if self.deaths or self._unfinished():
                await asyncio.to_thread(self._plane.keep_logs, self._directory / "logs")
            if self._plane.audit_log and self.observer.epoch:
                self._agreement = await asyncio.to_thread(
                    audit.merge, self._plane.audit_log, self.namespace, self.observer, self.wall_epoch
                )
        except (OSError, SeatrialError) as error:
            self.deaths.append(f"the audit log could not be read: {error}")
        finally:
            await asyncio.shield(self._plane.down())

    def _unfinished(self) -> bool:
        """Then somebody will want to know why: what the components said is kept."""
        number, counts = self.ledger.number, self.ledger.counts
        return counts[number["completed"]] < counts[number["submitted"]]

    def sources(self) -> list[dict[str, Any]]:
        measured = self._agreement.p99 if self._agreement and self._agreement.count else None
        return sources.table(measured, 0)

    def validity(self) -> dict[str, Any]:
        agreement = self._agreement.as_json() if self._agreement else None
        return {**super().validity(), "watch_against_audit": agreement}

    async def _scrape_now_and_then(self) -> None:
        """Everything the components say of themselves, as they say it: `metrics/COMPONENT-N.txt.gz`."""
        while True:
            for component in SCRAPED:
                port = self._plane.port(component)
                if port:
                    await asyncio.to_thread(self._scrape, component, port)
            self._scrapes += 1
            await asyncio.sleep(SCRAPE_EVERY_S)

    def _scrape(self, component: str, port: int) -> None:
        said = self._ask(port, "/metrics", 5)
        if said:
            folder = self._directory / "metrics"
            folder.mkdir(exist_ok=True)
            (folder / f"{component}-{self._scrapes:04d}.txt.gz").write_bytes(gzip.compress(said, 1))

    async def _profile(self, component: str) -> None:
        """Where its processor time went, one file per stretch: `profiles/COMPONENT-N.pprof`, for `go tool pprof`."""
        folder = self._directory / "profiles"
        folder.mkdir(exist_ok=True)
        number = 0
        while True:
            port = self._plane.port(component) or 0
            said = await asyncio.to_thread(self._ask, port, f"/debug/pprof/profile?seconds={PROFILE_S}", PROFILE_S + 10)
            if said:
                (folder / f"{component}-{number:04d}.pprof").write_bytes(said)
                number += 1
            else:
                await asyncio.sleep(1)

    def _ask(self, port: int, path: str, patience_s: float) -> bytes:
        """Nothing while the component is being restarted: the next time comes."""
        try:
            layout = self._plane.layout
            context = ssl.create_default_context(cafile=str(layout.ca))
            context.load_cert_chain(layout.certificate("admin"), layout.key("admin"))
            with urllib.request.urlopen(
                f"https://127.0.0.1:{port}{path}", timeout=patience_s, context=context
            ) as answer:
                said: bytes = answer.read()
                return said
        except (OSError, SeatrialError):
            return b""


class KeptCluster(LiveCluster):
    """A control plane that was there before and stays (`--cluster NAME`): the trial makes and removes what it needs."""

    plays = False  # its keeper does

    def __init__(self, trial: Trial, stack: Stack, ledger: Ledger, submissions: Submissions) -> None:
        super().__init__(trial, stack, ledger, submissions, os.urandom(4).hex())
        self._removed = False
        self._standing: tuple[NodeGroup, ...] = ()  # nodes of the cluster's own

    def target(self) -> dict[str, Any]:
        study = self.labels[STUDY_LABEL]
        return {"cluster": self.trial.target.cluster, "study": study, "removed": self._removed}

    async def connect(self) -> Client:
        name = self.trial.target.cluster
        there = kept.find(name)
        self._standing = there.nodes
        if not self._standing:
            await asyncio.to_thread(kept.restage, name, fakes.stages(self.trial.node_groups()))
        access = access_from(there.kubeconfig())
        return Client(access, connections=CONNECTIONS, mark=Mark(STUDY_LABEL, self.labels[STUDY_LABEL]))

    def kubeconfig(self) -> str:
        return str(kept.find(self.trial.target.cluster).kubeconfig())

    async def _make_nodes(self, group: NodeGroup, first: int) -> list[str]:
        """Those of the cluster are there, and stay."""
        return fakes.names(group) if group in self._standing else await super()._make_nodes(group, first)

    async def leave(self) -> None:
        if hasattr(self, "client"):
            try:
                await self.remove_all()
                self._removed = True
            finally:
                await self.client.close()


def _end_of(log: str) -> str:
    return "\n".join(log.splitlines()[-LAST_LINES:]) or "none"


def _override(part: Part) -> Override:
    binary, config = (Path(given) if given else None for given in (part.binary, part.config))
    return Override(binary, part.version, config, part.args)
