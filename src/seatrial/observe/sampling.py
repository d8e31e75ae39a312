"""Observes workloads that another process submits (`seatrial sample`): once, or continuously.

Both run the same watches; a single sample ends when each has listed its objects. If the API server stops, the machine sleeps or the
disk is full, sampling continues, and what may have been missed is recorded as a gap.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seatrial.kube import ApiProblem, Client, Lost, Unreachable, WatchState, clock
from seatrial.kube.watching import LISTED, SYNCED
from seatrial.model.labels import STUDY_LABEL, WORKLOAD_LABEL
from seatrial.model.lifecycle import Stage
from seatrial.model.units import SECOND
from seatrial.observe.events import read_events
from seatrial.observe.following import follow
from seatrial.observe.heartbeats import FOR_EVER, TICK_S, WatchHeartbeats
from seatrial.observe.observer import Observer, Watch
from seatrial.record.gaps import GapLine, Gaps
from seatrial.record.ledger import Ledger
from seatrial.record.segments import Segment
from seatrial.record.submissions import Tail

_ENDS = ("completed", "failed", "deleted")
SETTLE_S = 5.0  # for queues to close their objects when all workloads are over


@dataclass(frozen=True, slots=True)
class SampleTarget:
    """What to observe, and where to record it."""

    directory: Path  # of the trial
    stages: Sequence[Stage]
    watches: Sequence[Watch]
    created_as: str  # plural of the object created per workload; it shows whether the workload still exists
    study: str
    namespace: str  # empty: all of them, by the study's label
    wall_epoch: int
    planned: int
    interactive: frozenset[str]  # phases whose workloads complete when they run


@dataclass(frozen=True, slots=True)
class SampleProgress:
    """Counts of workloads by stage, from the records of this process and of those before it."""

    submitted: int
    planned: int
    reached: Mapping[str, int]
    over: int
    behind_s: float


class Sampler:
    """Samples one trial. `told` gets the progress about once a second."""

    def __init__(self, wanted: SampleTarget, client: Client, told: Callable[[SampleProgress], None]) -> None:
        self.wanted, self.client = wanted, client
        self.ledger = Ledger(wanted.stages, Segment(wanted.directory))
        self.observer = Observer(self.ledger)
        self.observer.early = {}
        self.observer.wall_epoch = wanted.wall_epoch
        self.observer.epoch = clock() - (time.time_ns() - wanted.wall_epoch)
        self.watching = [WatchState(watch.resource.plural) for watch in wanted.watches]
        self._told = told
        self._tail = Tail(wanted.directory)
        gaps = Gaps(wanted.directory, self.ledger.segment.writer)
        self._beats = WatchHeartbeats(gaps, self.watching, self.observer.epoch)
        self.notes = self._beats.notes
        self._refused: set[int] = set()
        self._gone: set[str] = set()
        self._there: set[str] = set()  # workloads in the list that is being read
        self._known_first: set[str] | None = None  # before the first list: workloads that must be in it
        self.observer.alive = clock()

    # sampling

    async def once(self) -> None:
        """Records the present state."""
        self._begin()
        try:
            for place in range(len(self.watching)):
                await self._watch(place, once=True)
            await self._events()
            self.read_lines()  # of workloads that were observed before their line was written
        finally:
            self._end()

    async def on(self) -> None:
        """Records transitions until all workloads are over or the task is cancelled."""
        self._begin()
        tasks = [asyncio.create_task(self._watch(place)) for place in range(len(self.watching))]
        tasks.append(asyncio.create_task(self._events_when_synced()))
        try:
            left = SETTLE_S
            while not self.over() or (self._unreleased() and left > 0):
                await asyncio.sleep(TICK_S)
                left -= TICK_S if self.over() else 0
                for task in tasks:
                    if task.done() and (problem := task.exception()):
                        raise problem
                self._tick()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._end()

    def over(self) -> bool:
        """Whether all planned workloads are over."""
        planned = self.wanted.planned
        return self.submitted >= planned > 0 and self._over() >= planned

    @property
    def submitted(self) -> int:
        """Workloads submitted so far."""
        return len(self.observer.workloads)

    def progress(self) -> SampleProgress:
        """The progress so far."""
        ledger = self.ledger
        reached = {stage.name: ledger.counts[n] for n, stage in enumerate(ledger.stages)}
        return SampleProgress(self.submitted, self.wanted.planned, reached, self._over(), self._beats.behind() / SECOND)

    def knows(self, number: int, stage: str) -> None:
        """Takes over a stage from earlier records: the workload may be gone by now."""
        self.ledger.knows(number, self.ledger.number[stage])

    # watching

    async def _watch(self, place: int, once: bool = False) -> None:
        wanted, state = self.wanted.watches[place], self.watching[place]
        also = self._see_whether_there if wanted.resource.plural == self.wanted.created_as else None
        try:
            await follow(
                self.client, wanted, self.observer, state, also=also, once=once, retry=FOR_EVER,
                namespace=self.wanted.namespace, selector=f"{STUDY_LABEL}={self.wanted.study}",
            )  # fmt: skip
        except ApiProblem as problem:
            if problem.code != 404:
                raise
            self._beats.note(f"the cluster has no {wanted.resource.plural}: their stages stay empty")
            state.synced = True

    def _see_whether_there(self, _stamp: int, event: str, thing: object) -> None:
        """A workload that existed, had not ended and is not in the list was deleted unobserved."""
        if event == LISTED:
            meta = thing.metadata  # type: ignore[attr-defined]
            self._there.add(meta.labels.get(WORKLOAD_LABEL, meta.name))
        elif event == SYNCED:
            known = self._known_first
            created = self.ledger.number["created"]
            for name, number in self.observer.workloads.items():
                was = name in known if known is not None else self.ledger.has_reached(number, created)
                if was and name not in self._there and not self._has_ended(number):
                    self._gone.add(name)
                    self._beats.add(GapLine(to_ns=self._now(), gone=name))
            self._known_first = None
            self._there.clear()

    async def _events_when_synced(self) -> None:
        while not all(state.synced for state in self.watching):
            await asyncio.sleep(TICK_S)
        await self._events()

    async def _events(self) -> None:
        try:
            await read_events(self.client, self.observer, self.wanted.namespace)
        except (ApiProblem, Lost, Unreachable) as problem:
            self._beats.note(f"events could not be read: {problem.message}")

    # the rest

    def _begin(self) -> None:
        self.read_lines()
        self._known_first = {name for name, n in self.observer.workloads.items() if n not in self._refused}

    def _tick(self) -> None:
        self.observer.alive = now = clock()
        self.read_lines()
        self._flush()
        if self._beats.due(now):
            self._told(self.progress())

    def read_lines(self) -> None:
        """Reads new lines of `submitted.jsonl`."""
        submitted = self.ledger.number["submitted"]
        for line in self._tail.read():
            if line.workload in self.observer.workloads:
                continue
            number = self.ledger.workload_as(line.number, self.ledger.phase(line.phase), line.pods)
            self.ledger.knows(number, submitted)
            if line.refused:
                self._refused.add(number)
                self.ledger.knows(number, self.ledger.number["failed"])
            if line.phase in self.wanted.interactive:
                self.observer.interactive.add(line.workload)
            self.observer.knows(line.workload, number)

    def _over(self) -> int:
        counts, number = self.ledger.counts, self.ledger.number
        ended = sum(counts[number[stage]] for stage in _ENDS)
        unseen = sum(not self._has_ended(self.observer.workloads[name]) for name in self._gone)
        return ended + unseen

    def _unreleased(self) -> bool:
        """Whether queue objects of completed workloads are still open."""
        counts, number = self.ledger.counts, self.ledger.number
        return "released" in number and counts[number["released"]] < counts[number["completed"]]

    def _has_ended(self, number: int) -> bool:
        return any(self.ledger.has_reached(number, self.ledger.number[stage]) for stage in _ENDS)

    def _now(self) -> int:
        return clock() - self.observer.epoch

    def _flush(self) -> None:
        with self._beats.room():
            self.ledger.flush()

    def _end(self) -> None:
        """What cannot be written now is lost; the caller reports it."""
        self._beats.end()
        self.ledger.close()
