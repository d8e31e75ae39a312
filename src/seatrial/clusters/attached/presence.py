"""Detects the stacks of a cluster. Each stack declares its own signs (`RealSide.signs`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from seatrial.kube import Client, Request
from seatrial.kube.resources import CRDS, DEPLOYMENTS
from seatrial.kube.shapes import Object
from seatrial.model.interfaces import PresenceSigns


@dataclass(frozen=True, slots=True)
class Presence:
    """`by` is what shows that the stack is there: its Deployment or API version; `lacks` is the first sign that is missing."""

    stack: str
    by: str = ""
    lacks: str = ""
    rival: str = ""  # a Deployment that fights over the stack's CRD


async def stacks_there(client: Client, signs: Mapping[str, PresenceSigns]) -> list[Presence]:
    """The installed ones of these stacks."""
    running = {item.metadata.name async for page in client.pages(DEPLOYMENTS, shape=Object) for item in page.items}
    crds = {sign.crd: True for sign in signs.values() if sign.crd}
    for crd in crds:
        crds[crd] = await client.find(CRDS, crd, shape=Object) is not None
    return [await _presence(client, stack, sign, crds, running) for stack, sign in signs.items()]


async def _presence(
    client: Client, stack: str, signs: PresenceSigns, crds: Mapping[str, bool], running: set[str]
) -> Presence:
    by = next((name for name in signs.deployments if name in running), "")
    rival = next((name for name in signs.rivals if name in running), "")
    if not crds.get(signs.crd, True):
        return Presence(stack, lacks=signs.crd, rival=rival)
    if signs.deployments and not by:
        return Presence(stack, lacks=signs.deployments[0], rival=rival)
    if signs.served and not await _serves(client, signs.served):
        return Presence(stack, lacks=signs.served, rival=rival)
    return Presence(stack, by or signs.served, rival=rival)


async def _serves(client: Client, version: str) -> bool:
    answer = await client.send(Request("get", "", "GET", f"/apis/{version}"))
    return answer.code == 200
