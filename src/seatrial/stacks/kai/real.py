"""KAI on a real cluster; on `local` its scheduler and its binder v0.12.0 run beside kube-scheduler.

KAI's pod-grouper would make a PodGroup for each pod of a Job, and its other controllers write statuses that it does not read
itself. None of them runs: the PodGroups of workloads are created with them. The scheduler also serves its plugins, on all
addresses; it is built from a copy in which that listener is on loopback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seatrial.kube.resources import JOBS
from seatrial.model.control_plane import Component, ControlPlane, GoBinary, Identity, Ready
from seatrial.model.interfaces import Manifest, Permission, PresenceSigns
from seatrial.model.plan import Amounts, Scalar, Setup, Workload
from seatrial.model.preempted_jobs import survives_preemption
from seatrial.model.units import MILLISECOND
from seatrial.observe.observer import Watch
from seatrial.stacks import job_objects
from seatrial.stacks.default.real import DefaultReal, permissions
from seatrial.stacks.free_ports import HOST, free_port
from seatrial.stacks.kai.fleet_rules import actions_of
from seatrial.stacks.kai.kai_kinds import (
    BIND_REQUESTS,
    GROUP_ANNOTATION,
    POD_GROUPS,
    QUEUE_LABEL,
    QUEUES,
    SCHEDULER_NAME,
    class_name,
    study_name,
)
from seatrial.stacks.kai.objects import KaiWatcher
from seatrial.stacks.kai.queue_tree import ONLY, UNLIMITED, KaiQueue, kai_queues

BINDER_NAME = "kai-binder"
CONFIG = "kai.yaml"
MEGABYTE = 1_000_000

_GO = Path(__file__).with_name("go")
_MODULE = "github.com/NVIDIA/KAI-scheduler/cmd"
_SERVER, _LISTENS, _PORT = "cmd/scheduler/app/server.go", 'fmt.Sprintf("', '", so.PluginServerPort)'
SCHEDULER = GoBinary(
    SCHEDULER_NAME,
    _GO,
    f"{_MODULE}/scheduler",
    files=(
        "deployments/kai-scheduler/crds/scheduling.run.ai_*.yaml",
        "deployments/kai-scheduler/crds/kai.scheduler_topologies.yaml",
    ),
    replace=((_SERVER, f"{_LISTENS}:%d{_PORT}", f"{_LISTENS}{HOST}:%d{_PORT}"),),
)
BINDER = GoBinary(BINDER_NAME, _GO, f"{_MODULE}/binder")
# As the operator of its chart configures a shard (pkg/operator/operands/scheduler/resources_for_shard.go).
PLUGINS = (
    "predicates", "proportion", "priority", "nodeavailability", "resourcetype", "podaffinity", "elastic", "kubeflow", "ray",
    "subgrouporder", "taskorder", "nominatednode", "dynamicresources", "minruntime", "topology",
)  # fmt: skip


class KaiReal(DefaultReal):
    """A PodGroup per workload, in a queue; pods name the group by an annotation, and the scheduler by its name."""

    signs = PresenceSigns(f"queues.{QUEUES.group}", ("kai-scheduler-default", "kai-operator", "binder"))

    def permissions(self, setup: Setup) -> Sequence[Permission]:
        return (
            *super().permissions(setup),
            *permissions(QUEUES, "get", "create", "patch", "list", "delete"),
            *permissions(POD_GROUPS, "create", "list", "watch"),
            *permissions(BIND_REQUESTS, "list", "watch"),
        )

    def programs(self) -> Sequence[GoBinary]:
        return (SCHEDULER, BINDER)

    def amend(self, plane: ControlPlane, setup: Setup) -> ControlPlane:
        settings = setup.settings
        for component in (_scheduler(settings["kai"]), _binder(settings["kai-binder"])):
            identity = Identity(component.name, component.name, (), "cluster-admin")
            plane = plane.with_identity(identity).with_component(component)
        return plane.with_file(CONFIG, configuration(setup)).with_manifests(SCHEDULER)

    def priority_classes(
        self, setup: Setup, values: Sequence[int], labels: Mapping[str, str], *, preempt: bool
    ) -> Sequence[Manifest]:
        """KAI takes a PodGroup without a class for priority 50, so 0 has one too as soon as there is any."""
        return super().priority_classes(setup, sorted({0, *values}) if values else (), labels, preempt=preempt)

    def prepare(
        self, setup: Setup, capacity: Amounts, labels: Mapping[str, str], namespace: str  # noqa: ARG002
    ) -> Sequence[Manifest]:  # fmt: skip
        """Queues, parents first. KAI names them to users by their display name."""
        return [
            job_objects.api_object(QUEUES, study_name(labels, queue.key), labels, _queue_spec(queue, labels))
            for queue in kai_queues(setup.fleet)
        ]

    def namespace(self, queue: str, own: str) -> str:  # noqa: ARG002
        """One namespace for all: the PodGroup names the queue."""
        return own

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        """The PodGroup is created first: a pod without its group is not looked at. Even without priorities KAI may move any."""
        queue, name = study_name(labels, workload.queue or ONLY), study_name(labels, workload.name)
        metadata = {"annotations": {GROUP_ANNOTATION: name}, "labels": {QUEUE_LABEL: queue}}
        made = job_objects.manifests(survives_preemption(workload), labels, SCHEDULER_NAME)
        named = [
            replace(m, body=job_objects.with_template(m.body, {"metadata": metadata})) if m.resource == JOBS else m
            for m in made
        ]
        spec = {
            "minMember": workload.pods if workload.gang else 1,
            "queue": queue,
            "priorityClassName": class_name(labels, workload.shape.priority),
        }
        group = job_objects.of_workload(POD_GROUPS, workload, labels, spec)
        body = {**group.body, "metadata": {**group.body["metadata"], "name": name}}
        return [replace(group, name=name, body=body), *named]

    def watches(self) -> Sequence[Watch]:
        return KaiWatcher().watches()


def _queue_spec(queue: KaiQueue, labels: Mapping[str, str]) -> dict[str, Any]:
    """Cores are written in thousandths, memory in megabytes."""
    resources = {
        named: {
            "quota": _written(queue.quota[resource], divisor),
            "limit": _written(queue.limit[resource], divisor),
            "overQuotaWeight": queue.weight,
        }
        for named, resource, divisor in (
            ("cpu", "cpu", 1),
            ("memory", "memory", MEGABYTE),
            ("gpu", "nvidia.com/gpu", 1),
        )
    }
    parent = {"parentQueue": study_name(labels, queue.parent)} if queue.parent else {}
    return {"displayName": queue.name, **parent, "resources": resources}


def _written(amount: int, divisor: int) -> float:
    return UNLIMITED if amount == UNLIMITED else amount / divisor


def configuration(setup: Setup) -> dict[str, Any]:
    """As the operator writes it for a shard with this placement strategy, without the actions that the fleet's rules forbid."""
    settings = setup.settings["kai"]
    strategy = str(settings["placement"])
    plugins: list[dict[str, Any]] = [{"name": name} for name in PLUGINS]
    plugins.append({"name": f"gpu{strategy.removeprefix('bin')}"})
    plugins.append({"name": "nodeplacement", "arguments": {"cpu": strategy, "gpu": strategy}})
    if strategy == "binpack":
        plugins.append({"name": "gpusharingorder"})
    return {"actions": ", ".join(actions_of(setup.fleet, settings["actions"])), "tiers": [{"plugins": plugins}]}


def _scheduler(settings: Mapping[str, Scalar]) -> Component:
    """With the reason of an eviction in the pod's status: else nobody could say why a pod is gone."""
    metrics = free_port()
    return Component(
        SCHEDULER_NAME,
        SCHEDULER,
        (
            f"--scheduler-name={SCHEDULER_NAME}", f"--scheduler-conf={CONFIG}",
            f"--schedule-period={int(settings['period']) // MILLISECOND}ms",
            f"--default-staleness-grace-period={int(settings['staleness']) // MILLISECOND}ms",
            f"--qps={int(settings['qps']) or -1}", f"--burst={settings['burst']}",
            "--update-pod-eviction-condition=true",
            f"--listen-address={HOST}:{metrics}", f"--plugin-server-port={free_port()}",
        ),
        needs=("kube-apiserver",),
        ready=Ready("/metrics", metrics, tls=False),
        env={"KUBECONFIG": f"kubeconfig/{SCHEDULER_NAME}.yaml"},
    )  # fmt: skip


def _binder(settings: Mapping[str, Scalar]) -> Component:
    metrics = free_port()
    return Component(
        BINDER_NAME,
        BINDER,
        (
            f"--scheduler-name={SCHEDULER_NAME}",
            f"--max-concurrent-reconciles={settings['concurrency']}",
            f"--qps={settings['qps'] or -1}", f"--burst={settings['burst']}",
            f"--metrics-bind-address={HOST}:{metrics}", "--health-probe-bind-address=0",
        ),
        needs=("kube-apiserver",),
        ready=Ready("/metrics", metrics, tls=False),
        env={"KUBECONFIG": f"kubeconfig/{BINDER_NAME}.yaml"},
    )  # fmt: skip
