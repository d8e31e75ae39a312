"""A session of KAI's scheduler: nodes and PodGroups as its snapshot has them, and a statement that can be taken back.

What a statement does to a pod (pkg/scheduler/framework/statement.go, v0.12.0): `allocate` takes idle room, `evict` makes room that
is being released, `pipeline` takes room that is being released, for a pod that will be bound in a later session. Nodes are in the
order of their names: among nodes of the same score KAI takes the first (session.go:476).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seatrial.model.fit import admits, ignores_cordons
from seatrial.model.plan import PodShape
from seatrial.sim.nodes import Nodes
from seatrial.stacks.kai.queue_shares import Amounts3, ShareTree
from seatrial.stacks.kai.queue_tree import RESOURCES

if TYPE_CHECKING:
    from seatrial.stacks.kai.job_lines import AlikeJobs

PENDING, ALLOCATED, PIPELINED, ACTIVE, RELEASING = range(5)  # ACTIVE: Binding, Bound or Running
HOLDS = (ALLOCATED, PIPELINED, ACTIVE)  # activeAllocatedStatuses (api/pod_status/pod_status.go:57)
# plugins/scores/scores.go
DENSITY, CPU_ONLY_NODE, AVAILABLE = 9.0, 10.0, 100.0
APART = 100_000.0  # K8sPlugins, per pod of the workload on the node: preferred anti-affinity of `spread`
Mask = NDArray[np.bool_]
Room = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class KaiTask:
    """A pod in a session. `virtual`: its status exists in this session only."""

    pod: int
    job: KaiJob
    status: int
    node: int = -1
    held: int = -1  # node that has a copy of it being released
    virtual: bool = False


@dataclass(slots=True, eq=False)
class KaiJob:
    """A PodGroup in a session."""

    number: int
    name: str
    queue: str
    priority: int
    firm: bool  # not preemptible
    created: int  # seconds
    least: int  # minMember
    shape: PodShape
    amounts: Amounts3  # of one pod, of RESOURCES
    tasks: list[KaiTask] = field(default_factory=list)
    active: int = 0  # tasks that hold a place
    finished: int = 0  # pods that succeeded
    said: str = ""  # why it could not be placed
    serial: int = 0  # as it came
    counted: tuple[int, int, int] = (0, 0, 0)  # what the cache's sums have of it
    alike: AlikeJobs | None = None  # those that it waits among

    def to_allocate(self, real: bool) -> list[KaiTask]:
        """GetTasksToAllocate (api/podgroup_info/allocation_info.go:27): what `least` lacks, or one beyond it."""
        found = [
            task
            for task in self.tasks
            if task.status == PENDING or (not real and task.status == RELEASING and task.virtual)
        ]
        return found[: self.least - self.active if self.active < self.least else 1]

    def to_evict(self) -> list[KaiTask]:
        """GetTasksToEvict (eviction_info.go:14): all, or one of those beyond `least`."""
        holding = [task for task in self.tasks if task.status in HOLDS]
        return holding[-1:] if len(holding) > self.least else holding

    def asks(self, real: bool = False) -> list[float]:
        """What its next pods ask for."""
        count = len(self.to_allocate(real))
        return [amount * count for amount in self.amounts]

    @property
    def waiting(self) -> int:
        """Pending pods."""
        return sum(task.status == PENDING for task in self.tasks)


class KaiNodes:
    """What every node has: for all sessions. Columns are nodes in the order of their names."""

    def __init__(self, nodes: Nodes, names: Sequence[str], placement: str) -> None:
        self._nodes, self._spreads = nodes, placement == "spread"
        self.order = sorted(range(len(nodes)), key=names.__getitem__)
        self.column = {node: column for column, node in enumerate(self.order)}
        self.layouts = nodes.layouts
        self.capacity: Room = np.array(nodes.capacity, dtype=np.int64)[:, self.order]
        self._row = {name: row for row, name in enumerate(nodes.resources)}
        self.open = np.array([nodes.is_open(node) for node in self.order], dtype=bool)
        self._shapes: dict[int, tuple[PodShape, Mask, list[tuple[int, int]]]] = {}
        gpus = self._row.get(RESOURCES[2])
        self.without_gpus = np.ones(len(self.order), dtype=bool) if gpus is None else self.capacity[gpus] == 0

    def free(self) -> Room:
        """What no pod holds."""
        room: Room = np.array(self._nodes.free, dtype=np.int64)[:, self.order]
        return room

    def needs(self, shape: PodShape) -> tuple[Mask, list[tuple[int, int]]]:
        """Nodes whose labels and taints admit the pod, and what it takes: rows and amounts."""
        known = self._shapes.get(id(shape))
        if known is None:
            nodes, ignores = self._nodes, ignores_cordons(shape)
            mask = [nodes.is_open(node, ignores) and admits(nodes.groups[node], shape) for node in self.order]
            needs = [(self._row[name], amount) for name, amount in shape.requests.items() if amount]
            known = (shape, np.array(mask, dtype=bool), [*needs, (self._row["pods"], 1)])
            self._shapes[id(shape)] = known
        return known[1], known[2]

    def placed_by(self, shape: PodShape) -> int:
        """The row that placement looks at (plugins/nodeplacement/nodeplacement.go:83)."""
        return self._row[RESOURCES[2]] if shape.requests.get(RESOURCES[2]) else self._row["cpu"]

    def density(self, row: int, left: Room, among: Mask) -> NDArray[np.float64]:
        """pack.go:61 or spread.go:16: the fullest nodes first, or the emptiest."""
        has = self.capacity[row]
        if self._spreads:
            shares: NDArray[np.float64] = np.where(has > 0, left / np.maximum(has, 1), 0.0)
            return shares
        there = left[(has > 0) & among]
        least, most = (int(there.min()), int(there.max())) if len(there) else (0, 0)
        if not most:
            return np.zeros(len(has))
        if least == most:
            return np.where(has > 0, DENSITY, 0.0)
        packed: NDArray[np.float64] = np.where(has > 0, DENSITY * (1 - (left - least) / (most - least)), 0.0)
        return packed


class KaiSession:
    """One cycle. Every change goes into `log`, so that it can be taken back. `jobs`: those that have a place, or one that is being
    released."""

    def __init__(self, nodes: KaiNodes, tree: ShareTree, jobs: Mapping[int, KaiJob]) -> None:
        self.nodes, self.tree = nodes, tree
        self._jobs = jobs
        self.touched: dict[int, KaiJob] = {}  # groups that the session placed, tried to place, or evicted
        self.idle = nodes.free()
        self.left = self.idle.copy()  # idle and being released
        for job in jobs.values():
            _, needs = nodes.needs(job.shape)
            for task in job.tasks:
                if task.status == RELEASING:
                    for row, amount in needs:
                        self.left[row, task.node] += amount
        self.everywhere = np.ones(len(nodes.order), dtype=bool)
        self.log: list[tuple[Any, ...]] = []
        self.evictions: dict[KaiTask, None] = {}  # of the statement at hand
        self.looked = 0  # nodes that were scored: what the session costs
        self.found = 0  # pods of the last group without room that found a node

    def placed(self) -> list[KaiJob]:
        """Groups that have a place now, as they came."""
        known = {**self._jobs, **self.touched}
        return sorted((job for job in known.values() if job.active), key=attrgetter("serial"))

    # operations

    def allocate(self, task: KaiTask, node: int) -> None:
        """Takes idle room."""
        self.log.append((self._unplace, task, task.status, task.node, task.virtual))
        self._take(task, node, idle=True)
        self._become(task, ALLOCATED)
        task.node, task.virtual = node, True

    def pipeline(self, task: KaiTask, node: int) -> None:
        """Takes room that is being released; a pod that was evicted from this node stays there instead (statement.go:162)."""
        if task.status == RELEASING and task.held == node:
            self.evictions.pop(task)
            self.log.append((self.evict, task))
            self._stay(task)
            return
        self.log.append((self._unplace, task, task.status, task.node, task.virtual))
        self._take(task, node, idle=False)
        self._become(task, PIPELINED)
        task.node, task.virtual = node, True

    def evict(self, task: KaiTask) -> None:
        """Its room is being released."""
        self.log.append((self._unevict, task))
        task.held = task.node
        for row, amount in self.nodes.needs(task.job.shape)[1]:
            self.left[row, task.node] += amount
        self._become(task, RELEASING)
        task.virtual = True
        self.evictions[task] = None

    def roll_back(self, mark: int = 0) -> None:
        """Takes back everything since the log had this length."""
        while len(self.log) > mark:
            undo, *arguments = self.log.pop()
            before = len(self.log)
            undo(*arguments)
            del self.log[before:]

    def commit(self) -> list[KaiTask]:
        """Ends the statement; returns the pods that it evicts."""
        self.log.clear()
        evicted = list(self.evictions)
        self.evictions.clear()
        return evicted

    def to_pipelined(self, tasks: Sequence[KaiTask]) -> None:
        """ConvertAllAllocatedToPipelined (statement.go:462)."""
        for task in tasks:
            if task.status == ALLOCATED and task.virtual:
                self.log.append((self._give_idle, task, -1))
                self._give_idle(task, 1)
                self._become(task, PIPELINED)

    def _give_idle(self, task: KaiTask, sign: int) -> None:
        """What was taken from idle room is taken from room that is being released instead: `left` stays."""
        for row, amount in self.nodes.needs(task.job.shape)[1]:
            self.idle[row, task.node] += sign * amount
        if sign < 0:
            self._become(task, ALLOCATED)

    def _take(self, task: KaiTask, node: int, idle: bool, sign: int = 1) -> None:
        for row, amount in self.nodes.needs(task.job.shape)[1]:
            self.left[row, node] -= sign * amount
            if idle:
                self.idle[row, node] -= sign * amount

    def _unplace(self, task: KaiTask, status: int, node: int, virtual: bool) -> None:
        self._take(task, task.node, task.status == ALLOCATED, -1)
        self._become(task, status)
        task.node, task.virtual = node, virtual

    def _unevict(self, task: KaiTask) -> None:
        self.evictions.pop(task)
        self._stay(task)

    def _stay(self, task: KaiTask) -> None:
        for row, amount in self.nodes.needs(task.job.shape)[1]:
            self.left[row, task.held] -= amount
        self._become(task, ACTIVE)
        task.node, task.held, task.virtual = task.held, -1, False

    def _become(self, task: KaiTask, status: int) -> None:
        """Counts with the status; queues hear of places that are taken and lost (proportion.go:433)."""
        job = task.job
        self.touched[job.number] = job
        change = (status in HOLDS) - (task.status in HOLDS)
        task.status = status
        if change:
            job.active += change
            self.tree.allocate(job.queue, job.amounts, change, job.firm)

    # placing

    def place_job(self, job: KaiJob, among: Mask, pipeline_only: bool) -> bool:
        """AllocateJob (actions/common/allocate.go:18): all that its `least` lacks, or nothing."""
        self.touched[job.number] = job
        tasks = job.to_allocate(not pipeline_only)
        amounts = [amount * len(tasks) for amount in job.amounts]
        refused = self.tree.over_limit(job.queue, amounts, job.firm)
        if refused:
            job.said = job.said if pipeline_only else refused
            return False
        mark = len(self.log)
        for placed, task in enumerate(tasks):
            if not self._place(task, among, pipeline_only):
                self.roll_back(mark)
                if not pipeline_only:
                    self.found = placed
                    job.said = no_room(job, placed)
                return False
        return True

    def _place(self, task: KaiTask, among: Mask, pipeline_only: bool) -> bool:
        """allocateTask (allocate.go:129): the best node with room, counting what is being released."""
        shape = task.job.shape
        mask, needs = self.nodes.needs(shape)
        self.looked += len(mask)
        fits = mask & among
        idle = np.ones(len(mask), dtype=bool)
        for row, amount in needs:
            fits &= self.left[row] >= amount
            idle &= self.idle[row] >= amount
        if not fits.any():
            return False
        row = self.nodes.placed_by(shape)
        scores = self.nodes.density(row, self.left[row], among) + AVAILABLE * idle
        if not shape.requests.get(RESOURCES[2]):
            scores += CPU_ONLY_NODE * self.nodes.without_gpus
        if shape.spread:
            for sibling in task.job.tasks:
                if sibling.status in HOLDS:
                    scores[sibling.node] -= APART
        node = int(np.where(fits, scores, -np.inf).argmax())
        if idle[node] and not pipeline_only:
            self.allocate(task, node)
        else:
            self.pipeline(task, node)
        return True


def no_room(job: KaiJob, placed: int) -> str:
    """handleFailedTaskAllocation (actions/common/allocate.go:199)."""
    if job.least > 1:
        return (
            f"PodSchedulingErrors: Resources were found for {placed} pods while {job.least} are required for gang scheduling. "
            "Additional pods cannot be scheduled due to: no nodes with enough resources were found"
        )
    return (
        f"PodSchedulingErrors: Resources were not found for pod {job.name}: no nodes with enough resources were found"
    )
