"""From validated request phases to the plan: how many items where, and what contradicts the rest of the scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from seatrial.model.plan import CLIENT, LOAD_AGENT, Delay, FlowObject, Identity, Requests, Until
from seatrial.scenario import schema
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.places import Path
from seatrial.scenario.requests import VERBS, AsPart, RequestsPart

Wrong = Callable[[Path, str, str], None]
_WHOLE_KINDS = ("list", "watch", "deletecollection")  # what asks for all objects of a kind
_NUMBER = "${i}"
_REPLICAS = {
    "Pod": "",
    "Deployment": "replicas",
    "ReplicaSet": "replicas",
    "StatefulSet": "replicas",
    "Job": "parallelism",
}


def identity(part: AsPart | None) -> Identity:
    if part is None:
        return Identity()
    name = part.user or part.service_account or part.user_agent or CLIENT
    return Identity(
        name, part.user or "", tuple(part.groups), part.user_agent or LOAD_AGENT, part.service_account or ""
    )


def flow_objects(parts: Iterable[schema.FlowObject]) -> tuple[FlowObject, ...]:
    return tuple(FlowObject(part.name, dict(part.__pydantic_extra__ or {})) for part in parts)


def delay(part: schema.DelayPart | None) -> Delay | None:
    return Delay(part.lasting, tuple(part.of or ()), part.webhook) if part else None


def pods_of(manifest: Mapping[str, Any]) -> int:
    """How many pods an object stands for."""
    field = _REPLICAS.get(manifest["kind"])
    if not field:
        return int(field is not None)
    spec = manifest.get("spec")
    replicas = spec.get(field, 1) if isinstance(spec, dict) else 1
    return replicas if isinstance(replicas, int) else 1


class RequestBuilder:
    """The request phases of one set-up, in order. `created` are the create phases so far."""

    def __init__(self, namespaces: int, wrong: Wrong) -> None:
        self.namespaces = namespaces
        self.wrong = wrong
        self.created: dict[str, Requests] = {}

    def requests(self, path: Path, name: str, action: str, part: RequestsPart) -> Requests:
        verb = VERBS[action]
        there = max(self.namespaces, 1)
        namespaces = part.namespaces or there
        if namespaces > there:
            what = f"{namespaces} namespaces, and the scenario makes {self.namespaces or 'none'}"
            self.wrong((*path, "namespaces"), what, f"write `namespaces: {namespaces}` at the top level, or fewer here")
        source = self._source(path, part)
        objects: tuple[Mapping[str, Any], ...] = tuple(part.objects or ())
        made = each = payload = 0
        if source:
            objects = self._of_kinds(path, source, part.kinds)
            payload = source.payload
            if not part.namespaces:
                namespaces = source.namespaces
            if verb not in _WHOLE_KINDS:
                made, each = source.count or 0, source.each
        elif part.each and verb not in _WHOLE_KINDS:
            each = part.each
        count = part.count or (part.each * namespaces if part.each else None)
        if count is None and not part.lasting:
            count = made or (1 if part.across or verb not in _WHOLE_KINDS else namespaces)
        if verb == "create":
            payload = part.payload or 0
            self._check_names(path, objects, count, each, namespaces)
        found = Requests(
            name, verb, objects, count, 0 if part.across else namespaces, each, part.workers or 1, part.rate or 0.0,
            part.lasting or 0, identity(part.identity), part.retry, payload, source.name if source else "", made,
            part.source == "cache", part.limit or 0,
            part.change, part.how,
        )  # fmt: skip
        if verb == "create":
            self.created[name] = found
        return found

    def until(self, path: Path, name: str, part: schema.WaitPart) -> Until:
        phases = [self.created[phase] for phase in part.of or self.created if phase in self.created]
        for number, named in enumerate(part.of or ()):
            if named not in self.created:
                self.wrong((*path, "of", number), f"'{named}' creates nothing before this", "name a create phase")
        if not phases and not part.of:
            self.wrong(path, "nothing is created before this wait", "put a create before it")
        count = 0
        if part.stage in ("available", "pods-running"):
            deployments = part.stage == "available"
            for phase in phases:
                per_item = sum(
                    int(manifest["kind"] == "Deployment") if deployments else pods_of(manifest)
                    for manifest in phase.objects
                )
                count += per_item * (phase.count or 0)
            if phases and not count and all(phase.count for phase in phases):
                what = "Deployments" if deployments else "pods"
                self.wrong(path, f"there will be no {what} to wait for", "name another create phase, or another state")
            count = part.count or count
        return Until(
            name, part.stage, tuple(phase.name for phase in phases), count, tuple(part.kinds or ()), part.timeout,
            part.otherwise == "go-on",
        )  # fmt: skip

    def _source(self, path: Path, part: RequestsPart) -> Requests | None:
        if not part.of:
            return None
        if len(part.of) > 1:
            self.wrong((*path, "of", 1), "objects of one create phase at a time", "make one phase for each")
        elif part.of[0] not in self.created:
            self.wrong((*path, "of"), f"'{part.of[0]}' creates nothing before this", "name a create phase before it")
        return self.created.get(part.of[0])

    def _of_kinds(self, path: Path, source: Requests, kinds: list[str] | None) -> tuple[Mapping[str, Any], ...]:
        have = [str(manifest["kind"]) for manifest in source.objects]
        for number, kind in enumerate(kinds or ()):
            if kind not in have:
                self.wrong((*path, "kinds", number), f"'{source.name}' makes no {kind}", remedy_for(kind, have))
        return tuple(m for m in source.objects if not kinds or m["kind"] in kinds)

    def _check_names(
        self, path: Path, objects: tuple[Mapping[str, Any], ...], count: int | None, each: int, namespaces: int
    ) -> None:
        several = count is None or (each or -(-count // namespaces)) > 1
        for number, manifest in enumerate(objects):
            name = (manifest.get("metadata") or {}).get("name")
            here = (*path, "objects", number) if len(objects) > 1 else (*path, "objects")
            if not isinstance(name, str):
                self.wrong(here, "an object without metadata.name", 'add it, like metadata: {name: "a-${i}"}')
            elif several and _NUMBER not in name:
                what = f"all objects of a namespace would be called '{name}'"
                self.wrong(here, what, f"write {_NUMBER} into the name: it is the number of the object")
