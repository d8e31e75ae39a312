"""The actions of a session, in their order: allocate, consolidation, reclaim, preempt, stalegangeviction (v0.12.0).

Each goes through the PodGroups with pending pods by turns (queue_turns.py) and ends in binds and evictions; what an action placed
the next ones see. The three that evict skip a group that is not easier to place than one that has failed already
(actions/common/minimal_job_comparison.go).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from seatrial.model.fleet import OTHER, PREEMPTED, RECLAIMED, TIMED_OUT
from seatrial.stacks.kai.job_lines import AlikeJobs, JobKey, Why, job_key
from seatrial.stacks.kai.kai_cache import KaiCache
from seatrial.stacks.kai.kai_session import (
    ACTIVE,
    ALLOCATED,
    HOLDS,
    PIPELINED,
    RELEASING,
    KaiJob,
    KaiSession,
    no_room,
)
from seatrial.stacks.kai.kai_solver import KaiSolver, Victims, all_moved
from seatrial.stacks.kai.queue_shares import Amounts3
from seatrial.stacks.kai.queue_turns import QueueTurns
from seatrial.stacks.kai.reclaim_rules import may_reclaim, reclaimable

CONSOLIDATED_AT_MOST = 16  # --max-consolidation-preemptees (cmd/scheduler/app/options/options.go:38)


@dataclass(frozen=True, slots=True)
class KaiEviction:
    """A pod that loses its place, for the workload `by` (−1: for none)."""

    pod: int
    by: int
    reason: str
    message: str


@dataclass(slots=True)
class KaiDecisions:
    """What a session carries out: PodGroups with the pods to bind, in order, then evictions.

    `binds`: pods and the nodes they were allocated to (a later action of the session may have evicted them again, and found another
    node for their successors); and whether it is the group's start."""

    binds: list[tuple[KaiJob, list[tuple[int, int]], bool]] = field(default_factory=list)
    evictions: list[KaiEviction] = field(default_factory=list)
    scenarios: int = 0  # that `consolidation`, `reclaim` and `preempt` tried
    scored: int = 0  # nodes that `allocate` scored, for all its pods


class KaiActions:
    """The actions of one session. `stale(job)`: whether it lacked pods for too long."""

    def __init__(
        self,
        session: KaiSession,
        cache: KaiCache,
        random: Random,
        stale: Callable[[KaiJob], bool],
        names: Callable[[int], str],
    ) -> None:
        self._session, self._cache, self._random, self._stale, self._names = session, cache, random, stale, names
        self.done = KaiDecisions()
        self._actions: dict[str, Callable[[], None]] = {
            "allocate": self._allocate,
            "consolidation": self._consolidate,
            "reclaim": self._reclaim,
            "preempt": self._preempt,
            "stalegangeviction": self._evict_stale,
        }

    def run(self, actions: Sequence[str]) -> KaiDecisions:
        """All of them."""
        for action in actions:
            before = self._session.looked
            self._actions[action]()
            if action == "allocate":
                self.done.scored += self._session.looked - before
        return self.done

    def _turns(self, preemptible_only: bool = False) -> QueueTurns:
        session = self._session
        lines = self._cache.lines(session.touched, lambda job: not (preemptible_only and job.firm))
        return QueueTurns(session.tree, lines, self._random)

    def _allocate(self) -> None:
        """actions/allocate/allocate.go:45. A group that cannot be placed after one of the same shape and no more pods failed is not
        tried: room only shrinks meanwhile."""
        session = self._session
        turns, refused = self._turns(), Refusals(session)
        while turns:
            job = turns.pop()
            if refused.tells_at_once(job):
                refused.of_all(job, turns.pass_over())
                continue
            began = not any(task.status in HOLDS for task in job.tasks)
            if not session.place_job(job, session.everywhere, pipeline_only=False):
                if refused.is_new(job):
                    refused.of_all(job, turns.pass_over())
                continue
            if _waits_for_room(job):
                session.to_pipelined(job.tasks)
            self._bind(job, began)
            refused.less_is_left()
            if job.waiting:
                turns.push(job)

    def _bind(self, job: KaiJob, began: bool) -> None:
        placed = [task for task in job.tasks if task.status == ALLOCATED]
        for task in placed:
            task.status, task.virtual = ACTIVE, False
        self._session.commit()
        if placed:
            self.done.binds.append((job, [(task.pod, task.node) for task in placed], began))

    # those that evict

    def _consolidate(self) -> None:
        """actions/consolidation/consolidation.go:35: moves preemptible groups together, if all of them get a place again."""
        smallest = Failures()
        turns = self._turns(preemptible_only=True)
        while turns:
            job = turns.pop()
            if not smallest.easier(job):
                turns.pass_over()
                continue
            if not self._search(job, lambda job=job: self._movable(job), all_moved, OTHER, _moved):  # type: ignore[misc]
                smallest.add(job)

    def _movable(self, job: KaiJob) -> list[KaiJob]:
        found = [one for one in self._session.placed() if not one.firm and one is not job]
        most = CONSOLIDATED_AT_MOST + 1  # the counter is compared before it grows (:146), and a Go map has no order
        return found if len(found) <= most else self._random.sample(found, most)

    def _reclaim(self) -> None:
        """actions/reclaim/reclaim.go:47: for a queue that is below its fair share, from other queues."""
        session, smallest = self._session, Failures(by_queue=True)
        turns = self._turns()
        while turns:
            job = turns.pop()
            asked = job.asks()
            if not may_reclaim(session.tree, job.queue, asked, job.firm) or not smallest.easier(job):
                turns.pass_over()
                continue
            used = {key: list(queue.allocated) for key, queue in session.tree.queues.items()}

            def valid(
                victims: Victims, job: KaiJob = job, asked: Amounts3 = asked, used: dict[str, list[float]] = used
            ) -> bool:
                return reclaimable(session.tree, used, job.queue, asked, job.firm, _taken(victims))

            if not self._search(job, lambda job=job: self._elsewhere(job), valid, RECLAIMED, _reclaimed):  # type: ignore[misc]
                smallest.add(job)

    def _elsewhere(self, job: KaiJob) -> list[KaiJob]:
        return [one for one in self._session.placed() if one.queue != job.queue and not one.firm]

    def _preempt(self) -> None:
        """actions/preempt/preempt.go:46: within a queue, for a higher priority."""
        session, smallest = self._session, Failures(by_queue=True)
        turns = self._turns()
        while turns:
            job = turns.pop()
            if not smallest.easier(job):
                turns.pass_over()
                continue
            over = job.firm and session.tree.over_limit(job.queue, job.asks(), firm=True)
            if over or not self._search(job, lambda job=job: self._lower(job), _any, PREEMPTED, _preempted):  # type: ignore[misc]
                smallest.add(job)

    def _lower(self, job: KaiJob) -> list[KaiJob]:
        return [
            one
            for one in self._session.placed()
            if one.queue == job.queue and one.priority < job.priority and not one.firm
        ]

    def _search(
        self,
        job: KaiJob,
        possible: Callable[[], Sequence[KaiJob]],
        valid: Callable[[Victims], bool],
        reason: str,
        message: Callable[[str, str], str],
    ) -> bool:
        search = KaiSolver(self._session, job, possible, valid, self._random)
        solved = search.solve(moves=valid is all_moved)
        self.done.scenarios += search.scenarios
        if solved:
            for task in self._session.commit():
                words = message(self._names(task.job.number), self._names(job.number))
                self.done.evictions.append(KaiEviction(task.pod, job.number, reason, words))
        return solved

    def _evict_stale(self) -> None:
        """actions/stalegangeviction/stalegangeviction.go:29."""
        for job in self._cache.may_be_stale(self._session.touched):
            if self._stale(job):
                why = f"Workload doesn't meet the minimum required number of pods ({job.least}), evicting remaining pod"
                for task in job.tasks:
                    if task.status in HOLDS:
                        self._session.evict(task)
                        self.done.evictions.append(KaiEviction(task.pod, -1, TIMED_OUT, why))
                self._session.commit()


def _waits_for_room(job: KaiJob) -> bool:
    """ShouldPipelineJob (api/podgroup_info/job_info.go:427): too few pods got idle room, so none is bound yet."""
    waits = sum(task.status == PIPELINED for task in job.tasks)
    return bool(waits) and job.active - waits < job.least


def _taken(victims: Victims) -> dict[str, list[Amounts3]]:
    """getVictimResources (proportion.go:178): pods that got another place do not count."""
    taken: dict[str, list[Amounts3]] = {}
    for job, tasks in victims.items():
        core, beyond = tasks[: job.least], tasks[job.least :]
        for part in (*([one] for one in beyond), core):
            lost = sum(task.status == RELEASING for task in part)
            if lost:
                taken.setdefault(job.queue, []).append([amount * lost for amount in job.amounts])
    return taken


def _any(_: Victims) -> bool:
    return True


def _preempted(victim: str, by: str) -> str:
    return f"Pod of {victim} was preempted by higher priority workload {by}"


def _reclaimed(victim: str, by: str) -> str:
    return f"Pod of {victim} was preempted by workload {by}."


def _moved(victim: str, by: str) -> str:  # noqa: ARG001
    return f"Pod of {victim} was preempted and rescheduled due to bin packing (resource consolidation) procedure"


class Failures:
    """The smallest group of each shape that failed; others must be easier (minimal_job_comparison.go:28)."""

    def __init__(self, by_queue: bool = False) -> None:
        self._by_queue = by_queue
        self._smallest: dict[tuple[str, object], KaiJob] = {}

    def _key(self, job: KaiJob) -> tuple[str, object]:
        """Constraints of its pods; requests are compared (api/pod_info/scheduling_constraints_signature.go:18). The anti-affinity
        of `spread` names the Job, so such groups are all tried."""
        shape = job.shape
        own = job.number if shape.spread else -1
        constraints = (tuple(shape.selector.items()), shape.affinity, shape.tolerations, shape.terms, own)
        return job.queue if self._by_queue else "", constraints

    def easier(self, job: KaiJob) -> bool:
        """Whether it is worth a search."""
        other = self._smallest.get(self._key(job))
        if other is None or other.waiting > job.waiting:
            return other is None or bool(job.waiting)
        no_more = all(a <= b for a, b in zip(job.amounts, other.amounts, strict=True))
        return no_more and job.amounts != other.amounts

    def add(self, job: KaiJob) -> None:
        """It failed."""
        other = self._smallest.get(self._key(job))
        smaller = other is None or (
            job.waiting <= other.waiting and all(a <= b for a, b in zip(job.amounts, other.amounts, strict=True))
        )
        if smaller:
            self._smallest[self._key(job)] = job


class Refusals:
    """What one `allocate` has learnt: shapes that found no room, and why groups wait that stand among equal ones."""

    def __init__(self, session: KaiSession) -> None:
        self._session = session
        self._no_room: dict[int, tuple[int, int]] = {}  # shape → pods, how many of them found a node
        self._without_room: dict[AlikeJobs, KaiJob] = {}  # lines that are passed over, by the last one tried
        self._over_limit: dict[AlikeJobs, KaiJob] = {}
        self._place: JobKey = (0, 0, 0, "")  # of the one whose turn it is

    def tells_at_once(self, job: KaiJob) -> bool:
        """Whether it need not be tried; says why it waits."""
        self._place = job_key(job)
        least, found = self._no_room.get(id(job.shape), (0, 0))
        if not least or job.active or len(job.to_allocate(True)) < least:
            return False
        self._says(job, found)
        if job.alike is None:
            job.said = no_room(job, found)
            self._session.touched[job.number] = job
        return True

    def is_new(self, job: KaiJob) -> bool:
        """It was tried in vain; whether that is the limit of a queue, which the others like it will meet too."""
        if job.said.startswith(("OverLimit", "NonPreemptible")):
            self._says(job, job.said)
            return True
        wanted, found = len(job.to_allocate(True)), self._session.found
        self._no_room[id(job.shape)] = wanted, found
        self._says(job, found)
        for others in (self._without_room, self._over_limit):
            for alike, other in list(others.items()):
                if other.shape is job.shape and len(other.to_allocate(True)) >= wanted:
                    self._over_limit.pop(alike, None)
                    self._without_room[alike] = other
                    self._says(other, found)
        return False

    def of_all(self, job: KaiJob, passed: bool) -> None:
        """The others like it are not tried. If all have `passed`, what is said of each follows what happens until its place."""
        if passed and job.alike is not None:
            limited = job.said.startswith(("OverLimit", "NonPreemptible"))
            (self._over_limit if limited else self._without_room)[job.alike] = job

    def less_is_left(self) -> None:
        """A group got its places, so limits are nearer."""
        for other in self._over_limit.values():
            amounts = [amount * len(other.to_allocate(True)) for amount in other.amounts]
            self._says(other, self._session.tree.over_limit(other.queue, amounts, other.firm))

    def _says(self, waits: KaiJob, why: Why) -> None:
        """Groups like this one wait for this reason, from the place of the one whose turn it is."""
        if waits.alike is not None and not waits.active:
            waits.alike.says(self._place, why if isinstance(why, str) or waits.least > 1 else 0)
