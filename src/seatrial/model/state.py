"""The state of a trial at one moment: holders and waiters. Clusters return it, `clog` reads it, snapshots store it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from seatrial.model.fleet import Fleet
from seatrial.model.plan import Amounts, PodShape, Taint


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node at one moment."""

    name: str
    group: str
    capacity: Amounts
    free: Amounts  # negative if the node is overcommitted
    open: bool = True  # it takes pods of every kind: ready, not cordoned
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False  # cordoned and ready: takes only pods that tolerate it


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """An unfinished workload: neither completed nor failed nor deleted."""

    number: int
    name: str
    phase: str
    size: int  # pods in all
    gang: bool
    shape: PodShape
    declares: Amounts | None
    duration: int  # ns
    stage: str  # the last stage that all of it has reached
    since: int  # ns: when it was submitted
    admitted: bool  # by the queue; always true without a queue
    nodes: tuple[int, ...] = ()  # nodes of its unfinished pods (index in State.nodes), bound or held in permit
    held: int = 0  # of these, held by the scheduler for a pod that is not bound yet (in permit: known only on `sim`)
    running: int = 0  # of these, running
    waiting: int = 0  # pods that exist and have no node
    finished: int = 0
    said: str = ""  # why it waits, in the words of its queue or scheduler
    due: int = 0  # ns: when its running pods should end
    queue: str = ""  # of the fleet; empty where it has none

    @property
    def runs(self) -> bool:
        """Whether it makes progress by running; a gang only when all its pods run."""
        return self.running + self.finished >= self.size if self.gang else self.running > 0

    @property
    def starting(self) -> int:
        """Pods that are bound and do not run yet."""
        return len(self.nodes) - self.held - self.running


@dataclass(frozen=True, slots=True)
class State:
    """The cluster at one moment, as diagnoses see it."""

    at: int
    nodes: tuple[NodeState, ...]
    workloads: tuple[WorkloadState, ...]
    quota: Amounts | None = None  # what the stack admits in total; None: no quota
    troubles: tuple[str, ...] = ()  # problems that components report, in their words
    queued: bool = False  # the stack has a queue, and `admitted` is its decision
    dead: tuple[str, ...] = ()  # components that should run and do not
    fleet: Fleet = field(default_factory=Fleet)  # with queues, quotas are theirs and `quota` is None
    counts_bound: bool = False  # queues are the scheduler's: a pod counts from when it has a node
