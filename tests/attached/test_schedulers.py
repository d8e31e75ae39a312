"""Clusters where Volcano, KAI or the AppWrapper operator runs: they are found, asked for permissions, used, and left clean."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from seatrial import stacks
from seatrial.clusters import programs
from seatrial.clusters.access import kept_clusters
from seatrial.clusters.local import kept_planes
from seatrial.clusters.local.certificates import Authority, write_kubeconfig
from seatrial.clusters.local.components import PlaneOptions
from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.model.control_plane import Identity
from seatrial.model.settings import CONTROL_PLANE, resolve
from tests.api import Api
from tests.conftest import Seatrial

pytestmark = pytest.mark.local

START = """
name: there
nodes: [{name: fake, count: 4, capacity: {cpu: 4, memory: 8Gi}, pods: {create: 100ms, start: 200ms}}]
"""
# A gang that fills all nodes waits for two jobs of another queue, which hold half of them.
VOLCANO = f"""{START}
stacks: [volcano]
queues: {{red: {{cohort: all, quota: {{cpu: 8}}}}, blue: {{cohort: all, quota: {{cpu: 8}}}}}}
steps:
  - submit: {{name: first, queue: red, count: 2, duration: 3s, requests: {{cpu: 4}}, priority: 7}}
  - submit: {{name: gang, queue: blue, gang: true, count: 1, pods: 4, duration: 1s, requests: {{cpu: 4}}}}
  - wait: {{for: completed, timeout: 90s}}
expect: ["completed == 3"]
"""
KAI = f"""{START}
stacks: [kai]
queues: {{red: {{cohort: all, quota: {{cpu: 8}}}}, blue: {{cohort: all, quota: {{cpu: 8}}}}}}
preemption: {{within-queue: lower-priority, reclaim: any, fair-sharing: true}}
steps:
  - submit: {{name: first, queue: red, count: 4, duration: 3s, requests: {{cpu: 2}}}}
  - submit: {{name: second, queue: blue, count: 4, duration: 1s, requests: {{cpu: 2}}}}
  - wait: {{for: completed, timeout: 90s}}
expect: ["completed == 8"]
"""
APPWRAPPER = f"""{START}
stacks: [appwrapper]
steps:
  - submit: {{name: first, count: 4, duration: 1s, requests: {{cpu: 2}}}}
  - wait: {{for: completed, timeout: 90s}}
expect: ["completed == 4"]
"""
# Stack → scenario, its Deployment, a permission it asks for, a stage of its own, its cluster-wide kind.
THERE = {
    "volcano": (VOLCANO, "volcano-scheduler", "create podgroups", "inqueue_s",
                "/apis/scheduling.volcano.sh/v1beta1/queues"),
    "kai": (KAI, "kai-operator", "create podgroups", "bind_requested_s", "/apis/scheduling.run.ai/v2/queues"),
    "appwrapper": (APPWRAPPER, "appwrapper-controller-manager", "create appwrappers", "resources_deployed_s", ""),
}  # fmt: skip


@pytest.fixture(params=THERE)
def there(request: pytest.FixtureRequest, own_state: Path) -> Iterator[tuple[str, kept_clusters.KeptCluster]]:  # noqa: ARG001
    """A cluster in which the stack's processes run, without a KWOK."""
    name = str(request.param)
    stack = stacks.find(name)
    binaries = ensure_binaries((*programs.CONTROL_PLANE, *stack.real.programs()))
    options = PlaneOptions(settings=resolve((*CONTROL_PLANE, *stack.settings), "as shipped", {}), audit=False)
    try:
        yield name, kept_planes.up(name, options, binaries, stack=name, keeper="seatrial.study.keeper_process")
    finally:
        kept_planes.down(name)


def test_a_stack_that_is_there_is_found_used_and_left_clean(
    there: tuple[str, kept_clusters.KeptCluster], seatrial: Seatrial, tmp_path: Path
) -> None:
    name, cluster = there
    scenario, deployment, permission, stage, own_kind = THERE[name]
    (tmp_path / "there.yaml").write_text(scenario)
    api, context = Api(cluster.kubeconfig("admin")), f"seatrial-{name}"
    run = ("run", "there.yaml", "--on", "kubeconfig", "--context", context, "-o", "out", "--kubeconfig")
    missing = seatrial(*run, cluster.kubeconfig())
    assert missing.returncode == 3
    assert f"the stack '{name}' is not on this cluster: there is no" in missing.stderr
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "theirs"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    sign = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": deployment}, "spec": spec}
    assert api.call("POST", "/apis/apps/v1/namespaces/kube-system/deployments", sign)[0] == 201
    nobody = Identity("nobody", "nobody", (), "")
    Authority.load(cluster.layout).issue_client(cluster.layout, nobody)
    write_kubeconfig(cluster.layout, cluster.url, nobody)
    refused = seatrial(*run, cluster.kubeconfig("nobody"))
    assert refused.returncode == 3 and permission in refused.stderr
    assert not (tmp_path / "out").exists()
    done = seatrial(*run, cluster.kubeconfig())
    assert done.returncode == 0, done.stderr
    times = pl.read_csv(tmp_path / "out" / "times.csv", infer_schema_length=None)
    assert times[stage].null_count() == 0
    left = api.call("GET", own_kind)[1]["items"] if own_kind else []
    assert [one["metadata"]["name"] for one in left if one["metadata"]["name"].startswith("seatrial-")] == []
    assert api.call("GET", "/api/v1/nodes")[1]["items"] == []
