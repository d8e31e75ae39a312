"""A load of requests on somebody else's API server: one measures what is there, and it stays as it was."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from seatrial.clusters.attached.placement import on_existing, on_ours, placed
from seatrial.model.selectors import parse_selector
from tests.attached.conftest import CONTEXT, Foreign, Start, trial_of
from tests.conftest import Seatrial
from tests.waiting import eventually

pytestmark = pytest.mark.local

LOAD = """
name: load
nodes: [{name: fake, count: 2, capacity: {cpu: 64, memory: 64Gi}}]
stacks: [default]
namespaces: 3
steps:
  - - create: {name: mass, count: 300, workers: 8, AS payload: 1k, objects: {apiVersion: v1, kind: ConfigMap,
        metadata: {name: "mass-${i}"}, data: {text: "${payload}"}}}
    - create:
        name: apps
        count: 6
        AS
        objects:
          apiVersion: apps/v1
          kind: Deployment
          metadata: {name: "app-${i}"}
          spec:
            selector: {matchLabels: {app: "app-${i}"}}
            template: {metadata: {labels: {app: "app-${i}"}}, spec: {containers: [{name: main, image: none}]}}
  - wait: {name: up, for: pods-running, of: apps}
  - pause: 2s
  - delete: {name: away, of: apps, workers: 2}
  - wait: {name: down, for: pods-gone, of: apps}
"""


def scenario(tmp_path: Path, identity: str) -> Path:
    file = tmp_path / "load.yaml"
    file.write_text(
        LOAD.replace("AS payload", f"{identity}, payload" if identity else "payload").replace("AS", identity)
    )
    return file


def test_pods_of_a_load_stand_on_nodes_of_ours_and_nothing_foreign_changes(
    foreign: Foreign, start: Start, tmp_path: Path
) -> None:
    before, _ = foreign.everything()
    target = ("--on", "kubeconfig", "--context", CONTEXT, "--kubeconfig", foreign.kubeconfig)
    process = start("run", scenario(tmp_path, "as: tenant"), *target, "-o", "out")
    assert eventually(lambda: sum(pod["status"]["phase"] == "Running" for pod in foreign.our_pods()) == 6)
    assert all(pod["spec"]["nodeName"].startswith("fake-") for pod in foreign.our_pods())
    shown, errors = process.communicate(timeout=80)
    assert process.returncode == 0, errors
    assert foreign.everything() == (before, [])
    trial = trial_of(tmp_path / "out")
    assert trial["outcome"] == "completed"
    sent = pl.read_parquet(next((tmp_path / "out").glob("trials/*/requests.parquet")))
    made = sent.filter((pl.col("verb") == "create") & (pl.col("code") == 201))
    assert dict(made.group_by("resource").len().iter_rows()) == {"configmaps": 300, "deployments": 6}
    assert set(made["identity"]) == {"tenant"}
    assert "tenant" in shown
    measured = pl.read_parquet(next((tmp_path / "out").glob("trials/*/metrics.parquet")))
    assert "apiserver_request_total" in set(measured["metric"])


def test_phases_that_begin_together_wait_until_their_identity_may_act(
    foreign: Foreign, seatrial_giving_roles_slowly: Seatrial, tmp_path: Path
) -> None:
    """The second one did not: what it sent in that moment was refused, and the trial waited for it."""
    target = ("--on", "kubeconfig", "--context", CONTEXT, "--kubeconfig", foreign.kubeconfig)
    done = seatrial_giving_roles_slowly("run", scenario(tmp_path, "as: tenant"), *target, "-o", "out")
    assert done.returncode == 0, done.stderr
    sent = pl.read_parquet(next((tmp_path / "out").glob("trials/*/requests.parquet")))
    assert set(sent.filter(pl.col("verb") == "create")["code"]) == {201}


def test_who_may_see_no_metrics_and_be_nobody_else_measures_as_the_client(
    foreign: Foreign, seatrial: Seatrial, tmp_path: Path
) -> None:
    everything = {"apiGroups": ["", "apps", "batch", "coordination.k8s.io"], "resources": ["*"], "verbs": ["*"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "measurer"},
            "rules": [everything]}  # fmt: skip
    foreign.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "measurer"}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "measurer"},
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "measurer"},
               "subjects": [subject]}  # fmt: skip
    foreign.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    target = ("--on", "kubeconfig", "--context", CONTEXT, "--kubeconfig", foreign.user("measurer"))
    done = seatrial("run", scenario(tmp_path, ""), *target, "-o", "own")
    assert done.returncode == 0, done.stderr
    trial = trial_of(tmp_path / "own")
    assert trial["outcome"] == "completed"
    assert "403" in str(trial["validity"]["not_measured"])
    refused = seatrial("run", scenario(tmp_path, "as: tenant"), *target, "-o", "other")
    assert refused.returncode == 1
    trial = trial_of(tmp_path / "other")
    assert trial["outcome"] == "failed"
    assert "up: all requests of 'apps' were refused (403" in trial["detail"]
    assert 'User "tenant" cannot create' in trial["detail"], "we may not allow it"
    assert foreign.nothing_of_ours()


def test_every_spec_of_pods_is_placed_however_deep() -> None:
    spec = {"containers": [{"name": "main"}], "nodeSelector": {"disk": "fast"}}
    cron = {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": spec}}}}}
    pods = placed(cron, lambda inner: on_ours(inner, "study", "s1"))["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pods["nodeSelector"] == {"disk": "fast", "study": "s1"}
    assert pods["tolerations"] == [{"key": "study", "operator": "Equal", "value": "s1", "effect": "NoSchedule"}]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    asked = {"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}}
    found = on_existing({**spec, "affinity": asked}, parse_selector("pool in (batch),!spot"))
    expressions = found["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"][0]["matchExpressions"]
    assert [expression["key"] for expression in expressions] == ["zone", "pool", "spot"]
    config = {"kind": "ConfigMap", "data": {"containers": "none"}}
    assert placed(config, lambda _: pytest.fail("no pods here")) == config
