"""The stages a workload and its pods pass, in order.

A stage belongs to the workload or to its pods; a workload reaches a pod stage when its last pod does. A stack lists the
stages it has (`Stack.stages`), always in this order, with stages of its own put in between. Inside a trial a stage is the
index in that list, which is written into `trial.json`: no other file needs to be known to read the observations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    of: str  # "workload" or "pod"
    about: str
    general: bool = False  # one of the few steps everyone understands: in general.png


SUBMITTED = Stage("submitted", "workload", "the client sent it", general=True)
CREATED = Stage("created", "workload", "the server first showed it", general=True)
QUEUED = Stage("queued", "workload", "a queue knows it")
ADMITTED = Stage("admitted", "workload", "the queue let it go", general=True)
PODS_CREATED = Stage("pods_created", "pod", "the pod exists", general=True)
SCHEDULED = Stage("scheduled", "pod", "the pod is bound to a node", general=True)
RUNNING = Stage("running", "pod", "the pod's container started", general=True)
FINISHED = Stage("finished", "pod", "the pod's container finished", general=True)
LOST = Stage("lost", "pod", "the pod went before it finished; another takes its place")
COMPLETED = Stage("completed", "workload", "the Job is complete", general=True)
RELEASED = Stage("released", "workload", "the queue object is complete")
FAILED = Stage("failed", "workload", "it will not complete any more")
DELETED = Stage("deleted", "workload", "it was deleted before it completed")

# What `times.csv` has a column for, whether the stack has it or not. A lost pod's times count for nothing there.
STANDARD: tuple[Stage, ...] = (
    SUBMITTED, CREATED, QUEUED, ADMITTED, PODS_CREATED, SCHEDULED, RUNNING, FINISHED, COMPLETED, RELEASED, FAILED, DELETED,
)  # fmt: skip

# What a Job on plain Kubernetes passes.
PLAIN: tuple[Stage, ...] = (
    SUBMITTED, CREATED, PODS_CREATED, SCHEDULED, RUNNING, FINISHED, LOST, COMPLETED, FAILED, DELETED,
)  # fmt: skip


def index_of(stages: Sequence[Stage]) -> dict[str, int]:
    """Stage name to the number that stands for it in this trial."""
    return {stage.name: number for number, stage in enumerate(stages)}
