"""MCAD v1.40 as a process of a local control plane, and what a workload becomes there.

Its client limits are constants of its source. So that all stacks can be given the same, it is built from a copy in which they are
read from the environment; unset, they are what they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from seatrial.kube.resources import JOBS, PODS, Resource
from seatrial.kube.shapes import Job, Object, Pod, Shape
from seatrial.kube.watching import DELETED
from seatrial.model.control_plane import Component, ControlPlane, GoBinary, Identity, Ready
from seatrial.model.interfaces import Manifest
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.model.plan import Scalar, Workload
from seatrial.model.units import SECOND, format_quantity
from seatrial.observe.observer import Observer, Watch, see_job, see_pod, source_of
from seatrial.stacks.jobs import job, service

APPWRAPPERS = Resource("workload.codeflare.dev", "v1beta1", "appwrappers", "AppWrapper")

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


def component(settings: Mapping[str, Scalar]) -> Component:
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


def amend(plane: ControlPlane, settings: Mapping[str, Scalar]) -> ControlPlane:
    identity = Identity("mcad", "mcad", (), "cluster-admin")
    return plane.with_identity(identity).with_manifests(BINARY).with_component(component(settings))


def appwrapper(workload: Workload, labels: Mapping[str, str]) -> dict[str, Any]:
    """What MCAD counts stands in `custompodresources`; without them it counts one pod of a Job. `minAvailable` is left out: with
    it MCAD takes a Job back whose pods have not run for five minutes."""
    asked = workload.declares if workload.declares is not None else workload.shape.requests
    requests = {name: format_quantity(amount, name) for name, amount in asked.items()}
    item = {
        "replicas": 1,
        "completionstatus": "Complete",
        "custompodresources": [{"replicas": workload.pods, "requests": requests, "limits": {}}],
        "generictemplate": job(workload, labels),
    }
    return {
        "apiVersion": APPWRAPPERS.api_version,
        "kind": APPWRAPPERS.kind,
        "metadata": {"name": workload.name, "labels": {**labels, WORKLOAD_LABEL: workload.name}},
        "spec": {"resources": {"GenericItems": [item]}},
    }


def render(workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
    made = Manifest(APPWRAPPERS, workload.name, appwrapper(workload, labels))
    return [service(workload, labels), made] if workload.gang else [made]


class Condition(Shape):
    type: str = ""
    status: str = ""
    message: str = ""
    last_transition_micro_time: str | None = None


class Status(Shape):
    state: str = ""
    conditions: list[Condition] = msgspec.field(default_factory=list)


class AppWrapper(Object):
    status: Status = msgspec.field(default_factory=Status)


_STAGES = {"Queueing": "queued", "HeadOfLine": "head_of_line", "Completed": "released"}


def see_appwrapper(observer: Observer, stamp: int, event: str, wrapper: AppWrapper) -> None:
    name = wrapper.metadata.name
    source = source_of(event)
    if event == DELETED:
        if not observer.has(name, "completed"):
            observer.workload(name, "deleted", stamp, source)
        return
    observer.workload(name, "created", stamp, source, wrapper.metadata.creation_timestamp)
    for condition in wrapper.status.conditions:
        if condition.status == "True" and condition.type in _STAGES:
            observer.workload(name, _STAGES[condition.type], stamp, source, condition.last_transition_micro_time)
    waits = [c.message for c in wrapper.status.conditions if c.type == "Backoff"]
    observer.says(name, waits[-1] if waits and not observer.has(name, "admitted") else "")


def see_dispatched_job(observer: Observer, stamp: int, event: str, found: Job) -> None:
    """MCAD lets a workload go by creating its Job."""
    if event != DELETED:
        name = found.metadata.labels.get(WORKLOAD_LABEL, found.metadata.name)
        observer.workload(name, "admitted", stamp, source_of(event), found.metadata.creation_timestamp)
    see_job(observer, stamp, event, found)


WATCHES = (
    Watch(APPWRAPPERS, AppWrapper, see_appwrapper),
    Watch(JOBS, Job, see_dispatched_job),
    Watch(PODS, Pod, see_pod),
)
