"""Records the Jobs and pods of a cluster (`seatrial record`): two watches, and a journal of what they show.

Lines are handed to `write(2)` as soon as the events of one piece of a watch are handled. If the API server stops, the machine
sleeps or the disk is full, recording continues, and what may have been missed is recorded as a gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.kube import Client, WatchState, clock, watch
from seatrial.kube.resources import JOBS, PODS
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.observe.describing import Describer
from seatrial.observe.following import MOST_DOUBT, doubt
from seatrial.observe.heartbeats import FOR_EVER, TICK_S, WatchHeartbeats
from seatrial.observe.recorded_shapes import RecordedJob, RecordedPod
from seatrial.observe.sightings import Sightings
from seatrial.record.gaps import Gaps
from seatrial.record.recordings import Journal, SeenLine
from seatrial.record.segments import writer_name

LONG_AGO = MOST_DOUBT * MILLISECOND  # a first list does not say since when its objects exist
RECORDED = ((JOBS, RecordedJob), (PODS, RecordedPod))


@dataclass(frozen=True, slots=True)
class RecordingProgress:
    """Counts of the recording so far, including earlier processes."""

    seconds: float  # since the recording began
    workloads: int
    running: int  # pods
    well: bool  # whether the watches show what happens now
    held: int  # lines that wait for room on the disk


@dataclass(slots=True)
class Watchful:
    """What `doubt` asks of who watches: since when it can have missed something, and when it last ran."""

    epoch: int
    alive: int


class Recorder:
    """Records until it is cancelled or `until` (ns since the recording's beginning) is over. `told` gets the progress."""

    def __init__(
        self, directory: Path, client: Client, describer: Describer, *, began: int, epoch: int, last_well: int = 0,
        namespace: str = "", ahead: int = 0, told: Callable[[RecordingProgress], None],
    ) -> None:  # fmt: skip
        writer = writer_name()
        self._client, self._namespace, self._told, self._epoch = client, namespace, told, epoch
        self._journal = Journal(directory, writer)
        self.sightings = Sightings(describer, epoch, began, self._tell, ahead)
        self._states = [WatchState(resource.plural) for resource, _ in RECORDED]
        self._beats = WatchHeartbeats(Gaps(directory, writer), self._states, epoch)
        self._watchful = Watchful(epoch + last_well if last_well else epoch - LONG_AGO, clock())
        self._writing = False

    @property
    def notes(self) -> list[str]:
        """Notes for the user at the end."""
        return self._beats.notes

    @property
    def unwritten(self) -> int:
        """Lines for which there was no room, at the end."""
        return self._journal.held

    async def on(self, until: int | None = None) -> None:
        """Records. What cannot be written at the end is lost; the caller reports it."""
        handlers: tuple[Callable[[int, str, Any], None], ...] = (self.sightings.job, self.sightings.pod)
        tasks = [asyncio.create_task(self._watch(place, handler)) for place, handler in enumerate(handlers)]
        try:
            while until is None or self._now() < until:
                await asyncio.sleep(TICK_S)
                for task in tasks:
                    if task.done() and (problem := task.exception()):
                        raise problem
                self._watchful.alive = now = clock()
                self._flush()
                if self._beats.due(now):
                    self._told(self.progress())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._flush()
            self._beats.end()
            self._journal.close()

    def progress(self) -> RecordingProgress:
        """The progress so far."""
        seen = self.sightings
        return RecordingProgress(
            self._now() / SECOND, len(seen.workloads), len(seen.running), self._beats.well(), self._journal.held
        )

    async def _watch(self, place: int, handler: Callable[[int, str, Any], None]) -> None:
        (resource, shape), state = RECORDED[place], self._states[place]

        def handle(stamp: int, event: str, thing: Any) -> None:
            self.sightings.doubt = doubt(self._watchful, state, stamp, event)
            handler(stamp, event, thing)

        await watch(self._client, resource, shape, handle, state=state, retry=FOR_EVER, namespace=self._namespace)

    def _tell(self, lines: list[SeenLine]) -> None:
        self._journal.add(lines)
        if not self._writing:
            self._writing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._writing = False
        with self._beats.room():
            self._journal.flush()

    def _now(self) -> int:
        return clock() - self._epoch
