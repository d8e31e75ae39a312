"""A real control plane as its users see it: kubectl, fake nodes, pods, Jobs, identities."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from seatrial.clusters.access import kept_clusters
from seatrial.clusters.kwok.stage_objects import default_stages
from seatrial.clusters.local import kept_planes
from seatrial.clusters.local.components import PlaneOptions
from tests.api import Api
from tests.waiting import eventually

pytestmark = [pytest.mark.local, pytest.mark.timeout(1800)]

Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "fake-0", "labels": {"kubernetes.io/hostname": "fake-0"}},
}
CONTAINERS = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}]
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"}, "spec": {"containers": CONTAINERS}}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "brief"},
    "spec": {
        "template": {
            "metadata": {"annotations": {"seatrial.dev/duration": "500ms"}},
            "spec": {"restartPolicy": "Never", "containers": CONTAINERS},
        }
    },
}


@pytest.fixture(scope="module")
def node(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=json.dumps(NODE))


def test_kubectl_says_which_version_the_server_has_and_warns_of_nothing(kubectl: Kubectl) -> None:
    answer = kubectl("version", "-o", "json")
    assert json.loads(answer.stdout)["serverVersion"]["gitVersion"] == "v1.36.3"
    assert answer.stderr == ""


@pytest.mark.parametrize("what", [("get", "nodes"), ("get", "pods", "-A"), ("api-resources",)])
def test_kubectl_lists_without_warnings(kubectl: Kubectl, what: tuple[str, ...]) -> None:
    answer = kubectl(*what)
    assert answer.stderr in ("", "No resources found\n")


@pytest.mark.usefixtures("node")
def test_a_fake_node_gets_ready_and_runs_a_pod(kubectl: Kubectl) -> None:
    kubectl("wait", "--for=condition=Ready", "node/fake-0", "--timeout=90s")
    kubectl("apply", "-f", "-", given=json.dumps(POD))
    kubectl("wait", "--for=condition=Ready", "pod/alone", "--timeout=90s")
    found = json.loads(kubectl("get", "pod", "alone", "-o", "json").stdout)
    assert found["status"]["phase"] == "Running"
    assert found["spec"]["nodeName"] == "fake-0"


@pytest.mark.usefixtures("node")
def test_a_job_runs_as_long_as_its_annotation_says_and_completes(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", given=json.dumps(JOB))
    kubectl("wait", "--for=condition=Complete", "job/brief", "--timeout=90s")


@pytest.mark.usefixtures("node")
def test_nodes_renew_their_leases(kubectl: Kubectl) -> None:
    def renewed() -> bool:
        return "fake-0" in kubectl("get", "leases", "-n", "kube-node-lease", "-o", "name").stdout

    assert eventually(renewed)


def test_the_user_may_do_everything_and_is_not_exempt_from_fairness(kubectl: Kubectl) -> None:
    user = json.loads(kubectl("auth", "whoami", "-o", "json").stdout)["status"]["userInfo"]
    assert user["username"] == "seatrial"
    assert user["groups"] == ["system:authenticated"]
    assert kubectl("auth", "can-i", "*", "*").stdout.strip() == "yes"


def test_every_component_acts_under_its_own_name(kubectl: Kubectl) -> None:
    for identity, name in (("kwok", "kwok"), ("kube-scheduler", "system:kube-scheduler")):
        answer = kubectl("auth", "whoami", "-o", "json", identity=identity)
        assert json.loads(answer.stdout)["status"]["userInfo"]["username"] == name


@pytest.mark.usefixtures("node")
def test_the_audit_log_has_every_change_with_who_made_it(kubectl: Kubectl, cluster: kept_clusters.KeptCluster) -> None:
    kubectl("create", "configmap", "audited")
    assert cluster.audit_log

    def logged() -> bool:
        assert cluster.audit_log
        for line in cluster.audit_log.read_text().splitlines():
            event = json.loads(line)
            if event.get("objectRef", {}).get("name") == "audited":
                return bool(event["stage"] == "ResponseComplete" and event["user"]["username"] == "seatrial")
        return False

    assert eventually(logged)
    users = {json.loads(line)["user"]["username"] for line in cluster.audit_log.read_text().splitlines()}
    assert {"kwok", "system:kube-scheduler", "system:kube-controller-manager"} <= users


@pytest.mark.parametrize("component", ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"])
def test_metrics_of_every_component_can_be_read_with_the_users_certificate(
    cluster: kept_clusters.KeptCluster, component: str
) -> None:
    port = kept_clusters.find(cluster.name).state.ports[component]
    status, text = Api(cluster.kubeconfig("seatrial"), port).call("GET", "/metrics")
    assert status == 200
    assert "go_goroutines" in text


def test_only_the_owner_can_enter_the_clusters_directory(cluster: kept_clusters.KeptCluster) -> None:
    assert stat.S_IMODE(cluster.layout.directory.stat().st_mode) == 0o700
    keys = list(cluster.layout.pki.glob("*.key"))
    assert keys
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}


def test_kwok_can_be_given_other_stages(kubectl: Kubectl, cluster: kept_clusters.KeptCluster) -> None:
    from seatrial.clusters.kwok.stage_objects import default_stages

    before = kept_clusters.find(cluster.name).pids["kwok"]
    kept_planes.restage(cluster.name, default_stages())
    assert kept_clusters.find(cluster.name).pids["kwok"] != before
    kubectl("get", "nodes")


def test_kwok_goes_on_where_its_last_watch_ended(binaries: dict[str, Path]) -> None:
    """As shipped it would ask for all pods again, and start anew what it has just started, whenever the server closes its watch."""
    everything = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
    options = PlaneOptions(stages=default_stages(), audit_policy=everything)
    found = kept_planes.up("watched", options, binaries)
    try:
        seen: list[str] = []

        def asked() -> bool:
            whole = found.layout.audit_log.read_text().rpartition("\n")[0]  # the last line may be under way
            lines = map(json.loads, whole.splitlines())
            seen[:] = [
                line["requestURI"] for line in lines if line["user"]["username"] == "kwok" and line["verb"] == "watch"
            ]
            return any("/pods?" in uri for uri in seen)

        assert eventually(asked)
        assert not [uri for uri in seen if "resourceVersion=0&" in uri]
    finally:
        kept_planes.down("watched")
