"""The API server's audit log: the same transitions, with the server's own microseconds.

A watch shows when we saw a change, the log when the request that made it was answered. Times of the log win where both are
known; the difference of watch times to the log is part of a trial's validity.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from seatrial.kube.shapes import nanoseconds
from seatrial.observe import time_sources
from seatrial.observe.observer import Observer

T = TypeVar("T")


def policy(group: str, plural: str, users: Sequence[str] = (), groups: Sequence[str] = ()) -> Mapping[str, Any]:
    """The audit policy. `group` and `plural` are of the object created per workload; requests of `users` and `groups` are logged
    without bodies.

    Bodies are logged only where they have the transition: the phase of a pod, the completion of a Job, a generated pod name.
    """
    others = [{"level": "Metadata", "users": list(users)}] if users else []
    others += [{"level": "Metadata", "userGroups": list(groups)}] if groups else []
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "omitManagedFields": True,
        "rules": [
            {"level": "Request", "verbs": ["update", "patch"], "resources": [
                {"group": "", "resources": ["pods/status"]}, {"group": "batch", "resources": ["jobs/status"]}]},
            {"level": "RequestResponse", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods"]}]},
            {"level": "Metadata", "verbs": ["create"], "resources": [
                {"group": "", "resources": ["pods/binding"]}, {"group": group, "resources": [plural]}]},
            *others,
            {"level": "None"},
        ],
    }  # fmt: skip


class _Ref(msgspec.Struct, rename="camel"):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: list[_Condition] = []


class _Meta(msgspec.Struct):
    name: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    status: _Status = msgspec.field(default_factory=_Status)


class _Code(msgspec.Struct):
    code: int = 0
    reason: str = ""


class _User(msgspec.Struct):
    username: str = ""


class _Seen(msgspec.Struct, rename="camel"):
    """A line of the log, with the fields that describe the request."""

    verb: str
    user: _User
    request_received_timestamp: str
    stage_timestamp: str
    user_agent: str = ""
    object_ref: _Ref = msgspec.field(default_factory=_Ref)
    response_status: _Code = msgspec.field(default_factory=_Code)


@dataclass(frozen=True, slots=True)
class AuditedRequest:
    """One request in the log, with times in wall-clock nanoseconds."""

    user: str
    agent: str
    verb: str
    resource: str  # with its subresource
    name: str
    code: int
    reason: str
    at: int
    took: int


class _Event(msgspec.Struct, rename="camel"):
    verb: str
    stage_timestamp: str
    object_ref: _Ref = msgspec.field(default_factory=_Ref)
    response_status: _Code = msgspec.field(default_factory=_Code)
    request_object: _Object | None = None
    response_object: _Object | None = None


_Answered = dict[int, dict[int, int]]  # workload or pod → stage → when the request that made it was answered
_NEVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Agreement:
    """Differences of watch times to the log, in nanoseconds, over `count` transitions."""

    count: int
    median: int
    p99: int

    def as_json(self) -> dict[str, Any]:
        """As in trial.json."""
        return {"transitions": self.count, "median_ms": self.median / 1e6, "p99_ms": self.p99 / 1e6}


def transitions(log: Path, namespaces: Collection[str]) -> Iterator[tuple[int, str, str]]:
    """(wall-clock nanoseconds, object's name, stage) of every transition; an incomplete last line is skipped."""
    for event in _read(log, _Event):
        if event.response_status.code < 300 and event.object_ref.namespace in namespaces:
            for stage in _stages(event):
                yield nanoseconds(event.stage_timestamp), _name(event), stage


def _read(log: Path, shape: type[T]) -> Iterator[T]:
    decode = msgspec.json.Decoder(shape).decode
    with log.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                return
            with contextlib.suppress(msgspec.MsgspecError):
                yield decode(line)


def _name(event: _Event) -> str:
    return event.object_ref.name or (event.response_object.metadata.name if event.response_object else "")


def _stages(event: _Event) -> list[str]:
    kind = (event.verb, event.object_ref.resource, event.object_ref.subresource)
    if kind == ("create", "pods", ""):
        return ["pods_created"]
    if kind[::2] == ("create", ""):  # the policy logs no other creates
        return ["created"]
    if kind == ("create", "pods", "binding"):
        return ["scheduled"]
    status = event.request_object.status if event.request_object else _Status()
    if kind[1:] == ("pods", "status"):
        return {"Running": ["running"], "Succeeded": ["finished"], "Failed": ["finished"]}.get(status.phase, [])
    if kind[1:] == ("jobs", "status"):
        done = [c.type for c in status.conditions if c.status == "True" and c.type in ("Complete", "Failed")]
        return ["completed" if kind == "Complete" else "failed" for kind in done]
    return []


def merge(log: Path, namespaces: Collection[str], observer: Observer, wall_epoch: int) -> Agreement:
    """Adds the log's times of observed transitions to the ledger. `wall_epoch` is the epoch on the wall clock."""
    ledger = observer.ledger
    of_pods = {stage.name: stage.of == "pod" for stage in ledger.stages}
    off: list[int] = []
    pods: _Answered = {}
    workloads: _Answered = {}
    for wall, name, stage in transitions(log, namespaces):
        number = ledger.number.get(stage)
        of_pod = of_pods.get(stage, False)
        thing = (observer.pods if of_pod else observer.workloads).get(name)
        if number is None or thing is None:
            continue
        answered = (pods if of_pod else workloads).setdefault(thing, {})
        seen = observer.when(thing, number)
        if seen is None or number in answered:
            continue
        answered[number] = wall - wall_epoch
        off.append(abs(answered[number] - seen))
    first, ends = ledger.number["created"], {ledger.number["completed"], ledger.number["failed"]}
    for pod, answered in pods.items():
        workload = workloads.get(ledger.pod_workload[pod], {})
        end = min((at for number, at in workload.items() if number in ends), default=_NEVER)
        for number, at in _in_order(answered, end):
            ledger.note(at, pod, number, time_sources.AUDIT, observer.places.get(pod, -1))
            if first in workload:
                workload[first] = min(workload[first], at)
    for thing, answered in workloads.items():
        for number, at in _in_order(answered, _NEVER):
            ledger.note(at, thing, number, time_sources.AUDIT)
    values = np.asarray(off or [0])
    return Agreement(len(off), int(np.median(values)), int(np.percentile(values, 99)))


def _in_order(answered: dict[int, int], end: int) -> Iterator[tuple[int, int]]:
    """Stages, last first, none later than the next: on a busy machine a request is sometimes answered milliseconds after
    another component has acted on its change."""
    for number in sorted(answered, reverse=True):
        end = min(end, answered[number])
        yield number, end


def requests(log: Path, wanted: Callable[[str], bool]) -> Iterator[AuditedRequest]:
    """All logged requests of the wanted users; an incomplete last line is skipped."""
    for seen in _read(log, _Seen):
        if wanted(seen.user.username):
            ref, status = seen.object_ref, seen.response_status
            at = nanoseconds(seen.request_received_timestamp)
            yield AuditedRequest(
                seen.user.username, seen.user_agent, seen.verb,
                f"{ref.resource}/{ref.subresource}" if ref.subresource else ref.resource, ref.name, status.code,
                status.reason, at, nanoseconds(seen.stage_timestamp) - at,
            )  # fmt: skip
