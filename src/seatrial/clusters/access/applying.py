"""Creates what has to be there before the first workload: a namespace, and the objects of a stack."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import msgspec

from seatrial.kube import ApiProblem, Client
from seatrial.kube.resources import NAMESPACES, SERVICE_ACCOUNTS
from seatrial.kube.shapes import Conditioned, Object, condition
from seatrial.model.errors import SetupProblem
from seatrial.model.interfaces import Manifest
from seatrial.model.labels import STUDY_LABEL

READY_WITHIN_S = 120.0
SIDE_BY_SIDE = 16


async def make_namespace(client: Client, namespace: str, labels: Mapping[str, str]) -> None:
    """Returns when pods can be created in it. A namespace of ours that is there already will do."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": dict(labels)}}
    await client.create(NAMESPACES, body, namespace)

    async def has_service_account() -> bool:
        return await client.find(SERVICE_ACCOUNTS, "default", namespace, shape=Object) is not None

    await until(has_service_account, "the namespace got no default service account",
                "is the controller manager running?")  # fmt: skip


async def make_namespaces(client: Client, namespaces: Iterable[str], labels: Mapping[str, str]) -> None:
    """Several of them, side by side."""
    await side_by_side([partial(make_namespace, client, namespace, labels) for namespace in namespaces])


async def apply(client: Client, manifests: Iterable[Manifest], namespace: str, study: str, stack: str) -> None:
    """Creates the objects, or updates those of ours: those of one kind side by side, kind after kind. A controller may need a
    moment before its webhooks answer."""

    async def one(manifest: Manifest, where: str) -> None:
        await _apply(client, manifest, where, study, stack)
        if manifest.until:
            await until(partial(_holds, client, manifest, where), _lacking(manifest),
                        f"look into the log of the stack '{stack}'")  # fmt: skip
        if manifest.check:
            await _check(client, manifest, where)

    for resource, alike in groupby(manifests, lambda manifest: manifest.resource):
        await side_by_side([partial(one, m, (m.namespace or namespace) if resource.namespaced else "") for m in alike])


async def side_by_side(jobs: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Runs them, 16 at a time; the first failure ends all."""
    left = iter(jobs)

    async def work() -> None:
        for job in left:
            await job()

    tasks = [asyncio.create_task(work()) for _ in range(min(SIDE_BY_SIDE, len(jobs)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _lacking(manifest: Manifest) -> str:
    if manifest.until.startswith("."):
        return f"the status of the {manifest.resource.kind} {manifest.name} has no '{manifest.until[1:]}'"
    return f"{manifest.name} is not {manifest.until}"


class _WithStatus(Object):
    status: dict[str, Any] = msgspec.field(default_factory=dict)


async def _check(client: Client, manifest: Manifest, where: str) -> None:
    found = await client.find(manifest.resource, manifest.name, where, shape=_WithStatus)
    wrong = manifest.check(found.status) if manifest.check and found else None
    if wrong:
        raise SetupProblem(*wrong)


async def until(holds: Callable[[], Awaitable[bool]], what: str, remedy: str, more_s: float = 0) -> None:
    """Polls; `SetupProblem` if it does not hold in time, or `more_s` seconds later."""
    within_s = READY_WITHIN_S + more_s
    end = time.monotonic() + within_s
    while not await holds():
        if time.monotonic() > end:
            raise SetupProblem(f"{what} within {within_s:.0f} s", remedy)
        await asyncio.sleep(0.05)


async def _apply(client: Client, manifest: Manifest, where: str, study: str, stack: str) -> None:
    resource = manifest.resource
    end = time.monotonic() + READY_WITHIN_S
    while True:
        try:
            # A create of an object of ours that is there already would count as done.
            there = await client.find(resource, manifest.name, where, shape=Object)
            if there and there.metadata.labels.get(STUDY_LABEL) != study:
                raise SetupProblem(
                    f"there is a {resource.kind} {manifest.name} that is not ours",
                    "Remove it, or choose another cluster.",
                )
            if there:
                await client.patch(resource, {"spec": manifest.body.get("spec")}, manifest.name, where)
            else:
                await client.create(resource, manifest.body, manifest.name, where)
            return
        except ApiProblem as problem:
            if problem.code < 500 or time.monotonic() > end:  # 500: a webhook that nobody answers
                raise SetupProblem(
                    f"{resource.kind} {manifest.name} could not be created: {problem.message}",
                    f"Does the controller of the stack '{stack}' run? Look into its log.",
                ) from problem
        await asyncio.sleep(0.1)


async def _holds(client: Client, manifest: Manifest, where: str) -> bool:
    if manifest.until.startswith("."):
        there = await client.find(manifest.resource, manifest.name, where, shape=_WithStatus)
        return there is not None and manifest.until[1:] in there.status
    found = await client.find(manifest.resource, manifest.name, where, shape=Conditioned)
    said = condition(found.status.conditions, manifest.until) if found else None
    return said is not None and said.status == "True"
