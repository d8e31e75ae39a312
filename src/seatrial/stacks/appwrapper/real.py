"""The AppWrapper operator on a real cluster; on `local` its v1.2.0 as a process.

It takes its configuration from a ConfigMap, which is created before it starts: if it found none, it would make one with webhooks
on. Only `/healthz` is asked: `/readyz` starts the webhook server, which then fails for want of a certificate and ends the process.
The limits of its client are those of controller-runtime. It is built from a copy that reads them from the environment; unset, they
are the shipped ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seatrial.kube.resources import JOBS
from seatrial.model.control_plane import Component, ControlPlane, GoBinary, Identity, Ready
from seatrial.model.interfaces import Manifest, Permission, PresenceSigns
from seatrial.model.plan import Scalar, Setup, Workload
from seatrial.observe.observer import Watch
from seatrial.stacks.appwrapper.objects import APPWRAPPERS, WATCHES
from seatrial.stacks.default.real import DefaultReal, permissions
from seatrial.stacks.job_objects import job, of_workload, with_service

NAMESPACE = "appwrapper-system"
CONFIG_MAP = "appwrapper-operator-config"  # the default of its flag --config
_MAIN = "cmd/main.go"
_LIMITS = """func limitOr(name string, shipped float64) float64 {
	if given, err := strconv.ParseFloat(os.Getenv(name), 64); err == nil {
		return given
	}
	return shipped
}

func main() {"""
_CONFIGURED = 'exitOnError(err, "unable to get client config")'
_LIMITED = f"""{_CONFIGURED}
	k8sConfig.QPS = float32(limitOr("APPWRAPPER_QPS", float64(k8sConfig.QPS)))
	k8sConfig.Burst = int(limitOr("APPWRAPPER_BURST", float64(k8sConfig.Burst)))"""
BINARY = GoBinary(
    "appwrapper",
    Path(__file__).with_name("go"),
    "github.com/project-codeflare/appwrapper/cmd",
    files=("config/crd/bases/*.yaml",),
    replace=(
        (_MAIN, '\t"os"\n', '\t"os"\n\t"strconv"\n'),
        (_MAIN, "func main() {", _LIMITS),
        (_MAIN, _CONFIGURED, _LIMITED),
    ),
)


class AppWrapperReal(DefaultReal):
    """AppWrappers; the operator creates the Jobs in them."""

    creates = APPWRAPPERS
    signs: PresenceSigns | None = PresenceSigns(
        "appwrappers.workload.codeflare.dev",
        ("appwrapper-controller-manager",),
        APPWRAPPERS.api_version,
        rivals=("mcad-controller", "mcad-controller-manager"),
    )

    def permissions(self, setup: Setup) -> Sequence[Permission]:  # noqa: ARG002
        return (*permissions(JOBS, "list", "watch"), *permissions(APPWRAPPERS, "create", "list", "watch", "delete"))

    def programs(self) -> Sequence[GoBinary]:
        return (BINARY,)

    def amend(self, plane: ControlPlane, setup: Setup) -> ControlPlane:
        return with_operator(plane, setup.settings["appwrapper"])

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        made = of_workload(APPWRAPPERS, workload, labels, wrapped(job(workload, labels)))
        return with_service(workload, labels, made)

    def watches(self) -> Sequence[Watch]:
        return WATCHES


def wrapped(body: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of an AppWrapper around one Job."""
    return {"suspend": False, "components": [{"template": body}]}


def with_operator(plane: ControlPlane, settings: Mapping[str, Scalar]) -> ControlPlane:
    """The control plane with the operator's process, CRD and configuration."""
    component = Component(
        "appwrapper",
        BINARY,
        ("--kubeconfig=kubeconfig/appwrapper.yaml",),
        needs=("kube-apiserver",),
        ready=Ready("/healthz", tls=False),
        env={
            "NAMESPACE": NAMESPACE,
            "APPWRAPPER_QPS": str(settings["qps"] or -1),
            "APPWRAPPER_BURST": str(settings["burst"]),
        },
    )
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE},
        "data": {"config.yaml": json.dumps(configuration(settings))},
    }
    return (
        plane.with_identity(Identity("appwrapper", "appwrapper", (), "cluster-admin"))
        .with_component(component)
        .with_manifests(BINARY)
        .with_objects(namespace, config_map)
    )


def configuration(settings: Mapping[str, Scalar]) -> dict[str, Any]:
    """What differs from the shipped configuration. Its durations are Go's, in nanoseconds: a text such as `1m` is refused."""
    return {
        "appwrapper": {
            "faultTolerance": {
                "admissionGracePeriod": settings["admission-grace"],
                "warmupGracePeriod": settings["warmup-grace"],
                "failureGracePeriod": settings["failure-grace"],
                "resetPause": settings["retry-pause"],
                "retryLimit": settings["retry-limit"],
            }
        },
        "controllerManager": {
            "health": {"bindAddress": "127.0.0.1:0"},
            "metrics": {"bindAddress": "0"},
            "leaderElection": False,
        },
        "webhooksEnabled": False,
    }
