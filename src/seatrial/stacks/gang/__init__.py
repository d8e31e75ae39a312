"""Kubernetes 1.36's own gang scheduling (alpha): a PodGroup is placed whole or not at all, by kube-scheduler itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seatrial.model.interfaces import Manifest
from seatrial.model.lifecycle import PLAIN, Stage
from seatrial.model.plan import Workload
from seatrial.stacks.plain import Plain, Settings

GROUP = "scheduling.k8s.io"
VERSION = "v1alpha2"
GROUP_SCHEDULED = Stage("group_scheduled", "workload", "the PodGroup says that all its pods have been given nodes")


class Gang(Plain):
    name = "gang"
    about = "Kubernetes 1.36's own gangs (alpha): kube-scheduler places a PodGroup whole or not at all"
    stages = (*PLAIN[:3], GROUP_SCHEDULED, *PLAIN[3:])
    needs = "Kubernetes 1.36 with the alpha gates GenericWorkload and GangScheduling"
    verified = "against the real one on local"
    model_verified = True

    def model(self, sim: Any, settings: Settings) -> Callable[[int, Workload], None]:  # noqa: ARG002
        from seatrial.stacks.gang.model import put_into

        return put_into(sim)

    def amend(self, plane: Any, settings: Settings) -> Any:  # noqa: ARG002
        """The controller manager needs the gate too: it takes the finalizer off PodGroups that are deleted."""
        server = plane.component("kube-apiserver").flag("--runtime-config", f"{GROUP}/{VERSION}=true")
        manager = plane.component("kube-controller-manager").gates(GenericWorkload=True)
        scheduler = plane.component("kube-scheduler").gates(GenericWorkload=True, GangScheduling=True)
        for component in (server.gates(GenericWorkload=True), manager, scheduler):
            plane = plane.with_component(component)
        return plane

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        from seatrial.stacks.gang.objects import manifests

        return manifests(workload, labels)

    def watches(self) -> Sequence[Any]:
        from seatrial.stacks.gang.objects import WATCHES

        return WATCHES


stack = Gang()
