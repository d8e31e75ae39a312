"""Finds and removes what we made in a cluster: everything with our label, and only that.

Namespaces go first, because their pods may hold nodes; nodes go last, with the leases that KWOK made for them. In namespaces of
others, owners of pods go before the pods. Every deletion names the uid that was found: an object of the same name that somebody
made in between is left alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from seatrial.clusters.kwok.fake_nodes import NODE_LEASES
from seatrial.kube import NO_RETRY, Access, ApiProblem, Client, Lost, Request, Resource, Unreachable
from seatrial.kube.resources import JOBS, LEASES, NAMESPACES, NODES, PODS, delete
from seatrial.kube.shapes import Object
from seatrial.model.errors import SetupProblem
from seatrial.model.labels import STUDY_LABEL

SIDE_BY_SIDE = 16
POLL_S = 0.2
WITHIN_S = 180.0  # of `clear`


@dataclass(frozen=True, slots=True)
class LabelledObject:
    """An object with our label."""

    resource: Resource
    name: str
    uid: str
    study: str
    since: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.resource.kind.lower()} {self.name}"


async def find(
    client: Client,
    studies: Collection[str] | None = None,
    *,
    everywhere: bool = True,
    also: Collection[Resource] = (),
    inside: Collection[str] = (),
) -> list[LabelledObject]:
    """Objects with our label, of these studies or of all. Not `everywhere`: only namespaces, nodes and the kinds in `also`.
    `inside`: namespaces of others to look into."""
    kinds = [NAMESPACES, NODES, *also]
    served = await _served(client) if everywhere else []
    kinds += [kind for kind in served if kind not in kinds and not kind.namespaced]
    found: list[LabelledObject] = []
    for kind in kinds:
        found += await _labelled(client, kind, studies, must=kind in (NAMESPACES, NODES) and not inside)
    ours = {thing.name for thing in found if thing.resource == NAMESPACES}
    for namespace in sorted(set(inside) - ours):
        for kind in served:
            if kind.namespaced:
                found += await _labelled(client, kind, studies, namespace)
    return found


async def _labelled(
    client: Client, kind: Resource, studies: Collection[str] | None, namespace: str = "", *, must: bool = False
) -> list[LabelledObject]:
    """`must`: not being allowed to look is an error. A user who submits into a namespace of others may see nothing else."""
    found: list[LabelledObject] = []
    try:
        async for page in client.pages(kind, namespace, shape=Object, labelSelector=STUDY_LABEL):
            for thing in page.items:
                meta, study = thing.metadata, thing.metadata.labels.get(STUDY_LABEL, "")
                if studies is None or study in studies:
                    found.append(LabelledObject(kind, meta.name, meta.uid, study, meta.creation_timestamp, namespace))
    except ApiProblem as problem:
        if must or problem.code not in (403, 404, 405):
            raise
    return found


class _Group(msgspec.Struct, rename="camel"):
    preferred_version: dict[str, str] = {}


class _Groups(msgspec.Struct):
    groups: list[_Group] = []


class _Kind(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool = True
    verbs: list[str] = []


class _Kinds(msgspec.Struct):
    resources: list[_Kind] = []


async def _served(client: Client) -> list[Resource]:
    """Every kind that can be listed and deleted. An API extension that does not answer is passed over."""
    groups = await client.ask(Request("get", "", "GET", "/apis"), _Groups)
    versions = ["v1", *(group.preferred_version.get("groupVersion", "") for group in groups.groups)]
    found: list[Resource] = []
    for version in filter(None, versions):
        group, _, short = version.rpartition("/")
        path = f"/apis/{version}" if group else f"/api/{version}"
        try:
            answer = await client.send(Request("get", "", "GET", path, timeout=10.0), retry=NO_RETRY)
        except (Lost, Unreachable):
            continue
        if answer.code != 200:
            continue
        for kind in msgspec.json.decode(answer.body, type=_Kinds).resources:
            if "/" not in kind.name and {"list", "delete"} <= set(kind.verbs):
                found.append(Resource(group, short, kind.name, kind.kind, kind.namespaced))
    return found


async def remove(client: Client, things: Sequence[LabelledObject], within_s: float) -> list[LabelledObject]:
    """Deletes the objects and waits until they are gone; returns those that are still there after `within_s`."""
    until = time.monotonic() + within_s
    spaces = [thing for thing in things if thing.resource == NAMESPACES]
    nodes = [thing for thing in things if thing.resource == NODES]
    rest = [thing for thing in things if thing.resource not in (NAMESPACES, NODES)]
    pods = [thing for thing in rest if thing.resource == PODS]
    owners = [thing for thing in rest if thing.namespace and thing.resource != PODS]
    rest = [thing for thing in rest if not thing.namespace]
    left = await _remove_kind(client, owners, until)
    left += await _remove_kind(client, pods, until)
    left += await _remove_kind(client, spaces, until, _end_jobs)
    left += await _remove_kind(client, nodes, until)
    left += await _remove_kind(client, rest, until)
    await _each([_delete(client, LEASES, node.name, NODE_LEASES) for node in nodes])
    return left


async def _end_jobs(client: Client, namespace: LabelledObject) -> None:
    """Kubernetes deletes the pods of a namespace before anything else, and a pod on a fake node that nobody plays any more may stay
    until its Job is gone: the Job controller waits for its end, which no kubelet reports."""
    with contextlib.suppress(ApiProblem):
        await client.delete_collection(JOBS, namespace.name)


async def _remove_kind(
    client: Client,
    things: Sequence[LabelledObject],
    until: float,
    then: Callable[[Client, LabelledObject], Coroutine[Any, Any, None]] | None = None,
) -> list[LabelledObject]:
    await _each([_delete(client, thing.resource, thing.name, thing.namespace, thing.uid) for thing in things])
    if then:
        await _each([then(client, thing) for thing in things])
    left = list(things)
    while left:
        there: set[str] = set()
        for kind, namespace in {(thing.resource, thing.namespace) for thing in left}:
            there |= {thing.uid for thing in await _labelled(client, kind, None, namespace)}
        left = [thing for thing in left if thing.uid in there]
        if not left or time.monotonic() > until:
            return left
        await asyncio.sleep(POLL_S)
    return left


async def _delete(client: Client, resource: Resource, name: str, namespace: str = "", uid: str = "") -> None:
    request = delete(resource, name, namespace, uid=uid)
    answer = await client.send(request)
    if answer.code >= 300 and answer.code not in (404, 409):  # gone, or now another object of that name
        raise ApiProblem.of(answer.code, answer.body, str(request))


async def _each(jobs: Sequence[Coroutine[Any, Any, None]]) -> None:
    slots = asyncio.Semaphore(SIDE_BY_SIDE)

    async def one(job: Coroutine[Any, Any, None]) -> None:
        async with slots:
            await job

    outcomes = await asyncio.gather(*(one(job) for job in jobs), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


Agree = Callable[[Sequence[LabelledObject]], bool]


def clear(
    access: Access, studies: Collection[str] | None, agree: Agree, inside: Collection[str] = ()
) -> tuple[list[LabelledObject], list[LabelledObject]]:
    """`seatrial clean`: what was removed, and what was still there after the timeout. `inside`: namespaces that stay."""
    return asyncio.run(_clear(access, studies, agree, inside))


async def _clear(
    access: Access, studies: Collection[str] | None, agree: Agree, inside: Collection[str]
) -> tuple[list[LabelledObject], list[LabelledObject]]:
    async with Client(access) as client:
        await client.probe()
        try:
            things = await find(client, studies, inside=inside)
            if not things or not agree(things):
                return [], []
            left = await remove(client, things, WITHIN_S)
        except (ApiProblem, Lost) as problem:
            raise SetupProblem(problem.message, problem.remedy) from problem
    return [thing for thing in things if thing not in left], left
