"""Reviews by the API server: our user, our permissions, and the offset of its clock.

Asked before a run: a missing permission would otherwise show up after minutes, and a wrong clock makes the timestamps of
objects wrong.
"""

from __future__ import annotations

import time
from datetime import datetime

import msgspec

from seatrial.kube.client import Client
from seatrial.kube.resources import Request, Resource, encode
from seatrial.kube.shapes import Shape


class UserReview(msgspec.Struct, frozen=True):
    """The user that the server sees. `clock_off`: seconds its clock is ahead of ours, known to a second."""

    user: str
    groups: tuple[str, ...]
    clock_off: float


class _UserInfo(Shape):
    username: str = ""
    groups: list[str] = msgspec.field(default_factory=list)


class _ReviewStatus(Shape):
    user_info: _UserInfo = msgspec.field(default_factory=_UserInfo)
    allowed: bool = False


class _ReviewMeta(Shape):
    creation_timestamp: datetime | None = None


class _Review(Shape):
    metadata: _ReviewMeta = msgspec.field(default_factory=_ReviewMeta)
    status: _ReviewStatus = msgspec.field(default_factory=_ReviewStatus)


async def whoami(client: Client) -> UserReview:
    """The user that the server sees in us (`kubectl auth whoami`). Every authenticated user may ask."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    before = time.time()
    said = await client.ask(_review("selfsubjectreviews", path, review), _Review)
    after = time.time()
    created = said.metadata.creation_timestamp
    server = created.timestamp() if created is not None else before
    # The server truncates fractions: between `before` and `after` its clock was in [server, server + 1).
    off = server - after if server > after else min(0.0, server + 1 - before)
    return UserReview(said.status.user_info.username, tuple(said.status.user_info.groups), off)


async def allowed(
    client: Client, verb: str, resource: Resource, namespace: str = "", subresource: str = "", user: str = ""
) -> bool:
    """Whether we, or `user`, may do this (`kubectl auth can-i`); without a namespace, in all of them."""
    attributes = {"verb": verb, "group": resource.group, "resource": resource.plural, "namespace": namespace}
    if subresource:
        attributes["subresource"] = subresource
    kind, spec = ("SubjectAccessReview", {"user": user}) if user else ("SelfSubjectAccessReview", {})
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": kind,
        "spec": {"resourceAttributes": attributes, **spec},
    }
    plural = f"{kind.lower()}s"
    path = f"/apis/authorization.k8s.io/v1/{plural}"
    return (await client.ask(_review(plural, path, review), _Review)).status.allowed


def _review(resource: str, path: str, body: object) -> Request:
    """A review changes nothing, so it may be resent."""
    return Request("create", resource, "POST", path, encode(body), "application/json")
