"""All pods of a run as columns: a pod is a number, the same that the ledger has."""

from __future__ import annotations

from seatrial.model.plan import PodShape

PENDING, ASSUMED, BOUND, RUNNING, FINISHED, GONE = range(6)


class Pods:
    def __init__(self) -> None:
        self.job: list[int] = []  # number of the workload
        self.shape: list[PodShape] = []
        self.state = bytearray()
        self.node: list[int] = []

    def add(self, job: int, shape: PodShape) -> int:
        self.job.append(job)
        self.shape.append(shape)
        self.state.append(PENDING)
        self.node.append(-1)
        return len(self.job) - 1
