"""A trial on somebody else's cluster: see the package for the rules.

The scenario's nodes and pods are changed in two ways so that both sides stay apart: fake nodes get a name, a label and a taint
of this trial, and our pods tolerate that taint and must stand on a node with that label.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from seatrial.clusters import fakes
from seatrial.clusters.attached.inspecting import LIMITED, existing_nodes, foreign_kwok, refuse_kwok, whom
from seatrial.clusters.attached.placing import on_existing, on_ours, placed
from seatrial.clusters.attached.player import Player
from seatrial.clusters.attached.preparing import access_to
from seatrial.clusters.attached.removing import NODE_LEASES, find, remove
from seatrial.clusters.fakes import CONNECTIONS
from seatrial.clusters.live import LiveCluster
from seatrial.clusters.local.supervisor import Death
from seatrial.kube import ApiProblem, Client, Lost, Mark, Unreachable
from seatrial.kube.kubeconfig import read_kubeconfig
from seatrial.kube.resources import LEASES, NAMESPACES, NODES
from seatrial.kube.shapes import Node, Object, Shape
from seatrial.model.errors import SeatrialError, SetupProblem
from seatrial.model.interfaces import Stack, Tally
from seatrial.model.labels import STUDY_LABEL, UNREADY_ANNOTATION
from seatrial.model.load import Load
from seatrial.model.plan import NodeGroup, Nodes, PodShape, Requests, Taint, Toleration, Trial, Workload
from seatrial.model.selectors import Term, parse_selector
from seatrial.model.units import parse_quantity
from seatrial.record.ledger import Ledger
from seatrial.record.submissions import Submissions

REMOVE_WITHIN_S = 120.0
NOT_READY = "node.kubernetes.io/not-ready"  # put on by admission, taken off by the node lifecycle controller
POLL_S = 0.2  # it is not our API server: look less often than on `local`


class AttachedCluster(LiveCluster):
    """One trial in the cluster that the context names."""

    def __init__(self, trial: Trial, stack: Stack, ledger: Ledger, submissions: Submissions, directory: Path) -> None:
        study = os.urandom(4).hex()
        self._original = trial
        self._existing = [group.existing for group in trial.setup.nodes if group.existing]
        self._existing_unseen = list(self._existing)
        self.preempts = not self._existing
        self._fakes = [group for group in trial.node_groups() if not group.existing]
        super().__init__(_with_groups(trial, study), stack, ledger, submissions, study, directory)
        self._study = study
        self._shapes: dict[
            int, tuple[PodShape, PodShape]
        ] = {}  # by id; the original is kept so that the id stays its own
        self._player = Player(
            study, f"{STUDY_LABEL}={study}", died=self._kwok_died, before_again=self._free_leases,
            after_again=self._remind,
        )  # fmt: skip
        self._clock_off = 0.0
        self._removed: bool | None = None
        self._failed = False

    def target(self) -> dict[str, Any]:
        """Where our things are, and whether they are gone again."""
        target = self._original.target
        return {
            "context": target.context, "server": target.server, "study": self._study, "namespace": self.namespace,
            "removed": self._removed,
        }  # fmt: skip

    # up

    async def connect(self) -> Client:
        target = self._original.target
        access = access_to(target)
        client = Client(access, connections=CONNECTIONS, mark=Mark(STUDY_LABEL, self._study))
        self.client = client  # from here on `leave` can remove what was made
        await client.probe()
        self._clock_off = (await whom(client)).clock_off
        if self._fakes:
            refuse_kwok(await foreign_kwok(client))
            kubeconfig = read_kubeconfig(Path(target.kubeconfig) if target.kubeconfig else None)
            await self._player.start(
                kubeconfig.alone(access.context),
                fakes.stages(_ours(group, self._study) for group in self._fakes),
                self._original.setup.settings.get("kwok", {}),
                access.server,
                Path(target.binaries) if target.binaries else None,
            )
        return client

    async def up(self) -> None:
        """On any problem nothing is left (`down` is called by whoever called us), and it is said as one."""
        try:
            await super().up()
        except BaseExceptionGroup as group:
            self._failed = True
            problems, _ = group.split((SeatrialError, OSError))
            if problems is None:
                raise
            raise _as_setup(_first(problems)) from group
        except (ApiProblem, Lost) as problem:
            self._failed = True
            raise _as_setup(problem) from problem
        except BaseException:
            self._failed = True
            raise

    async def _prepare(self) -> None:
        """What a queue admits counts the nodes that are there already, too."""
        while self._existing_unseen:
            self._note_existing(await existing_nodes(self.client, self._existing_unseen.pop()))
        await super()._prepare()

    def _note_existing(self, nodes: list[Node]) -> None:
        """Spans of nodes alike, for the figures of utilisation; what others use of them is not known."""
        alike: dict[tuple[tuple[str, int], ...], int] = {}
        for node in nodes:
            amounts = {name: parse_quantity(text, name) for name, text in node.status.allocatable.items()}
            self.observer.node(node.metadata.name)
            self._node_groups[node.metadata.name] = NodeGroup("existing", 1, amounts, node.metadata.labels)
            key = tuple(sorted(amounts.items()))
            alike[key] = alike.get(key, 0) + 1
        for key, count in alike.items():
            self._roster.note("existing", count, dict(key))

    async def _all_leased(self) -> bool:
        """KWOK plays only nodes whose lease it holds, and a scheduler uses only nodes that lost the taint of new ones."""
        await asyncio.sleep(POLL_S)
        names = self._roster.made()
        leases = await self.client.list(LEASES, NODE_LEASES, shape=_Lease, resourceVersion="0")
        holders = {lease.metadata.name: lease.spec.holder_identity for lease in leases.items}
        self._refuse_foreign_holder({holders[name] for name in names if holders.get(name)})
        if not all(holders.get(name) for name in names):
            return False
        nodes = await self.client.list(NODES, shape=Node, labelSelector=f"{STUDY_LABEL}={self._study}")
        meant = [node for node in nodes.items if UNREADY_ANNOTATION not in node.metadata.annotations]
        return not any(taint.key == NOT_READY for node in meant for taint in node.spec.taints)

    def _refuse_foreign_holder(self, holders: set[str]) -> None:
        ours = self._player.identity()
        others = holders - {ours}
        if ours and others:
            raise SetupProblem(
                f"another KWOK ({', '.join(sorted(others))}) took nodes of ours; two would fight over the pods",
                LIMITED,
            )

    # the trial's nodes and pods become ours

    async def load(self, load: Load) -> Tally:
        return await super().load(dataclasses.replace(load, item=lambda index: self._placed(load.item(index))))

    async def nodes(self, change: Nodes) -> None:
        add = _ours(change.add, self._study) if change.add else None
        await super().nodes(dataclasses.replace(change, group=_renamed(change.group, self._study), add=add))

    def _placed(self, workload: Workload) -> Workload:
        shape = workload.shape
        if id(shape) not in self._shapes:
            self._shapes[id(shape)] = (shape, self._shape(shape))
        return dataclasses.replace(workload, shape=self._shapes[id(shape)][1])

    async def requests(self, phase: Requests) -> Tally:
        objects = tuple(placed(manifest, self._placed_spec) for manifest in phase.objects)
        return await super().requests(dataclasses.replace(phase, objects=objects))

    def _placed_spec(self, spec: dict[str, Any]) -> dict[str, Any]:
        return on_existing(spec, self._terms()) if self._existing else on_ours(spec, STUDY_LABEL, self._study)

    def permitted(self) -> Sequence[str]:
        """Those that we made: they go with the trial."""
        return self.load_namespaces

    def _terms(self) -> tuple[Term, ...]:
        return tuple(term for selector in self._existing for term in parse_selector(selector))

    def _shape(self, shape: PodShape) -> PodShape:
        if self._existing:
            terms = self._terms()
            image = str(self._original.setup.settings.get("pod", {}).get("image") or "busybox")
            return dataclasses.replace(shape, terms=terms, image=image)
        tolerates = Toleration(STUDY_LABEL, "Equal", self._study, "NoSchedule")
        return dataclasses.replace(
            shape,
            selector={**shape.selector, STUDY_LABEL: self._study},
            tolerations=(*shape.tolerations, tolerates),
        )

    def node_spans(self) -> list[dict[str, Any]]:
        suffix = f"-{self._study}"
        return [{**span, "group": span["group"].removesuffix(suffix)} for span in super().node_spans()]

    def validity(self) -> dict[str, Any]:
        return {**super().validity(), "server_clock_off_s": self._clock_off}

    # KWOK

    def _kwok_died(self, death: Death) -> None:
        self.deaths.append(str(death))
        if not death.restarting:
            self.break_off(str(death))

    async def _free_leases(self) -> None:
        """A new KWOK would wait 40 s for the nodes of the one that died."""
        for name in self._roster.made():
            await self.client.delete(LEASES, name, NODE_LEASES)

    async def _remind(self) -> None:
        with contextlib.suppress(ApiProblem, Lost, Unreachable):
            await fakes.remind(self.client, self._roster.made(), sorted({self.namespace, *self.load_namespaces}))

    # down

    async def leave(self) -> None:
        """Removes what we made. Namespaces while KWOK still plays their pods' end; nodes when it is gone."""
        if self._failed:
            self._player.keep_log(self._directory / "kwok.log")
        try:
            if hasattr(self, "client"):
                await self._remove()
        finally:
            await asyncio.shield(self._player.stop())
            if hasattr(self, "client"):
                await self.client.close()

    async def _remove(self) -> None:
        self._removed = False
        try:
            ours = await find(self.client, {self._study}, everywhere=False, also=self.prepared)
            left = await remove(self.client, [t for t in ours if t.resource == NAMESPACES], REMOVE_WITHIN_S)
            await self._player.stop()
            left += await remove(self.client, [t for t in ours if t.resource != NAMESPACES], REMOVE_WITHIN_S)
        except SeatrialError as error:
            self.mishaps.append(f"what the trial made could not be removed: {error.message}")
            return
        self._removed = not left


class _LeaseSpec(Shape):
    holder_identity: str = ""


class _Lease(Object):
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


def _renamed(group: str, study: str) -> str:
    """Node names are the whole cluster's: without the study in them ours might be taken already."""
    return f"{group}-{study}"


def _ours(group: NodeGroup, study: str) -> NodeGroup:
    taint = Taint(STUDY_LABEL, study, "NoSchedule")
    return dataclasses.replace(group, name=_renamed(group.name, study), taints=(*group.taints, taint))


def _with_groups(trial: Trial, study: str) -> Trial:
    """The trial as the cluster sees it: nodes to make under our names; existing ones are not made."""
    groups = tuple(_ours(group, study) for group in trial.setup.nodes if not group.existing)
    return dataclasses.replace(trial, setup=dataclasses.replace(trial.setup, nodes=groups))


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _as_setup(error: BaseException) -> SetupProblem:
    if isinstance(error, SetupProblem):
        return error
    remedy = error.remedy if isinstance(error, SeatrialError) else "check the network and the disk"
    return SetupProblem(str(error), remedy)
