"""AppWrappers, and what watches of them, their Jobs and their pods show."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec

from seatrial.kube.resources import JOBS, PODS, Resource
from seatrial.kube.shapes import Condition, Conditions, Job, Object, Pod, condition
from seatrial.kube.watching import DELETED
from seatrial.model import fleet
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.model.lifecycle import ADMITTED, QUEUED, Stage
from seatrial.observe.observer import Observer, Watch, see_job, source_of
from seatrial.stacks.appwrapper import PODS_READY, RESOURCES_DEPLOYED, SUCCEEDED
from seatrial.stacks.coscheduling.objects import see_pod_and_why

APPWRAPPERS = Resource("workload.codeflare.dev", "v1beta2", "appwrappers", "AppWrapper")


class _Status(Conditions):
    phase: str = ""
    retries: int = 0


class WrapperV1beta2(Object):
    """The fields that are read of an AppWrapper."""

    status: _Status = msgspec.field(default_factory=_Status)


_PHASES: Mapping[str, tuple[Stage, ...]] = {
    "Suspended": (QUEUED,),
    "Resuming": (QUEUED, ADMITTED),
    "Running": (QUEUED, ADMITTED),
    "Succeeded": (QUEUED, ADMITTED, SUCCEEDED),
}
# With a queue in front, `queued` and `admitted` are the queue's.
_PHASES_BEHIND_A_QUEUE: Mapping[str, tuple[Stage, ...]] = {"Succeeded": (SUCCEEDED,)}
_TIMED_OUT = "InsufficientPodsReady"  # reason of Unhealthy: the pods did not exist or run in time


def see_appwrapper(
    phases: Mapping[str, tuple[Stage, ...]], observer: Observer, stamp: int, event: str, wrapper: WrapperV1beta2
) -> None:
    """Its phase and its condition PodsReady are stages; a reset is an eviction, with the reason of the condition Unhealthy."""
    name, source, status = wrapper.metadata.name, source_of(event), wrapper.status
    if event == DELETED:
        if not observer.has(name, "completed") and not observer.has(name, "failed"):
            observer.workload(name, "deleted", stamp, source)
        return
    observer.workload(name, "created", stamp, source, wrapper.metadata.creation_timestamp)
    ready, sick = (condition(status.conditions, kind) for kind in ("PodsReady", "Unhealthy"))
    for stage in phases.get(status.phase, ()):
        observer.workload(name, stage.name, stamp, source)
    if ready and ready.status == "True":
        observer.workload(name, PODS_READY.name, stamp, source, ready.last_transition_time)
    if sick and sick.status == "True":
        _see_unhealthy(observer, stamp, name, status, sick)
    elif status.phase == "Resuming":
        observer.says(name, "")


def _see_unhealthy(observer: Observer, stamp: int, name: str, status: _Status, sick: Condition) -> None:
    why = f"{sick.reason}: {sick.message}" if sick.message else sick.reason
    key = f"{status.retries} {sick.last_transition_time}"
    match status.phase:
        case "Resetting":
            reason = fleet.TIMED_OUT if sick.reason == _TIMED_OUT else fleet.OTHER
            observer.evict(name, reason, stamp, "", why, key, sick.last_transition_time)
            observer.says(name, f"reset {status.retries}: {why}")
        case "Resuming":
            observer.readmit(name, stamp, key)
            observer.says(name, "")
        case "Failed":
            observer.workload(name, "failed", stamp, said=sick.last_transition_time)
            observer.says(name, why)
        case "Running":
            observer.says(name, why)


def see_deployed_job(observer: Observer, stamp: int, event: str, job: Job) -> None:
    """A reset deletes the Job, and its AppWrapper goes on; a failed Job is the operator's to retry. The operator sets the condition
    ResourcesDeployed before it creates anything: the Job itself shows when it did."""
    if event == DELETED:
        return
    name = job.metadata.labels.get(WORKLOAD_LABEL, job.metadata.name)
    observer.workload(name, RESOURCES_DEPLOYED.name, stamp, source_of(event), job.metadata.creation_timestamp)
    if all(one.type != "Failed" for one in job.status.conditions):
        see_job(observer, stamp, event, job)


def watches(phases: Mapping[str, tuple[Stage, ...]] = _PHASES) -> tuple[Watch, ...]:
    """AppWrappers, their Jobs and pods."""
    return (
        Watch(APPWRAPPERS, WrapperV1beta2, partial(see_appwrapper, phases)),
        Watch(JOBS, Job, see_deployed_job),
        Watch(PODS, Pod, see_pod_and_why),
    )


WATCHES = watches()
WATCHES_BEHIND_A_QUEUE = watches(_PHASES_BEHIND_A_QUEUE)
