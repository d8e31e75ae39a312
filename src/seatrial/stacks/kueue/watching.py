"""What Kueue shows on a real cluster: Workloads with their conditions, and queues that are not active."""

from __future__ import annotations

import msgspec

from seatrial.kube.resources import JOBS, PODS
from seatrial.kube.shapes import Condition, Job, Object, Pod, Shape, condition
from seatrial.kube.watching import DELETED
from seatrial.observe.observer import Observer, Watch, see_job, see_pod, source_of
from seatrial.stacks.kueue.queues import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS


class Conditions(Shape):
    conditions: list[Condition] = msgspec.field(default_factory=list)


class KueueWorkload(Object):
    status: Conditions = msgspec.field(default_factory=Conditions)


class LocalQueue(Object):
    status: Conditions = msgspec.field(default_factory=Conditions)


class ClusterQueue(Object):
    status: Conditions = msgspec.field(default_factory=Conditions)


_STAGES = {"QuotaReserved": "quota_reserved", "Admitted": "admitted", "Finished": "released"}
_MISSING = "Inadmissible"  # the reason for which Kueue does not look at a workload at all


def see_workload(observer: Observer, stamp: int, event: str, workload: KueueWorkload) -> None:
    owners = [owner.name for owner in workload.metadata.owner_references if owner.kind == "Job"]
    if not owners or event == DELETED:
        return
    name = owners[0]
    source = source_of(event)
    observer.workload(name, "queued", stamp, source, workload.metadata.creation_timestamp)
    for kind, stage in _STAGES.items():
        found = condition(workload.status.conditions, kind)
        if found and found.status == "True":
            observer.workload(name, stage, stamp, source, found.last_transition_time)
    reserved = condition(workload.status.conditions, "QuotaReserved")
    waits = reserved is not None and reserved.status != "True"
    observer.says(name, reserved.message if reserved and waits else "")
    if reserved and waits and reserved.reason == _MISSING:
        observer.trouble(f"Kueue: {reserved.message}")


def see_cluster_queue(observer: Observer, stamp: int, event: str, queue: ClusterQueue) -> None:  # noqa: ARG001
    _note_inactive(observer, "ClusterQueue", queue.metadata.name, queue.status.conditions)


def see_local_queue(observer: Observer, stamp: int, event: str, queue: LocalQueue) -> None:  # noqa: ARG001
    _note_inactive(observer, "LocalQueue", queue.metadata.name, queue.status.conditions)


def _note_inactive(observer: Observer, kind: str, name: str, conditions: list[Condition]) -> None:
    """Said once more when it is over: a queue is inactive for a moment whenever it is made."""
    active = condition(conditions, "Active")
    text = f"{kind} {name} is not active"
    if active and active.status == "False":
        observer.trouble(f"{text} ({active.reason}): {active.message}")
    else:
        observer.well(text)


def watches() -> tuple[Watch, ...]:
    told: set[str] = set()  # Jobs whose status says that they are suspended

    def see_held_job(observer: Observer, stamp: int, event: str, job: Job) -> None:
        """Thousands of suspended Jobs keep the Job controller busy for minutes: that it goes on is worth knowing."""
        held = condition(job.status.conditions, "Suspended")
        if held and job.metadata.name not in told:
            told.add(job.metadata.name)
            observer.ledger.achieved(stamp - observer.epoch)
        see_job(observer, stamp, event, job)

    return (
        Watch(JOBS, Job, see_held_job),
        Watch(PODS, Pod, see_pod),
        Watch(WORKLOADS, KueueWorkload, see_workload, labelled=False),
        Watch(CLUSTER_QUEUES, ClusterQueue, see_cluster_queue),
        Watch(LOCAL_QUEUES, LocalQueue, see_local_queue),
    )
