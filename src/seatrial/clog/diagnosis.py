"""What a diagnosis says: the kind of clog, whom and what it is about, and whether that is proven or only likely.

It carries its evidence: who holds what and who waits for it, as edges, not only as a sentence.
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
UNKNOWN = "unknown"

# Every kind, with what it means in a sentence: docs/clogs.md and the report have it from here.
KINDS: Mapping[str, str] = {
    GANG_DEADLOCK: "gangs hold part of what they need and wait for what the others hold",
    NEVER_FITS: "it is larger than any node, than all nodes together, or than the quota",
    AGGREGATE_ADMISSION: "the queue let it go by what the cluster has in all, yet its pods fit no node, or not enough nodes",
    QUOTA_EXHAUSTED: "what holds the quota cannot finish, and nothing that waits fits into the rest",
    HEAD_OF_LINE: "the first of the queue does not fit, and what waits behind it would",
    CONTROLLER_DEAD: "a component died",
    NOT_ACTING: "somebody could act and does not",
    LIVELOCK: "the same workloads take turns in failing",
    UNKNOWN: "nothing moves, and the state does not say why",
}

QUOTA = "quota"  # where an edge ends that is about a queue and not about a node
LISTED = 100  # names and edges of each list that JSON has; the numbers beside them count all


@dataclass(frozen=True, slots=True)
class Edge:
    """`holder` holds `amount` of `where` (a node's name, or "quota"), and `waiter` waits for it."""

    holder: str
    where: str
    amount: Amounts
    waiter: str

    def as_json(self) -> dict[str, Any]:
        return {"holder": self.holder, "where": self.where, "amount": dict(self.amount), "waiter": self.waiter}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    kind: str
    summary: str  # one to three sentences
    workloads: tuple[str, ...] = ()  # those that are the clog
    waiters: tuple[str, ...] = ()  # those that wait because of them
    nodes: tuple[str, ...] = ()  # that they stand on
    amounts: Mapping[str, Amounts] = field(default_factory=dict)  # held, wanted, free … → amounts
    edges: tuple[Edge, ...] = ()
    proven: bool = False  # it follows from the state alone, as long as nobody takes back what was given
    can_finish: int = 0  # workloads that are not over and may still finish; 0: nothing at all will move any more
    words: tuple[str, ...] = ()  # what components said of it themselves

    def is_certain(self, releases: Sequence[int]) -> bool:
        """It can never resolve by itself, and nothing else will get on either. `releases`: time-outs of the stack, which take back
        what is held: they dissolve every knot, but make no room for what never fits."""
        if self.kind == CONTROLLER_DEAD:
            return True
        too_large = self.kind in (NEVER_FITS, AGGREGATE_ADMISSION) and not self.waiters
        return self.proven and not self.can_finish and (too_large or not releases)

    def as_json(self) -> dict[str, Any]:
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
