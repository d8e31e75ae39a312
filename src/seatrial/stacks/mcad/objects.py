"""AppWrappers, and what watches of AppWrappers and their Jobs show."""

from __future__ import annotations

import msgspec

from seatrial.kube.resources import JOBS, PODS, Resource
from seatrial.kube.shapes import Job, Object, Pod, Shape
from seatrial.kube.watching import DELETED
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.model.lifecycle import ADMITTED, QUEUED, RELEASED
from seatrial.observe.observer import Observer, Watch, see_job, see_pod, source_of
from seatrial.stacks.mcad import HEAD_OF_LINE

APPWRAPPERS = Resource("workload.codeflare.dev", "v1beta1", "appwrappers", "AppWrapper")


class _Condition(Shape):
    type: str = ""
    status: str = ""
    message: str = ""
    last_transition_micro_time: str | None = None


class _Status(Shape):
    state: str = ""
    conditions: list[_Condition] = msgspec.field(default_factory=list)


class AppWrapper(Object):
    """The fields that are read of an AppWrapper."""

    status: _Status = msgspec.field(default_factory=_Status)


_STAGES = {"Queueing": QUEUED, "HeadOfLine": HEAD_OF_LINE, "Completed": RELEASED}  # by condition


def see_appwrapper(observer: Observer, stamp: int, event: str, wrapper: AppWrapper) -> None:
    """Its conditions are stages; why it waits is the message of its last Backoff."""
    name = wrapper.metadata.name
    source = source_of(event)
    if event == DELETED:
        if not observer.has(name, "completed"):
            observer.workload(name, "deleted", stamp, source)
        return
    observer.workload(name, "created", stamp, source, wrapper.metadata.creation_timestamp)
    for condition in wrapper.status.conditions:
        if condition.status == "True" and condition.type in _STAGES:
            observer.workload(name, _STAGES[condition.type].name, stamp, source, condition.last_transition_micro_time)
    waits = [c.message for c in wrapper.status.conditions if c.type == "Backoff"]
    observer.says(name, waits[-1] if waits and not observer.has(name, ADMITTED.name) else "")


def see_dispatched_job(observer: Observer, stamp: int, event: str, found: Job) -> None:
    """MCAD admits a workload by creating its Job."""
    if event != DELETED:
        name = found.metadata.labels.get(WORKLOAD_LABEL, found.metadata.name)
        observer.workload(name, ADMITTED.name, stamp, source_of(event), found.metadata.creation_timestamp)
    see_job(observer, stamp, event, found)


WATCHES = (
    Watch(APPWRAPPERS, AppWrapper, see_appwrapper),
    Watch(JOBS, Job, see_dispatched_job),
    Watch(PODS, Pod, see_pod),
)
