"""`create`, `update`, `patch`, `get`, `list`, `watch`, `delete`, `delete-collection`: requests to the API server.

They ask for any object, as any user, by workers or at a rate.

The objects are manifests with `${i}`, `${namespace}` and `${payload}` in them, or those of a create phase (`of`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, runtime_checkable

from pydantic import BeforeValidator, Field

from seatrial.model.interfaces import RunningTrial, Tally
from seatrial.model.plan import CLIENT, LOAD_AGENT, Phase
from seatrial.scenario.actions.planning import Kind, Planning, WrittenPhase
from seatrial.scenario.field_types import (
    Count,
    Flag,
    LastingDuration,
    ObjectName,
    PayloadSize,
    Rate,
    Text,
    UserName,
    choice,
    whole_number,
)
from seatrial.scenario.fields import FieldMistake, Fields, alone, as_list, contradictory, one_of
from seatrial.scenario.manifests import ManifestMap
from seatrial.scenario.nearest import remedy_for
from seatrial.scenario.source import KeyPath

# Actions as the file has them → the verbs of the audit log.
VERBS = {
    "create": "create", "update": "update", "patch": "patch", "get": "get", "list": "list", "watch": "watch",
    "delete": "delete", "delete-collection": "deletecollection",
}  # fmt: skip
PATCHES = ("merge", "strategic", "apply")
# Fields that only some actions have.
_ONLY = {
    "payload": ("create",), "change": ("update", "patch"), "how": ("patch",), "across": ("list", "watch"),
    "from": ("list",), "limit": ("list",),
    "of": tuple(action for action in VERBS if action != "create"),
    "kinds": tuple(action for action in VERBS if action != "create"),
}  # fmt: skip
MOST_WORKERS = 10_000  # one connection each


class AsFields(Fields):
    """The identity that sends requests; flow schemas match identities."""

    user: UserName | None = Field(None, description="User name; the client's own (seatrial) if not given.")
    groups: list[UserName] = Field([], description="Groups of that user, beside system:authenticated.")
    user_agent: Text | None = Field(None, alias="user-agent", description="User agent of the requests.")
    service_account: ObjectName | None = Field(
        None, alias="service-account", description="A service account instead of a user; it is created for the trial."
    )

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[FieldMistake]:
        return [*contradictory(written, ("user", "service-account")), *alone(written, groups="user")]


def _identity(value: Any) -> Any:
    return {"user": value} if isinstance(value, str) else value


Identity = Annotated[AsFields, BeforeValidator(_identity, json_schema_input_type=UserName | AsFields)]
Manifests = Annotated[
    list[ManifestMap],
    Field(min_length=1),
    BeforeValidator(as_list, json_schema_input_type=ManifestMap | list[ManifestMap]),
]
PhaseNames = Annotated[
    list[Annotated[Text, one_of("phase", "submit or create phase")]],
    BeforeValidator(as_list, json_schema_input_type=str | list[str]),
]
Kinds = Annotated[list[Text], Field(min_length=1), BeforeValidator(as_list, json_schema_input_type=str | list[str])]


class RequestsFields(Fields):
    """Requests to the API server: create, update, patch, get, list, watch, delete, delete-collection."""

    name: ObjectName | None = Field(None, description="Name of the phase.")
    objects: Manifests | None = Field(
        None, description="Manifests, or one; texts may hold ${i}, ${namespace}, ${payload}."
    )
    of: PhaseNames | None = Field(None, description="A create phase whose objects are requested, instead of `objects`.")
    kinds: Kinds | None = Field(None, description="With `of`: only objects of these kinds.")
    count: Count | None = Field(None, description="Items in total, round-robin over the namespaces.")
    each: Count | None = Field(None, description="Items per namespace, instead of `count`.")
    namespaces: Count | None = Field(None, description="Only the first namespaces of the scenario, this many.")
    workers: Annotated[int, whole_number(1, MOST_WORKERS)] | None = Field(
        None, description="Parallel workers, each with one request in flight (default 1)."
    )
    rate: Rate | None = Field(
        None, description="Requests per second in an open loop, like 100/s; instead of `workers`."
    )
    lasting: LastingDuration | None = Field(
        None, alias="for", description="The longest duration; without `count` and `each`, repeats until then."
    )
    identity: Identity | None = Field(
        None,
        alias="as",
        description="The identity that sends them: a user, or {user, groups, user-agent, service-account}.",
    )
    retry: Flag = Field(True, description="false: rejected requests (429) are not retried.")
    payload: PayloadSize | None = Field(None, description="create: length of ${payload}, like 2k.")
    change: dict[str, Any] | None = Field(
        None, description="update: fields to merge into the objects; patch: the patch."
    )
    how: Annotated[str, choice("kind of patch", PATCHES)] = Field(
        "merge", description="patch: merge, strategic or apply."
    )
    across: Flag = Field(False, description="list, watch: true for one request across all namespaces.")
    source: Annotated[str, choice("source", ("etcd", "cache"))] = Field(
        "etcd", alias="from", description="list: etcd for a consistent read, cache for the server's watch cache."
    )
    limit: Count | None = Field(None, description="list: objects per page; all pages are fetched.")

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[FieldMistake]:
        return [
            *contradictory(written, ("count", "each"), ("workers", "rate"), ("of", "objects")),
            *alone(written, kinds="of"),
        ]


def contradictions(action: str, written: Mapping[str, Any]) -> list[FieldMistake]:
    """Missing fields of a request phase, and fields that its action does not have."""
    found = [
        FieldMistake(action, f"'{key}' cannot be combined with {action}", f"it is for {', '.join(actions)}", (key,))
        for key, actions in _ONLY.items()
        if key in written and action not in actions
    ]
    needs: list[tuple[str, ...]] = [("objects",) if action == "create" else ("of", "objects")]
    more: dict[str, tuple[str, ...]] = {"create": ("count", "each", "for"), "watch": ("for",), "patch": ("change",)}
    needs += [more[action]] if action in more else []
    for keys in needs:
        if not any(key in written for key in keys):
            wanted = " or ".join(f"'{key}'" for key in keys)
            found.append(FieldMistake(action, f"{action} needs {wanted}", "add it; docs/scenario.md has examples"))
    return found


@dataclass(frozen=True, slots=True)
class Requester:
    """The identity that sends a phase's requests. Without a user and a service account it is the client's own user."""

    name: str = CLIENT  # name in tables and `expect`
    user: str = ""
    groups: tuple[str, ...] = ()
    user_agent: str = LOAD_AGENT
    service_account: str = ""


@runtime_checkable
class SendsRequests(Protocol):
    """What request phases need of a cluster."""

    async def requests(self, phase: Requests) -> Tally:
        """Sends all requests and records each (record.request_log)."""


@dataclass(frozen=True, slots=True)
class Requests(Phase):
    """Requests for objects. An item is one request for each of `objects`, one after another; items are numbered from 0.

    Names and other texts in `objects` may hold `${i}` (the item's number), `${namespace}` and `${payload}`. Closed loop:
    `workers` send items, each its next when the last is answered. With `per_s` (open loop) items are due at that rate, and
    latency counts from when they were due. After `lasting` nothing more is sent.
    """

    verb: str  # as the audit log has it: create, update, patch, get, list, watch, delete, deletecollection
    objects: tuple[Mapping[str, Any], ...]  # list, watch, deletecollection: only apiVersion and kind count
    count: int | None  # items in total; None: until `lasting` ends
    namespaces: int = 1  # namespaces that are used, from the first; 0: list and watch across all
    each: int = 0  # consecutive items per namespace; 0: round-robin
    workers: int = 1
    per_s: float = 0.0
    lasting: int = 0
    identity: Requester = Requester()
    retry: bool = True  # retry a 429 after its Retry-After
    payload: int = 0  # length of `${payload}`
    of: str = ""  # the create phase whose objects these are
    made: int = 0  # number of items of that phase: item i asks for its i % made
    cached: bool = False  # lists come from the server's cache (resourceVersion=0)
    limit: int = 0  # of a page of a list; all pages are fetched
    change: Mapping[str, Any] | None = None  # merged into the manifests by update, or the patch
    how: str = "merge"  # of a patch: merge, strategic, apply

    needs = SendsRequests

    def place(self, item: int) -> tuple[int, int]:
        """The value of `${i}`, and the number of the namespace."""
        number = item % self.made if self.made else item
        return number, (number // self.each if self.each else number) % max(self.namespaces, 1)

    async def act(self, run: RunningTrial, cluster: SendsRequests) -> None:
        run.tallied(await cluster.requests(self))


_WHOLE_KINDS = ("list", "watch", "deletecollection")  # verbs that ask for all objects of a kind
_NUMBER = "${i}"
_REPLICAS = {
    "Pod": "",
    "Deployment": "replicas",
    "ReplicaSet": "replicas",
    "StatefulSet": "replicas",
    "Job": "parallelism",
}


def pods_of(manifest: Mapping[str, Any]) -> int:
    """The number of pods of an object."""
    field = _REPLICAS.get(manifest["kind"])
    if not field:
        return int(field is not None)
    spec = manifest.get("spec")
    replicas = spec.get(field, 1) if isinstance(spec, dict) else 1
    return replicas if isinstance(replicas, int) else 1


def plan(planning: Planning, phase: WrittenPhase) -> Requests:
    """The plan, checked against the rest of the scenario."""
    fields: RequestsFields = phase.fields
    verb = VERBS[phase.action]
    source = _source(planning, phase)
    namespaces = _namespaces(planning, phase, source)
    objects: tuple[Mapping[str, Any], ...] = tuple(fields.objects or ())
    made = each = payload = 0
    if source:
        objects = _of_kinds(planning, phase, source)
        payload = source.payload
        if verb not in _WHOLE_KINDS:
            made, each = source.count or 0, source.each
    elif fields.each and verb not in _WHOLE_KINDS:
        each = fields.each
    count = fields.count or (fields.each * namespaces if fields.each else None)
    if count is None and not fields.lasting:
        count = made or (1 if fields.across or verb not in _WHOLE_KINDS else namespaces)
    if verb == "create":
        payload = fields.payload or 0
        several = count is None or (each or -(-count // namespaces)) > 1
        _check_names(planning, phase.path, objects, several)
    return Requests(
        phase.name, verb, objects, count, 0 if fields.across else namespaces, each, fields.workers or 1, fields.rate or 0.0,
        fields.lasting or 0, _requester(fields.identity), fields.retry, payload, source.name if source else "", made,
        fields.source == "cache", fields.limit or 0, fields.change, fields.how,
    )  # fmt: skip


def _requester(fields: AsFields | None) -> Requester:
    if fields is None:
        return Requester()
    name = fields.user or fields.service_account or fields.user_agent or CLIENT
    return Requester(
        name, fields.user or "", tuple(fields.groups), fields.user_agent or LOAD_AGENT, fields.service_account or ""
    )


def _source(planning: Planning, phase: WrittenPhase) -> Requests | None:
    """The create phase whose objects are requested."""
    of = phase.fields.of
    if not of:
        return None
    created = {name: one for name, one in planning.planned(Requests).items() if one.verb == "create"}
    if len(of) > 1:
        planning.wrong((*phase.path, "of", 1), "objects of one create phase at a time", "make one phase for each")
    elif of[0] not in created:
        what = f"'{of[0]}' creates nothing before this"
        planning.wrong((*phase.path, "of"), what, "name a create phase before it")
    return created.get(of[0])


def _namespaces(planning: Planning, phase: WrittenPhase, source: Requests | None) -> int:
    there = max(planning.namespaces, 1)
    asked: int | None = phase.fields.namespaces
    if asked is not None and asked > there:
        what = f"{asked} namespaces, and the scenario makes {planning.namespaces or 'none'}"
        remedy = f"write `namespaces: {asked}` at the top level, or fewer here"
        planning.wrong((*phase.path, "namespaces"), what, remedy)
    return asked or (source.namespaces if source else there)


def _of_kinds(planning: Planning, phase: WrittenPhase, source: Requests) -> tuple[Mapping[str, Any], ...]:
    kinds = phase.fields.kinds
    have = [str(manifest["kind"]) for manifest in source.objects]
    for number, kind in enumerate(kinds or ()):
        if kind not in have:
            what = f"'{source.name}' makes no {kind}"
            planning.wrong((*phase.path, "kinds", number), what, remedy_for(kind, have))
    return tuple(manifest for manifest in source.objects if not kinds or manifest["kind"] in kinds)


def _check_names(planning: Planning, path: KeyPath, objects: tuple[Mapping[str, Any], ...], several: bool) -> None:
    """`several` objects of a manifest in one namespace need different names."""
    for number, manifest in enumerate(objects):
        name = (manifest.get("metadata") or {}).get("name")
        here = (*path, "objects", number) if len(objects) > 1 else (*path, "objects")
        if not isinstance(name, str):
            planning.wrong(here, "an object without metadata.name", 'add it, like metadata: {name: "a-${i}"}')
        elif several and _NUMBER not in name:
            what = f"all objects of a namespace would be called '{name}'"
            planning.wrong(here, what, f"write {_NUMBER} into the name: it is the number of the object")


def names(name: str, action: str, body: Mapping[str, Any]) -> dict[str, list[str]]:
    """A create phase and the identity that sends the requests."""
    given = body.get("as")
    identity = {"user": given} if isinstance(given, str) else given if isinstance(given, dict) else {}
    sender = [identity[key] for key in ("user", "service-account", "user-agent") if isinstance(identity.get(key), str)]
    creates = [name] if action == "create" else []
    return {"create": creates, "phase": creates, "identity": sender[:1]}


KIND = Kind(
    {
        "create": "Create objects.",
        "update": "Replace objects.",
        "patch": "Patch objects.",
        "get": "Get objects.",
        "list": "List objects.",
        "watch": "Watch objects.",
        "delete-collection": "Delete all objects of a kind with one request per namespace.",
    },
    RequestsFields,
    plan,
    names,
    contradictions,
)
