"""One kept control plane with a few fake nodes for all tests of `seatrial submit`, and a way to see what is there."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from seatrial.clusters import programs
from seatrial.clusters.access import kept_clusters
from seatrial.clusters.kwok import fake_nodes, stage_objects
from seatrial.clusters.local import kept_planes
from seatrial.clusters.local.components import PlaneOptions
from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.kube import Client, Resource, access_from
from seatrial.kube.shapes import Object
from seatrial.model.labels import STUDY_LABEL
from seatrial.model.plan import NodeGroup, Span
from seatrial.model.settings import CONTROL_PLANE, resolve
from seatrial.model.units import MILLISECOND

T = TypeVar("T")

CLUSTER = "submit-tests"
NODES = NodeGroup(
    "fake", 4, {"cpu": 64_000, "memory": 2**40, "pods": 500}, start=Span(10 * MILLISECOND, 10 * MILLISECOND)
)


class Cluster:
    """The control plane, and questions to its API server."""

    def __init__(self, found: kept_clusters.KeptCluster) -> None:
        self.kubeconfig = found.kubeconfig()

    def ask(self, question: Callable[[Client], Awaitable[T]]) -> T:
        async def main() -> T:
            async with Client(access_from(self.kubeconfig)) as client:
                return await question(client)

        return asyncio.run(main())

    def there(self, kind: Resource, study: str, namespace: str = "") -> list[Object]:
        """What carries the study's label."""

        async def question(client: Client) -> list[Object]:
            listed = await client.list(kind, namespace, shape=Object, labelSelector=f"{STUDY_LABEL}={study}")
            return listed.items

        return self.ask(question)

    def create(self, kind: Resource, name: str, spec: Any = None, namespace: str = "", **more: Any) -> None:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **more}
        body |= {"spec": spec} if spec is not None else {}
        self.ask(lambda client: client.create(kind, body, name, namespace))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Its state directory is its own, and set only where it is used: other folders' tests run in the same worker."""
    state = str(tmp_path_factory.mktemp("submit-state"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", state)
        settings = resolve(CONTROL_PLANE, "unlimited", {})
        options = PlaneOptions(settings=settings, stages=stage_objects.stages([NODES]), audit=False)
        there = Cluster(kept_planes.up(CLUSTER, options, ensure_binaries([*programs.CONTROL_PLANE, programs.KUBECTL])))
        there.ask(lambda client: fake_nodes.create(client, NODES, 0, {}))
    yield there
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", state)
        kept_planes.down(CLUSTER)


@pytest.fixture(autouse=True)
def state_of_the_cluster(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find the cluster by its state directory, and nothing else of the machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(cluster.kubeconfig.parents[4]))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def lines_of(out: Path) -> list[dict[str, Any]]:
    [file] = out.glob("trials/*/submitted.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def study_of(out: Path) -> str:
    return str(json.loads((out / "study.json").read_text())["scenario"]["study"])


def python_env() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "80"}
