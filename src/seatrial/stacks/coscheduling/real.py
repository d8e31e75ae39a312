"""Coscheduling on a real cluster. On `local` its scheduler replaces kube-scheduler, and its controller runs beside it.

The scheduler is kube-scheduler 1.34 with plugins compiled in. Name, identity, port and flags stay those of kube-scheduler, so
that settings, metrics and restarts apply to it unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seatrial.model.control_plane import Component, ControlPlane, GoBinary, Identity, Ready
from seatrial.model.interfaces import Manifest, Permission, PresenceSigns
from seatrial.model.plan import Scalar, Setup, Workload
from seatrial.model.units import SECOND
from seatrial.observe.observer import Watch
from seatrial.stacks import job_objects
from seatrial.stacks.coscheduling.objects import GROUP_LABEL, POD_GROUPS, WATCHES
from seatrial.stacks.default.real import DefaultReal, permissions

KUBERNETES = "v1.34.4"  # what scheduler-plugins v0.34.7 is built on (replace lines in go.mod)

_GO = Path(__file__).with_name("go")
_STAMPS = tuple(
    (f"{package}.{variable}", value)
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    for variable, value in (("gitVersion", KUBERNETES), ("gitMajor", "1"), ("gitMinor", "34"))
)
SCHEDULER = GoBinary("scheduler-plugins-scheduler", _GO, "sigs.k8s.io/scheduler-plugins/cmd/scheduler", _STAMPS)
# The controller also handles ElasticQuotas, and does not start if the API server does not serve them.
CONTROLLER = GoBinary(
    "scheduler-plugins-controller", _GO, "sigs.k8s.io/scheduler-plugins/cmd/controller", _STAMPS,
    files=("config/crd/bases/scheduling.x-k8s.io_*.yaml",),
)  # fmt: skip

_IDENTITY = Identity("scheduler-plugins-controller", "scheduler-plugins-controller", (), "seatrial:podgroups")
_KINDS = ["podgroups", "podgroups/status", "elasticquotas", "elasticquotas/status"]


class CoschedulingReal(DefaultReal):
    """A PodGroup per gang; pods name it by a label."""

    signs = PresenceSigns("podgroups.scheduling.x-k8s.io", ("scheduler-plugins-scheduler",))

    def permissions(self, setup: Setup) -> Sequence[Permission]:
        return (*super().permissions(setup), *permissions(POD_GROUPS, "create"))

    def programs(self) -> Sequence[GoBinary]:
        return (SCHEDULER, CONTROLLER)

    def amend(self, plane: ControlPlane, setup: Setup) -> ControlPlane:
        config = plane.files["scheduler.yaml"]
        assert isinstance(config, Mapping)
        scheduler = replace(plane.component("kube-scheduler"), binary=SCHEDULER)
        return (
            plane.with_component(scheduler)
            .with_component(_controller())
            .with_file("scheduler.yaml", {**config, "profiles": [_profile(setup.settings["coscheduling"])]})
            .with_manifests(CONTROLLER)
            .with_identity(_IDENTITY)
            .with_objects(_role(), _binding())
        )

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        """A gang's PodGroup is created first: the plugin rejects a pod without its group in permit."""
        template = {"metadata": {"labels": {GROUP_LABEL: workload.name}}}
        return job_objects.in_group(workload, labels, POD_GROUPS, {"minMember": workload.pods}, template)

    def watches(self) -> Sequence[Watch]:
        return WATCHES


def _profile(settings: Mapping[str, Scalar]) -> dict[str, Any]:
    """The scheduler's profile, as in manifests/coscheduling/scheduler-config.yaml."""
    args = {
        "permitWaitingTimeSeconds": int(settings["permit-wait"]) // SECOND,
        "podGroupBackoffSeconds": int(settings["backoff"]) // SECOND,
        "podGroupRejectPercentage": int(settings["reject-percentage"]),
    }
    enabled = [{"name": "Coscheduling"}]
    return {
        "schedulerName": "default-scheduler",
        "plugins": {
            "multiPoint": {"enabled": enabled},
            "queueSort": {"enabled": enabled, "disabled": [{"name": "*"}]},
        },
        "pluginConfig": [{"name": "Coscheduling", "args": args}],
    }


def _controller() -> Component:
    """Without a metrics port: the only port left is the one of readiness."""
    return Component(
        "scheduler-plugins-controller",
        CONTROLLER,
        (f"--kubeconfig=kubeconfig/{_IDENTITY.name}.yaml", "--metricsAddr=0", "--probeAddr=127.0.0.1:0"),
        needs=("kube-apiserver",),
        ready=Ready("/readyz", tls=False),
    )


def _role() -> dict[str, Any]:
    """The rules of manifests/install/all-in-one.yaml, in one role for scheduler and controller."""
    rules = [
        {"apiGroups": ["scheduling.x-k8s.io"], "resources": _KINDS,
         "verbs": ["get", "list", "watch", "create", "delete", "update", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
    ]  # fmt: skip
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": _IDENTITY.role},
        "rules": rules,
    }


def _binding() -> dict[str, Any]:
    """In addition to the role that kube-scheduler has from the API server."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "seatrial:kube-scheduler:podgroups"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _IDENTITY.role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"}],
    }
