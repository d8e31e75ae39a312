"""Whether a foreign cluster can run trials, for `seatrial doctor`: a finding per line. Changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from seatrial.clusters.attached.preflight import (
    ALWAYS,
    CLOCK_MOST_S,
    CLOCK_WARN_S,
    FOR_FAKES,
    FOR_PRIORITIES,
    FOR_QUEUES,
    LIMITED,
    clock_words,
    denied,
    foreign_kwok,
    whom,
)
from seatrial.clusters.attached.presence import stacks_there
from seatrial.clusters.machine_checks import Finding
from seatrial.kube import Access, ApiProblem, Client, Lost
from seatrial.kube.resources import NODES
from seatrial.kube.shapes import Object
from seatrial.model.errors import SeatrialError
from seatrial.model.interfaces import Permission, PresenceSigns

Signs = Mapping[str, PresenceSigns | None]  # by stack
Permissions = Mapping[str, Sequence[Permission]]  # by stack


def examine(access: Access, signs: Signs, permissions: Permissions) -> list[Finding]:
    """All findings; stops early if the server does not answer. `signs` and `permissions` are those of the stacks."""
    return asyncio.run(_examine(access, signs, permissions))


async def _examine(access: Access, signs: Signs, permissions: Permissions) -> list[Finding]:
    found: list[Finding] = []
    async with Client(access) as client:
        try:
            async for finding in _look(client, signs, permissions):
                found.append(finding)
        except SeatrialError as problem:
            found.append(Finding("missing", problem.message, problem.remedy, needed=True))
    return found


async def _look(client: Client, signs: Signs, permissions: Permissions) -> AsyncIterator[Finding]:
    version = await client.probe()
    yield Finding("ok", f"context '{client.access.context}': {client.access.server} runs {version}")
    us = await whom(client)
    yield Finding("ok", f"the server knows us as '{us.user}'")
    yield _clock(us.clock_off)
    wanted = (*ALWAYS, *permissions["default"], *FOR_FAKES)
    lacking = await denied(client, wanted)
    for need in lacking:
        yield Finding("missing", f"permission to {need}", f"have it granted to '{us.user}'", needed=True)
    if not lacking:
        yield Finding("ok", f"all {len(wanted)} permissions that a run needs")
    if lacking := await denied(client, FOR_PRIORITIES):
        words = ", ".join(need.verb for need in lacking)
        yield Finding("warn", f"no permission to {words} priorityclasses", "scenarios with `priority` need it")
    if lacking := await denied(client, FOR_QUEUES):
        words = ", ".join(str(need) for need in lacking)
        yield Finding(
            "warn", f"no permission to {words}", "scenarios with `queues` need it, where a queue is a namespace"
        )
    yield await _nodes(client)
    yield await _kwok(client)
    async for finding in _stacks(client, signs, permissions):
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
    return Finding(
        "ok", f"{count} node{'' if count == 1 else 's'}; pods go there only with `nodes: {{existing: SELECTOR}}`"
    )


async def _kwok(client: Client) -> Finding:
    found = await foreign_kwok(client)
    if found is None:
        return Finding("ok", "no other KWOK in kube-system; fake nodes get ours")
    if not found.ours_too:
        return Finding("ok", f"KWOK ({found.place}) keeps to its own nodes; ours get our own")
    return Finding("missing", f"a cluster without a KWOK for all nodes ({found.place})", LIMITED, needed=True)


async def _stacks(client: Client, signs: Signs, permissions: Permissions) -> AsyncIterator[Finding]:
    for name in (name for name, sign in signs.items() if sign is None):
        yield Finding("ok", f"stack {name}: nothing to install")
    try:
        there = await stacks_there(client, {name: sign for name, sign in signs.items() if sign is not None})
    except (ApiProblem, Lost) as problem:
        yield Finding("warn", f"cannot look for stacks: {problem.message}", problem.remedy)
        return
    for one in there:
        if one.lacks:
            yield Finding("missing", f"stack {one.stack}", f"install it (no {one.lacks})")
        else:
            yield Finding("ok", f"stack {one.stack}: {one.by} is there")
            own = [need for need in permissions.get(one.stack, ()) if need not in permissions["default"]]
            if lacking := await denied(client, own):
                words = ", ".join(str(need) for need in lacking)
                yield Finding("warn", f"no permission to {words}", f"trials with the stack {one.stack} need it")
