"""The simulated kube-scheduler with its cycle for groups; the mechanism itself is in `sim.pod_group_scheduler`."""

from __future__ import annotations

from collections.abc import Callable

from seatrial.model.plan import Workload
from seatrial.sim.pod_group_scheduler import GroupScheduler
from seatrial.sim.world import Sim
from seatrial.stacks.gang import GROUP_SCHEDULED


def put_into(sim: Sim) -> Callable[[int, Workload], None]:
    """Replaces kube-scheduler by one that places groups."""
    scheduler = sim.schedule_with(GroupScheduler)
    sim.limit_queues()
    workloads, stage = sim.workloads, sim.ledger.number[GROUP_SCHEDULED.name]

    def needs(job: int) -> int:
        """Its PodGroup's minCount; pods of a Deployment have none."""
        return workloads[job].pods if job >= 0 and workloads[job].gang else 0

    def refused(job: int, fitting: int) -> None:
        sim.said[job] = f"pod group is unschedulable: {fitting} of its {workloads[job].pods} pods fit"

    def preempts(job: int) -> None:
        sim.said[job] = "pod group is waiting for preemption to complete"

    def written(job: int) -> None:
        sim.said.pop(job, None)
        sim.ledger.move(sim.kernel.now, job, stage)

    scheduler.needs, scheduler.refused, scheduler.preempts, scheduler.written = needs, refused, preempts, written
    return sim.jobs.add
