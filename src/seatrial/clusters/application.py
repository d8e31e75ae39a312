"""Plays the applications on fake nodes of a real cluster: a gang's pods run their time only once all of them run.

KWOK ends a pod when its annotation says how long it runs, and a gang's pods get that annotation from here. Losing one takes it
off the others: the application has lost its progress. The state machine is the simulator's (`model.barrier`).

All it needs stands on the pods: how many the gang has (a label), how long it runs (an annotation). So a keeper can play the gangs
of clients that are gone. One plays at a time: the keeper of a kept cluster, else the trial's own process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from seatrial.clusters.errands import Errands
from seatrial.kube import Client
from seatrial.kube.resources import PODS
from seatrial.kube.shapes import Pod
from seatrial.kube.watching import DELETED, LISTED
from seatrial.model.barrier import Barrier
from seatrial.model.labels import APPLICATION_ANNOTATION, DURATION_ANNOTATION, GANG_LABEL, WORKLOAD_LABEL

Gang = tuple[str, str]  # namespace, workload


class Applications:
    """`sees` takes every event of a watch that shows the pods of gangs."""

    def __init__(self, client: Client, problem: Callable[[str], None]) -> None:
        self._client, self._errands = client, Errands(problem)
        self._barrier = Barrier()
        self._size: dict[Gang, int] = {}
        self._running: dict[Gang, dict[str, bool]] = {}  # pods that run, or have run: whether they have had their time
        self._listed: set[tuple[Gang, str]] = set()

    def sees(self, event: str, pod: Pod | None) -> None:
        if pod is None:
            self._drop_unlisted()
            return
        size = pod.metadata.labels.get(GANG_LABEL, "")
        if not size.isdigit():
            return
        gang = (pod.metadata.namespace, pod.metadata.labels.get(WORKLOAD_LABEL, ""))
        self._size[gang] = int(size)
        if event == LISTED:
            self._listed.add((gang, pod.metadata.name))
        if event == DELETED or pod.status.phase == "Failed":
            self._gone(gang, pod.metadata.name)
        elif pod.status.phase in ("Running", "Succeeded"):
            self._runs(gang, pod, listed=event == LISTED)

    def _runs(self, gang: Gang, pod: Pod, *, listed: bool) -> None:
        running, name, over = self._running.setdefault(gang, {}), pod.metadata.name, pod.status.phase == "Succeeded"
        fresh = name not in running
        running[name] = over
        duration = pod.metadata.annotations.get(APPLICATION_ANNOTATION)
        if fresh and self._barrier.runs(gang, self._size[gang]):
            self._tell(gang, duration)
        elif listed and len(running) >= self._size[gang] and DURATION_ANNOTATION not in pod.metadata.annotations:
            self._tell(gang, duration, [name])  # a server that was gone for long may not have heard it

    def _gone(self, gang: Gang, name: str) -> None:
        """One that has had its time takes nothing from the others."""
        running = self._running.get(gang, {})
        over = running.pop(name, None)
        if over is not None and self._barrier.gone(gang, self._size[gang]) and not over:
            self._tell(gang, None)
        if not running:
            self._running.pop(gang, None)
            self._size.pop(gang, None)

    def _drop_unlisted(self) -> None:
        """A new list, after a gap, shows by their absence which pods went meanwhile."""
        for gang, name in [(gang, name) for gang, running in self._running.items() for name in running]:
            if (gang, name) not in self._listed:
                self._gone(gang, name)
        self._listed.clear()

    def _tell(self, gang: Gang, duration: str | None, pods: Sequence[str] = ()) -> None:
        """How long they run; nothing: for ever, until all do again."""
        mark: dict[str, Any] = {"metadata": {"annotations": {DURATION_ANNOTATION: duration}}}
        running = self._running[gang]
        for pod in pods or [name for name, over in running.items() if not over]:
            told = self._client.patch(PODS, mark, pod, gang[0])
            self._errands.send(told, f"pod {pod} could not be told that its application runs")

    async def stop(self) -> None:
        await self._errands.stop()
