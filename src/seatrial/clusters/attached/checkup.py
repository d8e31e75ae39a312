"""What a foreign cluster has for running trials, line by line: for `seatrial doctor`. Only asks, and changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass

from seatrial.clusters.attached.inspecting import (
    ALWAYS,
    CLOCK_MOST_S,
    CLOCK_WARN_S,
    FOR_FAKES,
    clock_words,
    denied,
    foreign_kwok,
)
from seatrial.clusters.checkup import Finding
from seatrial.kube import Access, ApiProblem, Client, Lost
from seatrial.kube.resources import CRDS, DEPLOYMENTS, NODES
from seatrial.kube.shapes import Object
from seatrial.kube.standing import standing
from seatrial.model.errors import SeatrialError


@dataclass(frozen=True, slots=True)
class Sign:
    """How a stack shows that it is installed: all of these kinds, and one of these deployments, if it has any."""

    stack: str
    crds: tuple[str, ...] = ()
    deployments: tuple[str, ...] = ()


SIGNS = (
    Sign("kueue", ("clusterqueues.kueue.x-k8s.io",), ("kueue-controller-manager",)),
    Sign("coscheduling", ("podgroups.scheduling.x-k8s.io",), ("scheduler-plugins-scheduler",)),
    Sign("mcad", ("appwrappers.workload.codeflare.dev",), ("mcad-controller", "mcad-controller-manager")),
    Sign("appwrapper", ("appwrappers.workload.codeflare.dev",), ("appwrapper-controller-manager",)),
    Sign("fluence", ("podgroups.scheduling.x-k8s.io",), ("fluence", "fluence-controller-manager")),
    Sign("volcano", ("queues.scheduling.volcano.sh",), ("volcano-scheduler",)),
    Sign("yunikorn", (), ("yunikorn-scheduler",)),
    Sign("kai", ("queues.scheduling.run.ai",), ("kai-scheduler-default", "kai-operator", "binder")),
)


def examine(access: Access) -> list[Finding]:
    """Everything that could be found out; it ends early where the server does not answer."""
    return asyncio.run(_examine(access))


async def _examine(access: Access) -> list[Finding]:
    found: list[Finding] = []
    async with Client(access) as client:
        try:
            async for finding in _look(client):
                found.append(finding)
        except SeatrialError as problem:
            found.append(Finding("missing", problem.message, problem.remedy, needed=True))
    return found


async def _look(client: Client) -> AsyncIterator[Finding]:
    version = await client.probe()
    yield Finding("ok", f"context '{client.access.context}': {client.access.server} runs {version}")
    whom = await standing(client)
    yield Finding("ok", f"the server knows us as '{whom.user}'")
    yield _clock(whom.clock_off)
    wanted = (*ALWAYS, *FOR_FAKES)
    lacking = await denied(client, wanted)
    for need in lacking:
        yield Finding("missing", f"permission to {need}", f"have it granted to '{whom.user}'", needed=True)
    if not lacking:
        yield Finding("ok", f"all {len(wanted)} permissions that a run needs")
    yield await _nodes(client)
    yield await _kwok(client)
    async for finding in _stacks(client):
        yield finding


def _clock(off: float) -> Finding:
    if abs(off) <= CLOCK_WARN_S:
        return Finding("ok", "the clocks of server and client agree")
    far = abs(off) > CLOCK_MOST_S
    return Finding("missing" if far else "warn", clock_words(off), "set both by NTP", needed=far)


async def _nodes(client: Client) -> Finding:
    try:
        page = await client.list(NODES, shape=Object, limit=500)
    except ApiProblem as problem:
        return Finding("warn", f"nodes cannot be listed ({problem.code})", problem.remedy)
    count = len(page.items) + page.metadata.remaining_item_count
    return Finding("ok", f"{count} nodes; pods go there only with `nodes: {{existing: SELECTOR}}`")


async def _kwok(client: Client) -> Finding:
    found = await foreign_kwok(client)
    if found is None:
        return Finding("ok", "no other KWOK in kube-system; fake nodes get ours")
    if not found.ours_too:
        return Finding("ok", f"KWOK ({found.place}) keeps to its own nodes; ours get our own")
    remedy = "limit it to its own nodes (manageNodesWithAnnotationSelector), or stop it"
    return Finding("missing", f"a cluster without a KWOK for all nodes ({found.place})", remedy, needed=True)


async def _stacks(client: Client) -> AsyncIterator[Finding]:
    try:
        deployments = [
            item.metadata.name async for page in client.pages(DEPLOYMENTS, shape=Object) for item in page.items
        ]
        kinds = {
            crd for crd in {crd for sign in SIGNS for crd in sign.crds}
            if await client.find(CRDS, crd, shape=Object) is not None
        }  # fmt: skip
    except (ApiProblem, Lost) as problem:
        yield Finding("warn", f"which stacks are there cannot be seen: {problem.message}", problem.remedy)
        return
    yield Finding("ok", "stack default: nothing to install")
    for sign in SIGNS:
        yield _stack(sign, kinds, deployments)


def _stack(sign: Sign, kinds: Collection[str], deployments: Collection[str]) -> Finding:
    lacking = [crd for crd in sign.crds if crd not in kinds]
    runs = [name for name in sign.deployments if name in deployments]
    if not lacking and runs:
        return Finding("ok", f"stack {sign.stack}: {runs[0]} is there")
    lacks = lacking[0] if lacking else sign.deployments[0]
    return Finding("missing", f"stack {sign.stack}", f"install it (no {lacks})")
