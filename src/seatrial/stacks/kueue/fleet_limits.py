"""Checks a fleet for rules that Kueue would refuse or, worse, ignore, before anything is created."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.model.fleet import LOWER, NEVER
from seatrial.model.plan import Trial

QUOTA_SETTINGS = ("quota-cpu", "quota-memory", "quota-gpu")


def unfit(trial: Trial) -> str | None:
    """The first part of the trial's fleet that Kueue cannot honour, or None."""
    return next(_unfit(trial), None) if trial.setup.fleet.queues else None


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
