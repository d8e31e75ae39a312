"""YuniKorn on a real cluster; on `local` its scheduler v1.8.0 runs beside kube-scheduler.

Its REST server listens on every address, and no setting changes that. It is built from a copy of its module that starts without
that server, and listens on loopback once it has read the cluster's state. Nothing else is changed.

YuniKorn's admission controller would add labels to pods and check its ConfigMap. Neither is needed: pods come with their labels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seatrial.kube.resources import JOBS
from seatrial.model.control_plane import Component, ControlPlane, GoBinary, Identity, Ready
from seatrial.model.fleet import NEVER, Fleet
from seatrial.model.interfaces import Manifest, PresenceSigns
from seatrial.model.labels import STUDY_LABEL
from seatrial.model.plan import Amounts, Scalar, Setup, Workload
from seatrial.model.preempted_jobs import survives_preemption
from seatrial.model.units import MILLISECOND, SECOND, format_quantity
from seatrial.observe.observer import Watch
from seatrial.stacks import job_objects
from seatrial.stacks.default.real import DefaultReal
from seatrial.stacks.free_ports import HOST, free_port
from seatrial.stacks.yunikorn import Yunikorn as YunikornStack
from seatrial.stacks.yunikorn.objects import PLACEHOLDER_LABEL, QUEUE_LABEL, SIZE_ANNOTATION, WATCHES
from seatrial.stacks.yunikorn.yunikorn_queues import ROOT, YunikornQueue, yunikorn_queues

NAME = "yunikorn-scheduler"
SCHEDULER_NAME = "yunikorn"
NAMESPACE = "yunikorn"  # of its ConfigMap
GROUP = "gang"  # the one task group of an application

DOMAIN = "yunikorn.apache.org/"

_MAIN = "pkg/cmd/shim/main.go"
_STARTS = "serviceContext := entrypoint.StartAllServicesWithLogger(log.RootLogger(), log.GetZapConfigs())"
_STARTS_WITHOUT_REST = """corelog.InitializeLogger(log.RootLogger(), log.GetZapConfigs())
	serviceContext := entrypoint.StartAllServicesWithParams(false, false)"""
_SIGNALS = "signalChan := make(chan os.Signal, 1)"
_READY = """listener, listening := net.Listen("tcp", os.Getenv("READY_ADDRESS"))
		if listening != nil {
			log.Log(log.Shim).Fatal("Unable to listen", zap.Error(listening))
		}
		defer listener.Close()
		"""
BINARY = GoBinary(
    NAME,
    Path(__file__).with_name("go"),
    "github.com/apache/yunikorn-k8shim/pkg/cmd/shim",
    replace=(
        (_MAIN, 'import (\n\t"os"', 'import (\n\t"net"\n\t"os"'),
        (_MAIN, '"github.com/apache/yunikorn-core/pkg/entrypoint"',
         '"github.com/apache/yunikorn-core/pkg/entrypoint"\n\tcorelog "github.com/apache/yunikorn-core/pkg/log"'),
        (_MAIN, _STARTS, _STARTS_WITHOUT_REST),
        (_MAIN, _SIGNALS, _READY + _SIGNALS),
    ),
)  # fmt: skip


class YunikornReal(DefaultReal):
    """Every workload is an application; a gang is one with a task group, for which YuniKorn makes placeholders."""

    signs = PresenceSigns(deployments=("yunikorn-scheduler",))

    def __init__(self, settings: Mapping[str, Scalar] | None = None, fleet: Fleet | None = None) -> None:
        self._settings = settings or {setting.name: setting.default for setting in YunikornStack.settings}
        self._fleet = fleet or Fleet()
        self._paths = {queue.name: queue.path for queue in yunikorn_queues(self._fleet) if queue.leaf}

    def programs(self) -> Sequence[GoBinary]:
        return (BINARY,)

    def amend(self, plane: ControlPlane, setup: Setup) -> ControlPlane:
        ready = free_port()
        component = Component(
            NAME,
            BINARY,
            needs=("kube-apiserver",),
            ready=Ready(port=ready, tls=False),
            env={"KUBECONFIG": f"kubeconfig/{NAME}.yaml", "NAMESPACE": NAMESPACE, "READY_ADDRESS": f"{HOST}:{ready}"},
        )
        return (
            plane.with_identity(Identity(NAME, NAME, (), "cluster-admin"))
            .with_component(component)
            .with_objects(*configuration(setup))
        )

    def for_setup(self, setup: Setup) -> YunikornReal:
        return YunikornReal(setup.settings["yunikorn"], setup.fleet)

    def prepare(
        self, setup: Setup, capacity: Amounts, labels: Mapping[str, str], namespace: str  # noqa: ARG002
    ) -> Sequence[Manifest]:  # fmt: skip
        """Prepares nothing: the queues are in the ConfigMap."""
        return ()

    def namespace(self, queue: str, own: str) -> str:  # noqa: ARG002
        """One namespace for all: a label names the queue."""
        return own

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        """Application IDs are of the whole cluster, so the study is part of them."""
        durable = survives_preemption(workload) if self._reclaims else workload
        made = job_objects.manifests(durable, labels, SCHEDULER_NAME)
        return [replace(m, body=self._application(m.body, workload, labels)) if m.resource == JOBS else m for m in made]

    def _application(self, job: Mapping[str, Any], workload: Workload, labels: Mapping[str, str]) -> dict[str, Any]:
        marks: dict[str, Any] = {"labels": {f"{DOMAIN}app-id": f"{labels.get(STUDY_LABEL, '')}-{workload.name}"}}
        if workload.queue:
            marks["labels"][QUEUE_LABEL] = self._paths[workload.queue]
        if workload.gang:
            marks["annotations"] = {
                f"{DOMAIN}task-group-name": GROUP,
                f"{DOMAIN}task-groups": json.dumps([_task_group(job, workload, labels)]),
                f"{DOMAIN}schedulingPolicyParameters": _policy(self._settings),
            }
        return job_objects.with_template(job, {"metadata": marks})

    @property
    def _reclaims(self) -> bool:
        return bool(self._fleet.queues) and self._fleet.preemption.reclaim != NEVER

    def watches(self) -> Sequence[Watch]:
        return WATCHES


def _policy(own: Mapping[str, Scalar]) -> str:
    return f"placeholderTimeoutInSeconds={int(own['placeholder-timeout']) // SECOND} gangSchedulingStyle={own['gang-style']}"


def _task_group(job: Mapping[str, Any], workload: Workload, labels: Mapping[str, str]) -> dict[str, Any]:
    """What placeholders are made of: they need what decides on which nodes the gang's pods may be."""
    spec = job["spec"]["template"]["spec"]
    requests = {name: format_quantity(amount, name) for name, amount in workload.shape.requests.items()}
    where = {key: spec[key] for key in ("nodeSelector", "tolerations", "affinity") if spec.get(key)}
    return {
        "name": GROUP,
        "minMember": workload.pods,
        "minResource": requests,
        "labels": {**labels, PLACEHOLDER_LABEL: workload.name},
        "annotations": {SIZE_ANNOTATION: str(workload.pods)},
        **where,
    }


def configuration(setup: Setup) -> list[dict[str, Any]]:
    """Its namespace and ConfigMap. What the settings do not name is as shipped."""
    own = setup.settings["yunikorn"]
    partition = _partition_of(setup.fleet, own) if setup.fleet.queues else _partition(own)
    data = {
        "service.schedulingInterval": f"{int(own['interval']) // MILLISECOND}ms",
        "kubernetes.qps": str(own["qps"] or -1),
        "kubernetes.burst": str(own["burst"]),
        "queues.yaml": json.dumps({"partitions": [partition]}),
    }
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "yunikorn-configs", "namespace": NAMESPACE}, "data": data},
    ]  # fmt: skip


def _partition(own: Mapping[str, Scalar]) -> dict[str, Any]:
    """As deployments/scheduler/yunikorn-configs.yaml: a queue per namespace, made when the first application comes. Such a queue
    has the properties of its parent's template, and none of its parent's own."""
    template = {"properties": {"application.sort.policy": own["application-sort"]}}
    return {
        "name": "default",
        "placementrules": [{"name": "tag", "value": "namespace", "create": True}],
        "nodesortpolicy": {"type": own["node-sort"]},
        "queues": [{"name": ROOT, "submitacl": "*", "childtemplate": template}],
    }


def _partition_of(fleet: Fleet, own: Mapping[str, Scalar]) -> dict[str, Any]:
    """The fleet's queues, which pods name by their label."""
    queues = yunikorn_queues(fleet)
    root: dict[str, Any] = {
        "name": ROOT,
        "submitacl": "*",
        "properties": {
            "application.sort.policy": own["application-sort"],
            "preemption.delay": f"{int(own['preemption-delay']) // MILLISECOND}ms",
        },
        "queues": [],
    }
    made = {ROOT: root}
    for queue in queues:
        entry = made[queue.path] = _queue(queue)
        made[queue.parent].setdefault("queues", []).append(entry)
    return {
        "name": "default",
        "placementrules": [{"name": "provided", "create": False}],
        "preemption": {"enabled": fleet.preemption.reclaim != NEVER},
        "nodesortpolicy": {"type": own["node-sort"]},
        "queues": [root],
    }


def _queue(queue: YunikornQueue) -> dict[str, Any]:
    resources = {"guaranteed": _amounts(queue.guaranteed), "max": _amounts(queue.most)}
    return {
        "name": queue.name,
        "parent": not queue.leaf,
        "resources": {name: amounts for name, amounts in resources.items() if amounts},
        "properties": {"priority.policy": "fence"} if queue.fenced else {},
    }


def _amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    """Cores are called vcore."""
    return {"vcore" if name == "cpu" else name: format_quantity(amount, name) for name, amount in amounts.items()}
