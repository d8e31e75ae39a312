"""Gangs on a real cluster: feature gates of kube-scheduler, API server and controller manager, and a PodGroup per gang."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seatrial.model.control_plane import ControlPlane
from seatrial.model.interfaces import Manifest, Permission, PresenceSigns
from seatrial.model.plan import Setup, Workload
from seatrial.observe.observer import Watch
from seatrial.stacks import job_objects
from seatrial.stacks.default.real import DefaultReal, permissions
from seatrial.stacks.gang.objects import POD_GROUPS, WATCHES


class GangReal(DefaultReal):
    """Nothing is installed: the API server serves PodGroups if the alpha version is enabled."""

    signs = PresenceSigns(served=POD_GROUPS.api_version)

    def permissions(self, setup: Setup) -> Sequence[Permission]:
        return (*super().permissions(setup), *permissions(POD_GROUPS, "create", "list", "watch"))

    def amend(self, plane: ControlPlane, setup: Setup) -> ControlPlane:  # noqa: ARG002
        """The controller manager needs the gate too: it removes the finalizer of deleted PodGroups."""
        server = plane.component("kube-apiserver").flag("--runtime-config", f"{POD_GROUPS.api_version}=true")
        manager = plane.component("kube-controller-manager").gates(GenericWorkload=True)
        scheduler = plane.component("kube-scheduler").gates(GenericWorkload=True, GangScheduling=True)
        for component in (server.gates(GenericWorkload=True), manager, scheduler):
            plane = plane.with_component(component)
        return plane

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        """A gang's PodGroup is created first: pods without their group would wait for it."""
        spec = {"schedulingPolicy": {"gang": {"minCount": workload.pods}}}
        template = {"spec": {"schedulingGroup": {"podGroupName": workload.name}}}
        return job_objects.in_group(workload, labels, POD_GROUPS, spec, template)

    def watches(self) -> Sequence[Watch]:
        return WATCHES
