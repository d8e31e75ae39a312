"""The state of a trial at one moment: who holds what, who waits. A cluster gives it, `clog` reads it, a snapshot keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from seatrial.model.plan import Amounts, PodShape, Taint


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node at one moment."""

    name: str
    group: str
    capacity: Amounts
    free: Amounts  # negative where more stands on it than it has
    open: bool = True  # it takes pods of every kind: ready, not cordoned
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False  # and ready: only pods that tolerate it may go there


@dataclass(frozen=True, slots=True)
class WorkloadState:
    """One that is not over: neither completed nor failed nor deleted."""

    number: int
    name: str
    phase: str
    size: int  # pods in all
    gang: bool
    shape: PodShape
    declares: Amounts | None
    duration: int  # ns
    stage: str  # the last one it has reached as a whole
    since: int  # ns: when it was submitted
    admitted: bool  # nothing but the scheduler stands between it and its nodes; always so where there is no queue
    nodes: tuple[int, ...] = ()  # where its unfinished pods stand (index in State.nodes), bound or held in permit
    held: int = 0  # of these, held by the scheduler for a pod that is not bound yet (known only on `sim`)
    running: int = 0  # of these, running
    waiting: int = 0  # pods that exist and stand nowhere
    finished: int = 0
    said: str = ""  # why it waits, in the words of its queue or scheduler
    due: int = 0  # ns: when what runs of it should have ended
    queue: str = ""  # of the fleet; empty where it has none

    @property
    def runs(self) -> bool:
        """Something of it will end by itself: a gang only when all of it runs."""
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
    quota: Amounts | None = None  # what the stack admits in all; None: it has no quota
    troubles: tuple[str, ...] = ()  # what components refuse or cannot do, in their own words
    queued: bool = False  # a queue stands before the scheduler, and `admitted` is its word
    dead: tuple[str, ...] = ()  # components that should run and do not
