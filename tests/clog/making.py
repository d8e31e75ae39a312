"""States made by hand: nodes with so many cores, workloads that stand here and there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seatrial.model.plan import Amounts, PodShape
from seatrial.model.state import NodeState, State, WorkloadState
from seatrial.model.units import SECOND

CORE = 1000
TWO_CORES = PodShape({"cpu": 2 * CORE})


def gang(
    number: int, size: int, nodes: Sequence[int] = (), shape: PodShape = TWO_CORES, running: int = 0, **more: Any
) -> WorkloadState:
    """A gang of which the pods on `nodes` stand; the others exist and wait, unless `waiting` says otherwise."""
    finished = more.pop("finished", 0)
    waiting = more.pop("waiting", max(size - len(nodes) - finished, 0))
    return WorkloadState(
        number, more.pop("name", f"gang-{number}"), "load", size, more.pop("gang", True), shape, more.pop("declares", None),
        10 * SECOND, more.pop("stage", "pods_created"), 0, more.pop("admitted", True), tuple(nodes),
        running=running, waiting=waiting, finished=finished, **more,
    )  # fmt: skip


def pods(number: int, size: int, nodes: Sequence[int] = (), **more: Any) -> WorkloadState:
    """Pods that are no gang."""
    return gang(number, size, nodes, gang=False, name=f"job-{number}", **more)


def state(capacities: Sequence[Amounts], workloads: Sequence[WorkloadState], **more: Any) -> State:
    """Free is what the workloads leave, less what is said to be taken by others."""
    closed: Sequence[int] = more.pop("closed", ())
    labels: Mapping[int, Mapping[str, str]] = more.pop("labels", {})
    taints: Mapping[int, Any] = more.pop("taints", {})
    foreign: Mapping[int, Amounts] = more.pop("foreign", {})
    nodes = []
    for index, capacity in enumerate(capacities):
        free = {"pods": 110, **capacity}
        for workload in workloads:
            for name, amount in {"pods": 1, **workload.shape.requests}.items():
                free[name] = free.get(name, 0) - amount * workload.nodes.count(index)
        for name, amount in foreign.get(index, {}).items():
            free[name] -= amount
        there = {"pods": 110, **capacity}
        here, stains = labels.get(index, {}), taints.get(index, ())
        nodes.append(NodeState(f"fake-{index}", "fake", there, free, index not in closed, here, stains))
    return State(more.pop("at", 100 * SECOND), tuple(nodes), tuple(workloads), **more)


def cores(count: int, each: int = 3) -> list[Amounts]:
    """Nodes with so many cores: with 3 there is room for one pod of two."""
    return [{"cpu": each * CORE} for _ in range(count)]
