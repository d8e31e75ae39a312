"""Trials with queues on the simulated Kueue, without a scenario file."""

from __future__ import annotations

from collections.abc import Mapping

from seatrial.model.fleet import ANY, LOWER, FlavorQuota, Fleet, Preemption, Queue
from seatrial.model.plan import NodeGroup, PodShape, Scalar, Span, Step, Toleration, Trial
from seatrial.model.units import HOUR, SECOND
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.submit_workloads import Submit
from tests.sim.making import GI, trial


def queue(name: str, cpu: int, cohort: str = "all", borrow: int | None = None, **more: object) -> Queue:
    """A queue with a quota of cores."""
    limit = {} if borrow is None else {"cpu": borrow * 1000}
    return Queue(name, (FlavorQuota("", {"cpu": cpu * 1000}, limit),), cohort, **more)  # type: ignore[arg-type]


def to_queue(
    name: str,
    queue: str,
    count: int = 1,
    cpu: int = 1,
    seconds: float = 30,
    priority: int = 0,
    pods: int = 1,
    **more: object,
) -> Submit:
    """Workloads of one queue; `cpu` is that of a pod."""
    shape = PodShape({"cpu": cpu * 1000}, tolerations=(Toleration(),), priority=priority)
    return Submit(name, count, (pods,), False, shape, int(seconds * SECOND), queue=queue, **more)  # type: ignore[arg-type]


def shared(
    *steps: Step,
    queues: tuple[Queue, ...],
    rules: Preemption,
    cpu: int = 64,
    settings: Mapping[str, Scalar] | None = None,
    fleet: Fleet | None = None,
    nodes: tuple[NodeGroup, ...] = (),
) -> Trial:
    """A trial on one large node, unless there are others."""
    node = NodeGroup("fake", 1, {"cpu": cpu * 1000, "memory": 256 * GI, "pods": 1000}, start=Span(SECOND))
    made = fleet or Fleet(queues, preemption=rules)
    return trial(*steps, nodes=nodes or [node], stack="kueue", settings={"kueue": settings or {}}, fleet=made)


def livelock(fair_sharing: bool, lasts: int = 60 * SECOND) -> Trial:
    """Three workloads of two queues that evict each other for ever, with Kueue v0.16.1's own rules.

    By priority: `small` reclaims its quota from `lender`, `large` of the same queue evicts `small` for its priority, and `lender`,
    which has a higher one, takes what `large` wanted. With fair sharing: `small`'s queue has the smaller share as long as `small`
    is all it has, and the larger one with `large`.
    """
    if fair_sharing:
        queues, rules = (queue("red", 2), queue("blue", 1)), Preemption(LOWER, ANY, fair_sharing=True)
        jobs = (("lender", "red", 3, 2), ("large", "blue", 3, 2), ("small", "blue", 1, 1))
    else:
        queues, rules = (queue("red", 2), queue("blue", 3)), Preemption(LOWER, ANY, LOWER)
        jobs = (("lender", "red", 5, 2), ("large", "blue", 4, 1), ("small", "blue", 2, 0))
    steps: list[Step] = []
    for name, of, cpu, priority in jobs:
        steps.append((to_queue(name, of, cpu=cpu, priority=priority, seconds=HOUR / SECOND),))
        steps.append((Pause(f"after {name}", SECOND),))
    return shared(*steps, (Pause("meanwhile", lasts),), queues=queues, rules=rules, cpu=8)
