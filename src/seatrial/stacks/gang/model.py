"""The model: the simulated kube-scheduler with its cycle for groups. All mechanisms are in `sim.groups`."""

from __future__ import annotations

from collections.abc import Callable

from seatrial.model.plan import Workload
from seatrial.sim.groups import GroupScheduler
from seatrial.sim.world import Sim


def put_into(sim: Sim) -> Callable[[int, Workload], None]:
    scheduler = sim.schedule_with(GroupScheduler)
    workloads, stage = sim.workloads, sim.ledger.number["group_scheduled"]

    def needs(job: int) -> int:
        """Its PodGroup's minCount."""
        workload = workloads[job]
        return workload.pods if workload.gang else 0

    def refused(job: int, fitting: int) -> None:
        sim.said[job] = f"pod group is unschedulable: {fitting} of its {workloads[job].pods} pods fit"

    def written(job: int) -> None:
        sim.said.pop(job, None)
        sim.ledger.move(sim.kernel.now, job, stage)

    scheduler.needs, scheduler.refused, scheduler.written = needs, refused, written
    return sim.jobs.add
