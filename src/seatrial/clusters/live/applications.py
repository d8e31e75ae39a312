"""Plays applications on fake nodes: the run time of a gang's pods begins once all of them run, and what runs again continues at its
last checkpoint.

KWOK completes a pod when the time in its annotation has passed; played pods get that annotation here. If one of a gang is lost, the
others lose the annotation: the application has lost its progress since its last checkpoint. The state machine is that of the
simulator (`model.barrier`). A pod with checkpoints that is in no gang is played as a gang of its own; the next pod of its index in
the Job continues.

The size of a gang is a label of its pods, duration and checkpoint are annotations, so the keeper of a kept cluster can play gangs
whose client is gone. Only one process plays: the keeper, or the trial's own process. How far an application has come is in that
process alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from seatrial.clusters.live.background_requests import BackgroundRequests
from seatrial.kube import Client, clock
from seatrial.kube.resources import PODS
from seatrial.kube.shapes import Meta, Pod
from seatrial.kube.watching import DELETED, LISTED
from seatrial.model.barrier import Barrier
from seatrial.model.labels import (
    APPLICATION_ANNOTATION,
    CHECKPOINT_ANNOTATION,
    DURATION_ANNOTATION,
    GANG_LABEL,
    INDEX_LABEL,
    WORKLOAD_LABEL,
)
from seatrial.model.units import MILLISECOND, parse_duration

Gang = tuple[str, str, str]  # namespace, workload, index in the Job if the pod runs for itself


class SavedProgress:
    """How far applications have come: what a run adds is kept up to its last checkpoint. Times are nanoseconds."""

    def __init__(self, now: Callable[[], int] = clock) -> None:
        self._now = now
        self._saved: dict[Gang, int] = {}
        self._began: dict[Gang, tuple[int, int]] = {}  # when it began to run, and how often it saves

    def begins(self, gang: Gang, marks: Meta) -> None:
        """The application runs."""
        if every := marks.annotations.get(CHECKPOINT_ANNOTATION):
            self._began[gang] = (self._now(), parse_duration(every))

    def left(self, gang: Gang, marks: Meta) -> str | None:
        """How long it takes from its last checkpoint on, as KWOK reads it. None: it has no end."""
        duration, saved = marks.annotations.get(APPLICATION_ANNOTATION), self._saved.get(gang, 0)
        return f"{max(parse_duration(duration) - saved, 0) // MILLISECOND}ms" if duration and saved else duration

    def ends(self, gang: Gang) -> None:
        """The application does not run any more, and has to run again."""
        began, every = self._began.pop(gang, (0, 0))
        if every:
            self._saved[gang] = (self._saved.get(gang, 0) + self._now() - began) // every * every


class Applications:
    """Plays all applications whose pods a watch shows. `problem` is told of requests that failed."""

    def __init__(
        self, client: Client, problem: Callable[[str], None], checkpoints: SavedProgress | None = None
    ) -> None:
        self._client, self._background = client, BackgroundRequests(problem)
        self._barrier = Barrier()
        self._checkpoints = checkpoints or SavedProgress()
        self._size: dict[Gang, int] = {}
        self._running: dict[Gang, dict[str, bool]] = {}  # pods that run or have run → whether they have completed
        self._listed: set[tuple[Gang, str]] = set()

    def sees(self, event: str, pod: Pod | None) -> None:
        """Takes an event of the watch; None for the pod ends a list."""
        if pod is None:
            self._drop_unlisted()
            return
        labels = pod.metadata.labels
        size = labels.get(GANG_LABEL, "")
        if not size.isdigit():
            return
        alone = labels.get(INDEX_LABEL, "") if size == "1" else ""
        gang = (pod.metadata.namespace, labels.get(WORKLOAD_LABEL, ""), alone)
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
        if fresh and self._barrier.runs(gang, self._size[gang]):
            self._checkpoints.begins(gang, pod.metadata)
            self._tell(gang, self._checkpoints.left(gang, pod.metadata))
        elif listed and len(running) >= self._size[gang] and DURATION_ANNOTATION not in pod.metadata.annotations:
            # The annotation may have been lost while the server was away.
            self._tell(gang, self._checkpoints.left(gang, pod.metadata), [name])

    def _gone(self, gang: Gang, name: str) -> None:
        """A finished pod does not reset its gang."""
        running = self._running.get(gang, {})
        over = running.pop(name, None)
        if over is not None and self._barrier.gone(gang, self._size[gang]) and not over:
            self._checkpoints.ends(gang)
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
