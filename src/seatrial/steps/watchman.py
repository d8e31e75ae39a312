"""Looks on while the steps of a trial wait, and says when nothing will move any more.

Some clogs are certain: gangs hold what each other needs and nobody takes it back (a knot), a pod fits no node, nothing is under way
in the simulator. They are said as soon as they can be known. Everything else is a stall: no workload gets on, and it may resolve by
itself, as gangs that take turns in failing do by chance. A stall is kept with its length and cause, and the trial goes on. It is a
clog when it lasts longer than `clog.patience`, whatever the time-outs of the stack.

The watchman sleeps until the next moment at which it could have something to say, and the ledger wakes it when something that
matters to it is recorded: a day in which nothing happens costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from seatrial.clog import Diagnosis, diagnose, knot
from seatrial.clog.knots import missing
from seatrial.model.interfaces import Cluster
from seatrial.model.plan import NodeGroup, Trial
from seatrial.model.settings import own
from seatrial.model.state import State
from seatrial.model.units import MINUTE, SECOND
from seatrial.record.ledger import GOT_ON, LOST_POD, MOVED

LOOK_EVERY = 1 * SECOND  # looks are at whole seconds
QUIET = 1 * SECOND  # nothing recorded for so long: worth looking for a knot
ACTING = (
    13 * SECOND
)  # what those who could act may take: kube-scheduler's longest back-off, looked at once a second, and a little
STALLED = (
    30 * SECOND
)  # no workload got on for so long although nothing runs or starts: the same for all stacks, to be compared
TIMES = 3  # a stall is given this many times the longest that resolved before
PULLING = 5 * MINUTE  # what a real node may take to start a pod without anything to be seen
OFTEN = 2000  # workloads: with fewer a knot is looked for every second, with twice as many every other
NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Clog:
    """What was found, when, and what stood where then."""

    at: int
    diagnosis: Diagnosis
    state: State

    def as_json(self) -> dict[str, Any]:
        return {"at_ns": self.at, **self.diagnosis.as_json()}


@dataclass(frozen=True, slots=True)
class Stall:
    """No workload got on from the last that did until the next. `resolved`: by itself, not because a step of the scenario began."""

    from_ns: int
    until_ns: int
    noticed_ns: int
    resolved: bool
    kind: str
    summary: str


class Watchman:
    """`found` is told of every clog. It counts as the end of the trial unless `found` says that the run goes on."""

    def __init__(self, cluster: Cluster, trial: Trial, releases: Sequence[int], found: Callable[[Clog], bool]) -> None:
        self.stalls: list[Stall] = []  # those that are over
        self._cluster, self._found = cluster, found
        self._releases = tuple(releases)
        self._release = max(self._releases, default=0)
        self._patience = int(own(trial.setup.settings, "clog", "patience"))
        self._starting = max((_starting(group) for group in trial.node_groups()), default=0)
        self._ties = not self._releases and any(submit.gang for submit in trial.submits())  # knots can be proven
        self._woken = asyncio.Event()
        self._busy = 0  # phases that do something by themselves: submit, change nodes, pause
        self._waits = 0
        self._begun = 0  # when the last such phase ended
        self._looked = -1  # what was last recorded when a knot was last looked for
        self._progress = -1  # when a workload had last got on at the last look
        self._knot_at = self._silence_at = self._stall_at = 0  # when each is to be looked at next
        self._first: Clog | None = None  # a knot that is proven while others can still finish
        self._stall: Stall | None = None  # one that is not over

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
        self._woken.set()
        try:
            yield
        finally:
            self._waits -= 1

    def leave(self) -> None:
        """The trial is over: so is the stall, unless it is what ended it."""
        self._end_stall(resolved=False)

    async def watch(self) -> Clog:
        """Returns when the trial is clogged."""
        while True:
            if self._busy or not self._waits:
                await self._woken.wait()
                self._woken.clear()
                continue
            clog = self._look(self._cluster.now())
            if clog and not self._found(clog):
                self._stall = None
                return clog
            if clog:
                self._begin_again()
            else:
                await self._sleep()

    async def _sleep(self) -> None:
        """Until the next look, or something is recorded that brings it forward."""
        until = min(self._knot_at, self._silence_at, self._stall_at)
        what = LOST_POD | (MOVED if self._ties and self._knot_at == NEVER else 0) | (GOT_ON if self._stall else 0)
        self._cluster.ledger.listen(what, self._wake)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(until - self._cluster.now(), 0) / SECOND):
                await self._woken.wait()
        self._woken.clear()

    def _wake(self, what: int = LOST_POD) -> None:
        """A pod that is lost may be what the next look waits for."""
        if what == LOST_POD:
            self._silence_at = self._stall_at = 0
        self._woken.set()

    def _begin_again(self) -> None:
        self._end_stall(resolved=False)
        self._begun, self._first, self._looked = self._cluster.now(), None, -1
        self._wake()

    # looking

    def _look(self, now: int) -> Clog | None:
        ledger = self._cluster.ledger
        moved = max(ledger.touched, ledger.stirred, self._begun)
        got_on = max(ledger.last, self._begun)
        if got_on != self._progress:
            self._progress = got_on
            self._silence_at = min(self._silence_at, _look_time(moved + ACTING))
            if self._stall and got_on > self._stall.from_ns:
                self._end_stall(resolved=True)
        return self._look_for_knots(now, moved) or self._look_at_silence(now, moved) or self._look_at_stall(now, got_on)

    def _look_for_knots(self, now: int, moved: int) -> Clog | None:
        """Once nothing has been recorded for a moment. It costs about 10 µs per workload: the more are open, the rarer."""
        if not self._ties or moved == self._looked:
            self._knot_at = NEVER
            return None
        due = _look_time(max(moved + QUIET, self._knot_at if self._knot_at != NEVER else 0))
        if now < due:
            self._knot_at = due
            return None
        self._looked, unfinished = moved, self._cluster.unfinished()
        self._knot_at = now + LOOK_EVERY * (1 + len(unfinished) // OFTEN)
        if not any(w.gang and w.nodes and missing(w) for w in unfinished):
            return None
        state = self._cluster.state()
        proven = knot(state)
        if proven is None:
            return None
        self._first = self._first or Clog(now, proven, state)
        return None if proven.can_finish else self._first

    def _look_at_silence(self, now: int, moved: int) -> Clog | None:
        """Nothing was recorded although there was time for it: what is certain now is said."""
        if now < self._silence_at:
            return None
        rest = max(moved + self._release, self._busy_until(now, moved + self._release + ACTING)) + ACTING
        self._silence_at = _look_time(rest)
        if now < self._silence_at:
            return None
        self._silence_at = NEVER  # until a workload gets on or pods are lost: till then nothing becomes certain
        state = self._cluster.state()
        if not state.workloads:
            return None
        diagnosis = self._diagnosis(state, now)
        is_over = self._first or diagnosis.is_certain(self._releases) or self._cluster.at_rest()
        return (self._first or Clog(now, diagnosis, state)) if is_over else None

    def _look_at_stall(self, now: int, got_on: int) -> Clog | None:
        """First it is noticed, then it has lasted too long."""
        if now < self._stall_at:
            return None
        since = max(got_on, self._busy_until(now, got_on + STALLED))
        self._stall_at = _look_time(since + STALLED)
        if now < self._stall_at:
            self._end_stall(resolved=True)
            return None
        self._stall_at = _look_time(max(got_on + self._release, since) + self._patient)
        if self._stall and now < self._stall_at:
            return None
        state = self._cluster.state()
        if not state.workloads:
            return None
        if self._stall is None:
            cause = self._diagnosis(state)  # how long it lasts is not known yet
            self._stall = Stall(since, now, now, True, cause.kind, cause.summary)
        if now < self._stall_at:
            return None
        return self._first or Clog(self._stall.noticed_ns, self._diagnosis(state, now), state)

    @property
    def _patient(self) -> int:
        longest = max((stall.until_ns - stall.from_ns for stall in self.stalls if stall.resolved), default=0)
        return max(self._patience, TIMES * longest)

    def _busy_until(self, now: int, due: int) -> int:
        """When everything that runs or starts should have ended; not asked for before `due`."""
        if now < due:
            return 0
        unfinished = self._cluster.unfinished()
        ends = [workload.due for workload in unfinished if workload.runs]
        starts = self._cluster.ledger.touched + self._starting if any(w.starting for w in unfinished) else 0
        return max(starts, *ends, 0)

    def _diagnosis(self, state: State, now: int = 0) -> Diagnosis:
        ledger = self._cluster.ledger
        got_on = max(ledger.last, self._begun)
        failing = (
            [workload.name for workload in state.workloads if workload.admitted] if ledger.stirred > got_on else []
        )
        return diagnose(state, max(now - got_on, 0), self._releases, state.dead, failing)

    def _end_stall(self, resolved: bool) -> None:
        if self._stall is None:
            return
        ledger = self._cluster.ledger
        until = ledger.last if resolved and ledger.last > self._stall.from_ns else self._cluster.now()
        self.stalls.append(replace(self._stall, until_ns=until, resolved=resolved))
        self._stall, self._stall_at = None, 0


def _look_time(at: int) -> int:
    return -(-at // LOOK_EVERY) * LOOK_EVERY


def _starting(group: NodeGroup) -> int:
    """What a node of the group takes at most from a bound pod to a running one; real ones may have to pull an image."""
    if group.existing or group.kubelet:
        return PULLING
    return max(group.create.least, group.create.most) + max(group.start.least, group.start.most)
