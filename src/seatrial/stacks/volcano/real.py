"""Volcano on a real cluster; on `local` its scheduler v1.10.0 runs beside kube-scheduler.

Volcano's controller manager would make a PodGroup for every Job, and its webhooks check them. Neither is needed: the PodGroups of
workloads are created with them, by the rules of that controller (pkg/controllers/podgroup: a Job that is no gang needs one pod).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seatrial.kube.resources import JOBS
from seatrial.model.control_plane import Component, ControlPlane, GoBinary, Identity, Ready
from seatrial.model.interfaces import Manifest, Permission, PresenceSigns
from seatrial.model.labels import STUDY_LABEL, priority_class
from seatrial.model.plan import Amounts, Setup, Workload
from seatrial.model.preempted_jobs import survives_preemption
from seatrial.model.units import MILLISECOND, format_quantity
from seatrial.observe.observer import Watch
from seatrial.stacks import job_objects
from seatrial.stacks.default.real import DefaultReal, permissions
from seatrial.stacks.free_ports import HOST, free_port
from seatrial.stacks.volcano.objects import GROUP_ANNOTATION, POD_GROUPS, QUEUES, WATCHES, reclaims, study_queue
from seatrial.stacks.volcano.session_configuration import actions_of, tiers_of
from seatrial.stacks.volcano.volcano_queues import ONLY, VolcanoQueue, volcano_queues

NAME = "volcano-scheduler"
SCHEDULER_NAME = "volcano"
CONFIG = "volcano.yaml"
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
        of_queues = permissions(QUEUES, "get", "create", "patch", "list", "delete") if setup.fleet.queues else ()
        return (*super().permissions(setup), *permissions(POD_GROUPS, "create", "list", "watch"), *of_queues)

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
            must_watch=1,  # its configuration
        )  # fmt: skip
        return (
            plane.with_identity(Identity(NAME, NAME, (), "cluster-admin"))
            .with_component(component)
            .with_file(CONFIG, configuration(setup))
            .with_manifests(BINARY)
        )

    def prepare(
        self, setup: Setup, capacity: Amounts, labels: Mapping[str, str], namespace: str  # noqa: ARG002
    ) -> Sequence[Manifest]:  # fmt: skip
        """The queues of the fleet; the queue `default` is made by the scheduler itself."""
        return [
            job_objects.api_object(QUEUES, study_queue(labels, queue.name), labels, _queue_spec(queue))
            for queue in (volcano_queues(setup.fleet, capacity) if setup.fleet.queues else ())
        ]

    def namespace(self, queue: str, own: str) -> str:  # noqa: ARG002
        """One namespace for all: the PodGroup names the queue."""
        return own

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        """The PodGroup is created first: a pod without its group is not looked at."""
        lasting = survives_preemption(workload) if workload.queue else workload
        made = job_objects.manifests(lasting, labels, SCHEDULER_NAME)
        template = {"metadata": {"annotations": {GROUP_ANNOTATION: workload.name}}}
        named = [
            replace(m, body=job_objects.with_template(m.body, template)) if m.resource == JOBS else m for m in made
        ]
        return [job_objects.of_workload(POD_GROUPS, workload, labels, pod_group(workload, labels)), *named]

    def watches(self) -> Sequence[Watch]:
        return WATCHES

    def evicted_for(self, logs: Path) -> Iterable[tuple[str, str]]:
        log = logs / f"{NAME}.log"
        return reclaims(log.read_text(errors="replace")) if log.exists() else ()


def pod_group(workload: Workload, labels: Mapping[str, str]) -> dict[str, Any]:
    """`minResources` is what `enqueue` compares with the queue: without it every group is Inqueue at once. Volcano orders groups by
    the class that the group itself names, whatever its pods have."""
    least, priority = workload.pods if workload.gang else 1, workload.shape.priority
    return {
        "minMember": least,
        "queue": study_queue(labels, workload.queue) if workload.queue else ONLY,
        "minResources": _quantities({name: amount * least for name, amount in workload.shape.requests.items()}),
        **({"priorityClassName": priority_class(labels.get(STUDY_LABEL, ""), priority)} if priority else {}),
    }


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: format_quantity(amount, name) for name, amount in amounts.items()}


def _queue_spec(queue: VolcanoQueue) -> dict[str, Any]:
    return {
        "weight": queue.weight,
        "reclaimable": queue.reclaimable,
        "deserved": _quantities(queue.deserved),
        **({"capability": _quantities(queue.capability)} if queue.capability else {}),
        **({"guarantee": {"resource": _quantities(queue.guarantee)}} if queue.guarantee else {}),
    }


def configuration(setup: Setup) -> dict[str, Any]:
    """The configuration, as in the chart's volcano-scheduler.conf; a gang or a share does not make its pods preemptable there."""
    own = setup.settings["volcano"]
    return {
        "actions": ", ".join(actions_of(setup.fleet, own["actions"])),
        "tiers": [{"plugins": [_plugin(name) for name in tier]} for tier in tiers_of(setup.fleet, own["plugins"])],
    }


def _plugin(name: str) -> dict[str, Any]:
    return {"name": name, **({"enablePreemptable": False} if name in ("gang", "drf") else {})}
