"""Transitions from Events, which outlive their objects: for an hour by default.

Events of the scheduler have microseconds of its own clock, those of the Job controller whole seconds.
"""

from __future__ import annotations

from seatrial.kube import Client, WatchState, list_once
from seatrial.kube.resources import EVENTS
from seatrial.kube.shapes import Event
from seatrial.observe import time_sources
from seatrial.observe.observer import Observer

_CREATED = "Created pod: "


async def read_events(client: Client, observer: Observer, namespace: str) -> None:
    """Adds transitions from Events. The objects must have been listed before."""
    owners: dict[str, tuple[str, str]] = {}  # pod → its workload, when it was created
    bound: list[Event] = []

    def see(_stamp: int, _kind: str, event: Event | None) -> None:
        if event is None:
            return
        kind, name = event.regarding.kind, event.regarding.name
        if kind == "Pod" and event.reason == "Scheduled" and event.event_time:
            bound.append(event)
        elif kind == "Job" and name in observer.workloads:
            when = event.deprecated_first_timestamp or ""
            if event.reason == "SuccessfulCreate" and event.note.startswith(_CREATED):
                owners[event.note.removeprefix(_CREATED)] = (name, when)
            elif event.reason == "Completed" and when and not observer.has(name, "completed"):
                at, source = time_sources.said(when)
                observer.workload(name, "completed", at - observer.wall_epoch + observer.epoch, source)

    await list_once(client, EVENTS, Event, see, state=WatchState(EVENTS.plural), namespace=namespace)
    for event in bound:
        _see_bound(observer, event, owners)


def _see_bound(observer: Observer, event: Event, owners: dict[str, tuple[str, str]]) -> None:
    ledger, name, said = observer.ledger, event.regarding.name, event.event_time or ""
    pod = observer.pods.get(name)
    if pod is None and name in owners:  # the pod is gone
        workload, created = owners[name]
        pod = observer.pods[name] = ledger.pod(observer.workloads[workload], name, event.regarding.uid)
        if created:
            at, source = time_sources.said(created)
            ledger.note(at - observer.wall_epoch, pod, ledger.number["pods_created"], source)
    if pod is not None:
        at, source = time_sources.said(said)
        ledger.note(at - observer.wall_epoch, pod, ledger.number["scheduled"], source)
