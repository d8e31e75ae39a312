"""Which stacks a cluster has, told by their kinds and their deployments. A table: a new stack is a line."""

from __future__ import annotations

from dataclasses import dataclass

from seatrial.kube import Client, Request
from seatrial.kube.resources import CRDS, DEPLOYMENTS
from seatrial.kube.shapes import Object


@dataclass(frozen=True, slots=True)
class Sign:
    """How a stack shows that it is installed: its kind, if it has one, one of these deployments, and a version of its API.

    The version tells MCAD from the AppWrapper operator: both own the kind AppWrapper, so a cluster can have only one of them.
    """

    stack: str
    crd: str
    deployments: tuple[str, ...] = ()
    served: str = ""


SIGNS = (
    Sign("kueue", "clusterqueues.kueue.x-k8s.io", ("kueue-controller-manager",)),
    Sign("coscheduling", "podgroups.scheduling.x-k8s.io", ("scheduler-plugins-scheduler",)),
    Sign(
        "mcad",
        "appwrappers.workload.codeflare.dev",
        ("mcad-controller", "mcad-controller-manager"),
        "workload.codeflare.dev/v1beta1",
    ),
    Sign(
        "appwrapper",
        "appwrappers.workload.codeflare.dev",
        ("appwrapper-controller-manager",),
        "workload.codeflare.dev/v1beta2",
    ),
    Sign("gang", "", served="scheduling.k8s.io/v1alpha2"),
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
    return [await _presence(client, sign, kinds, running) for sign in signs]


async def _presence(client: Client, sign: Sign, kinds: dict[str, bool], running: set[str]) -> Presence:
    by = next((name for name in sign.deployments if name in running), "")
    if not kinds.get(sign.crd, True):
        return Presence(sign.stack, lacks=sign.crd)
    if sign.deployments and not by:
        return Presence(sign.stack, lacks=sign.deployments[0])
    if sign.served and not await _serves(client, sign.served):
        return Presence(sign.stack, lacks=sign.served)
    return Presence(sign.stack, by or sign.served)


async def _serves(client: Client, version: str) -> bool:
    answer = await client.send(Request("get", "", "GET", f"/apis/{version}"))
    return answer.code == 200
