"""Findings before a run that are not mistakes: a scenario may ask whether a pod that fits nowhere is noticed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial

from seatrial.model.fit import admits, why_nowhere
from seatrial.model.fleet import NEVER, FlavorQuota, Fleet, Queue
from seatrial.model.plan import Amounts, NodeGroup, PodShape, Trial
from seatrial.model.settings import is_flag
from seatrial.model.units import format_quantity
from seatrial.scenario.actions.submit_workloads import ShapeDemand, Submit

INFINITE = math.inf
FEW_GROUPS = 12  # whose obstacles a message lists one by one


def findings_of(trial: Trial) -> list[str]:
    """One line each; the trial runs anyway."""
    found = [f"{submit.name}: {said}" for submit in trial.phases(Submit) for said in submit.findings]
    found += [*check_never_fits(trial), *_gangs_too_large(trial), *_quota_findings(trial)]
    if trial.on == "sim":
        found += _not_simulated(trial)
    elif any(group.existing for group in trial.node_groups()) and _has_priorities(trial):
        found.append(
            "pods with a priority are scheduled first but evict no others on existing nodes (preemptionPolicy: Never)"
        )
    return found


def _has_priorities(trial: Trial) -> bool:
    return any(shape.priority for submit in trial.phases(Submit) for shape in submit.shapes)


def _not_simulated(trial: Trial) -> list[str]:
    """Parts of the scenario that only real clusters have."""
    setup = trial.setup
    found = [
        f"set-up '{setup.name}' replaces {component}, which the simulator does not run: its figures come from the model "
        f"({part.place}); --on local runs it"
        for component, part in setup.components.items()
    ]
    found += [
        f"set-up '{setup.name}': {component}.{name} has no effect on the simulator, only with --on local"
        for component, given in setup.settings.items()
        for name in given
        if is_flag(component, name)
    ]
    found += [
        f"{submit.name}: the simulator does not know `overlay`; it only has an effect on real clusters"
        for submit in trial.phases(Submit)
        if submit.overlay
    ]
    if setup.client.machines > 1:
        found.append(
            f"set-up '{setup.name}': the simulator's load comes from one client, not from {setup.client.machines} machines"
        )
    return found


def check_never_fits(trial: Trial) -> list[str]:
    """One line per submit whose pods fit no node, counting nodes that later steps add."""
    found = []
    groups = trial.node_groups()
    for submit in trial.phases(Submit):
        nowhere = [(one, why) for one in submit.demands(trial) if (why := why_nowhere(groups, one.shape)) is not None]
        if nowhere:
            first, reason = nowhere[0]
            reason = (
                reason if len(groups) <= FEW_GROUPS else "too little room, or labels and taints, on all kinds of nodes"
            )
            pod = f"a pod that requests {_asked(first.shape)} fits on no node ({reason})"
            found.append(f"{submit.name}: {_so_many(submit, [one for one, _ in nowhere])}{pod}")
    return found


def _so_many(submit: Submit, of: list[ShapeDemand]) -> str:
    """`12 of 8,152 workloads never start: `; nothing where all have the same shape."""
    if len(submit.shapes) == 1:
        return ""
    return f"{sum(one.workloads for one in of):,} of {submit.count:,} workloads never start: "


def _gangs_too_large(trial: Trial) -> list[str]:
    """Gangs whose pods never fit into the empty cluster together, even with all nodes that steps add."""
    found = []
    groups = trial.node_groups()
    for submit in trial.phases(Submit):
        for one in submit.demands(trial):
            room = _room(groups, one.shape) if one.gang else 0
            if room and one.largest > room:
                gang = f"a gang of {one.largest} pods that each request {_asked(one.shape)}"
                found.append(f"{submit.name}: {gang} is larger than the cluster, which holds {room} of them")
    return found


def _quota_findings(trial: Trial) -> list[str]:
    """Workloads that no quota of their queue will ever cover, and rules that have no effect."""
    fleet = trial.setup.fleet
    members = Counter(queue.cohort for queue in fleet.queues if queue.cohort)
    members.update(cohort.parent for cohort in fleet.cohorts if cohort.parent)
    having = {cohort.name for cohort in fleet.cohorts if cohort.quotas or cohort.parent}
    found = [
        f"cohort '{cohort}' has one queue and no quota: the queue has nothing to borrow"
        for cohort, count in members.items()
        if count == 1 and cohort not in having
    ]
    quotas = [*(queue.quotas for queue in fleet.queues), *(cohort.quotas for cohort in fleet.cohorts)]
    used = {quota.flavor for own in quotas for quota in own}
    found += [
        f"flavor '{flavor.name}' has no quota in any queue" for flavor in fleet.flavors if flavor.name not in used
    ]
    if fleet.preemption.fair_sharing and fleet.preemption.while_borrowing != NEVER:
        found.append(f"set-up '{trial.setup.name}': `while-borrowing` has no effect with fair sharing")
    for submit in trial.phases(Submit):
        found += _never_covered(submit, trial, fleet)
    return found


def _never_covered(submit: Submit, trial: Trial, fleet: Fleet) -> Iterator[str]:
    """Once per reason: queues of `queue: each` are mostly alike."""
    said: set[str] = set()
    queues = {queue.name: queue for queue in fleet.queues}
    for one in submit.demands(trial):
        for name, size in one.queues:
            for why in _why_never(queues[name], one.counted, size):
                if why not in said:
                    said.add(why)
                    yield f"{submit.name}: queue '{name}' {why}"


def _why_never(queue: Queue, counted: Amounts, size: int) -> Iterator[str]:
    for resource, amount in counted.items():
        quotas = [quota for quota in queue.quotas if resource in quota.nominal]
        most = max(map(partial(_may_use, queue, resource), quotas), default=INFINITE)
        if most is not INFINITE and amount * size > most:
            needs, has = (format_quantity(int(value), resource) for value in (amount * size, most))
            yield f"may use {resource} {has} at most, and a workload of {size} pods needs {needs}: it is never admitted"


def _may_use(queue: Queue, resource: str, quota: FlavorQuota) -> float:
    if not queue.cohort:
        return quota.nominal[resource]
    return quota.nominal[resource] + quota.borrow.get(resource, INFINITE)


def _room(groups: Iterable[NodeGroup], shape: PodShape) -> int:
    """How many pods of a shape empty nodes hold together; 0 if that is not known, or if none fits."""
    room = 0
    for group in groups:
        if group.existing:
            return 0
        if admits(group, shape):
            fits = [group.capacity.get(name, 0) // amount for name, amount in shape.requests.items() if amount]
            room += group.count * min([group.capacity["pods"], *fits])
    return room


def _asked(shape: PodShape) -> str:
    requests = shape.requests.items()
    return ", ".join(f"{resource} {format_quantity(amount, resource)}" for resource, amount in requests) or "nothing"
