"""A diagnosis: the kind of clog, the workloads and nodes it is about, and whether it is proven or only likely.

It carries its evidence as edges of the wait-for graph (who holds what, who waits for it), not only as a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seatrial.model.plan import Amounts

GANG_DEADLOCK = "gang deadlock"
NEVER_FITS = "never fits"
AGGREGATE_ADMISSION = "aggregate admission"
QUOTA_EXHAUSTED = "quota exhausted"
HEAD_OF_LINE = "head of line"
CONTROLLER_DEAD = "controller dead"
NOT_ACTING = "not acting"
LIVELOCK = "livelock"
STILL_RUNNING = "still running"
UNKNOWN = "unknown"

# Every kind with its meaning; docs/clogs.md and the report read this table.
KINDS: Mapping[str, str] = {
    GANG_DEADLOCK: "gangs hold part of the nodes they need and wait for nodes that the others hold",
    NEVER_FITS: "the workload is larger than any node, than all nodes together, or than the quota",
    AGGREGATE_ADMISSION: "the queue admitted the workload by the cluster's totals, but its pods fit on no node or on too few nodes",
    QUOTA_EXHAUSTED: "the workloads that hold the quota cannot finish, and no waiting workload fits into the rest",
    HEAD_OF_LINE: "the first workload of the queue does not fit, and workloads behind it would",
    CONTROLLER_DEAD: "a component died",
    NOT_ACTING: "a component could act and does not",
    LIVELOCK: "the same workloads fail in turn, or evict each other again and again",
    STILL_RUNNING: "running workloads have not ended yet, and the rest waits for them; only when a wait timed out",
    UNKNOWN: "nothing moves, and the state does not explain it",
}

QUOTA = "quota"  # `where` of an edge that is about a queue and not about a node
LISTED = 100  # names and edges per list in JSON; the numbers beside them count all


@dataclass(frozen=True, slots=True)
class Edge:
    """`holder` holds `amount` of `where` (a node's name, or "quota"), and `waiter` waits for it."""

    holder: str
    where: str
    amount: Amounts
    waiter: str

    def as_json(self) -> dict[str, Any]:
        """The edge as in trial.json."""
        return {"holder": self.holder, "where": self.where, "amount": dict(self.amount), "waiter": self.waiter}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a trial makes no progress, or why work is left."""

    kind: str
    summary: str  # one to three sentences
    workloads: tuple[str, ...] = ()  # those that are the clog
    waiters: tuple[str, ...] = ()  # those that wait because of them
    nodes: tuple[str, ...] = ()  # that they stand on
    amounts: Mapping[str, Amounts] = field(default_factory=dict)  # held, wanted, free … → amounts
    edges: tuple[Edge, ...] = ()
    proven: bool = False  # it follows from the state alone, unless a component takes back what was given
    can_finish: int = 0  # unfinished workloads that may still finish; 0: nothing will move any more
    words: tuple[str, ...] = ()  # messages of components about it

    def is_certain(self, releases: Sequence[int]) -> bool:
        """Whether it can never resolve by itself and nothing else can progress. `releases`: timeouts of the stack that take back
        what is held; they dissolve every knot, but make no room for what never fits."""
        if self.kind == CONTROLLER_DEAD:
            return True
        too_large = self.kind in (NEVER_FITS, AGGREGATE_ADMISSION) and not self.waiters
        return self.proven and not self.can_finish and (too_large or not releases)

    def as_json(self) -> dict[str, Any]:
        """The diagnosis as in trial.json, with long lists cut."""
        return {
            "kind": self.kind,
            "summary": self.summary,
            "proven": self.proven,
            "workloads": list(self.workloads[:LISTED]),
            "workloads_in_all": len(self.workloads),
            "waiters": list(self.waiters[:LISTED]),
            "waiters_in_all": len(self.waiters),
            "can_finish": self.can_finish,
            "nodes": list(self.nodes[:LISTED]),
            "nodes_in_all": len(self.nodes),
            "amounts": {name: dict(amounts) for name, amounts in self.amounts.items()},
            "edges": [edge.as_json() for edge in self.edges[:LISTED]],
            "words": list(self.words),
        }
