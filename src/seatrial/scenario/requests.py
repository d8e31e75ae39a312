"""The phases that ask the API server for something: any object, any verb, as anyone, by workers or at a rate.

What is asked for are `objects`, manifests with `${i}`, `${namespace}` and `${payload}` in them, or those `of` a create phase.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from seatrial.scenario import notation
from seatrial.scenario.manifests import ManifestMap
from seatrial.scenario.notation import (
    Count,
    Flag,
    Found,
    LastingDuration,
    ObjectName,
    PayloadSize,
    Rate,
    Text,
    UserName,
    choice,
    one_of,
    whole_number,
)
from seatrial.scenario.part import Part

# Actions as the file has them → the verbs of the audit log.
VERBS = {
    "create": "create", "update": "update", "patch": "patch", "get": "get", "list": "list", "watch": "watch",
    "delete": "delete", "delete-collection": "deletecollection",
}  # fmt: skip
PATCHES = ("merge", "strategic", "apply")
# What only some of them have.
_ONLY = {
    "payload": ("create",), "change": ("update", "patch"), "how": ("patch",), "across": ("list", "watch"),
    "from": ("list",), "limit": ("list",),
    "of": tuple(action for action in VERBS if action != "create"),
    "kinds": tuple(action for action in VERBS if action != "create"),
}  # fmt: skip
MOST_WORKERS = 10_000  # each has a connection of its own while it waits


class AsPart(Part):
    """As whom requests are sent: flow schemas tell identities apart."""

    user: UserName | None = Field(None, description="User name; the client's own (seatrial) if not given.")
    groups: list[UserName] = Field([], description="Groups of that user, beside system:authenticated.")
    user_agent: Text | None = Field(None, alias="user-agent", description="User agent of the requests.")
    service_account: ObjectName | None = Field(
        None, alias="service-account", description="A service account instead of a user; it is made for the trial."
    )

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[Found]:
        found = []
        if "user" in written and "service-account" in written:
            found.append(Found("service-account", "'service-account' and 'user' contradict each other", "keep one"))
        if "groups" in written and "user" not in written:
            found.append(Found("groups", "'groups' goes with 'user'", "name the user who is in them"))
        return found


def _identity(value: Any) -> Any:
    return {"user": value} if isinstance(value, str) else value


Identity = Annotated[AsPart, BeforeValidator(_identity, json_schema_input_type=UserName | AsPart)]
Manifests = Annotated[
    list[ManifestMap],
    Field(min_length=1),
    BeforeValidator(notation.as_list, json_schema_input_type=ManifestMap | list[ManifestMap]),
]
PhaseNames = Annotated[
    list[Annotated[Text, one_of("phase", "submit or create phase")]],
    BeforeValidator(notation.as_list, json_schema_input_type=str | list[str]),
]
Kinds = Annotated[
    list[Text], Field(min_length=1), BeforeValidator(notation.as_list, json_schema_input_type=str | list[str])
]


class RequestsPart(Part):
    """Requests to the API server: create, update, patch, get, list, watch, delete, delete-collection."""

    name: ObjectName | None = Field(None, description="Name of the phase.")
    objects: Manifests | None = Field(
        None, description="Manifests, or one; texts may hold ${i}, ${namespace}, ${payload}."
    )
    of: PhaseNames | None = Field(None, description="A create phase whose objects are meant, instead of `objects`.")
    kinds: Kinds | None = Field(None, description="With `of`: only objects of these kinds.")
    count: Count | None = Field(None, description="How often in all; the namespaces take turns.")
    each: Count | None = Field(None, description="How often in each namespace, instead of `count`.")
    namespaces: Count | None = Field(None, description="Only in the first so many of the scenario's namespaces.")
    workers: Annotated[int, whole_number(1, MOST_WORKERS)] | None = Field(
        None, description="So many side by side, each sends its next when the last is answered (1 if not given)."
    )
    rate: Rate | None = Field(
        None, description="So many per second, answered or not, like 100/s; instead of `workers`."
    )
    lasting: LastingDuration | None = Field(
        None, alias="for", description="No longer than this; without `count` and `each`, again and again."
    )
    identity: Identity | None = Field(
        None, alias="as", description="As whom: a user, or {user, groups, user-agent, service-account}."
    )
    retry: Flag = Field(True, description="false: what is rejected (429) is not sent again.")
    payload: PayloadSize | None = Field(None, description="create: how long the text ${payload} is, like 2k.")
    change: dict[str, Any] | None = Field(None, description="update: what is laid over the objects; patch: the patch.")
    how: Annotated[str, choice("kind of patch", PATCHES)] = Field(
        "merge", description="patch: merge, strategic or apply."
    )
    across: Flag = Field(False, description="list, watch: true for all namespaces at once.")
    source: Annotated[str, choice("source", ("etcd", "cache"))] = Field(
        "etcd", alias="from", description="list: etcd for what is true now, cache for what the server has at hand."
    )
    limit: Count | None = Field(None, description="list: at most so many per page; all pages are fetched.")

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[Found]:
        found = [
            Found(second, f"'{second}' and '{first}' contradict each other", "remove one of them")
            for first, second in (("count", "each"), ("workers", "rate"), ("of", "objects"))
            if first in written and second in written
        ]
        if "kinds" in written and "of" not in written:
            found.append(Found("kinds", "'kinds' goes with 'of'", "add `of`, or remove it"))
        return found


def about_action(action: str, written: Mapping[str, Any]) -> list[Found]:
    """What a request phase lacks or has too much for its action."""
    found = [
        Found(action, f"'{key}' does not go with {action}", f"it is for {', '.join(actions)}", (key,))
        for key, actions in _ONLY.items()
        if key in written and action not in actions
    ]
    needs: list[tuple[str, ...]] = [("objects",) if action == "create" else ("of", "objects")]
    more: dict[str, tuple[str, ...]] = {"create": ("count", "each", "for"), "watch": ("for",), "patch": ("change",)}
    needs += [more[action]] if action in more else []
    for keys in needs:
        if not any(key in written for key in keys):
            wanted = " or ".join(f"'{key}'" for key in keys)
            found.append(Found(action, f"{action} needs {wanted}", "add it; docs/scenario.md has examples"))
    return found
