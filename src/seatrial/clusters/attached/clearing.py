"""`seatrial clean`: what runs left behind, found by label and removed; in a cluster, and on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from seatrial.clusters.attached.removing import Thing, find, remove
from seatrial.clusters.local import kept
from seatrial.kube import Access, ApiProblem, Client, Lost, access_from
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import Target

WITHIN_S = 180.0

Agree = Callable[[Sequence[Thing]], bool]


def access_of(target: Target, ran_on: str = "") -> Access:
    """The way to the cluster. One that `ran_on` another server than the context names now is refused: nothing would be found."""
    if target.cluster:
        return access_from(kept.find(target.cluster).kubeconfig())
    file = Path(target.kubeconfig).expanduser() if target.kubeconfig else None
    access = access_from(file, target.context or None, must_name=True)
    if ran_on and access.server != ran_on:
        raise SetupProblem(
            f"the study ran on {ran_on}, and the context '{access.context}' names {access.server}",
            "name the context of the cluster that it ran on with --context (and --kubeconfig)",
        )
    return access


def clear(
    access: Access, studies: Collection[str] | None, agree: Agree, inside: Collection[str] = ()
) -> tuple[list[Thing], list[Thing]]:
    """What was removed, and what was still there when patience ended. `inside`: namespaces that stay."""
    return asyncio.run(_clear(access, studies, agree, inside))


async def _clear(
    access: Access, studies: Collection[str] | None, agree: Agree, inside: Collection[str]
) -> tuple[list[Thing], list[Thing]]:
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
