"""Fake nodes on a real API server: creates their Node objects and sees whether KWOK plays them."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from seatrial.kube import ApiProblem, Client
from seatrial.kube.resources import LEASES, NODES, PODS
from seatrial.kube.shapes import Object, Pod, Shape
from seatrial.model.labels import GROUP_LABEL, TOUCHED_ANNOTATION
from seatrial.model.plan import NodeGroup
from seatrial.model.units import format_quantity

TOUCH_WITHIN_S = 60.0
TOUCHED_AT_ONCE = 16
NODE_LEASES = "kube-node-lease"
CONNECTIONS = 32  # requests in flight; more do not make a small API server faster
Expression = dict[str, Any]  # one of a stage's matchExpressions

_NODE_INFO = {"architecture": "amd64", "bootID": "", "containerRuntimeVersion": "kwok", "kernelVersion": "kwok",
              "kubeProxyVersion": "kwok", "kubeletVersion": "fake", "machineID": "", "operatingSystem": "linux",
              "osImage": "", "systemUUID": ""}  # fmt: skip

# The labels and the annotation that the controller manager would otherwise add: it would patch every node, some of them twice,
# while the first workloads are measured (figures: docs/local.md).
_LABELS = {
    "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
    "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
}  # fmt: skip
_SECRETS_TTL = "node.alpha.kubernetes.io/ttl"
# Number of nodes, seconds: pkg/controller/ttl/ttl_controller.go, v1.36.3.
_TTLS = ((100, 0), (500, 15), (1000, 30), (2000, 60))
_LONGEST_TTL = 300


def node(group: NodeGroup, index: int, labels: Mapping[str, str], now: str, there: int) -> dict[str, Any]:
    """A node that is Ready from its first moment, like that of a kubelet that restarts. `there`: how many others there are."""
    name = f"{group.name}-{index}"
    ttl = next((seconds for most, seconds in _TTLS if there < most), _LONGEST_TTL)
    capacity = {"pods": 110, **group.capacity}
    amounts = {resource: format_quantity(amount, resource) for resource, amount in capacity.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **_LABELS, "type": "kwok", GROUP_LABEL: group.name,
                       **group.labels, **labels},
            "annotations": {_SECRETS_TTL: str(ttl)},
        },
        "spec": {"taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in group.taints]},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready_condition(True, now)], "nodeInfo": _NODE_INFO,
                   "phase": "Running"},
    }  # fmt: skip


async def create(
    client: Client,
    group: NodeGroup,
    first: int,
    labels: Mapping[str, str],
    made: Callable[[], None] = lambda: None,
    there: int = 0,
) -> list[str]:
    """Creates the group's nodes, numbered from `first`, at full client speed; their names. `made` is called after each; `there`:
    how many others there are."""
    now = timestamp()
    slots = asyncio.Semaphore(CONNECTIONS)

    async def make(index: int) -> None:
        async with slots:
            body = node(group, index, labels, now, there + index - first)
            await client.create(NODES, body, f"{group.name}-{index}")
            made()

    async with asyncio.TaskGroup() as tasks:
        for index in range(first, first + group.count):
            tasks.create_task(make(index))
    return names(group, first)


def names(group: NodeGroup, first: int = 0) -> list[str]:
    """GROUP-INDEX, from `first` on."""
    return [f"{group.name}-{index}" for index in range(first, first + group.count)]


async def lease_holders(client: Client, nodes: set[str]) -> dict[str, str]:
    """The holders of the nodes' leases; nodes without a holder are left out."""
    leases = await client.list(LEASES, NODE_LEASES, shape=_Lease, resourceVersion="0")
    found = {lease.metadata.name: lease.spec.holder_identity for lease in leases.items}
    return {name: found[name] for name in nodes if found.get(name)}


async def leased(client: Client, nodes: set[str]) -> bool:
    """Whether KWOK has taken on all of them: it plays only nodes whose lease it holds."""
    return len(await lease_holders(client, nodes)) == len(nodes)


async def touch_pods(client: Client, nodes: set[str], namespaces: Sequence[str] = ("",)) -> None:
    """Touches the pods of these nodes once a restarted KWOK holds them. It lists the pods of a node as soon as it has asked for the
    lease, and skips them until its own watch shows that lease: without a change they would stay as they are."""
    until = time.monotonic() + TOUCH_WITHIN_S
    while time.monotonic() < until and not await leased(client, nodes):
        await asyncio.sleep(0.2)
    await asyncio.sleep(1.0)
    touched = {"metadata": {"annotations": {TOUCHED_ANNOTATION: str(time.time_ns())}}}
    slots = asyncio.Semaphore(TOUCHED_AT_ONCE)

    async def touch(pod: Pod) -> None:
        async with slots:
            with contextlib.suppress(ApiProblem):  # the pod is gone
                await client.patch(PODS, touched, pod.metadata.name, pod.metadata.namespace)

    for namespace in namespaces:
        pods = (await client.list(PODS, namespace, shape=Pod)).items
        asleep = [pod for pod in pods if pod.spec.node_name in nodes and pod.status.phase in ("Pending", "Running")]
        await asyncio.gather(*map(touch, asleep))


class _LeaseSpec(Shape):
    holder_identity: str = ""


class _Lease(Object):
    spec: _LeaseSpec = msgspec.field(default_factory=_LeaseSpec)


def timestamp() -> str:
    """Now, as the API has it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ready_condition(ready: bool, now: str) -> dict[str, Any]:
    """The condition Ready of a node."""
    said = ("True", "KubeletReady", "ready") if ready else ("False", "KubeletNotReady", "made not ready by a step")
    return {"type": "Ready", "status": said[0], "reason": said[1], "message": said[2],
            "lastHeartbeatTime": now, "lastTransitionTime": now}  # fmt: skip
