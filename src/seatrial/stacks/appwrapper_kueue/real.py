"""Kueue and the AppWrapper operator on a real cluster; on `local` both as processes.

Kueue unsuspends an AppWrapper; the operator then creates its Job, which Kueue leaves alone because its owner is Kueue's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seatrial.kube.resources import Resource
from seatrial.model.control_plane import ControlPlane, GoBinary
from seatrial.model.interfaces import Manifest, Permission, PresenceSigns
from seatrial.model.plan import Setup, Workload
from seatrial.observe.observer import Watch
from seatrial.stacks.appwrapper.objects import APPWRAPPERS, WATCHES_BEHIND_A_QUEUE
from seatrial.stacks.appwrapper.real import AppWrapperReal, with_operator, wrapped
from seatrial.stacks.default.real import permissions
from seatrial.stacks.job_objects import job, of_workload, with_service
from seatrial.stacks.kueue.real import FRAMEWORKS, HOOKS, Hook, KueueReal, queue_labels
from seatrial.stacks.kueue.workload_conditions import queue_watches

_WRAPPERS: Hook = ("appwrapper", "workload.codeflare.dev", "v1beta2", ("appwrappers",))


class AppWrapperKueueReal(KueueReal):
    """Suspended AppWrappers, and queues that admit them."""

    creates: Resource = APPWRAPPERS
    signs: PresenceSigns | None = AppWrapperReal.signs
    frameworks: Sequence[str] = (*FRAMEWORKS, "workload.codeflare.dev/appwrapper")
    hooks: Sequence[Hook] = (*HOOKS, _WRAPPERS)

    def permissions(self, setup: Setup) -> Sequence[Permission]:
        return (*super().permissions(setup), *permissions(APPWRAPPERS, "create", "list", "watch", "delete"))

    def programs(self) -> Sequence[GoBinary]:
        return (*super().programs(), *AppWrapperReal().programs())

    def amend(self, plane: ControlPlane, setup: Setup) -> ControlPlane:
        return super().amend(with_operator(plane, setup.settings["appwrapper"]), setup)

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        """A suspended AppWrapper in our LocalQueue, or in that of the workload's queue."""
        body = job(workload, labels)
        named = queue_labels(workload, body)
        made = of_workload(APPWRAPPERS, workload, {**named, **labels}, {**wrapped(body), "suspend": True})
        return with_service(workload, labels, made)

    def watches(self) -> Sequence[Watch]:
        return (*WATCHES_BEHIND_A_QUEUE, *queue_watches(APPWRAPPERS.kind))

    def queue(self) -> tuple[Resource, str] | None:
        return None
