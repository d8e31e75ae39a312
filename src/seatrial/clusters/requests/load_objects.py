"""Objects of create phases that a step waits for: pods and Deployments by watches, deletions by lists."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from seatrial.kube import Client, watch
from seatrial.kube.resources import DEPLOYMENTS, PODS, Resource
from seatrial.kube.shapes import Conditioned, Object, Pod, condition
from seatrial.kube.watching import DELETED, LISTED, SYNCED
from seatrial.model.labels import PHASE_LABEL
from seatrial.scenario.actions.send_requests import Requests
from seatrial.scenario.actions.wait import WaitForObjects

POLL_S = 0.25
_KINDS_WITH_PODS = ("Pod", "Deployment", "ReplicaSet", "StatefulSet", "Job", "DaemonSet")


@dataclass(slots=True)
class PodTimes:
    """When the watch showed each stage of one pod, in nanoseconds of `clock`; 0 if it did not."""

    phase: str
    created: int = 0
    scheduled: int = 0
    running: int = 0
    gone: int = 0


@dataclass(slots=True)
class CreatedObjects:
    """Watches and counts for the waits of one trial."""

    client: Client
    selector: str  # of all objects of the trial
    phases: dict[str, Requests]
    pods: dict[str, PodTimes] = field(default_factory=dict)  # NAMESPACE/NAME of pods
    _available: dict[str, set[str]] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def watches(self, untils: Iterable[WaitForObjects]) -> list[Any]:
        """The watches that these phases and waits need, as coroutines that run until cancelled."""
        selector = f"{self.selector},{PHASE_LABEL}"
        found: list[Any] = []
        kinds = {str(manifest["kind"]) for phase in self.phases.values() for manifest in phase.objects}
        if any(kind in kinds for kind in _KINDS_WITH_PODS):
            found.append(watch(self.client, PODS, Pod, self._pod, labelSelector=selector))
        if any(until.state == "available" for until in untils):
            found.append(watch(self.client, DEPLOYMENTS, Conditioned, self._deployment, labelSelector=selector))
        return found

    def _pod(self, stamp: int, event: str, pod: Pod) -> None:
        if event == SYNCED:
            return
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        seen = self.pods.get(key)
        if seen is None:
            seen = self.pods[key] = PodTimes(pod.metadata.labels.get(PHASE_LABEL, ""))
            seen.created = 0 if event == LISTED else stamp
        if event == DELETED:
            seen.gone = stamp
        else:
            if pod.spec.node_name and not seen.scheduled:
                seen.scheduled = stamp
            if pod.status.phase == "Running" and not seen.running:
                seen.running = stamp
        self._changed.set()

    def _deployment(self, stamp: int, event: str, deployment: Conditioned) -> None:  # noqa: ARG002
        if event == SYNCED:
            return
        there = self._available.setdefault(deployment.metadata.labels.get(PHASE_LABEL, ""), set())
        key = f"{deployment.metadata.namespace}/{deployment.metadata.name}"
        said = condition(deployment.status.conditions, "Available")
        (there.add if event != DELETED and said and said.status == "True" else there.discard)(key)
        self._changed.set()

    def count(self, until: WaitForObjects) -> int:
        """How many objects are in the awaited state; for pods that should go, how many are left."""
        if until.state == "available":
            return sum(len(self._available.get(phase, ())) for phase in until.of)
        mine = [pod for pod in self.pods.values() if pod.phase in until.of and not pod.gone]
        return sum(1 for pod in mine if pod.running) if until.state == "pods-running" else len(mine)

    async def reach(self, until: WaitForObjects, told: Callable[[int], None]) -> None:
        """Returns when the objects are as awaited; `told` gets the count meanwhile."""
        if until.state == "gone":
            await self._gone(until, told)
            return
        wanted = 0 if until.state == "pods-gone" else until.count
        while True:
            self._changed.clear()
            now = self.count(until)
            told(now)
            if now == wanted or (wanted and now > wanted):
                return
            await self._changed.wait()
            await asyncio.sleep(0.02)  # counting takes time, and changes come in hundreds

    async def _gone(self, until: WaitForObjects, told: Callable[[int], None]) -> None:
        """Lists with a limit of one object per kind: cheap while there are some, and certain when there are none."""
        for phase in (self.phases[name] for name in until.of):
            for resource in await self.kinds(phase, until.kinds):
                selector = f"{self.selector},{PHASE_LABEL}={phase.name}"
                while True:
                    page = await self.client.list(resource, shape=Object, labelSelector=selector, limit=1)
                    if not page.items:
                        break
                    told(max(1, page.metadata.remaining_item_count + 1))
                    await asyncio.sleep(POLL_S)
        told(0)

    async def kinds(self, phase: Requests, only: Iterable[str] = ()) -> list[Resource]:
        """The resources of a phase's objects, each once."""
        wanted = {(str(m["apiVersion"]), str(m["kind"])) for m in phase.objects if not only or m["kind"] in only}
        return [await self.client.resource_of(*kind) for kind in sorted(wanted)]

    def starts(self, epoch: int) -> list[dict[str, Any]]:
        """A row per pod, with times in nanoseconds since the epoch."""
        return [
            {
                "pod": name, "phase": seen.phase,
                **{f"{stage}_ns": at - epoch if (at := getattr(seen, stage)) else None
                   for stage in ("created", "scheduled", "running", "gone")},
            }
            for name, seen in self.pods.items()
        ]  # fmt: skip
