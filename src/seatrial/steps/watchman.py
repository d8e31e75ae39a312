"""Looks on while the steps of a trial wait, and says when nothing will move any more.

Two ways to know. A knot is proven from the state alone: gangs hold what each other needs, and nobody takes it back; that is said at
once, and the run ends when nothing else can finish either. Otherwise one must have waited long enough: past the end of
everything that runs, past every time-out that the stack declares, and then a while for those who act. Workloads that only take
turns in failing keep the ledger busy without getting anywhere; after two such periods that is said too.

It runs on the cluster's clock and looks at counters; the state is asked for only when nothing has been recorded for a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from seatrial.clog import Diagnosis, diagnose, knot
from seatrial.model.interfaces import Cluster
from seatrial.model.plan import NodeGroup, Trial
from seatrial.model.state import State
from seatrial.model.units import MINUTE, SECOND

LOOK_EVERY = 1 * SECOND
QUIET = 1 * SECOND  # nothing recorded for so long: worth asking for the state
# How long those who could act may take: at least kube-scheduler's longest back-off (10 s, looked at once a second) and a little,
# at most what keeps a clog's report within half a minute of the last thing that could move it.
PATIENCE_LEAST, PATIENCE_MOST = 13 * SECOND, 28 * SECOND
PULLING = 5 * MINUTE  # what a real node may take to start a pod without anything to be seen
SILENCES = 3  # times the longest silence so far in which nothing ran
OFTEN = 2000  # workloads: with fewer the state is asked for every second, with twice as many every other


@dataclass(frozen=True, slots=True)
class Clog:
    """What was found, when, and what stood where then."""

    at: int
    diagnosis: Diagnosis
    state: State

    def as_json(self) -> dict[str, Any]:
        return {"at_ns": self.at, **self.diagnosis.as_json()}


class Watchman:
    """`found` is told of every clog. It counts as the end of the trial unless `found` says that the run goes on."""

    def __init__(self, cluster: Cluster, trial: Trial, releases: Sequence[int], found: Callable[[Clog], bool]) -> None:
        self._cluster, self._found = cluster, found
        self._releases = tuple(releases)
        self._release = max(self._releases, default=0)
        self._starting = max((_starting(group) for group in trial.node_groups()), default=0)
        self._gangs = any(submit.gang for submit in trial.submits())
        self._busy = 0  # phases that do something by themselves: submit, change nodes, pause
        self._waits = 0
        self._begun = 0  # when the last such phase ended
        self._touched = 0  # what was last recorded, and when, at the last look
        self._deadline = 0  # if nothing is recorded until then, nothing will be
        self._idle = False  # nothing ran at the last look: silence then is the stack's own
        self._silence = 0  # the longest of that kind
        self._next = 0  # when the state may be asked for again
        self._many = False  # so many are open that the state is not asked for as long as things happen
        self._first: Clog | None = None  # a knot that is proven while others can still finish

    @contextmanager
    def acting(self) -> Iterator[None]:
        """A phase that changes something: until it is over nobody can say that nothing will."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self._begin_again()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1

    async def watch(self) -> Clog:
        """Returns when the trial is clogged."""
        while True:
            await asyncio.sleep(LOOK_EVERY / SECOND)
            if self._busy or not self._waits:
                continue
            clog = self._look(self._cluster.now())
            if clog and not self._found(clog):
                return clog
            if clog:
                self._begin_again()

    def _begin_again(self) -> None:
        self._begun, self._first, self._idle = self._cluster.now(), None, False

    @property
    def _patience(self) -> int:
        if self._many:
            return PATIENCE_MOST
        return max(PATIENCE_LEAST, min(SILENCES * self._silence, PATIENCE_MOST))

    def _look(self, now: int) -> Clog | None:
        ledger = self._cluster.ledger
        touched = max(ledger.touched, ledger.stirred, self._begun)
        if now < self._next:
            return None
        if now - max(ledger.last, self._begun) >= 2 * (self._release + self._patience):
            return self._turns(now)
        if now - touched < (PATIENCE_LEAST if self._many else QUIET):
            return None
        if touched == self._touched:
            return self._over(now) if now >= self._deadline else None
        if self._idle:
            self._silence = max(self._silence, touched - self._touched)
        self._touched = touched
        return self._knot(now)

    def _ask(self, now: int) -> State:
        """Asking costs about 10 µs per workload: the more are open, the rarer. Where no knot can be proven it only tells how long
        to wait; with very many workloads one then waits the longest in any case, and MCAD's 45,000 s of 10,000 gangs take
        13 s to simulate instead of 360 s."""
        state = self._cluster.state()
        self._next = now + LOOK_EVERY * (1 + len(state.workloads) // OFTEN)
        self._many = len(state.workloads) > OFTEN and bool(self._releases or not self._gangs)
        return state

    def _knot(self, now: int) -> Clog | None:
        state = self._ask(now)
        ends = [workload.due for workload in state.workloads if workload.runs]
        starts = self._touched + self._starting if any(workload.starting for workload in state.workloads) else 0
        self._idle = not ends and not starts
        # The last thing that could still move it by itself: an end, a start, a time-out of the stack.
        self._deadline = max(self._touched + self._release, starts, *ends, 0) + self._patience
        proven = knot(state) if self._gangs and not self._releases else None
        if proven is None:
            return None
        self._first = self._first or Clog(now, proven, state)
        return None if proven.can_finish else self._first

    def _over(self, now: int) -> Clog | None:
        """Nothing was recorded although there was time for it."""
        state = self._ask(now)
        if not state.workloads:
            return None
        quiet = now - max(self._cluster.ledger.touched, self._begun)
        return self._first or Clog(now, diagnose(state, quiet, self._releases, state.dead), state)

    def _turns(self, now: int) -> Clog | None:
        """Things may happen, yet for two periods no workload has got further than it was before."""
        state = self._ask(now)
        self._next = max(self._next, now + self._patience)
        if not state.workloads or any(
            workload.runs and now < workload.due + self._patience for workload in state.workloads
        ):
            return None
        ledger = self._cluster.ledger
        if (
            any(workload.starting for workload in state.workloads)
            and now < ledger.touched + self._starting + self._patience
        ):
            return None
        quiet = now - max(ledger.last, self._begun)
        stirred = ledger.stirred > now - self._release - self._patience
        failing = [workload.name for workload in state.workloads if workload.admitted] if stirred else []
        return self._first or Clog(now, diagnose(state, quiet, self._releases, state.dead, failing), state)


def _starting(group: NodeGroup) -> int:
    """What a node of the group takes at most from a bound pod to a running one; real ones may have to pull an image."""
    if group.existing or group.kubelet:
        return PULLING
    return max(group.create.least, group.create.most) + max(group.start.least, group.start.most)
