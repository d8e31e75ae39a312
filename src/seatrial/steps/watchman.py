"""Looks for clogs while the steps of a trial wait.

Workloads that evict each other again and again are a livelock (`clog.livelocks`): it is reported when nothing else runs.

Some clogs are certain: gangs hold what each other needs and nothing takes it back (a knot), a pod fits no node, no event is left in
the simulator. They are reported as soon as they are known. Everything else is a stall: no workload makes progress, and that may
resolve by itself, as it does by chance for gangs that take turns in failing. A stall is recorded with its length and cause, and the
trial goes on. It becomes a clog when it lasts longer than `clog.patience`, whatever the timeouts of the stack.

The watchman sleeps until the next moment at which it could find something, and the ledger wakes it when something relevant is
recorded: a day in which nothing happens costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from seatrial.clog import Diagnosis, diagnose, knot, livelock, stuck, unfinished
from seatrial.clog.knots import missing
from seatrial.model.interfaces import Cluster
from seatrial.model.lifecycle import ADMITTED, COMPLETED, DELETED, FAILED, SCHEDULED
from seatrial.model.plan import NodeGroup, Trial
from seatrial.model.settings import own
from seatrial.model.state import State
from seatrial.model.units import MINUTE, SECOND
from seatrial.record.ledger import GOT_ON, LOST_POD, MOVED
from seatrial.scenario.actions.submit_workloads import Submit

LOOK_EVERY = 1 * SECOND  # checks are at whole seconds
QUIET = 1 * SECOND  # time without a record after which knots are checked
# What a component may take to act: kube-scheduler's longest backoff, flushed once a second, and a margin.
ACTING = 13 * SECOND
# No progress for so long although nothing runs or starts is a stall; the same for all stacks, so that they compare.
STALLED = 30 * SECOND
TIMES = 3  # a stall may last this many times the longest that resolved before
PULLING = 5 * MINUTE  # what a real node may take to start a pod (pulling images) without a visible change
OFTEN = 2000  # workloads: with fewer, knots are looked for every second, with twice as many every other second
NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Clog:
    """A diagnosis, when it was made, and the state then."""

    at: int
    diagnosis: Diagnosis
    state: State

    def as_json(self) -> dict[str, Any]:
        """For trial.json; the state is in a snapshot."""
        return {"at_ns": self.at, **self.diagnosis.as_json()}


@dataclass(frozen=True, slots=True)
class Stall:
    """A time without progress of any workload. `resolved`: by itself, not because the next step of the scenario began."""

    from_ns: int
    until_ns: int
    noticed_ns: int
    resolved: bool
    kind: str
    summary: str


class Watchman:
    """`found` is called with every clog; it returns whether the trial continues."""

    def __init__(self, cluster: Cluster, trial: Trial, releases: Sequence[int], found: Callable[[Clog], bool]) -> None:
        self.stalls: list[Stall] = []  # those that are over
        self._cluster, self._found = cluster, found
        self._releases = tuple(releases)
        self._release = max(self._releases, default=0)
        self._patience = int(own(trial.setup.settings, "clog", "patience"))
        self._starting = max((_starting(group) for group in trial.node_groups()), default=0)
        self._ties = not self._releases and any(submit.gang for submit in trial.phases(Submit))  # knots can be proven
        self._checkpoints = {
            cluster.ledger.phase(submit.name): submit.checkpoint for submit in trial.phases(Submit) if submit.checkpoint
        }
        self._evictions = 0  # when a livelock was last looked for
        self._kept: dict[int, int] = {}  # workload → when it was last seen to have got as far as a checkpoint
        self._woken = asyncio.Event()
        self._busy = 0  # phases that act: submit, change nodes, pause
        self._waits = 0
        self._begun = 0  # when the last acting phase ended
        self._looked = -1  # time of the last record when a knot was last looked for
        self._progress = -1  # time of the last progress at the last look
        self._knot_at = self._silence_at = self._stall_at = 0  # when to look next
        self._first: Clog | None = None  # a proven knot while other workloads can still finish
        self._stall: Stall | None = None  # the one that is not over

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Context of a phase that acts: until its end the state may still change."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self._begin_again()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Context of a phase that only waits."""
        self._waits += 1
        self._woken.set()
        try:
            yield
        finally:
            self._waits -= 1

    def unfinished(self) -> Clog | None:
        """Why workloads are unfinished now, for a wait that timed out; None if none are."""
        now, ledger, state = self._cluster.now(), self._cluster.ledger, self._cluster.state()
        if not state.workloads:
            return None
        quiet = now - max(ledger.touched, ledger.stirred, self._begun)
        return Clog(now, unfinished(state, quiet, self._releases, quiet > self._release + ACTING), state)

    def leave(self) -> None:
        """Ends the open stall with the trial."""
        self._end_stall(resolved=False)

    async def watch(self) -> Clog:
        """Returns when the trial is clogged and does not continue."""
        while True:
            if self._busy or not self._waits:
                await self._woken.wait()
                self._woken.clear()
                continue
            clog = self._look(self._cluster.now())
            if clog is None:
                await self._sleep()
                continue
            self._stall = None  # it is the clog
            if not self._found(clog):
                return clog
            self._begin_again()

    async def _sleep(self) -> None:
        """Sleeps until the next check, or until something relevant is recorded."""
        until = min(self._knot_at, self._silence_at, self._stall_at)
        what = LOST_POD | (MOVED if self._ties and self._knot_at == NEVER else 0)
        if self._stall or NEVER in (self._silence_at, self._stall_at):
            what |= GOT_ON
        self._cluster.ledger.listen(what, self._wake)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(until - self._cluster.now(), 0) / SECOND):
                await self._woken.wait()
        self._woken.clear()

    def _wake(self, what: int = LOST_POD) -> None:
        """A lost pod may be what the next look waits for."""
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
            self._silence_at = 0 if self._silence_at == NEVER else self._silence_at
            self._stall_at = 0 if self._stall_at == NEVER else self._stall_at
            if self._stall and got_on > self._stall.from_ns:
                self._end_stall(resolved=True)
        return (
            self._look_for_livelock(now, got_on)
            or self._look_for_knots(now, moved)
            or self._look_at_silence(now, moved)
            or self._look_at_stall(now, got_on)
        )

    def _look_for_livelock(self, now: int, got_on: int) -> Clog | None:
        """After an eviction: workloads that evict each other run, and so are no stall. Others that run may finish first."""
        ledger = self._cluster.ledger
        turns = ledger.turns
        if ledger.evictions == self._evictions or not turns.repeated or now - got_on < ACTING:
            return None
        self._evictions = ledger.evictions
        pairs = {pair: (turn.rounds, turn.since, turn.reason) for pair, turn in turns.repeated.items()}
        place = ledger.number.get(ADMITTED.name, ledger.number[SCHEDULED.name])
        ends = [ledger.number[stage.name] for stage in (COMPLETED, FAILED, DELETED) if stage.name in ledger.number]
        members = stuck(
            pairs,
            lambda number: any(ledger.has_reached(number, end) for end in ends),
            lambda number: ledger.has_reached(number, place),
        )
        keeping = [number for number in members if self._keeps_work(number, now)]
        if not members or keeping:
            return None
        _, holders = self._cluster.holders()
        if any(workload.runs and workload.number not in members for workload in holders):
            return None
        state = self._cluster.state()
        return Clog(now, livelock(state, members, pairs), state)

    def _keeps_work(self, number: int, now: int) -> bool:
        """Whether it got as far as a checkpoint between two evictions, no longer ago than `clog.patience`."""
        ledger = self._cluster.ledger
        every = self._checkpoints.get(ledger.workload_phase[number], 0)
        if every and ledger.turns.longest_since_asked(number) >= every:
            self._kept[number] = now
        return number in self._kept and now - self._kept[number] < self._patience

    def _look_for_knots(self, now: int, moved: int) -> Clog | None:
        """Once nothing was recorded for a moment. It costs about 10 µs per workload: the more are open, the rarer."""
        if not self._ties or moved == self._looked:
            self._knot_at = NEVER
            return None
        due = _look_time(max(moved + QUIET, self._knot_at if self._knot_at != NEVER else 0))
        if now < due:
            self._knot_at = due
            return None
        self._looked, (left, holders) = moved, self._cluster.holders()
        self._knot_at = now + LOOK_EVERY * (1 + left // OFTEN)
        if not any(w.gang and w.nodes and missing(w) for w in holders):
            return None
        state = self._cluster.state()
        proven = knot(state)
        if proven is None:
            return None
        self._first = self._first or Clog(now, proven, state)
        return None if proven.can_finish else self._first

    def _look_at_silence(self, now: int, moved: int) -> Clog | None:
        """Nothing was recorded although there was time for it: a certain clog is reported."""
        if now < self._silence_at:
            return None
        rest = max(moved + self._release, self._busy_until(now, moved + self._release + ACTING)) + ACTING
        self._silence_at = _look_time(rest)
        if now < self._silence_at:
            return None
        self._silence_at = NEVER  # until progress or a lost pod: before that nothing becomes certain
        state = self._cluster.state()
        if not state.workloads:
            return None
        diagnosis = self._diagnosis(state, now)
        is_over = self._first or diagnosis.is_certain(self._releases) or self._cluster.at_rest()
        return (self._first or Clog(now, diagnosis, state)) if is_over else None

    def _look_at_stall(self, now: int, got_on: int) -> Clog | None:
        """Notices a stall, and reports it as a clog once it has lasted too long."""
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
            self._stall_at = NEVER  # all workloads have ended: the wait can never succeed
            return None
        if self._stall is None:
            cause = self._diagnosis(state)  # its length is not known yet
            self._stall = Stall(since, now, now, True, cause.kind, cause.summary)
        if now < self._stall_at:
            return None
        return self._first or Clog(self._stall.noticed_ns, self._diagnosis(state, now), state)

    @property
    def _patient(self) -> int:
        longest = max((stall.until_ns - stall.from_ns for stall in self.stalls if stall.resolved), default=0)
        return max(self._patience, TIMES * longest)

    def _busy_until(self, now: int, due: int) -> int:
        """When everything that runs or starts should have ended; 0 before `due`."""
        if now < due:
            return 0
        _, holders = self._cluster.holders()
        ends = [workload.due for workload in holders if workload.runs]
        starts = self._cluster.ledger.touched + self._starting if any(w.starting for w in holders) else 0
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
    """The longest time from a bound pod to a running one on the nodes of a group; real nodes may have to pull an image."""
    if group.existing or group.kubelet:
        return PULLING
    return max(group.create.least, group.create.most) + max(group.start.least, group.start.most)
