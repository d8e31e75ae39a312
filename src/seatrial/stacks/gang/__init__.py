"""Kubernetes 1.36's own gang scheduling (alpha): a PodGroup is placed whole or not at all, by kube-scheduler itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from seatrial.model.lifecycle import PODS_CREATED, Stage, lifecycle_with
from seatrial.model.plan import Workload
from seatrial.model.settings import Settings
from seatrial.stacks.base import StackBase

if TYPE_CHECKING:
    from seatrial.sim.world import Sim
    from seatrial.stacks.gang.real import GangReal

GROUP_SCHEDULED = Stage(
    "group_scheduled", "workload", "the PodGroup is scheduled: all its pods have nodes",
    spent_on="scheduling the group", after=PODS_CREATED,
)  # fmt: skip


class Gang(StackBase):
    """Identity: one stage of its own, no settings."""

    name = "gang"
    honours = ("queues", "checkpoint")
    about = "Kubernetes 1.36's own gangs (alpha): kube-scheduler places a PodGroup whole or not at all"
    stages = lifecycle_with(GROUP_SCHEDULED)
    needs = "Kubernetes 1.36 with the alpha gates GenericWorkload and GangScheduling"
    verified = "against the real one on local"
    model_verified = True

    def model(self, sim: Sim, settings: Settings) -> Callable[[int, Workload], None]:  # noqa: ARG002
        from seatrial.stacks.gang.model import put_into

        return put_into(sim)

    @property
    def real(self) -> GangReal:
        from seatrial.stacks.gang.real import GangReal

        return GangReal()


stack = Gang()
