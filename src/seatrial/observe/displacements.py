"""Evictions seen from pods, where no object of a queue tells them: a pod that somebody deletes before its end says why in its
condition DisruptionTarget.

A workload is evicted once until it is whole again. The first of its bound pods that is taken makes the eviction, others that follow
belong to it: on plain Kubernetes the pods of one gang fall to one decision after another, within a tenth of a second. It is
readmitted when all its pods are bound again.

The pod that gets the place is nominated to the node before it is bound there. kube-scheduler deletes victims beside the request
that nominates, so the nomination may be seen a moment after the first victim is gone: it is told then. The Event "Preempted by pod
UID" says the same, but kube-scheduler drops Events in a burst of more than 1,000, and sends them late through its rate limit.
"""

from __future__ import annotations

from collections.abc import Callable

from seatrial.kube.shapes import Condition, Pod, condition
from seatrial.model.fleet import NODE_GONE, OTHER, PREEMPTED
from seatrial.model.units import SECOND
from seatrial.record.ledger import Ledger

_TYPE = "DisruptionTarget"
_NAMED_WITHIN = (
    2 * SECOND
)  # after the victim: both requests are sent in one scheduling cycle, through a client's rate limit
# By the reason of the condition (k8s.io/api/core/v1, and pkg/controller/tainteviction and podgc).
_REASONS = {
    "PreemptionByScheduler": PREEMPTED,
    "DeletionByTaintManager": NODE_GONE,
    "DeletionByPodGC": NODE_GONE,
}


def disruption(pod: Pod) -> Condition | None:
    """Why somebody deletes the pod before its end; None if nobody does, or it is not known."""
    found = condition(pod.status.conditions, _TYPE)
    return found if found and found.status == "True" else None


def eviction_reason(why: Condition) -> str:
    """The reason, in the words of model.fleet.REASONS."""
    return _REASONS.get(why.reason, OTHER)


class Displacements:
    """Nominations by node, and the number of evicted pods without a node."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        # The condition that says why a pod is taken, where a stack's scheduler writes another one than kube-scheduler.
        self.why: Callable[[Pod], Condition | None] = disruption
        # Reason and preemptor, where a stack's scheduler writes more into the condition than kube-scheduler does.
        self.read: Callable[[Condition], tuple[str, str] | None] = lambda _: None
        self._scheduled = ledger.number["scheduled"]
        self._nominated: dict[str, dict[str, tuple[int, str]]] = {}  # node → pods → priority, workload; the latest last
        self._node_of: dict[str, str] = {}  # pod → node that it is nominated to
        # node → evictions whose preemptor is not known yet: when, priority of the victim, whom to tell.
        self._unnamed: dict[str, list[tuple[int, int, Callable[[str], None]]]] = {}
        self._missing: dict[int, int] = {}  # workload → pods without a node, of those that were evicted by their pods

    def sees(self, pod: Pod, workload: str, stamp: int) -> None:
        """Keeps to which node a pod is nominated: the scheduler makes room for it there. A bound pod needs no more."""
        name, node = pod.metadata.name, "" if pod.spec.node_name else pod.status.nominated_node_name
        if self._node_of.get(name, "") != node:
            self.withdraw(name)
            if node:
                self._node_of[name] = node
                self._nominated.setdefault(node, {})[name] = (pod.spec.priority, workload)
                for at, priority, tell in self._unnamed.pop(node, ()):
                    if stamp <= at + _NAMED_WITHIN and pod.spec.priority > priority:
                        tell(workload)

    def not_named(self, victim: Pod, stamp: int, tell: Callable[[str], None]) -> None:
        """`tell` gets the workload that the victim was evicted for, if it is nominated in time."""
        self._unnamed.setdefault(victim.spec.node_name, []).append((stamp, victim.spec.priority, tell))

    def withdraw(self, pod: str) -> None:
        """The pod is nominated to no node any more."""
        node = self._node_of.pop(pod, "")
        if node:
            del self._nominated[node][pod]

    def preemptor(self, victim: Pod) -> str:
        """The workload of a higher priority whose pod was last nominated to the victim's node; empty if there is none."""
        nominated = self._nominated.get(victim.spec.node_name, {})
        higher = (name for priority, name in reversed(nominated.values()) if priority > victim.spec.priority)
        return next(higher, "")

    def begins(self, workload: int) -> bool:
        """A bound pod of the workload is taken; true if that evicts the workload. Called before the pod is lost."""
        if workload in self._ledger.evicted:
            return False
        self._missing[workload] = self._ledger.left(workload, self._scheduled)
        return True

    def told(self, why: Condition, victim: Pod) -> tuple[str, str]:
        """The reason of an eviction and its preemptor, if known."""
        reason, by = self.read(why) or (eviction_reason(why), "")
        return reason, by or (self.preemptor(victim) if reason == PREEMPTED else "")

    def lost(self, workload: int) -> None:
        """A bound pod of the workload is gone."""
        if workload in self._missing:
            self._missing[workload] += 1

    def bound(self, workload: int) -> bool:
        """A pod of the workload is bound; true if it was evicted and is whole again."""
        missing = self._missing.get(workload)
        if missing is None:
            return False
        self._missing[workload] = missing - 1
        if missing > 1:
            return False
        del self._missing[workload]
        return True
