"""Checks a fleet for rules that Kueue would refuse or, worse, ignore, before anything is created."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.model.fleet import LOWER, NEVER
from seatrial.model.plan import Trial
from seatrial.stacks.base import submits

QUOTA_SETTINGS = ("quota-cpu", "quota-memory", "quota-gpu")


def unfit(trial: Trial) -> str | None:
    """The first part of the trial's fleet that Kueue cannot honour, or None."""
    return next(_unfit(trial), None) if trial.setup.fleet.queues else None


def uncovered(trial: Trial) -> Iterator[str]:
    """Queues without a quota of a resource that their workloads request: Kueue admits none of these; others do not limit it."""
    queues, said = {queue.name: queue for queue in trial.setup.fleet.queues}, set()
    for submit in submits(trial):
        for demand in submit.demands(trial):
            for name, _ in demand.queues:
                covered = {resource for quota in queues[name].quotas for resource in quota.nominal}
                for resource in sorted(set(demand.counted) - covered):
                    if (submit.name, resource) not in said:
                        said.add((submit.name, resource))
                        yield (
                            f"set-up '{trial.setup.name}': {submit.name}: queue '{name}' has no quota of {resource}, which its "
                            f"workloads request: Kueue never admits them (add {resource} to its `quota`)"
                        )


def _unfit(trial: Trial) -> Iterator[str]:
    setup = trial.setup
    fleet, rules, own = setup.fleet, setup.fleet.preemption, setup.settings["kueue"]
    for name in QUOTA_SETTINGS:
        if own[name] != "nodes":
            yield f"kueue.{name} is the quota of a scenario without queues, and this one has queues; give them a `quota`"
    if rules.while_borrowing != NEVER and rules.fair_sharing:
        yield "Kueue's borrowWithinCohort (preemption while borrowing) has no effect with fair sharing; omit one of them"
    if rules.while_borrowing not in (NEVER, LOWER):
        yield f"Kueue's borrowWithinCohort is never or {LOWER}, not {rules.while_borrowing}"
    if rules.while_borrowing != NEVER and rules.reclaim == NEVER:
        yield "Kueue preempts while borrowing only where it may reclaim; add `reclaim: lower-priority` or `reclaim: any`"
    groups = {group.name: group for group in setup.nodes}
    for flavor in fleet.flavors:
        group = groups.get(flavor.nodes)
        if flavor.nodes and group is None:
            there = ", ".join(groups) or "none"
            yield f"the flavor '{flavor.name}' is of the node group '{flavor.nodes}', and the set-up has {there}"
        elif group and group.existing:
            yield f"the flavor '{flavor.name}' is of existing nodes, and only fake nodes have a label of their group"
