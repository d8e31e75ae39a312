"""Somebody else's cluster: a real control plane with nodes, namespaces and pods that are not ours, and a KWOK for its own nodes."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from seatrial.clusters import programs
from seatrial.clusters.access import kept_clusters
from seatrial.clusters.kwok.stage_objects import default_stages
from seatrial.clusters.local import kept_planes
from seatrial.clusters.local.certificates import Authority, write_kubeconfig
from seatrial.clusters.local.components import PlaneOptions
from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.model.control_plane import Identity
from tests.api import Api
from tests.conftest import COMMAND
from tests.waiting import LONGEST_S, eventually

CONTEXT = "seatrial-foreign"
LABEL = "seatrial.dev/study"
Objects = dict[tuple[str, str, str], str]  # (kind, namespace, name) → resource version
# Written by the cluster itself all the time.
RESTLESS = ("events", "leases", "componentstatuses")

FAKES = """
name: small
nodes: [{name: fake, count: 4, capacity: {cpu: 64, memory: 64Gi}, pods: {create: 100ms, start: 200ms}}]
stacks: [default]
steps:
  - submit: {name: short, count: 8, duration: DURATION, requests: {cpu: 1, memory: 50M}, priority: 7}
  - wait: {for: completed, timeout: 1m}
expect: ["completed == submitted"]
"""
# Two teams, each in a namespace with a quota, of which one could preempt the other.
SHARED = """
name: shared
nodes: [{name: fake, count: 4, capacity: {cpu: 64, memory: 64Gi}, pods: {create: 100ms, start: 200ms}}]
stacks: [default]
queues: {red: {quota: {cpu: 64}}, blue: {quota: {cpu: 64, memory: 64Gi}}}
steps:
  - - submit: {name: urgent, queue: red, count: 4, duration: DURATION, requests: {cpu: 1}, priority: 7}
    - submit: {name: usual, queue: blue, count: 4, duration: DURATION, requests: {cpu: 1}}
  - wait: {for: completed, timeout: 1m}
expect: ["completed == submitted"]
"""
EXISTING = FAKES.replace(
    "nodes: [{name: fake, count: 4, capacity: {cpu: 64, memory: 64Gi}, pods: {create: 100ms, start: 200ms}}]",
    'nodes: {existing: "pool in (batch),!spot"}',
)


@dataclass(frozen=True)
class Foreign:
    """The cluster as its administrator sees it."""

    cluster: kept_clusters.KeptCluster
    api: Api

    @property
    def kubeconfig(self) -> Path:
        return self.cluster.kubeconfig()

    def get(self, path: str) -> Any:
        status, answer = self.api.call("GET", path)
        assert status == 200, answer
        return answer

    def create(self, path: str, body: dict[str, Any]) -> None:
        status, answer = self.api.call("POST", path, body)
        assert status in (201, 409), answer

    def kinds(self) -> list[tuple[str, str]]:
        """(path, plural) of everything that can be listed."""
        versions = ["/api/v1"]
        versions += [f"/apis/{g['preferredVersion']['groupVersion']}" for g in self.get("/apis")["groups"]]
        return [
            (f"{version}/{kind['name']}", kind["name"])
            for version in versions
            for kind in self.get(version)["resources"]
            if "/" not in kind["name"] and "list" in kind["verbs"] and kind["name"] not in RESTLESS
        ]

    def everything(self) -> tuple[Objects, list[str]]:
        """What is not ours, with versions, and the names of what is ours."""
        foreign: Objects = {}
        ours: list[str] = []
        for path, plural in self.kinds():
            for thing in self.get(path)["items"]:
                meta = thing["metadata"]
                if LABEL in meta.get("labels", {}) or meta.get("namespace", "").startswith("seatrial-"):
                    ours.append(f"{plural}/{meta['name']}")
                else:
                    foreign[plural, meta.get("namespace", ""), meta["name"]] = meta["resourceVersion"]
        foreign.pop(("pods", "team", "too-large"), None)  # the scheduler writes into it how many nodes it looked at
        leases = self.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")["items"]
        ours += [f"leases/{lease['metadata']['name']}" for lease in leases if "real-" not in lease["metadata"]["name"]]
        return foreign, ours

    def our_pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(f"/api/v1/pods?labelSelector={LABEL}")["items"]
        return found

    def nothing_of_ours(self) -> bool:
        namespaces = self.get(f"/api/v1/namespaces?labelSelector={LABEL}")["items"]
        nodes = self.get(f"/api/v1/nodes?labelSelector={LABEL}")["items"]
        return not namespaces and not nodes

    def user(self, name: str, role: str = "") -> Path:
        """The kubeconfig of somebody with this role, or none."""
        identity = Identity(name, name, (), role)
        Authority.load(self.cluster.layout).issue_client(self.cluster.layout, identity)
        write_kubeconfig(self.cluster.layout, self.cluster.url, identity)
        return self.cluster.kubeconfig(name)


@pytest.fixture(scope="session")
def foreign(own_state: Path) -> Iterator[Foreign]:  # noqa: ARG001
    binaries = ensure_binaries(programs.CONTROL_PLANE)
    cluster = kept_planes.up(
        "foreign", PlaneOptions(stages=default_stages(), managed_nodes="owner=foreign", audit=False), binaries
    )
    try:
        found = Foreign(cluster, Api(cluster.kubeconfig("admin")))
        _populate(found)
        yield found
    finally:
        kept_planes.down("foreign")


def _populate(foreign: Foreign) -> None:
    for number in range(2):
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        labels = {"owner": "foreign", "pool": "batch", "kubernetes.io/hostname": f"real-{number}"}
        status = {"capacity": amounts, "allocatable": amounts}
        foreign.create("/api/v1/nodes", _object("v1", "Node", f"real-{number}", labels, status=status))
    foreign.create("/api/v1/namespaces", _object("v1", "Namespace", "team"))
    foreign.create("/api/v1/namespaces/team/configmaps", _object("v1", "ConfigMap", "theirs", data={"a": "b"}))
    account = "/api/v1/namespaces/team/serviceaccounts/default"
    assert eventually(lambda: foreign.api.call("GET", account)[0] == 200)
    for name, cpu in (("web-0", "1"), ("web-1", "1"), ("too-large", "32")):
        foreign.create("/api/v1/namespaces/team/pods", _object("v1", "Pod", name, spec=_pod(cpu)))
    template = {"metadata": {"labels": {"app": "api"}}, "spec": _pod("100m")}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "api"}}, "template": template}
    foreign.create("/apis/apps/v1/namespaces/team/deployments", _object("apps/v1", "Deployment", "api", spec=spec))
    _settle(foreign)


def _settle(foreign: Foreign) -> None:
    before: Objects = {}
    until = time.monotonic() + LONGEST_S
    while time.monotonic() < until:
        now, _ = foreign.everything()
        pods = foreign.get("/api/v1/namespaces/team/pods")["items"]
        if now == before and sum(pod["status"]["phase"] == "Running" for pod in pods) == 4:
            return
        before = now
        time.sleep(1.0)
    raise AssertionError("the foreign cluster does not come to rest")


def _object(version: str, kind: str, name: str, labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": labels or {}}, **more}


def _pod(cpu: str) -> dict[str, Any]:
    container = {"name": "main", "image": "theirs", "resources": {"requests": {"cpu": cpu}}}
    return {"containers": [container], "terminationGracePeriodSeconds": 0}


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def scenario(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes FAKES or EXISTING with this duration."""

    def write(text: str, duration: str = "1s") -> Path:
        file = tmp_path / "small.yaml"
        file.write_text(text.replace("DURATION", duration))
        return file

    return write


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start("run", …)` in the background; killed at the end of the test if it still runs."""
    begun: list[subprocess.Popen[str]] = []

    def go(*arguments: str | Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)], cwd=tmp_path, env={**os.environ},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        begun.append(process)
        return process

    yield go
    for process in begun:
        if process.poll() is None:
            process.kill()
        process.communicate()


def trial_of(out: Path) -> dict[str, Any]:
    [file] = out.glob("trials/*/trial.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found
