"""Observes workloads that another process submits (`seatrial sample`): once, or continuously.

Both run the same watches; a single sample ends when each has listed its objects. If the API server stops, the machine sleeps or the
disk is full, sampling continues, and what may have been missed is recorded as a gap.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seatrial.kube import ApiProblem, Client, Lost, RetryPolicy, Unreachable, WatchState, clock
from seatrial.kube.watching import LISTED, SYNCED
from seatrial.model.labels import STUDY_LABEL, WORKLOAD_LABEL
from seatrial.model.lifecycle import Stage
from seatrial.model.units import SECOND
from seatrial.observe.events import read_events
from seatrial.observe.following import follow
from seatrial.observe.observer import Observer, Watch
from seatrial.record.gaps import BEAT, GapLine, Gaps
from seatrial.record.ledger import Ledger
from seatrial.record.segments import Segment
from seatrial.record.submissions import Tail

_ENDS = ("completed", "failed", "deleted")
TICK_S = 0.2  # between writes of records; `kill -9` loses no more
SETTLE_S = 5.0  # for queues to close their objects when all workloads are over
STEP = SECOND // 2  # smallest difference of two clocks that is recorded
FOR_EVER = RetryPolicy(seconds=10.0**9)  # waits for the API server as long as it takes


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
        self.notes: list[str] = []
        self.watching = [WatchState(watch.resource.plural) for watch in wanted.watches]
        self._told = told
        self._tail = Tail(wanted.directory)
        self._gaps = Gaps(wanted.directory, self.ledger.segment.writer)
        self._gaps_told = [0] * len(self.watching)
        self._refused: set[int] = set()
        self._gone: set[str] = set()
        self._there: set[str] = set()  # workloads in the list that is being read
        self._known_first: set[str] | None = None  # before the first list: workloads that must be in it
        self._was_well = False
        self._offsets = _offsets()
        self._beat = self.observer.alive = clock()

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
        return SampleProgress(self.submitted, self.wanted.planned, reached, self._over(), self._behind() / SECOND)

    def _behind(self) -> int:
        return max((state.lag_worst for state in self.watching), default=0)

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
            self._note(f"the cluster has no {wanted.resource.plural}: their stages stay empty")
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
                    with self._room():
                        self._gaps.add(GapLine(to_ns=self._now(), gone=name))
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
            self._note(f"events could not be read: {problem.message}")

    # the rest

    def _begin(self) -> None:
        self.read_lines()
        self._known_first = {name for name, n in self.observer.workloads.items() if n not in self._refused}

    def _tick(self) -> None:
        self.observer.alive = now = clock()
        self.read_lines()
        self._flush()
        if now - self._beat >= BEAT or (self._well() and not self._was_well):
            self._say(now)
            self._told(self.progress())

    def _well(self) -> bool:
        return all(state.synced and not state.silent for state in self.watching)

    def _say(self, now: int) -> None:
        with self._room():
            self._was_well = self._well()
            beat = GapLine(well_ns=now - self.observer.epoch, behind_ns=self._behind())
            self._gaps.add(*self._new_gaps(now), *([beat] if self._was_well else []))
        self._beat = now

    def _new_gaps(self, now: int) -> list[GapLine]:
        lines = []
        epoch = self.observer.epoch
        for place, state in enumerate(self.watching):
            for gap in state.gaps[self._gaps_told[place] :]:
                lines.append(
                    GapLine(None, 0, gap.begin - epoch, gap.end - epoch, state.resource, gap.reason, gap.missed)
                )
            self._gaps_told[place] = len(state.gaps)
        slept, stepped = (new - old for new, old in zip(_offsets(), self._offsets, strict=True))
        late = now - self._beat - BEAT - int(TICK_S * SECOND)
        begin, end = self._beat - epoch, now - epoch
        if slept > STEP:
            lines.append(GapLine(None, 0, begin, end, reason=f"this machine slept for {slept / SECOND:.1f} s"))
        elif late > BEAT:
            lines.append(GapLine(None, 0, begin, end, reason=f"this process did not run for {late / SECOND:.1f} s"))
        if abs(stepped) > STEP:
            text = f"this machine's clock was set by {stepped / SECOND:+.1f} s; times stay on the clock from before"
            lines.append(GapLine(None, 0, begin, end, reason=text))
        if slept > STEP or abs(stepped) > STEP:
            self._offsets = _offsets()
        return lines

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

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _flush(self) -> None:
        with self._room():
            self.ledger.flush()

    @contextlib.contextmanager
    def _room(self) -> Iterator[None]:
        """On a full disk records are kept and written when there is room."""
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            self._note(f"the disk was full ({error.strerror}); what was seen meanwhile was kept and written later")

    def _end(self) -> None:
        """What cannot be written now is lost; the caller reports it."""
        if self._was_well:
            self._say(clock())
        self.ledger.close()


def _offsets() -> tuple[int, int]:
    """How far our clock is ahead of one that stops while the machine sleeps, and the wall clock ahead of ours."""
    now = clock()
    return now - time.monotonic_ns(), time.time_ns() - now
