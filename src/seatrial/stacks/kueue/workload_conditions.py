"""Reads watches of Kueue's objects: stages of workloads, evictions and their reasons, inactive queues.

An eviction is the condition Evicted with status True; it stays True until quota is reserved again. Its message names the workload
that gets the place by UID. Kueue counts evictions in the same update (`status.schedulingStats`), so each is known by its number.
"""

from __future__ import annotations

import re
from functools import partial

import msgspec

from seatrial.kube.resources import JOBS, PODS
from seatrial.kube.shapes import Condition, Conditioned, Conditions, Job, Object, Pod, Shape, condition
from seatrial.kube.watching import DELETED
from seatrial.model import fleet
from seatrial.model.lifecycle import ADMITTED, QUEUED, RELEASED
from seatrial.observe.observer import Observer, Watch, see_job, see_pod, source_of
from seatrial.stacks.kueue import QUOTA_RESERVED
from seatrial.stacks.kueue.kinds import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS

_STAGES = {"QuotaReserved": QUOTA_RESERVED, "Admitted": ADMITTED, "Finished": RELEASED}  # by condition
_MISSING = "Inadmissible"  # reason of a workload whose queue is missing or inactive: Kueue does not look at it
# Reasons of the conditions Evicted and Preempted (apis/kueue/v1beta2/workload_types.go). A preempted workload has both.
_EVICTED_BY = {"PodsReadyTimeout": fleet.TIMED_OUT, "NodeFailures": fleet.NODE_GONE, "Preempted": fleet.PREEMPTED}
_PREEMPTED_BY = {
    "InClusterQueue": fleet.PREEMPTED,
    "InCohortReclamation": fleet.RECLAIMED,
    "InCohortReclaimWhileBorrowing": fleet.RECLAIMED,
    "InCohortFairSharing": fleet.FAIR_SHARING,
}
_PREEMPTOR = re.compile(r"\(UID: ([\w-]+),")  # pkg/scheduler/preemption/preemption.go: preemptionMessage


class EvictionCount(Shape):
    """How often a workload was evicted for one reason."""

    count: int = 0


class SchedulingStats(Shape):
    """Kueue's counters of a workload."""

    evictions: list[EvictionCount] = msgspec.field(default_factory=list)


class WorkloadStatus(Conditions):
    """Status of a Workload."""

    scheduling_stats: SchedulingStats = msgspec.field(default_factory=SchedulingStats)


class QueuedWorkload(Object):
    """A Workload of Kueue."""

    status: WorkloadStatus = msgspec.field(default_factory=WorkloadStatus)


class WorkloadSight:
    """Sees Workloads. A Workload is named by Kueue; ours is the object that owns it."""

    def __init__(self, owner: str = JOBS.kind) -> None:
        self._owner = owner
        self._names: dict[str, str] = {}  # UID of a Workload → name of the workload; a message names the other by UID

    def see(self, observer: Observer, stamp: int, event: str, workload: QueuedWorkload) -> None:
        """Records its stages, why it waits, and its evictions."""
        name = next((owner.name for owner in workload.metadata.owner_references if owner.kind == self._owner), "")
        if not name or event == DELETED:
            return
        self._names[workload.metadata.uid] = name
        source, conditions = source_of(event), workload.status.conditions
        observer.workload(name, QUEUED.name, stamp, source, workload.metadata.creation_timestamp)
        for kind, stage in _STAGES.items():
            found = condition(conditions, kind)
            if found and found.status == "True":
                observer.workload(name, stage.name, stamp, source, found.last_transition_time)
        _see_wait(observer, name, condition(conditions, "QuotaReserved"))
        self._see_place(observer, stamp, name, workload.status)

    def _see_place(self, observer: Observer, stamp: int, name: str, status: WorkloadStatus) -> None:
        """Records that the workload lost its place, or has one again."""
        evicted, admitted = (condition(status.conditions, kind) for kind in ("Evicted", "Admitted"))
        number = sum(counted.count for counted in status.scheduling_stats.evictions)
        if evicted and evicted.status == "True":
            preempted = condition(status.conditions, "Preempted")
            reason = _EVICTED_BY.get(evicted.reason, fleet.OTHER)
            if evicted.reason == "Preempted" and preempted:
                reason = _PREEMPTED_BY.get(preempted.reason, fleet.PREEMPTED)
            by = _PREEMPTOR.search(evicted.message)
            preemptor = self._names.get(by[1], "") if by else ""
            message = evicted.message or evicted.reason
            observer.evict(name, reason, stamp, preemptor, message, _key(number, evicted), evicted.last_transition_time)
        elif admitted and admitted.status == "True":
            observer.readmit(name, stamp, _key(number, admitted), admitted.last_transition_time)


def _key(number: int, seen: Condition) -> str:
    """Tells an eviction, or the admission after it, from others of the workload, in every process that sees it."""
    return f"{number} {seen.last_transition_time} {seen.reason}"


def _see_wait(observer: Observer, name: str, reserved: Condition | None) -> None:
    waits = reserved is not None and reserved.status != "True"
    observer.says(name, reserved.message if reserved and waits else "")
    if reserved and waits and reserved.reason == _MISSING:
        observer.trouble(f"Kueue: {reserved.message}")


def see_queue(kind: str, observer: Observer, stamp: int, event: str, queue: Conditioned) -> None:  # noqa: ARG001
    """A queue that is not active admits nothing. Every queue is inactive for a moment after it was created."""
    active = condition(queue.status.conditions, "Active")
    text = f"{kind} {queue.metadata.name} is not active"
    if active and active.status == "False":
        observer.trouble(f"{text} ({active.reason}): {active.message}")
    else:
        observer.well(text)


def watches() -> tuple[Watch, ...]:
    """Jobs, pods, Workloads and queues."""
    told: set[str] = set()  # Jobs whose status says that they are suspended

    def see_held_job(observer: Observer, stamp: int, event: str, job: Job) -> None:
        """The Job controller needs minutes for thousands of suspended Jobs: each status it writes is progress."""
        held = condition(job.status.conditions, "Suspended")
        if held and job.metadata.name not in told:
            told.add(job.metadata.name)
            observer.ledger.achieved(stamp - observer.epoch)
        see_job(observer, stamp, event, job)

    return (
        Watch(JOBS, Job, see_held_job),
        Watch(PODS, Pod, see_pod),
        *queue_watches(JOBS.kind),
    )


def queue_watches(owner: str) -> tuple[Watch, ...]:
    """Queues, and the Workloads of objects of the kind `owner`."""
    return (
        Watch(WORKLOADS, QueuedWorkload, WorkloadSight(owner).see, labelled=False),
        *(Watch(kind, Conditioned, partial(see_queue, kind.kind)) for kind in (CLUSTER_QUEUES, LOCAL_QUEUES)),
    )
