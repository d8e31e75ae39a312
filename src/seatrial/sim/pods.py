"""All pods of a run as columns: a pod is a number.

The pods of workloads are in the ledger too. Those of created objects (a Deployment's) are not, and their `job` is negative.
"""

from __future__ import annotations

from array import array
from dataclasses import replace

from seatrial.model.plan import PodShape

PENDING, ASSUMED, BOUND, RUNNING, FINISHED, GONE = range(6)


class Pods:
    """Columns by the number of the pod."""

    def __init__(self) -> None:
        self.job: list[int] = []  # number of the workload; negative: of a created object
        self.recorded = array("i")  # the ledger's number of the pod, −1: none
        self.shape: list[PodShape] = []
        self.state = bytearray()
        self.node: list[int] = []
        self.started = array("q")  # status.startTime: when the container was created or ran; 0: not yet
        self.have_priorities = True  # false: a stack's queue has them, and the pods have none
        self._plain: dict[int, PodShape] = {}  # shape → the same without a priority
        self.lowest = 1 << 31  # priority of all pods so far; only pods above it can preempt

    def add(self, job: int, shape: PodShape, recorded: int = -1) -> int:
        """Adds a pending pod; returns its number."""
        if not self.have_priorities:
            shape = self._without_priority(shape)
        self.job.append(job)
        self.recorded.append(recorded)
        self.shape.append(shape)
        self.state.append(PENDING)
        self.node.append(-1)
        self.started.append(0)
        self.lowest = min(self.lowest, shape.priority)
        return len(self.job) - 1

    def _without_priority(self, shape: PodShape) -> PodShape:
        """One instance per shape: hot paths compare them by identity."""
        plain = self._plain.get(id(shape))
        if plain is None:
            plain = self._plain[id(shape)] = replace(shape, priority=0) if shape.priority else shape
        return plain
