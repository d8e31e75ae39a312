"""The stages a workload and its pods pass, in order.

A stage belongs to the workload or to its pods; a workload reaches a pod stage when its last pod does. A stack says which stages
it has (`lifecycle_with`), and places its own behind another (`after=`). Inside a trial a stage is its index in that list, which is
written into `trial.json`: whatever reads a study finds the stages there and needs no table of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage. `spent_on` says what the time until the stage was spent on."""

    name: str
    of: str  # "workload" or "pod"
    about: str
    general: bool = False  # a stage that all stacks share: in general.png
    spent_on: str = ""
    after: Stage | None = None  # of a stack's own stage: the one that it follows

    @property
    def step(self) -> str:
        """The name in reports of the time that ends with the stage."""
        return self.spent_on or self.name.replace("_", " ")


SUBMITTED = Stage("submitted", "workload", "the client sent it", general=True)
CREATED = Stage("created", "workload", "the server first showed it", general=True, spent_on="creating")
QUEUED = Stage("queued", "workload", "a queue knows it", spent_on="queueing")
ADMITTED = Stage("admitted", "workload", "the queue admitted it", general=True, spent_on="waiting for admission")
PODS_CREATED = Stage("pods_created", "pod", "the pod exists", general=True, spent_on="creating pods")
SCHEDULED = Stage("scheduled", "pod", "the pod is bound to a node", general=True, spent_on="scheduling")
RUNNING = Stage("running", "pod", "the pod's container started", general=True, spent_on="starting")
FINISHED = Stage("finished", "pod", "the pod's container finished", general=True, spent_on="running")
LOST = Stage("lost", "pod", "the pod went before it finished; another takes its place")
COMPLETED = Stage("completed", "workload", "the Job is complete", general=True, spent_on="completing")
RELEASED = Stage("released", "workload", "the queue object is complete", spent_on="releasing")
FAILED = Stage("failed", "workload", "it can no longer complete", spent_on="failing")
DELETED = Stage("deleted", "workload", "it was deleted before it completed", spent_on="deleting")

_ORDER: tuple[Stage, ...] = (
    SUBMITTED, CREATED, QUEUED, ADMITTED, PODS_CREATED, SCHEDULED, RUNNING, FINISHED, LOST, COMPLETED, RELEASED, FAILED, DELETED,
)  # fmt: skip

# Columns of `times.csv`, whether the stack has the stage or not. Times of lost pods do not count.
STANDARD: tuple[Stage, ...] = tuple(stage for stage in _ORDER if stage != LOST)

# What a Job on plain Kubernetes passes.
PLAIN: tuple[Stage, ...] = tuple(stage for stage in _ORDER if stage not in (QUEUED, ADMITTED, RELEASED))


def lifecycle_with(*more: Stage) -> tuple[Stage, ...]:
    """The stages of plain Kubernetes and `more`: standard stages in their usual place, a stack's own behind its `after`.

    Of several own stages that follow the same one, the first named comes first.
    """
    order = [stage for stage in _ORDER if stage in PLAIN or stage in more]
    own = [stage for stage in more if stage not in _ORDER]
    for stage in own:
        if stage.after not in order:
            anchor = stage.after.name if stage.after else None
            raise ValueError(f"the stage '{stage.name}' comes after {anchor!r}, which is not among the stack's stages")
        place = order.index(stage.after) + 1
        while place < len(order) and order[place] in own:
            place += 1
        order.insert(place, stage)
    return tuple(order)


# What a container runtime that tells its times adds, on nodes with kubelets.
SANDBOX = Stage("sandbox", "pod", "the pod has its sandbox and its network", spent_on="setting up the sandbox")
PULLED = Stage("pulled", "pod", "the pod's image is pulled", spent_on="pulling")
CONTAINER_CREATED = Stage("container_created", "pod", "the pod's container exists", spent_on="creating the container")


def with_kubelets(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """A stack's stages, and before `running` those that a container runtime tells."""
    place = list(stages).index(RUNNING)
    return (*stages[:place], SANDBOX, PULLED, CONTAINER_CREATED, *stages[place:])


def index_of(stages: Sequence[Stage]) -> dict[str, int]:
    """Stage name to the number that stands for it in this trial."""
    return {stage.name: number for number, stage in enumerate(stages)}
