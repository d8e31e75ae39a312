"""Which stacks a cluster has, told by their kinds and their deployments. A table: a new stack is a line."""

from __future__ import annotations

from dataclasses import dataclass

from seatrial.kube import Client
from seatrial.kube.resources import CRDS, DEPLOYMENTS
from seatrial.kube.shapes import Object


@dataclass(frozen=True, slots=True)
class Sign:
    """How a stack shows that it is installed: its kind, if it has one, and one of these deployments."""

    stack: str
    crd: str
    deployments: tuple[str, ...]


SIGNS = (
    Sign("kueue", "clusterqueues.kueue.x-k8s.io", ("kueue-controller-manager",)),
    Sign("coscheduling", "podgroups.scheduling.x-k8s.io", ("scheduler-plugins-scheduler",)),
    Sign("mcad", "appwrappers.workload.codeflare.dev", ("mcad-controller", "mcad-controller-manager")),
    Sign("appwrapper", "appwrappers.workload.codeflare.dev", ("appwrapper-controller-manager",)),
    Sign("fluence", "podgroups.scheduling.x-k8s.io", ("fluence", "fluence-controller-manager")),
    Sign("volcano", "queues.scheduling.volcano.sh", ("volcano-scheduler",)),
    Sign("yunikorn", "", ("yunikorn-scheduler",)),
    Sign("kai", "queues.scheduling.run.ai", ("kai-scheduler-default", "kai-operator", "binder")),
)


@dataclass(frozen=True, slots=True)
class Presence:
    """`by` is the deployment that runs it, `lacks` the first thing that is not there."""

    stack: str
    by: str = ""
    lacks: str = ""


async def stacks_there(client: Client, signs: tuple[Sign, ...] = SIGNS) -> list[Presence]:
    running = {item.metadata.name async for page in client.pages(DEPLOYMENTS, shape=Object) for item in page.items}
    kinds = {sign.crd: True for sign in signs if sign.crd}
    for crd in kinds:
        kinds[crd] = await client.find(CRDS, crd, shape=Object) is not None
    found = []
    for sign in signs:
        by = next((name for name in sign.deployments if name in running), "")
        lacks = sign.crd if not kinds.get(sign.crd, True) else "" if by else sign.deployments[0]
        found.append(Presence(sign.stack, "" if lacks else by, lacks))
    return found
