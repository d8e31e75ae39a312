"""A trial on an attached cluster: see the package for the rules."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seatrial.clusters.access.cleanup import find, remove
from seatrial.clusters.access.target_access import access_to
from seatrial.clusters.attached.placement import StudyPlacement
from seatrial.clusters.attached.preflight import LIMITED, existing_nodes, foreign_kwok, refuse_kwok, whom
from seatrial.clusters.kwok import fake_nodes, stage_objects
from seatrial.clusters.kwok.kwok_process import KwokProcess
from seatrial.clusters.live.live_cluster import LiveCluster, Placement
from seatrial.clusters.live.node_pool import NOT_READY_TAINT, FakeNodes, NodePool
from seatrial.clusters.live.request_load import RequestLoad, apiserver_scraper, impersonation
from seatrial.clusters.live.session import Session
from seatrial.clusters.requests.metrics_scraper import MetricsScraper
from seatrial.kube import ApiProblem, Lost, Unreachable
from seatrial.kube.kubeconfig import read_kubeconfig
from seatrial.kube.resources import LEASES, NAMESPACES, NODES
from seatrial.kube.shapes import Node
from seatrial.model.errors import SeatrialError, SetupProblem
from seatrial.model.interfaces import Stack
from seatrial.model.labels import UNREADY_ANNOTATION
from seatrial.model.plan import Trial
from seatrial.record.ledger import Ledger
from seatrial.record.submissions import Submissions
from seatrial.scenario.actions.change_nodes import NodeChange

REMOVE_WITHIN_S = 120.0
POLL_S = 0.2  # it is not our API server: look less often than on `local`


def attached_cluster(
    trial: Trial, stack: Stack, ledger: Ledger, submissions: Submissions, directory: Path
) -> LiveCluster:
    """The cluster that the context names."""
    study = os.urandom(4).hex()
    placement = StudyPlacement(trial, study)
    session = Session(placement.trial(), stack, ledger, submissions, directory, study)
    kwok = KwokProcess(
        study,
        session.selector,
        died=session.died,
        before_restart=lambda: _free_leases(session, nodes),
        after_restart=lambda: _touch_pods(session, nodes),
    )
    nodes = NodePool(session, StudyNodes(session, placement, kwok))
    # Identities get roles only in namespaces that we made: they go with the trial.
    requests = RequestLoad(session, impersonation(session), session.load_namespaces)
    host = ForeignCluster(session, placement, kwok)
    placed = Placement(placement.workload, placement.requests, placement.nodes, placement.group, placement.preempts)
    return LiveCluster(session, host, nodes, requests, placed, explain=host.explain)


class ForeignCluster:
    """Connects to the cluster, runs a KWOK of ours for its fake nodes, and removes what the trial made."""

    def __init__(self, session: Session, placement: StudyPlacement, kwok: KwokProcess) -> None:
        self._session, self._placement, self._kwok = session, placement, kwok
        session.evidence["server_clock_off_s"] = 0.0
        self._removed: bool | None = None
        self._failed = False

    async def connect(self) -> None:
        session, target = self._session, self._session.trial.target
        access = access_to(target)
        client = session.connect(access)
        await client.probe()
        session.evidence["server_clock_off_s"] = (await whom(client)).clock_off
        if self._placement.fakes:
            refuse_kwok(await foreign_kwok(client))
            kubeconfig = read_kubeconfig(Path(target.kubeconfig) if target.kubeconfig else None)
            await self._kwok.start(
                kubeconfig.alone(access.context),
                stage_objects.stages(self._placement.fakes),
                session.trial.setup.settings.get("kwok", {}),
                access.server,
                Path(target.binaries) if target.binaries else None,
            )

    def explain(self, error: BaseException) -> BaseException:
        """Turns a refusal by the server or a network failure into a problem of the set-up."""
        self._failed = True
        if isinstance(error, BaseExceptionGroup):
            problems, _ = error.split((SeatrialError, OSError))
            return error if problems is None else _as_setup(_first(problems))
        return _as_setup(error) if isinstance(error, ApiProblem | Lost) else error

    def kubeconfig(self) -> str:
        return self._session.trial.target.kubeconfig

    def scraper(self) -> MetricsScraper | None:
        return apiserver_scraper(self._session)

    async def leave(self) -> None:
        """Namespaces go while KWOK still plays the end of their pods; nodes when it is gone."""
        if self._failed:
            self._kwok.keep_log(self._session.directory / "kwok.log")
        try:
            if self._session.connected:
                await self._remove()
        finally:
            await asyncio.shield(self._kwok.stop())
            await self._session.close()

    async def _remove(self) -> None:
        session, self._removed = self._session, False
        try:
            ours = await find(session.client, {session.study}, everywhere=False, also=session.cluster_kinds)
            left = await remove(session.client, [t for t in ours if t.resource == NAMESPACES], REMOVE_WITHIN_S)
            await self._kwok.stop()
            left += await remove(session.client, [t for t in ours if t.resource != NAMESPACES], REMOVE_WITHIN_S)
        except SeatrialError as error:
            session.mishaps.append(f"objects of the trial could not be removed: {error.message}")
            return
        self._removed = not left

    def target(self) -> dict[str, Any]:
        session, target = self._session, self._session.trial.target
        return {
            "context": target.context, "server": target.server, "study": session.study, "namespace": session.namespace,
            "removed": self._removed, **session.where_to_watch,
        }  # fmt: skip


class StudyNodes:
    """Fake nodes that our own KWOK plays, and existing ones that the scenario names."""

    def __init__(self, session: Session, placement: StudyPlacement, kwok: KwokProcess) -> None:
        self._session, self._placement, self._kwok = session, placement, kwok
        self.make = FakeNodes(session).make

    async def ready(self, names: set[str]) -> bool:
        """KWOK plays only nodes whose lease it holds, and a scheduler uses only nodes that lost the taint of new ones."""
        client = self._session.client
        await asyncio.sleep(POLL_S)
        holders = await fake_nodes.lease_holders(client, names)
        refuse_foreign_holder(self._kwok.identity(), set(holders.values()))
        if len(holders) < len(names):
            return False
        nodes = await client.list(NODES, shape=Node, labelSelector=self._session.selector)
        meant = [node for node in nodes.items if UNREADY_ANNOTATION not in node.metadata.annotations]
        return not any(taint.key == NOT_READY_TAINT for node in meant for taint in node.spec.taints)

    async def affect(self, change: NodeChange, names: Sequence[str]) -> None:
        """Its nodes have no kubelets of ours."""

    async def existing(self) -> list[Node]:
        """A queue may admit what they have, too."""
        found = [await existing_nodes(self._session.client, selector) for selector in self._placement.existing]
        return [node for nodes in found for node in nodes]


def refuse_foreign_holder(ours: str, holders: set[str]) -> None:
    """Two KWOKs would fight over the pods. `ours` is empty until our KWOK has said under which name it holds leases."""
    others = holders - {ours}
    if ours and others:
        raise SetupProblem(
            f"another KWOK ({', '.join(sorted(others))}) took our nodes; two would fight over the pods", LIMITED
        )


async def _free_leases(session: Session, nodes: NodePool) -> None:
    """A new KWOK would wait 40 s for the nodes of the one that died."""
    for name in nodes.made():
        await session.client.delete(LEASES, name, fake_nodes.NODE_LEASES)


async def _touch_pods(session: Session, nodes: NodePool) -> None:
    with contextlib.suppress(ApiProblem, Lost, Unreachable):
        namespaces = sorted({session.namespace, *session.queue_namespaces, *session.load_namespaces})
        await fake_nodes.touch_pods(session.client, nodes.made(), namespaces)


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _as_setup(error: BaseException) -> SetupProblem:
    if isinstance(error, SetupProblem):
        return error
    remedy = error.remedy if isinstance(error, SeatrialError) else "check the network and the disk"
    return SetupProblem(str(error), remedy)
