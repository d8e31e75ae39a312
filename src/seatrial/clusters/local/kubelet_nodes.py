"""Nodes with real kubelets on a control plane of ours: written into the file of the process that runs them all.

The file is what should be: its nodes, which of their kubelets are stopped, and what their runtimes do. After each change a line to
the process's socket has it read the file again; a process that was restarted reads it by itself. KWOK leaves these nodes alone, by
their label.

Where the runtime's times come from: `runtime` of the node group, else the settings `kubelet.start-latency` (of the sandbox) and
`kubelet.start-work` (of the start, on the processors of `kubelet.machine-cores` or of the node), which the simulator has too.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from seatrial.clusters.containers import containerd
from seatrial.clusters.kwok import fake_nodes
from seatrial.clusters.live.node_pool import NOT_READY_TAINT, FakeNodes
from seatrial.clusters.live.session import Session
from seatrial.clusters.local.components import KUBELETS_FILE, KUBELETS_SOCKET
from seatrial.clusters.local.node_conditions import NodeConditions
from seatrial.clusters.local.plane import LocalControlPlane
from seatrial.clusters.supervision.directories import write_private
from seatrial.kube.resources import NODES
from seatrial.kube.shapes import Node, condition
from seatrial.model.errors import SetupProblem
from seatrial.model.labels import GROUP_LABEL, KUBELET_LABEL
from seatrial.model.lifecycle import CONTAINER_CREATED, PULLED, SANDBOX
from seatrial.model.plan import NodeGroup, PlayedRuntime, Scalar, Span
from seatrial.model.units import format_duration, format_quantity
from seatrial.observe import time_sources
from seatrial.scenario.actions.change_nodes import KUBELET_CHANGES, RUNTIME_CHANGES, NodeChange, RuntimeTrouble

ANSWER_S = 300.0  # a thousand kubelets are started one after the other
PAUSE_PER_NODE_S = 0.001  # between two looks: a list of a thousand nodes is 5 MB, from a busy server
_RUNTIME_STAGES = {stage.name for stage in (SANDBOX, PULLED, CONTAINER_CREATED)}
Entry = dict[str, Any]


def document(settings: Mapping[str, Mapping[str, Scalar]], nodes: Iterable[Entry]) -> dict[str, Any]:
    """The file of the process."""
    return {"machineCores": float(settings["kubelet"]["machine-cores"]), "nodes": list(nodes)}


class KubeletNodes:
    """Provides the nodes of a trial with kubelets: those from the process, the others from KWOK."""

    def __init__(self, session: Session, plane: LocalControlPlane) -> None:
        self._session, self._plane = session, plane
        self._fake = FakeNodes(session)
        self._entries: dict[str, Entry] = {}
        self._watched = False
        self._containerd: dict[str, str] = {}  # where it is, once a group has real containers

    async def make(self, group: NodeGroup, first: int, there: int) -> list[str]:
        if not group.kubelet:
            return await self._fake.make(group, first, there)
        names = fake_nodes.names(group, first)
        runtime = _runtime(group, self._session.trial.setup.settings)
        labels = {GROUP_LABEL: group.name, **group.labels, **self._session.labels, KUBELET_LABEL: "true"}
        for name in names:
            self._entries[name] = _entry(name, group, labels, runtime)
        if group.containers and not self._containerd:
            directory = self._plane.layout.directory
            await containerd.prepare(directory, self._plane.programs_given)
            self._containerd = containerd.location(directory)
        await self._apply()
        if not self._watched:
            self._watched = True
            self._session.spawn(NodeConditions(self._session).watch())
        return names

    async def ready(self, names: set[str]) -> bool:
        if not await self._fake.ready(names):
            return False
        kubelets = names & self._entries.keys()
        await asyncio.sleep(len(kubelets) * PAUSE_PER_NODE_S)
        found = await self._session.client.list(NODES, shape=Node, labelSelector=KUBELET_LABEL, resourceVersion="0")
        return kubelets <= {node.metadata.name for node in found.items if _is_ready(node)}

    async def existing(self) -> list[Node]:
        return []

    async def affect(self, change: NodeChange, names: Sequence[str]) -> None:
        ours = [name for name in names if name in self._entries]
        if not ours or change.change not in (*KUBELET_CHANGES, "remove"):
            return
        for name in ours:
            if change.change == "remove":
                del self._entries[name]
            elif change.change in ("stop", "start"):
                self._entries[name]["stopped"] = change.change == "stop"
            else:  # `heal` has no trouble
                self._entries[name]["runtime"] |= _trouble(change.trouble)
        self._explain(change, len(ours))
        await self._apply()

    def _explain(self, change: NodeChange, count: int) -> None:
        """Adds injected faults to the diagnosis; otherwise it would blame a component."""
        if change.change in RUNTIME_CHANGES:
            what, wrong = f"the container runtimes of '{change.group}'", _words(change.trouble)
        else:
            what, wrong = f"the kubelets of '{change.group}'", "they are stopped" if change.change == "stop" else ""
        self._session.observer.well(what)
        if wrong:
            self._session.observer.trouble(
                f"{what} ({count} node{'' if count == 1 else 's'}): {wrong}, as the step '{change.name}' says"
            )

    async def _apply(self) -> None:
        """Writes the file and has it read."""
        content = document(self._session.trial.setup.settings, self._entries.values())
        content |= {"containerd": self._containerd} if self._containerd else {}
        directory = self._plane.layout.directory
        write_private(directory / f".{KUBELETS_FILE}", json.dumps(content).encode())
        (directory / f".{KUBELETS_FILE}").replace(directory / KUBELETS_FILE)
        try:
            async with asyncio.timeout(ANSWER_S):
                said = await self._ask()
        except (OSError, TimeoutError) as error:
            said = f"it does not answer ({error or 'timeout'})"
        if said != "ok":
            log = self._plane.layout.log("kubelets")
            raise SetupProblem(f"the kubelets could not be changed: {said}", f"look into their log, {log}")

    async def _ask(self) -> str:
        """Through a descriptor of the directory: a socket's path may have 107 bytes only."""
        directory = os.open(self._plane.layout.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{directory}/{KUBELETS_SOCKET}")
        finally:
            os.close(directory)
        try:
            writer.write(b"apply\n")
            await writer.drain()
            return (await reader.readline()).decode().strip() or "it has ended"
        finally:
            writer.close()


def _entry(name: str, group: NodeGroup, labels: Mapping[str, str], runtime: Mapping[str, Any]) -> Entry:
    return {
        "name": name,
        "capacity": {resource: format_quantity(amount, resource) for resource, amount in group.capacity.items()},
        "labels": dict(labels),
        "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in group.taints],
        "stopped": False,
        "real": group.containers,
        "runtime": {**runtime},
    }


def _runtime(group: NodeGroup, settings: Mapping[str, Mapping[str, Scalar]]) -> dict[str, Any]:
    own = settings["kubelet"]
    latency = int(own["start-latency"])
    said = group.runtime or PlayedRuntime(sandbox=Span(latency, latency))
    return {
        "sandbox": [said.sandbox.least, said.sandbox.most],
        "start": [said.start.least, said.start.most],
        "work": 0 if group.runtime else int(own["start-work"]),
        "atOnce": said.at_once,
        "image": said.image,
        "bandwidth": said.bandwidth,
        **_trouble(RuntimeTrouble()),
    }


def _trouble(trouble: RuntimeTrouble) -> dict[str, Any]:
    return {
        "slow": trouble.slow,
        "failEvery": trouble.fail_every,
        "crashEvery": trouble.crash_every,
        "diskFull": trouble.disk_full,
    }


def _words(trouble: RuntimeTrouble) -> str:
    words = (
        f"every answer takes {format_duration(trouble.slow)} longer" if trouble.slow else "",
        f"every start number {trouble.fail_every} fails" if trouble.fail_every else "",
        f"every container number {trouble.crash_every} ends with status 1" if trouble.crash_every else "",
        "the disk is full" if trouble.disk_full else "",
    )
    return ", ".join(filter(None, words))


def _is_ready(node: Node) -> bool:
    """The scheduler looks at the taint, which the controller manager removes a moment after the kubelet has said Ready."""
    ready = condition(node.status.conditions, "Ready")
    return ready is not None and ready.status == "True" and all(t.key != NOT_READY_TAINT for t in node.spec.taints)


def add_runtime_stages(log: Path, session: Session) -> None:
    """Adds the stages that only container runtimes know, from the file that the process of played ones writes.

    Of a stage that a pod reached several times the first counts. The evidence has how many starts failed.
    """
    observer, ledger = session.observer, session.ledger
    namespaces = {session.namespace, *session.queue_namespaces}
    counts = {"sandbox": 0, "started": 0, "start_failed": 0, "exited": 0, "crashed": 0}
    known: set[tuple[int, str]] = set()
    for line in log.read_text(errors="replace").splitlines() if log.exists() else ():
        parts = line.split("\t")
        if len(parts) != 6 or parts[2] not in namespaces:  # the last line may be torn
            continue
        at, node, _, name, _, what = parts
        if what in counts:
            counts[what] += 1
        pod = observer.pods.get(name)
        if what in _RUNTIME_STAGES and pod is not None and (pod, what) not in known:
            known.add((pod, what))
            number = ledger.number[what]
            ledger.note(int(at) - session.wall_epoch, pod, number, time_sources.RUNTIME, observer.node(node))
    session.evidence["runtime"] = counts
