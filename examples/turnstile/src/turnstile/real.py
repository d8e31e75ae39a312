"""The real side: what a workload becomes, what is watched, which program runs on `local`, what a foreign cluster must have."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from seatrial.kube.resources import JOBS, PODS
from seatrial.kube.shapes import Job, Pod
from seatrial.kube.watching import DELETED
from seatrial.model.control_plane import Component, ControlPlane, Identity
from seatrial.model.interfaces import Manifest, PresenceSigns
from seatrial.model.labels import WORKLOAD_LABEL
from seatrial.model.lifecycle import ADMITTED
from seatrial.model.plan import Setup, Workload
from seatrial.observe.observer import Observer, Watch, see_job, see_pod, source_of
from seatrial.stacks.default.real import DefaultReal
from seatrial.stacks.job_objects import job, with_service
from turnstile.controller import WAITS


class TurnstileReal(DefaultReal):
    """A suspended Job with a label, by which the controller knows that it waits.

    Permissions are those of `DefaultReal`: create, list, watch and delete Jobs. A stack with objects of its own adds to them.
    """

    signs = PresenceSigns(deployments=("turnstile-controller",))

    def amend(self, plane: ControlPlane, setup: Setup) -> ControlPlane:
        """On `local` the controller is a process with an identity of its own. It is Python; a Go program would be a `GoBinary`."""
        places = setup.settings["turnstile"]["places"]
        command = ("-m", "turnstile.controller", "--kubeconfig=kubeconfig/turnstile.yaml", f"--places={places}")
        component = Component("turnstile", Path(sys.executable), command, needs=("kube-apiserver",))
        identity = Identity("turnstile", "turnstile", (), "cluster-admin")
        return plane.with_identity(identity).with_component(component)

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        body = job(workload, labels)
        body["metadata"]["labels"] = {WAITS: "true", **body["metadata"]["labels"]}
        body["spec"]["suspend"] = True
        return with_service(workload, labels, Manifest(JOBS, workload.name, body))

    def watches(self) -> Sequence[Watch]:
        return (Watch(JOBS, Job, see_turnstile_job), Watch(PODS, Pod, see_pod))


def see_turnstile_job(observer: Observer, stamp: int, event: str, seen: Job) -> None:
    """A Job is admitted once it is no longer suspended; the rest is as of any Job."""
    if event != DELETED and not seen.spec.suspend:
        name = seen.metadata.labels.get(WORKLOAD_LABEL, seen.metadata.name)
        observer.workload(name, ADMITTED.name, stamp, source_of(event))
    see_job(observer, stamp, event, seen)
