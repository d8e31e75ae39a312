"""Pods of created objects: they compete with those of workloads for nodes, scheduler and buckets."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from seatrial.model.errors import SetupProblem
from seatrial.model.plan import PodShape, Step, Toleration
from seatrial.model.units import MINUTE, SECOND
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.send_requests import Requester, Requests
from seatrial.scenario.actions.wait import Wait, WaitForObjects
from seatrial.sim.created_objects import shape_of
from tests.sim.making import Ran, fakes, run, submit, trial

STACKS = ["default", "gang", "coscheduling", "fluence", "kueue", "mcad"]
LARGE = PodShape({"cpu": 3000})


def deployment(replicas: int = 1, cpu: str = "3", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {}, "spec": {"containers": [container], **spec}}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d-${i}"},
        "spec": {"replicas": replicas, "template": template},
    }  # fmt: skip


def create(manifest: dict[str, Any], count: int = 1) -> Requests:
    return Requests("apps", "create", (manifest,), count, identity=Requester("tenant", "tenant"), workers=1)


def delete(manifest: dict[str, Any], count: int = 1) -> Requests:
    return Requests(
        "down", "delete", (manifest,), count, identity=Requester("tenant", "tenant"), workers=1, of="apps", made=count
    )


def running(count: int, timeout: int = MINUTE) -> tuple[WaitForObjects]:
    return (WaitForObjects("running", "pods-running", ("apps",), count, timeout=timeout),)


def starts(ran: Ran) -> list[dict[str, Any]]:
    assert ran.cluster._loaded
    return ran.cluster._loaded.starts()


def ran_on(tmp_path: Path, *steps: Step, nodes: int = 1, cpu: int = 4000, **more: Any) -> Ran:
    return run(trial(*steps, nodes=[fakes(nodes, cpu=cpu)], **more), tmp_path)


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("gang", [False, True])
def test_a_job_waits_until_a_deployments_pod_has_left_its_node(tmp_path: Path, stack: str, gang: bool) -> None:
    app = deployment()
    load = submit(2, pods=1, shape=LARGE, seconds=2, gang=gang)
    ran = ran_on(
        tmp_path, (create(app),), running(1), (load,), (Pause("look", 5 * SECOND),), (delete(app),),
        (Wait("all", "completed", timeout=10 * MINUTE),), stack=stack,
    )  # fmt: skip
    assert ran.ending.outcome == "completed"
    [pod] = starts(ran)
    assert pod["gone_ns"] > pod["running_ns"] + 5 * SECOND
    assert min(ran.times("scheduled")) >= pod["gone_ns"] / SECOND
    assert ran.count("finished") == 2


@pytest.mark.parametrize("stack", STACKS)
def test_a_deployments_pod_waits_until_a_job_has_left_its_node(tmp_path: Path, stack: str) -> None:
    load, begun = submit(1, shape=LARGE, seconds=20), (Wait("begun", "running"),)
    ran = ran_on(tmp_path, (load,), begun, (create(deployment()),), running(1), stack=stack)
    assert ran.ending.outcome == "completed"
    [pod] = starts(ran)
    assert pod["created_ns"] / SECOND < 10
    assert pod["scheduled_ns"] / SECOND >= ran.times("finished")[0] > 20


def test_pods_in_both_never_exceed_a_node(tmp_path: Path) -> None:
    """Two pods of a core and a half each fit on a node of four cores, whoever they belong to."""
    app = deployment(cpu="1500m")
    load = submit(10, shape=PodShape({"cpu": 1500}), seconds=3)
    ran = ran_on(tmp_path, (create(app, 3), load), running(3), (delete(app, 3),), (Wait("all", "completed"),), nodes=2)
    assert ran.ending.outcome == "completed"
    of_jobs = zip(ran.times("scheduled"), ran.times("finished"), strict=True)
    spans = [(int(a * SECOND), int(b * SECOND)) for a, b in of_jobs]
    spans += [(pod["scheduled_ns"], pod["gone_ns"]) for pod in starts(ran)]
    assert len(spans) == 13
    assert max(sum(a <= at < b for a, b in spans) for at, _ in spans) == 4


def test_bindings_of_both_wait_for_the_schedulers_one_bucket(tmp_path: Path) -> None:
    settings = {"kube-scheduler": {"qps": 2.0, "burst": 1}}
    ran = ran_on(
        tmp_path, (create(deployment(cpu="10m"), 10), submit(10, seconds=1)), running(10), (Wait("all", "completed"),),
        cpu=32_000, settings=settings,
    )  # fmt: skip
    bound = sorted([*ran.times("scheduled"), *(pod["scheduled_ns"] / SECOND for pod in starts(ran))])
    assert len(bound) == 20
    assert all(later - earlier > 0.3 for earlier, later in pairwise(bound))


def test_the_pods_of_a_removed_node_are_made_again(tmp_path: Path) -> None:
    gone = NodeChange("off", "remove", "fake", 1)
    ran = ran_on(
        tmp_path, (create(deployment(4, "10m")),), (WaitForObjects("up", "available", ("apps",), 1),), (gone,),
        (Pause("look", SECOND),), running(4), (WaitForObjects("again", "available", ("apps",), 1),), nodes=2,
    )  # fmt: skip
    assert ran.ending.outcome == "completed"
    lost = [pod for pod in starts(ran) if pod["gone_ns"] is not None]
    assert len(lost) >= 1
    assert len(starts(ran)) == 4 + len(lost)


def test_what_fits_nowhere_keeps_the_wait_waiting(tmp_path: Path) -> None:
    ran = ran_on(tmp_path, (create(deployment(cpu="5"), 2),), running(2, 30 * SECOND))
    assert (ran.ending.outcome, ran.ending.detail) == ("timeout", "running: after 30s 0 of 2 were pods-running")
    assert all(pod["scheduled_ns"] is None for pod in starts(ran))


def test_the_ledger_knows_only_pods_of_workloads(tmp_path: Path) -> None:
    ran = ran_on(
        tmp_path, (create(deployment(cpu="10m"), 5), submit(5, seconds=1)), running(5), (Wait("all", "completed"),)
    )
    assert ran.count("scheduled") == ran.count("running") == ran.count("finished") == 5
    assert ran.seen.filter(pl.col("stage") == "running")["object"].sort().to_list() == [0, 1, 2, 3, 4]


def test_a_manifest_is_read_as_the_scheduler_reads_it() -> None:
    spec = {
        "containers": [
            {"resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "nvidia.com/gpu": 1}}}, {"name": "bare"},
        ],
        "initContainers": [
            {"resources": {"requests": {"cpu": "2"}}},
            {"restartPolicy": "Always", "resources": {"requests": {"memory": "1Gi"}}},
        ],
        "overhead": {"cpu": "100m"},
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"operator": "Exists"}, {"key": "k", "value": "v", "effect": "NoSchedule"}],
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}]},
        ]}}},
    }  # fmt: skip
    wanted = PodShape(
        {"cpu": 2100, "nvidia.com/gpu": 1, "memory": 1 << 30}, {"zone": "a"}, (("disk", ("ssd", "nvme")),),
        (Toleration(), Toleration("k", "Equal", "v", "NoSchedule")),
    )  # fmt: skip
    assert shape_of({"kind": "Pod", "spec": spec}) == wanted
    assert shape_of({"kind": "Deployment", "spec": {"template": {"spec": spec}}}) == wanted
    assert shape_of({"kind": "Deployment"}) == PodShape({})


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (deployment(cpu="lots"), "'lots' is not a quantity"),
        (deployment(tolerations=["all"]), "'str' object has no attribute 'get'"),
    ],
)
def test_a_pod_that_no_server_would_take_is_refused(tmp_path: Path, manifest: dict[str, Any], why: str) -> None:
    with pytest.raises(SetupProblem, match=why):
        ran_on(tmp_path, (create(manifest),))
