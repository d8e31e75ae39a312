"""1,000 fake nodes until all are Ready, then 5,000 pods until all run: ours beside `kwokctl scale`, same binaries, no QPS limits.

    python benchmarks/local_nodes.py [--nodes 1000] [--pods 5000] [--rounds 1]

kwokctl gets the KWOK it comes with, without our change. Ends with status 1 unless we make nodes at least five times and pods
twice as fast (medians).

Ours runs with the scenario setting `qps: {equal: 5000}`, kwokctl with `--disable-qps-limits`. Both are timed from the first request
until a watch of our own client has seen the last node Ready or the last pod Running. Between the two, both are given the time
until KWOK holds the lease of every node ("taken on": it plays pods on no other), and a rest: the controller manager annotates
kwokctl's nodes again when there are many, and writes an event for each of both, which is work of the
nodes. The audit log is off for both.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop

from seatrial.clusters import programs
from seatrial.clusters.kwok import fake_nodes, stage_objects
from seatrial.clusters.kwok.fake_nodes import CONNECTIONS
from seatrial.clusters.local.components import PlaneOptions
from seatrial.clusters.local.plane import LocalControlPlane
from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.kube import Client, access_from, watch
from seatrial.kube.resources import LEASES, NODES, PODS, Resource
from seatrial.kube.shapes import Node, Object, Pod
from seatrial.model.plan import NodeGroup, PodShape, Toleration
from seatrial.model.settings import CONTROL_PLANE, resolve
from seatrial.stacks.job_objects import pod_spec

GROUP = NodeGroup("fake", 1, {"cpu": 32_000, "memory": 256 << 30, "pods": 110})
RUNNING: dict[str, Any] = {
    "fieldSelector": "status.phase=Running"
}  # one event per pod instead of four: watching must not be what is timed
REST_S = 15.0
SHAPE = PodShape({"cpu": 5, "memory": 50_000_000}, tolerations=(Toleration(),))


async def _timed(
    client: Client, resource: Resource, shape: type[Any], good: Callable[[Any], bool], count: int,
    make: Callable[[], Awaitable[object]], **only: Any,
) -> float:  # fmt: skip
    """Seconds from the first request until `count` objects were seen good."""
    seen: set[str] = set()
    done = asyncio.Event()

    def look(_stamp: int, _event: str, thing: Any) -> None:
        if thing is not None and good(thing):
            seen.add(thing.metadata.name)
            if len(seen) >= count:
                done.set()

    watching = asyncio.create_task(watch(client, resource, shape, look, **only))
    await asyncio.sleep(0.5)
    begun = time.monotonic()
    await make()
    await asyncio.wait_for(done.wait(), 600)
    took = time.monotonic() - begun
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    return took


def _is_ready(node: Node) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions)


def _runs(pod: Pod) -> bool:
    return pod.status.phase == "Running"


async def _create_all(
    client: Client, resource: Resource, bodies: list[tuple[str, dict[str, Any]]], namespace: str
) -> None:
    slots = asyncio.Semaphore(CONNECTIONS)

    async def make(name: str, body: dict[str, Any]) -> None:
        async with slots:
            await client.create(resource, body, name, namespace)

    async with asyncio.TaskGroup() as tasks:
        for name, body in bodies:
            tasks.create_task(make(name, body))


async def _taken_on(client: Client, nodes: int, begun: float) -> float:
    while len((await client.list(LEASES, "kube-node-lease", shape=Object, resourceVersion="0")).items) < nodes:
        await asyncio.sleep(0.1)
    taken = time.monotonic() - begun
    await asyncio.sleep(REST_S)
    return taken


async def ours(binaries: dict[str, Path], nodes: int, pods: int) -> tuple[float, float, float]:
    settings = resolve(CONTROL_PLANE, 5000, {})
    options = PlaneOptions(settings=settings, stages=stage_objects.stages([GROUP]), audit=False)
    async with LocalControlPlane(options=options, amend=_without_taint, binaries=binaries) as plane:
        client = Client(access_from(plane.kubeconfig()), connections=CONNECTIONS)
        many = dataclasses.replace(GROUP, count=nodes)
        begun = time.monotonic()
        ready = await _timed(client, NODES, Node, _is_ready, nodes, lambda: fake_nodes.create(client, many, 0, {}))
        taken = await _taken_on(client, nodes, begun)
        bodies = [
            (f"pod-{i}", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{i}"}, "spec": pod_spec(SHAPE)})
            for i in range(pods)
        ]
        running = await _timed(
            client, PODS, Pod, _runs, pods, lambda: _create_all(client, PODS, bodies, "default"), **RUNNING
        )
        await client.close()
    return ready, taken, running


def _without_taint(plane: Any) -> Any:
    """As a trial has it (clusters/local/local_cluster.py)."""
    server = plane.component("kube-apiserver").flag("--disable-admission-plugins", "TaintNodesByCondition")
    return plane.with_component(server)


async def kwokctl(binaries: dict[str, Path], nodes: int, pods: int, scratch: Path) -> tuple[float, float, float]:
    kubeconfig = scratch / "kwokctl.yaml"
    surroundings = {"PATH": "/usr/bin:/bin", "KWOK_WORKDIR": str(scratch / "kwok"), "HOME": str(scratch)}
    called = {name: name for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")}
    called["kwok-controller"] = programs.KWOK_AS_SHIPPED.name
    flags = [f"--{component}-binary={binaries[name]}" for component, name in called.items()]

    def run(*arguments: str) -> None:
        command = [str(binaries["kwokctl"]), "--name", "bench", *arguments]
        done = subprocess.run(command, env=surroundings, check=False, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"local_nodes: {' '.join(command)} failed:\n{done.stderr}")

    run("create", "cluster", "--runtime", "binary", "--disable-qps-limits", "--wait", "60s",
        "--kubeconfig", str(kubeconfig), *flags)  # fmt: skip
    try:
        client = Client(access_from(kubeconfig), connections=4)
        begun = time.monotonic()
        ready = await _timed(
            client, NODES, Node, _is_ready, nodes,
            lambda: asyncio.to_thread(run, "scale", "node", "--replicas", str(nodes)),
        )  # fmt: skip
        taken = await _taken_on(client, nodes, begun)
        running = await _timed(
            client,
            PODS,
            Pod,
            _runs,
            pods,
            lambda: asyncio.to_thread(run, "scale", "pod", "--replicas", str(pods)),
            **RUNNING,
        )
        await client.close()
    finally:
        run("delete", "cluster")
    return ready, taken, running


async def compare(binaries: dict[str, Path], nodes: int, pods: int) -> tuple[float, float]:
    """How many times as fast we make nodes, and pods."""
    mine = await ours(binaries, nodes, pods)
    with tempfile.TemporaryDirectory() as folder:
        theirs = await kwokctl(binaries, nodes, pods, Path(folder))
    print(
        f"local_nodes: {nodes} nodes Ready {mine[0]:.1f} s, kwokctl {theirs[0]:.1f} s ({theirs[0] / mine[0]:.1f} times); "
        f"taken on {mine[1]:.1f} s, kwokctl {theirs[1]:.1f} s; "
        f"{pods} pods Running {mine[2]:.1f} s, kwokctl {theirs[2]:.1f} s ({theirs[2] / mine[2]:.1f} times)",
        flush=True,
    )
    return theirs[0] / mine[0], theirs[2] / mine[2]


def main() -> int:
    parser = argparse.ArgumentParser(description="Fake nodes and pods, ours beside kwokctl.")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    binaries = ensure_binaries([*programs.CONTROL_PLANE, programs.KWOKCTL, programs.KWOK_AS_SHIPPED])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rounds = [runner.run(compare(binaries, arguments.nodes, arguments.pods)) for _ in range(arguments.rounds)]
    by_nodes, by_pods = (statistics.median(column) for column in zip(*rounds, strict=True))
    return 0 if by_nodes >= 5 and by_pods >= 2 else 1


if __name__ == "__main__":
    sys.exit(main())
