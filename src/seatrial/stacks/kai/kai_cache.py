"""The cache of KAI's scheduler: PodGroups as its sessions see them, from session to session.

A real cycle builds all of this anew. Here only groups are built anew whose pods changed, or that the last session did something to;
sums per queue are kept, and groups that wait stand in lines (job_lines.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from seatrial.model.plan import PodShape, Workload
from seatrial.sim.pods import ASSUMED, FINISHED, PENDING, RUNNING
from seatrial.sim.world import Sim
from seatrial.stacks.kai.fleet_rules import PREEMPTIBLE_BELOW
from seatrial.stacks.kai.job_lines import AlikeJobs, JobLine, by_queue
from seatrial.stacks.kai.kai_session import ACTIVE, RELEASING, KaiJob, KaiTask
from seatrial.stacks.kai.kai_session import PENDING as TASK_PENDING
from seatrial.stacks.kai.queue_shares import Amounts3, ShareTree, added
from seatrial.stacks.kai.queue_tree import ONLY, RESOURCES

Kind = tuple[str, tuple[float, ...], bool]  # queue, what a pod asks for, not preemptible


@dataclass(slots=True, eq=False)
class KaiGroup:
    """A PodGroup between sessions."""

    number: int
    workload: Workload
    created: int
    serial: int
    stale_since: int = -1
    events: int = 0
    written: str = ""  # its condition, and that of its pods
    waiting: int = 0  # pods that lack the condition


class KaiCache:
    """`column`: node → its column in the session's arrays."""

    def __init__(self, sim: Sim, releasing: set[int]) -> None:
        self._sim, self._releasing = sim, releasing
        self.groups: dict[int, KaiGroup] = {}
        self.jobs: dict[int, KaiJob] = {}
        self.column: Mapping[int, int] = {}
        self.placed: dict[int, KaiJob] = {}  # groups that have a place, or one that is being released
        self.stale: set[int] = set()  # groups that lacked pods in the last session
        self._lacking: dict[int, KaiJob] = {}  # groups with fewer places than `least`
        self._others: dict[int, KaiJob] = {}  # groups with pending pods that stand in no line of equal ones
        self._alike: dict[str, dict[tuple[int, int, int], AlikeJobs]] = {}
        self._sums: dict[Kind, list[int]] = {}  # active pods, those and pending ones, those that hold room
        self._changed: dict[int, None] = {}
        self._amounts: dict[int, tuple[PodShape, tuple[float, ...]]] = {}
        self._came = 0
        self.pods = 0  # of all groups that are there

    def add(self, number: int, workload: Workload, created: int) -> None:
        """The server has a new PodGroup."""
        self._came += 1
        self.groups[number] = KaiGroup(number, workload, created, self._came)
        self.pods += workload.pods

    def changed(self, number: int) -> None:
        """Something happened to its pods, or a session did something with them."""
        self._changed[number] = None

    def remove(self, number: int) -> None:
        """It is deleted or complete."""
        group = self.groups.pop(number, None)
        self.pods -= group.workload.pods if group else 0
        self._changed[number] = None

    def refresh(self, column: Mapping[int, int]) -> list[KaiJob]:
        """A session begins: builds groups that changed; these are those with pods."""
        if column is not self.column:
            self.column = column
            self._changed = dict.fromkeys((*self.jobs, *self._changed))
        built = []
        for number in self._changed:
            old = self.jobs.pop(number, None)
            if old is not None:
                self._leave(old)
            group = self.groups.get(number)
            if group is not None:
                job = self.jobs[number] = self._build(group)
                self._enter(job)
                built.append(job)
        self._changed.clear()
        return built

    def _build(self, group: KaiGroup) -> KaiJob:
        """The group as the informers show it (cache/cluster_info/cluster_info.go:305)."""
        workload, pods = group.workload, self._sim.pods
        shape = workload.shape
        known = self._amounts.get(id(shape))
        if known is None:
            amounts = tuple(float(shape.requests.get(name, 0)) for name in RESOURCES)
            known = self._amounts[id(shape)] = (shape, amounts)
        job = KaiJob(
            group.number, workload.name, workload.queue or ONLY, shape.priority, shape.priority >= PREEMPTIBLE_BELOW,
            group.created, workload.pods if workload.gang else 1, shape, known[1], serial=group.serial,
        )  # fmt: skip
        for pod in self._sim.pods_of(group.number):
            state = pods.state[pod]
            if state == PENDING:
                job.tasks.append(KaiTask(pod, job, TASK_PENDING))
            elif ASSUMED <= state <= RUNNING:
                status = RELEASING if pod in self._releasing else ACTIVE
                job.tasks.append(KaiTask(pod, job, status, self.column[pods.node[pod]]))
                job.active += status == ACTIVE
            elif state == FINISHED:
                job.finished += 1
        return job

    def _enter(self, job: KaiJob) -> None:
        waiting = job.waiting
        job.counted = (job.active, job.active + waiting, len(job.tasks) - waiting)
        self._count(job, 1)
        if len(job.tasks) > waiting:
            self.placed[job.number] = job
            if len(job.tasks) - waiting < job.least:
                self._lacking[job.number] = job
        elif waiting >= job.least:
            lines = self._alike.setdefault(job.queue, {})
            key = id(job.shape), job.least, waiting
            if key not in lines:
                lines[key] = AlikeJobs(waiting)
            lines[key].add(job)
            return
        if waiting:
            self._others[job.number] = job

    def _leave(self, job: KaiJob) -> None:
        self._count(job, -1)
        self.placed.pop(job.number, None)
        self._lacking.pop(job.number, None)
        self._others.pop(job.number, None)
        alike = job.alike
        if alike is not None:
            alike.remove(job)
            if not alike.members:
                del self._alike[job.queue][id(job.shape), job.least, alike.waiting]

    def _count(self, job: KaiJob, sign: int) -> None:
        sums = self._sums.setdefault((job.queue, tuple(job.amounts), job.firm), [0, 0, 0])
        for at, count in enumerate(job.counted):
            sums[at] += sign * count

    def count(self, tree: ShareTree) -> Amounts3:
        """Tells the queues what they have and ask for; returns what all pods hold."""
        held = [0.0] * len(RESOURCES)
        for (queue, amounts, firm), (active, asked, places) in self._sums.items():
            tree.allocate(queue, amounts, active, firm)
            tree.ask(queue, amounts, asked)
            held = added(held, [amount * places for amount in amounts])
        return held

    def lines(self, touched: Mapping[int, KaiJob], wanted: Callable[[KaiJob], bool]) -> dict[str, JobLine]:
        """InitializeWithJobs (actions/utils/input_jobs.go:22): groups with pending pods, and pods enough for `least`; the leaf
        of the oldest one first. `touched`: those that the session placed or tried to place. `wanted` sees one of equal ones."""
        others = {**self._others, **{number: job for number, job in touched.items() if not _still(job)}}
        ready = (
            job for job in others.values() if job.waiting and job.waiting + job.active >= job.least and wanted(job)
        )
        apart = by_queue(sorted(ready, key=attrgetter("serial")))
        alike: dict[str, list[AlikeJobs]] = {}
        oldest = {queue: jobs[0].serial for queue, jobs in apart.items()}
        for queue, lines in self._alike.items():
            for line in lines.values():
                if wanted(line.members[0][1]) and line.next(0) < len(line.members):
                    alike.setdefault(queue, []).append(line)
                    oldest[queue] = min(oldest.get(queue, self._came), line.oldest())
        ordered = sorted(oldest, key=oldest.__getitem__)
        return {queue: JobLine(alike.get(queue, ()), apart.get(queue, ())) for queue in ordered}

    def may_be_stale(self, touched: Mapping[int, KaiJob]) -> list[KaiJob]:
        """Groups that lack pods, or lacked them in the last session."""
        lacking = {number: self.jobs[number] for number in self.stale if number in self.jobs}
        return sorted({**lacking, **self._lacking, **touched}.values(), key=attrgetter("serial"))

    def news(self) -> Iterable[KaiJob]:
        """Groups in lines that wait for another reason than after the last session."""
        for lines in self._alike.values():
            for line in lines.values():
                yield from line.news()


def _still(job: KaiJob) -> bool:
    return job.alike is not None and job.alike.waits(job)
