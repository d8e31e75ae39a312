"""MCAD on a real cluster; on `local` MCAD v1.40 as a process.

Its client limits are constants in its source. So that all stacks can be given the same limits, it is built from a copy that reads
them from the environment; unset, they are the shipped ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from seatrial.kube.resources import JOBS
from seatrial.model.control_plane import Component, ControlPlane, GoBinary, Identity, Ready
from seatrial.model.interfaces import Manifest, Permission, PresenceSigns
from seatrial.model.plan import Scalar, Setup, Workload
from seatrial.model.units import SECOND, format_quantity
from seatrial.observe.observer import Watch
from seatrial.stacks.default.real import DefaultReal, permissions
from seatrial.stacks.job_objects import job, of_workload, with_service
from seatrial.stacks.mcad import counted
from seatrial.stacks.mcad.objects import APPWRAPPERS, WATCHES

_MAIN = "cmd/kar-controllers/app/server.go"
_LIMITS = """func limitOr(name string, shipped float64) float64 {
	if given, err := strconv.ParseFloat(os.Getenv(name), 64); err == nil {
		return given
	}
	return shipped
}

func Run(opt """
BINARY = GoBinary(
    "mcad",
    Path(__file__).with_name("go"),
    "github.com/project-codeflare/multi-cluster-app-dispatcher/cmd/kar-controllers",
    files=("config/crd/bases/*.yaml",),
    replace=(
        (_MAIN, "import (", 'import (\n\t"os"\n\t"strconv"\n'),
        (_MAIN, "restConfig.QPS = 100.0", 'restConfig.QPS = float32(limitOr("MCAD_QPS", 100.0))'),
        (_MAIN, "restConfig.Burst = 200.0", 'restConfig.Burst = int(limitOr("MCAD_BURST", 200.0))'),
        (_MAIN, "func Run(opt ", _LIMITS),
    ),
)


class McadReal(DefaultReal):
    """AppWrappers; MCAD creates the Jobs in them."""

    creates = APPWRAPPERS
    signs = PresenceSigns(
        "appwrappers.workload.codeflare.dev",
        ("mcad-controller", "mcad-controller-manager"),
        APPWRAPPERS.api_version,
        rivals=("appwrapper-controller-manager",),
    )

    def permissions(self, setup: Setup) -> Sequence[Permission]:  # noqa: ARG002
        return (*permissions(JOBS, "list", "watch"), *permissions(APPWRAPPERS, "create", "list", "watch", "delete"))

    def programs(self) -> Sequence[GoBinary]:
        return (BINARY,)

    def amend(self, plane: ControlPlane, setup: Setup) -> ControlPlane:
        identity = Identity("mcad", "mcad", (), "cluster-admin")
        return plane.with_identity(identity).with_manifests(BINARY).with_component(_component(setup.settings["mcad"]))

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        """An AppWrapper around the Job. MCAD counts `custompodresources`; without them it counts one pod of a Job.

        `minAvailable` is left out: with it MCAD deletes a Job whose pods have not run for five minutes.
        """
        requests = {name: format_quantity(amount, name) for name, amount in counted(workload).items()}
        item = {
            "replicas": 1,
            "completionstatus": "Complete",
            "custompodresources": [{"replicas": workload.pods, "requests": requests, "limits": {}}],
            "generictemplate": job(workload, labels),
        }
        made = of_workload(APPWRAPPERS, workload, labels, {"resources": {"GenericItems": [item]}})
        return with_service(workload, labels, made)

    def watches(self) -> Sequence[Watch]:
        return WATCHES


def _component(settings: Mapping[str, Scalar]) -> Component:
    return Component(
        "mcad",
        BINARY,
        (
            "--kubeconfig=kubeconfig/mcad.yaml",
            f"--backofftime={int(settings['backoff']) // SECOND}",
            "--quotaEnabled=false",
            "--healthProbeListenAddr=127.0.0.1:0",
        ),
        needs=("kube-apiserver",),
        ready=Ready("/healthz", tls=False),
        env={"MCAD_QPS": str(settings["qps"] or -1), "MCAD_BURST": str(settings["burst"])},
    )
