"""The state of a real cluster from what the watches showed, without a request."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from seatrial.model.plan import Amounts, NodeGroup, Workload
from seatrial.model.state import NodeState, State, WorkloadState
from seatrial.observe.observer import Observer


@dataclass(slots=True)
class _Pods:
    """The pods of one workload."""

    places: list[int] = field(default_factory=list)
    held: int = 0  # places that a pod of the stack's holds
    running: int = 0
    waiting: int = 0
    finished: int = 0
    began: int = 0  # when the last of the running pods started


def state_of(
    now: int,
    observer: Observer,
    workloads: Sequence[Workload],
    nodes: Mapping[str, NodeGroup],
    closed: Collection[str],
    quota: Amounts | None,
    dead: Collection[str],
) -> State:
    """`nodes`: those that exist, with their groups; `closed`: those of them that take no pods."""
    number = observer.ledger.number
    ended = [number[stage] for stage in ("completed", "failed", "deleted")]
    has_reached = observer.ledger.has_reached
    sent = number["submitted"]  # machines of a load tell of it a moment later
    pods = {
        n: _Pods()
        for n in range(len(workloads))
        if has_reached(n, sent) and not any(has_reached(n, end) for end in ended)
    }
    index = {observer.nodes[name]: place for place, name in enumerate(nodes)}
    used: list[dict[str, int]] = [{} for _ in nodes]
    for pod in observer.pods.values():
        owner = observer.ledger.pod_workload[pod]
        if owner in pods:
            _count(observer, pod, pods[owner], index, used, workloads[owner].shape.requests)
    for name, held in observer.held.items():
        owner = observer.workloads.get(name, -1)
        for place in (index.get(observer.nodes.get(node, -1)) for node in held.values()):
            if owner in pods and place is not None:
                pods[owner].held += 1
                _take(pods[owner], place, used, workloads[owner].shape.requests)
    seen = tuple(
        _node(name, group, used[place], name not in closed) for place, (name, group) in enumerate(nodes.items())
    )
    left = tuple(_workload(observer, n, workloads[n], found) for n, found in pods.items())
    return State(now, seen, left, quota, tuple(observer.troubles), "admitted" in number, tuple(dead))


def _count(
    observer: Observer, pod: int, pods: _Pods, index: Mapping[int, int], used: list[dict[str, int]], requests: Amounts
) -> None:
    number, reached = observer.ledger.number, observer.reached(pod)
    if number["finished"] in reached:
        pods.finished += 1
    elif number["scheduled"] not in reached:
        pods.waiting += 1
    elif (
        place := index.get(observer.places.get(pod, -1))
    ) is not None:  # else its node is gone, and the pod will follow
        _take(pods, place, used, requests)
        if number["running"] in reached:
            pods.running += 1
            pods.began = max(pods.began, observer.when(pod, number["running"]) or 0)


def _take(pods: _Pods, place: int, used: list[dict[str, int]], requests: Amounts) -> None:
    pods.places.append(place)
    for resource, amount in {**requests, "pods": 1}.items():
        used[place][resource] = used[place].get(resource, 0) + amount


def _node(name: str, group: NodeGroup, used: Amounts, is_open: bool) -> NodeState:
    free = {resource: amount - used.get(resource, 0) for resource, amount in group.capacity.items()}
    return NodeState(name, group.name, group.capacity, free, is_open, group.labels, group.taints)


def _workload(observer: Observer, number: int, workload: Workload, pods: _Pods) -> WorkloadState:
    ledger = observer.ledger
    admitted = ledger.number.get("admitted")
    return WorkloadState(
        number, workload.name, workload.phase, workload.pods, workload.gang, workload.shape, workload.declares,
        workload.duration, ledger.stage_of(number), observer.when(number, ledger.number["submitted"]) or 0,
        admitted is None or (ledger.has_reached(number, admitted) and number not in ledger.evicted),
        tuple(pods.places), pods.held, pods.running, pods.waiting, pods.finished, observer.said.get(number, ""),
        pods.began + workload.duration if pods.running else 0, workload.queue,
    )  # fmt: skip
