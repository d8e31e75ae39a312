"""PodGroups of a leaf that wait, in order: those that are alike in one list from session to session.

A real session goes through every group that waits. Groups of one queue with the same pods, none of which has a place, get the same
answer as long as nothing is placed: so they wait in a list in the order of their turns, and what a session says of them is kept as
answers from a place in that order on. A session then costs what it tries, not what waits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from seatrial.stacks.kai.kai_session import KaiJob, no_room

JobKey = tuple[int, int, int, str]
Why = int | str  # why a group waits: how many of its pods found a node, or a limit in words


def job_key(job: KaiJob) -> JobKey:
    """JobOrderFn (framework/session_plugins.go:229): priority, those below their minimum, second of creation, name."""
    above = 0 if job.active < job.least else 1 if job.active == job.least else 2  # plugins/elastic/elastic.go:27
    return -job.priority, above, job.created, job.name


class AlikeJobs:
    """PodGroups of one queue with the same pods, all of them pending. `waiting`: how many pods each has."""

    def __init__(self, waiting: int) -> None:
        self.waiting = waiting
        self.members: list[tuple[JobKey, KaiJob]] = []
        self._oldest: list[tuple[int, int, KaiJob]] = []  # by serial, then as they were added
        self._added = 0
        self._told: list[tuple[JobKey, Why]] = []  # by the last session: from this place on
        self._says: list[tuple[JobKey, Why]] = []  # by this one

    def add(self, job: KaiJob) -> None:
        """One more."""
        job.alike = self
        insort(self.members, (job_key(job), job))
        self._added += 1
        heappush(self._oldest, (job.serial, self._added, job))

    def remove(self, job: KaiJob) -> None:
        """It is no longer one of them; what the session has done to it does not matter."""
        at = bisect_left(self.members, ((-job.priority, 0, job.created, job.name),))
        del self.members[at]
        job.alike = None

    def waits(self, job: KaiJob) -> bool:
        """Whether a member is as it was when the session began."""
        return job.alike is self and not job.active and job.waiting == self.waiting

    def oldest(self) -> int:
        """The first of them that came."""
        while not self.waits(self._oldest[0][2]):
            heappop(self._oldest)  # what changed comes back as another KaiJob, if at all
        return self._oldest[0][0]

    def next(self, at: int) -> int:
        """The first place from here on with one that waits."""
        while at < len(self.members) and not self.waits(self.members[at][1]):
            at += 1
        return at

    def says(self, key: JobKey, why: Why) -> None:
        """From this place on they wait for this reason."""
        if self._says and self._says[-1][0] == key:
            self._says.pop()
        if not self._says or self._says[-1][1] != why:
            self._says.append((key, why))

    def said(self, job: KaiJob) -> str:
        """In KAI's words."""
        why = _at(self._told, job_key(job))
        return "" if why is None else no_room(job, why) if isinstance(why, int) else why

    def news(self) -> list[KaiJob]:
        """The session is over: members that wait for another reason than after the last one."""
        before, now = self._told, self._says
        self._told, self._says = now, []
        if before == now:
            return []
        found: list[KaiJob] = []
        last = len(self.members)
        for place in sorted({key for key, _ in (*before, *now)}, reverse=True):
            first = bisect_left(self.members, (place,))
            why = _at(now, place)
            if why is not None and why != _at(before, place):
                found += [job for _, job in self.members[first:last]]
            last = first
        return found


def _at(answers: list[tuple[JobKey, Why]], key: JobKey) -> Why | None:
    at = bisect_right(answers, key, key=lambda answer: answer[0])
    return answers[at - 1][1] if at else None


class JobLine:
    """The groups of a leaf in one action, the next one first."""

    def __init__(self, alike: Iterable[AlikeJobs], others: Iterable[KaiJob]) -> None:
        self._heads: list[tuple[JobKey, int, KaiJob, AlikeJobs | None, int]] = []
        for job in others:
            self._heads.append((job_key(job), job.serial, job, None, 0))
        for group in alike:
            at = group.next(0)
            if at < len(group.members):
                self._heads.append(_head(group, at))
        heapify(self._heads)
        self.last: AlikeJobs | None = None  # those that the last one was of

    def __bool__(self) -> bool:
        return bool(self._heads)

    @property
    def head(self) -> KaiJob:
        """The next one."""
        return self._heads[0][2]

    def pop(self) -> KaiJob:
        """Takes the next one."""
        _, _, job, self.last, at = heappop(self._heads)
        self._goes_on(self.last, at + 1)
        return job

    def push(self, job: KaiJob) -> None:
        """It has more pods to place."""
        heappush(self._heads, (job_key(job), job.serial, job, None, 0))

    def drop(self, alike: AlikeJobs) -> None:
        """The others of these are out."""
        self._heads = [head for head in self._heads if head[3] is not alike]
        heapify(self._heads)

    def drop_run(self, alike: AlikeJobs) -> None:
        """Those of these are out that come before any other group."""
        if not self._heads or self._heads[0][3] is not alike:
            return
        heappop(self._heads)
        at = bisect_left(alike.members, (self._heads[0][0],)) if self._heads else len(alike.members)
        self._goes_on(alike, at)

    def _goes_on(self, alike: AlikeJobs | None, at: int) -> None:
        if alike is not None:
            at = alike.next(at)
            if at < len(alike.members):
                heappush(self._heads, _head(alike, at))


def _head(alike: AlikeJobs, at: int) -> tuple[JobKey, int, KaiJob, AlikeJobs | None, int]:
    key, job = alike.members[at]
    return key, job.serial, job, alike, at


class VictimLine:
    """Possible victims of a leaf, the last in order first."""

    last: AlikeJobs | None = None

    def __init__(self, jobs: Iterable[KaiJob]) -> None:
        self._jobs = sorted(jobs, key=job_key)

    def __bool__(self) -> bool:
        return bool(self._jobs)

    @property
    def head(self) -> KaiJob:
        """The next one."""
        return self._jobs[-1]

    def pop(self) -> KaiJob:
        """Takes the next one."""
        return self._jobs.pop()


def by_queue(jobs: Iterable[KaiJob]) -> dict[str, list[KaiJob]]:
    """By their leaves, the leaf of the first one first."""
    found: dict[str, list[KaiJob]] = {}
    for job in jobs:
        found.setdefault(job.queue, []).append(job)
    return found


def line_up(jobs: Iterable[KaiJob]) -> dict[str, JobLine]:
    """These groups, one by one."""
    return {queue: JobLine((), some) for queue, some in by_queue(jobs).items()}


def victims(jobs: Iterable[KaiJob]) -> dict[str, VictimLine]:
    """These groups as possible victims."""
    return {queue: VictimLine(some) for queue, some in by_queue(jobs).items()}
