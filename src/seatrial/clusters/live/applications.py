"""Plays the applications of gangs on fake nodes: the run time of a gang's pods begins once all of them run.

KWOK completes a pod when the time in its annotation has passed; gang pods get that annotation here. If one of them is lost, the
others lose the annotation: the application has lost its progress. The state machine is that of the simulator (`model.barrier`).

The size of a gang is a label of its pods, and the duration an annotation, so the keeper of a kept cluster can play gangs whose
client is gone. Only one process plays: the keeper, or the trial's own process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from seatrial.clusters.live.background_requests import BackgroundRequests
from seatrial.kube import Client
from seatrial.kube.resources import PODS
from seatrial.kube.shapes import Pod
from seatrial.kube.watching import DELETED, LISTED
from seatrial.model.barrier import Barrier
from seatrial.model.labels import APPLICATION_ANNOTATION, DURATION_ANNOTATION, GANG_LABEL, WORKLOAD_LABEL

Gang = tuple[str, str]  # namespace, workload


class Applications:
    """Plays all gangs whose pods a watch shows. `problem` is told of requests that failed."""

    def __init__(self, client: Client, problem: Callable[[str], None]) -> None:
        self._client, self._background = client, BackgroundRequests(problem)
        self._barrier = Barrier()
        self._size: dict[Gang, int] = {}
        self._running: dict[Gang, dict[str, bool]] = {}  # pods that run or have run → whether they have completed
        self._listed: set[tuple[Gang, str]] = set()

    def sees(self, event: str, pod: Pod | None) -> None:
        """Takes an event of the watch; None for the pod ends a list."""
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
            self._tell(gang, duration, [name])  # the annotation may have been lost while the server was away

    def _gone(self, gang: Gang, name: str) -> None:
        """A finished pod does not reset its gang."""
        running = self._running.get(gang, {})
        over = running.pop(name, None)
        if over is not None and self._barrier.gone(gang, self._size[gang]) and not over:
            self._tell(gang, None)
        if not running:
            self._running.pop(gang, None)
            self._size.pop(gang, None)

    def _drop_unlisted(self) -> None:
        """Pods that are not in a new list went during the gap before it."""
        for gang, name in [(gang, name) for gang, running in self._running.items() for name in running]:
            if (gang, name) not in self._listed:
                self._gone(gang, name)
        self._listed.clear()

    def _tell(self, gang: Gang, duration: str | None, pods: Sequence[str] = ()) -> None:
        """Sets how long they run; None: until all of them run again."""
        mark: dict[str, Any] = {"metadata": {"annotations": {DURATION_ANNOTATION: duration}}}
        running = self._running[gang]
        for pod in pods or [name for name, over in running.items() if not over]:
            patch = self._client.patch(PODS, mark, pod, gang[0])
            self._background.send(patch, f"pod {pod} could not be told that its application runs")

    async def stop(self) -> None:
        """Cancels requests in flight."""
        await self._background.stop()
