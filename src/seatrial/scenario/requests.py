"""The phases that ask the API server for something: any object, any verb, as anyone, by workers or at a rate.

What is asked for are `objects`, manifests with `${i}`, `${namespace}` and `${payload}` in them, or those `of` a create phase.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field

from seatrial.scenario import notation
from seatrial.scenario.notation import (
    Count,
    Flag,
    Found,
    LastingDuration,
    ManifestMap,
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
CreateName = Annotated[Text, one_of("create", "create phase")]
Kinds = Annotated[
    list[Text], Field(min_length=1), BeforeValidator(notation.as_list, json_schema_input_type=str | list[str])
]


class RequestPart(Part):
    """What all of these have."""

    needs: ClassVar[tuple[str, ...]] = ("of", "objects")  # one of these
    name: ObjectName | None = Field(None, description="Name of the phase.")
    objects: Manifests | None = Field(None, description="Manifests, or one.")
    count: Count | None = Field(None, description="How often in all; over the namespaces in turn.")
    each: Count | None = Field(None, description="How often in each namespace, instead of `count`.")
    namespaces: Count | None = Field(None, description="Only in the first so many of the scenario's namespaces.")
    workers: Annotated[int, whole_number(1, MOST_WORKERS)] | None = Field(
        None,
        description="So many side by side, each sends its next request when the last is answered (1 if not given).",
    )
    rate: Rate | None = Field(
        None, description="Requests per second, answered or not, like 100/s; instead of `workers`."
    )
    lasting: LastingDuration | None = Field(
        None, alias="for", description="No longer than this; without a count, again and again."
    )
    identity: Identity = Field(
        AsPart.model_construct(groups=[], user=None, user_agent=None, service_account=None),
        alias="as",
        description="A user, or {user, groups, user-agent, service-account}.",
    )
    retry: Flag = Field(True, description="false: what is rejected is not sent again.")

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[Found]:
        found = [
            Found(second, f"'{second}' and '{first}' contradict each other", "remove one of them")
            for first, second in (("count", "each"), ("workers", "rate"), ("of", "objects"))
            if first in written and second in written
        ]
        if not any(key in written for key in cls.needs):
            wanted = " or ".join(f"'{key}'" for key in cls.needs)
            found.append(Found("", f"it needs {wanted}", "say what is asked for"))
        if "kinds" in written and "of" not in written:
            found.append(Found("kinds", "'kinds' goes with 'of'", "add `of`, or remove it"))
        return found


class CreatePart(RequestPart):
    """Create objects."""

    needs = ("objects",)
    payload: PayloadSize | None = Field(None, description="How long the text is that stands for ${payload}, like 2k.")

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[Found]:
        found = super().contradictions(written)
        if not any(key in written for key in ("count", "each", "for")):
            found.append(Found("", "create needs 'count', 'each' or 'for'", "say how many, like count: 100"))
        return found


class OfPart(RequestPart):
    """What asks for objects that a create phase made."""

    of: CreateName | None = Field(None, description="The create phase whose objects are meant.")
    kinds: Kinds | None = Field(None, description="With `of`: only objects of these kinds.")


class UpdatePart(OfPart):
    """Replace objects."""

    change: dict[str, Any] = Field({}, description="What is laid over the manifests.")


class PatchPart(OfPart):
    """Patch objects."""

    change: dict[str, Any] = Field(description="The patch.")
    how: Annotated[str, choice("kind of patch", PATCHES)] = Field("merge", description="merge, strategic or apply.")


class GetPart(OfPart):
    """Get objects."""


class ListPart(OfPart):
    """List objects, in each namespace or in all."""

    across: Flag = Field(False, description="true: over all namespaces at once.")
    source: Annotated[str, choice("source", ("etcd", "cache"))] = Field(
        "etcd", alias="from", description="etcd: what is true now; cache: what the server has at hand."
    )
    limit: Count | None = Field(None, description="At most so many per page; all pages are fetched.")


class WatchPart(OfPart):
    """Watch objects, in each namespace or in all."""

    across: Flag = Field(False, description="true: over all namespaces at once.")

    @classmethod
    def contradictions(cls, written: Mapping[str, Any]) -> list[Found]:
        found = super().contradictions(written)
        if "for" not in written:
            found.append(Found("", "watch needs 'for'", "say how long, like for: 30s"))
        return found


class DeletePart(RequestPart):
    """Delete workloads, finished or not, or objects."""

    of: PhaseNames | None = Field(None, description="Submit phases whose workloads are deleted, or a create phase.")
    kinds: Kinds | None = Field(None, description="With a create phase: only objects of these kinds.")


class DeleteCollectionPart(OfPart):
    """Delete the objects of a kind in each namespace with one request."""
