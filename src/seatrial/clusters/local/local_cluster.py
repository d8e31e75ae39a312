"""A trial on a real control plane of this machine: a fresh one that goes with the trial, or one that was there and stays.

A fresh control plane costs seconds, and leftovers of an earlier trial change results. What the components measured of themselves
is kept in the trial's directory; their logs too, if one died or work was left. The audit log is read into the observations.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any

from seatrial.clusters.access import kept_clusters
from seatrial.clusters.containers.containerd import with_containerd
from seatrial.clusters.kwok import stage_objects
from seatrial.clusters.live.live_cluster import LiveCluster
from seatrial.clusters.live.node_pool import FakeNodes, NodePool
from seatrial.clusters.live.playing import bind_claims
from seatrial.clusters.live.request_load import SCRAPE_EVERY_S, RequestLoad, apiserver_scraper, impersonation
from seatrial.clusters.live.session import Session
from seatrial.clusters.local import kept_planes, kubelet_nodes
from seatrial.clusters.local.audit_trail import AuditTrail
from seatrial.clusters.local.components import RUNTIME_LOG, PlaneOptions, for_fake_nodes
from seatrial.clusters.local.kubelet_nodes import KubeletNodes
from seatrial.clusters.local.load_setup import LoadSetup, logins
from seatrial.clusters.local.plane import LocalControlPlane
from seatrial.clusters.requests.metrics_scraper import MetricsScraper
from seatrial.clusters.supervision.directories import clusters_root
from seatrial.kube import NO_RETRY, ApiProblem, Lost, Request, Unreachable, access_from
from seatrial.kube.resources import NAMESPACES, NODES
from seatrial.model.control_plane import ControlPlane, Override
from seatrial.model.errors import SeatrialError
from seatrial.model.interfaces import Stack
from seatrial.model.labels import KUBELET_LABEL
from seatrial.model.plan import ComponentOverride, NodeGroup, Trial
from seatrial.record.ledger import Ledger
from seatrial.record.submissions import Submissions
from seatrial.scenario.actions.send_requests import Requests

SCRAPED = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelets")
SCRAPE_SELDOM_S = 15.0  # where no load of requests is sent
LAST_LINES = 3  # of a dead component's log in a diagnosis; all of it is kept in the trial's directory


def fresh_cluster(trial: Trial, stack: Stack, ledger: Ledger, submissions: Submissions, directory: Path) -> LiveCluster:
    """A control plane of the trial's own."""
    session = Session(trial, stack, ledger, submissions, directory, "trial")
    audit = AuditTrail(session)
    plane = _plane(session, audit)
    setup = LoadSetup(session, plane, audit.users)
    requests = RequestLoad(session, logins(session, plane), before=setup.prepare)
    host = FreshPlane(session, plane, audit, setup, requests)
    nodes = NodePool(session, KubeletNodes(session, plane) if plane.has_kubelets else FakeNodes(session))
    return LiveCluster(session, host, nodes, requests, dead=host.dead)


def kept_cluster(trial: Trial, stack: Stack, ledger: Ledger, submissions: Submissions, directory: Path) -> LiveCluster:
    """A control plane that was there before and stays (`--cluster NAME`). Its keeper plays the applications."""
    session = Session(trial, stack, ledger, submissions, directory, os.urandom(4).hex())
    requests = RequestLoad(session, impersonation(session))
    host = KeptPlane(session, requests)
    nodes = NodePool(session, FakeNodes(session, lambda: host.nodes))
    return LiveCluster(session, host, nodes, requests, plays=False)


def _plane(session: Session, audit: AuditTrail) -> LocalControlPlane:
    trial, stack = session.trial, session.stack

    def amend(plane: ControlPlane) -> ControlPlane:
        if any(group.containers for group in trial.node_groups()):
            plane = with_containerd(plane, clusters_root() / made.name)
        return stack.real.amend(for_fake_nodes(plane), trial.setup)

    fake = [group for group in trial.node_groups() if not group.kubelet]
    kubelets = len(fake) < len(trial.node_groups())
    options = PlaneOptions(
        settings=trial.setup.settings,
        stages=stage_objects.stages(fake) if fake else "",
        managed_nodes=f"!{KUBELET_LABEL}" if kubelets else "",
        kubelets=kubelet_nodes.document(trial.setup.settings, []) if kubelets else None,
        audit=audit.wanted,
        audit_policy=audit.policy(),
        overrides={name: _override(part) for name, part in trial.setup.components.items()},
    )
    binaries = Path(trial.target.binaries) if trial.target.binaries else None
    made = LocalControlPlane(options=options, amend=amend, binaries=binaries, died=session.died)
    return made


def _override(part: ComponentOverride) -> Override:
    binary, config = (Path(given) if given else None for given in (part.binary, part.config))
    return Override(binary, part.version, config, part.args)


PROFILE_S = 2  # a stretch that is cut off by the end of the trial is lost


class FreshPlane:
    """Starts the control plane, and takes it down again."""

    def __init__(
        self, session: Session, plane: LocalControlPlane, audit: AuditTrail, setup: LoadSetup, requests: RequestLoad
    ) -> None:
        self._session, self._plane, self._audit, self._setup, self._requests = session, plane, audit, setup, requests

    async def connect(self) -> None:
        session = self._session
        await self._plane.up()
        client = session.connect(access_from(self._plane.kubeconfig()))
        session.spawn(bind_claims(client, session.problems.append))
        for component in session.trial.target.profile:
            session.spawn(_profile(self._plane, component, session.directory / "profiles"))

    def kubeconfig(self) -> str:
        return str(self._plane.kubeconfig())

    def scraper(self) -> MetricsScraper:
        """Every component of the control plane, and the machine that they share with us."""
        session = self._session
        ports = {name: self._plane.port(name) for name in SCRAPED}
        servers = {name: self._plane.client(port=port) for name, port in ports.items() if port}
        every = SCRAPE_EVERY_S if session.trial.phases(Requests) else SCRAPE_SELDOM_S
        return MetricsScraper(session.directory, servers, lambda: self._plane.pids, every)

    def dead(self) -> list[str]:
        """With how it ended and the end of its log; one that is being restarted counts until it runs."""
        missing = {component.name for component in self._plane.plane.components} - set(self._plane.pids)
        last = {death.component: death for death in self._plane.deaths if death.component in missing}
        return [f"{death}; its last words: {_end_of(death.log_tail)}" for death in last.values()]

    async def leave(self) -> None:
        session = self._session
        try:
            await session.close()
            await self._setup.stop()
            if session.deaths or self._unfinished():
                await asyncio.to_thread(self._plane.keep_logs, session.directory / "logs")
            if self._plane.audit_log and session.observer.epoch:
                phases = self._requests.phases
                await asyncio.to_thread(self._audit.read, self._plane.audit_log, phases.log if phases else None)
            for victim, pod in session.stack.real.evicted_for(self._plane.layout.logs):
                session.observer.evicted_for(victim, pod)
            if self._plane.has_kubelets and session.observer.epoch:
                log = self._plane.layout.directory / RUNTIME_LOG
                await asyncio.to_thread(kubelet_nodes.add_runtime_stages, log, session)
        except (OSError, SeatrialError) as error:
            session.mishaps.append(f"the audit log could not be read: {error}")
        finally:
            await asyncio.shield(self._plane.down())

    def _unfinished(self) -> bool:
        """Then the logs of the components are kept: they may say why."""
        number, counts = self._session.ledger.number, self._session.ledger.counts
        return counts[number["completed"]] < counts[number["submitted"]]

    def target(self) -> dict[str, Any]:
        return {}


class KeptPlane:
    """Finds the cluster by its name, and removes what the trial made there."""

    def __init__(self, session: Session, requests: RequestLoad) -> None:
        self.nodes: tuple[NodeGroup, ...] = ()  # of the cluster's own
        self._session, self._requests = session, requests
        self._removed = False

    def _found(self) -> kept_clusters.KeptCluster:
        return kept_clusters.find(self._session.trial.target.cluster)

    async def connect(self) -> None:
        session, there = self._session, self._found()
        self.nodes = there.nodes
        if not self.nodes:
            stages = stage_objects.stages(session.trial.node_groups())
            await asyncio.to_thread(kept_planes.restage, there.name, stages)
        session.connect(access_from(there.kubeconfig()))

    def kubeconfig(self) -> str:
        return str(self._found().kubeconfig())

    def scraper(self) -> MetricsScraper | None:
        return apiserver_scraper(self._session)

    async def leave(self) -> None:
        session = self._session
        if not session.connected:
            return
        try:
            for namespace in (session.namespace, *session.queue_namespaces):
                with contextlib.suppress(ApiProblem):
                    await session.client.delete(NAMESPACES, namespace)
            await self._requests.remove()
            for resource in (NODES, *session.cluster_kinds):
                await session.client.delete_collection(resource, labelSelector=session.selector)
            self._removed = True
        finally:
            await session.close()

    def target(self) -> dict[str, Any]:
        name = self._session.trial.target.cluster
        session = self._session
        return {"cluster": name, "study": session.study, "removed": self._removed, **session.where_to_watch}


def _end_of(log: str) -> str:
    return "\n".join(log.splitlines()[-LAST_LINES:]) or "none"


async def _profile(plane: LocalControlPlane, component: str, folder: Path) -> None:
    """Writes CPU profiles of a component for `go tool pprof`, one `COMPONENT-N.pprof` per stretch, until cancelled."""
    folder.mkdir(exist_ok=True)
    number = 0
    while True:
        port = plane.port(component)  # none while the component is being restarted
        profiled = await _profiled(plane, port) if port else b""
        if profiled:
            (folder / f"{component}-{number:04d}.pprof").write_bytes(profiled)
            number += 1
        else:
            await asyncio.sleep(1)


async def _profiled(plane: LocalControlPlane, port: int) -> bytes:
    """A profile, or nothing if the component does not answer."""
    path = f"/debug/pprof/profile?seconds={PROFILE_S}"
    try:
        async with plane.client(port=port) as client:
            answer = await client.send(Request("get", "", "GET", path, timeout=PROFILE_S + 10), retry=NO_RETRY)
    except (Lost, Unreachable):
        return b""
    return bytes(answer.body) if answer.ok else b""
