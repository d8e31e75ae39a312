"""Rules of a fleet that YuniKorn cannot honour, and its deviations; reported before anything is created."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.model.fleet import ANY, NEVER, Cohort, Queue
from seatrial.model.plan import Trial
from seatrial.model.units import format_quantity
from seatrial.stacks.base import submits
from seatrial.stacks.yunikorn.yunikorn_queues import ROOT, YunikornQueue, yunikorn_queues

LONGEST_PATH = 63  # the path of a queue is a label of pods and placeholders


def unfit(trial: Trial) -> str | None:
    """The first part of the trial's fleet that YuniKorn cannot honour, or None."""
    if not trial.setup.fleet.queues:
        return None
    found = next(_unfit_queues(trial), None) or next(_unfit_rules(trial), None)
    return found or next(_unfit_gangs(trial), None)


def _unfit_queues(trial: Trial) -> Iterator[str]:
    fleet = trial.setup.fleet
    if trial.on == "kubeconfig" or trial.target.cluster:
        yield "YuniKorn has its queues in its ConfigMap, and seatrial never writes that of an installed YuniKorn"
    owners: list[Queue | Cohort] = [*fleet.queues, *fleet.cohorts]
    for owner in owners:
        if any(quota.lend for quota in owner.quotas):
            yield f"YuniKorn lends all unused quota: `lend` of {owner.name} has no counterpart"
        if owner.weight != 1:
            yield f"YuniKorn shares in proportion to guarantees: `weight` of {owner.name} has no counterpart"
    for queue in yunikorn_queues(fleet):
        if len(queue.path) > LONGEST_PATH:
            yield f"YuniKorn's name of a queue is a label, of {LONGEST_PATH} characters at most, not {queue.path}"
        if queue.most and not any(queue.most.values()):
            name = queue.path.removeprefix(f"{ROOT}.")
            yield f"YuniKorn treats a maximum of zero as no maximum: {name} has a quota of 0"


def _unfit_rules(trial: Trial) -> Iterator[str]:
    rules = trial.setup.fleet.preemption
    values = {shape.priority for submit in submits(trial) for shape in submit.shapes}
    if rules.within_queue != NEVER and len(values) > 1:
        yield f"YuniKorn preempts only between queues: it has no `within-queue: {rules.within_queue}`"
    if rules.reclaim not in (NEVER, ANY):
        yield f"YuniKorn reclaims from workloads of the same priority, too: `reclaim` is {NEVER} or {ANY}, not {rules.reclaim}"
    if rules.while_borrowing != NEVER:
        yield "YuniKorn preempts only for a queue's guarantee: it has no `while-borrowing`"


def _unfit_gangs(trial: Trial) -> Iterator[str]:
    """YuniKorn rejects a gang that is larger than its queue's maximum, and its pods fail."""
    fleet = trial.setup.fleet
    queues = {queue.path: queue for queue in yunikorn_queues(fleet)}
    leaves = {queue.name: queue for queue in queues.values() if queue.leaf}
    for submit in submits(trial):
        if not submit.gang or submit.queue not in leaves or not isinstance(submit.sizes, tuple):
            continue
        above: YunikornQueue | None = leaves[submit.queue]
        while above is not None:
            for resource, most in above.most.items():
                asked = max(submit.sizes) * max(shape.requests.get(resource, 0) for shape in submit.shapes)
                if asked > most:
                    yield (
                        f"YuniKorn rejects a gang that is larger than its queue's maximum: one of {submit.name} requests "
                        f"{format_quantity(asked, resource)} {resource}, and {above.path} has {format_quantity(most, resource)}"
                    )
            above = queues.get(above.parent)


def otherwise(trial: Trial) -> Iterator[str]:
    """YuniKorn's deviations from what the scenario suggests."""
    fleet, name = trial.setup.fleet, trial.setup.name
    if not fleet.queues:
        return
    if not fleet.preemption.fair_sharing:
        yield f"set-up '{name}': YuniKorn always shares in proportion to guarantees, even without `fair-sharing`"
    elif fleet.preemption.reclaim != NEVER:
        yield f"set-up '{name}': YuniKorn evicts up to a queue's guarantee, and never for a fairer share beyond that"
    if fleet.preemption.within_queue != NEVER:
        yield f"set-up '{name}': YuniKorn preempts only between queues; here all workloads have one priority"
