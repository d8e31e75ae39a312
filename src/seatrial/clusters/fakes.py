"""Fake nodes on a real API server: the Node objects we create, and the stages KWOK plays on them and their pods.

A scenario says what a fake kubelet takes (`create`, `start`); how long a pod runs is the workload's affair and stands in an
annotation of the pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from seatrial.kube import ApiProblem, Client
from seatrial.kube.resources import LEASES, NODES, PODS
from seatrial.kube.shapes import Object, Pod, Shape
from seatrial.model.labels import DURATION_ANNOTATION, GROUP_LABEL, TOUCHED_ANNOTATION, UNREADY_ANNOTATION
from seatrial.model.plan import NodeGroup, Span
from seatrial.model.units import MILLISECOND, format_quantity

REMIND_WITHIN_S = 60.0
REMINDED_AT_ONCE = 16
CONNECTIONS = 32  # requests in flight; more makes a small API server no faster
Expression = dict[str, Any]  # one of a stage's matchExpressions

_NODE_INFO = {"architecture": "amd64", "bootID": "", "containerRuntimeVersion": "kwok", "kernelVersion": "kwok",
              "kubeProxyVersion": "kwok", "kubeletVersion": "fake", "machineID": "", "operatingSystem": "linux",
              "osImage": "", "systemUUID": ""}  # fmt: skip

# Labels and annotation are those that the controller manager would add otherwise: it would patch every node, some of them twice,
# while the first workloads are measured (docs/local.md has the figures).
_LABELS = {
    "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
    "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
}  # fmt: skip
_SECRETS_TTL = "node.alpha.kubernetes.io/ttl"
# Up to so many nodes, so many seconds: pkg/controller/ttl/ttl_controller.go, v1.36.3.
_TTLS = ((100, 0), (500, 15), (1000, 30), (2000, 60))
_LONGEST_TTL = 300


def node(group: NodeGroup, index: int, labels: Mapping[str, str], now: str, there: int) -> dict[str, Any]:
    """A node that is Ready from its first moment, as a kubelet registers one that has started before, in a cluster that has so
    many others."""
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
    """The group's nodes, numbered from `first`, at full client speed; their names. `made` is told of each; `there` are the
    cluster's other nodes."""
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
    return [f"{group.name}-{index}" for index in range(first, first + group.count)]


async def leased(client: Client, nodes: set[str]) -> bool:
    """Whether KWOK has taken them on: it plays only nodes whose lease it holds."""
    leases = await client.list(LEASES, "kube-node-lease", shape=_Lease, resourceVersion="0")
    return nodes <= {lease.metadata.name for lease in leases.items if lease.spec.holder_identity}


async def remind(client: Client, nodes: set[str], namespaces: Sequence[str] = ("",)) -> None:
    """For a KWOK that was started anew. It lists the pods of a node as soon as it has asked for the lease, and passes over them
    while its own watch has not shown it that lease: they would stay as they are. Once it holds the nodes, pods are touched."""
    until = time.monotonic() + REMIND_WITHIN_S
    while time.monotonic() < until and not await leased(client, nodes):
        await asyncio.sleep(0.2)
    await asyncio.sleep(1.0)
    touched = {"metadata": {"annotations": {TOUCHED_ANNOTATION: str(time.time_ns())}}}
    slots = asyncio.Semaphore(REMINDED_AT_ONCE)

    async def touch(pod: Pod) -> None:
        async with slots:
            with contextlib.suppress(ApiProblem):  # it is gone by now
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
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ready_condition(ready: bool, now: str) -> dict[str, Any]:
    said = ("True", "KubeletReady", "ready") if ready else ("False", "KubeletNotReady", "made not ready by a step")
    return {"type": "Ready", "status": said[0], "reason": said[1], "message": said[2],
            "lastHeartbeatTime": now, "lastTransitionTime": now}  # fmt: skip


def stages(groups: Iterable[NodeGroup]) -> str:
    """All stages as YAML for KWOK. Groups that take the same time share theirs."""
    alike: dict[tuple[Span, Span], list[str]] = {}
    for group in groups:
        alike.setdefault((group.create, group.start), []).append(group.name)
    documents: list[dict[str, Any]] = [_node_ready(), _complete(), _delete()]
    for number, ((create, start), names) in enumerate(alike.items()):
        only = [] if len(alike) == 1 else [_on_nodes_of(names)]
        documents += _begin(number, create, start, only)
    return "\n---\n".join(json.dumps(document, indent=1) for document in documents) + "\n"


def _begin(number: int, create: Span, start: Span, only: list[Expression]) -> Iterator[dict[str, Any]]:
    """Bound → container being created → running; without a `create` delay the middle step is left out, as on `sim`."""
    waiting: Expression = {"key": '.status.conditions.[] | select( .type == "Initialized" ) | .status'}
    if create != Span():
        expressions: list[Expression] = [_pending(), {**waiting, "operator": "NotIn", "values": ["True"]}, *only]
        yield _stage(f"pod-create-{number}", expressions, _delay(create), {"statusTemplate": _CREATING})
        expressions = [_pending(), {**waiting, "operator": "In", "values": ["True"]}, *only]
    else:
        expressions = [_pending(), *only]
    yield _stage(f"pod-start-{number}", expressions, _delay(start), {"statusTemplate": _RUNNING})


def _node_ready() -> dict[str, Any]:
    """KWOK manages nodes only if it has a stage for them, and sets Ready again where something took it away."""
    ready = {
        "key": '.status.conditions.[] | select( .type == "Ready" ) | .status',
        "operator": "NotIn",
        "values": ["True"],
    }
    marked = {"key": f'.metadata.annotations["{UNREADY_ANNOTATION}"]', "operator": "DoesNotExist"}
    spec = {"resourceRef": {"apiGroup": "v1", "kind": "Node"}, "selector": {"matchExpressions": [ready, marked]},
            "next": {"statusTemplate": _READY}}  # fmt: skip
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": "node-ready"}, "spec": spec}


def _complete() -> dict[str, Any]:
    expressions: list[Expression] = [
        {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"},
        {"key": ".status.phase", "operator": "In", "values": ["Running"]},
        {"key": f'.metadata.annotations["{DURATION_ANNOTATION}"]', "operator": "Exists"},
    ]
    delay = {"durationMilliseconds": 0,
             "durationFrom": {"expressionFrom": f'.metadata.annotations["{DURATION_ANNOTATION}"]'}}  # fmt: skip
    return _stage("pod-complete", expressions, delay, {"statusTemplate": _SUCCEEDED})


def _delete() -> dict[str, Any]:
    gone = [{"key": ".metadata.deletionTimestamp", "operator": "Exists"}]
    return _stage("pod-delete", gone, None, {"finalizers": {"empty": True}, "delete": True})


def _stage(
    name: str, expressions: list[Expression], delay: dict[str, Any] | None, then: dict[str, Any]
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {"matchExpressions": expressions},
    }
    if delay:
        spec["delay"] = delay
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {**spec, "next": then},
    }


def _pending() -> Expression:
    return {"key": ".metadata.deletionTimestamp // .status.phase", "operator": "In", "values": ["Pending"]}


def _on_nodes_of(groups: list[str]) -> dict[str, Any]:
    """Nodes are called GROUP-INDEX."""
    return {"key": '.spec.nodeName | sub("-[0-9]+$"; "")', "operator": "In", "values": groups}


def _delay(span: Span) -> dict[str, Any]:
    delay = {"durationMilliseconds": span.least // MILLISECOND}
    return {**delay, "jitterDurationMilliseconds": span.most // MILLISECOND} if span.most > span.least else delay


_READY = """
{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- lastHeartbeatTime: {{ $now | Quote }}
  lastTransitionTime: {{ $now | Quote }}
  message: {{ .message | Quote }}
  reason: {{ .reason | Quote }}
  status: {{ .status | Quote }}
  type: {{ .type | Quote }}
{{ end }}
phase: Running
"""
# A KWOK that starts hears of a pod twice, from its first list and from that of the node, and plays the older copy last. Its patch
# must change the pod, or no event follows, and what the pod waits for next was cancelled for nothing: hence the nanoseconds.
_CREATING = """
{{ $now := Now }}
conditions:
- {lastTransitionTime: {{ $now | Quote }}, status: "True", type: Initialized}
- {lastTransitionTime: {{ $now | Quote }}, status: "False", type: Ready}
containerStatuses:
{{ range .spec.containers }}
- {image: {{ .image | Quote }}, name: {{ .name | Quote }}, ready: false, restartCount: 0,
   state: {waiting: {reason: ContainerCreating, message: {{ $now | Quote }}}}}
{{ end }}
phase: Pending
startTime: {{ $now | Quote }}
"""
_RUNNING = """
{{ $now := Now }}
conditions:
{{ range tuple "Initialized" "Ready" "ContainersReady" }}
- {lastTransitionTime: {{ $now | Quote }}, status: "True", type: {{ . | Quote }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- {image: {{ .image | Quote }}, name: {{ .name | Quote }}, ready: true, restartCount: 0,
   containerID: {{ $now | Quote }}, state: {running: {startedAt: {{ $now | Quote }}}}}
{{ end }}
phase: Running
startTime: {{ or .status.startTime $now | Quote }}
"""
_SUCCEEDED = """
{{ $now := Now }}
{{ $root := . }}
containerStatuses:
{{ range $index, $item := .spec.containers }}
{{ $origin := index $root.status.containerStatuses $index }}
- {image: {{ $item.image | Quote }}, name: {{ $item.name | Quote }}, ready: false, restartCount: 0, started: false,
   state: {terminated: {exitCode: 0, reason: Completed, finishedAt: {{ $now | Quote }},
                        startedAt: {{ $origin.state.running.startedAt | Quote }}}}}
{{ end }}
phase: Succeeded
"""
