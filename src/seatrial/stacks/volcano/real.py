"""Volcano on a real cluster; on `local` its scheduler v1.10.0 runs beside kube-scheduler.

Volcano's controller manager would make a PodGroup for every Job, and its webhooks check them. Neither is needed: the PodGroups of
workloads are created with them, by the rules of that controller (pkg/controllers/podgroup: a Job that is no gang needs one pod).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seatrial.kube.resources import JOBS
from seatrial.model.control_plane import Component, ControlPlane, GoBinary, Identity, Ready
from seatrial.model.interfaces import Manifest, Permission, PresenceSigns
from seatrial.model.plan import Scalar, Setup, Workload
from seatrial.model.units import MILLISECOND, format_quantity
from seatrial.observe.observer import Watch
from seatrial.stacks import job_objects
from seatrial.stacks.default.real import DefaultReal, permissions
from seatrial.stacks.free_ports import HOST, free_port
from seatrial.stacks.volcano import tiers_of, words
from seatrial.stacks.volcano.objects import GROUP_ANNOTATION, POD_GROUPS, WATCHES

NAME = "volcano-scheduler"
SCHEDULER_NAME = "volcano"
CONFIG = "volcano.yaml"
QUEUE = "default"  # the scheduler makes it itself
SOCKETS = "volcano-sockets"  # below the cluster's directory; else it would be one for all, outside

BINARY = GoBinary(
    NAME,
    Path(__file__).with_name("go"),
    "volcano.sh/volcano/cmd/scheduler",
    files=(
        "config/crd/volcano/bases/scheduling.volcano.sh_*.yaml",
        "config/crd/volcano/bases/nodeinfo.volcano.sh_*.yaml",
    ),
)


class VolcanoReal(DefaultReal):
    """A PodGroup per workload; pods name it by an annotation, and the scheduler by its name."""

    signs = PresenceSigns("podgroups.scheduling.volcano.sh", ("volcano-scheduler",))

    def permissions(self, setup: Setup) -> Sequence[Permission]:
        return (*super().permissions(setup), *permissions(POD_GROUPS, "create", "list", "watch"))

    def programs(self) -> Sequence[GoBinary]:
        return (BINARY,)

    def amend(self, plane: ControlPlane, setup: Setup) -> ControlPlane:
        own = setup.settings["volcano"]
        health = free_port()
        component = Component(
            NAME,
            BINARY,
            (
                f"--kubeconfig=kubeconfig/{NAME}.yaml", "--leader-elect=false", f"--scheduler-conf={CONFIG}",
                f"--scheduler-name={SCHEDULER_NAME}", f"--schedule-period={int(own['period']) // MILLISECOND}ms",
                f"--kube-api-qps={own['qps'] or -1}", f"--kube-api-burst={own['burst']}",
                "--enable-healthz=true", f"--healthz-address={HOST}:{health}", "--enable-metrics=false", "--cache-dumper=false",
            ),
            needs=("kube-apiserver",),
            ready=Ready("/healthz", health, tls=False),
            env={"DEBUG_SOCKET_DIR": SOCKETS},
        )  # fmt: skip
        return (
            plane.with_identity(Identity(NAME, NAME, (), "cluster-admin"))
            .with_component(component)
            .with_file(CONFIG, configuration(own))
            .with_manifests(BINARY)
        )

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        """The PodGroup is created first: a pod without its group is not looked at."""
        made = job_objects.manifests(workload, labels, SCHEDULER_NAME)
        template = {"metadata": {"annotations": {GROUP_ANNOTATION: workload.name}}}
        named = [
            replace(m, body=job_objects.with_template(m.body, template)) if m.resource == JOBS else m for m in made
        ]
        return [job_objects.of_workload(POD_GROUPS, workload, labels, pod_group(workload)), *named]

    def watches(self) -> Sequence[Watch]:
        return WATCHES


def pod_group(workload: Workload) -> dict[str, Any]:
    """`minResources` is what `enqueue` compares with the queue: without it every group is Inqueue at once."""
    least = workload.pods if workload.gang else 1
    requests = workload.shape.requests
    return {
        "minMember": least,
        "queue": QUEUE,
        "minResources": {name: format_quantity(amount * least, name) for name, amount in requests.items()},
    }


def configuration(settings: Mapping[str, Scalar]) -> dict[str, Any]:
    """As the chart's volcano-scheduler.conf; a gang or a share does not make its pods preemptable there."""
    return {
        "actions": ", ".join(words(settings["actions"])),
        "tiers": [{"plugins": [_plugin(name) for name in tier]} for tier in tiers_of(settings["plugins"])],
    }


def _plugin(name: str) -> dict[str, Any]:
    return {"name": name, **({"enablePreemptable": False} if name in ("gang", "drf") else {})}
