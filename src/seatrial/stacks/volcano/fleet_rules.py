"""Rules of a fleet that Volcano cannot honour, and its deviations; reported before anything is created."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from seatrial.model.fleet import NEVER, Fleet, nominal
from seatrial.model.plan import Trial
from seatrial.model.units import format_quantity
from seatrial.stacks.base import actions_needed, submits, unknown_rules
from seatrial.stacks.volcano.session_configuration import actions_of, sharing_of, tiers_of
from seatrial.stacks.volcano.volcano_queues import volcano_queues

if TYPE_CHECKING:
    from seatrial.scenario.actions.submit_workloads import ShapeDemand


def unfit(trial: Trial) -> str | None:
    """The first part of the trial's fleet that Volcano cannot honour, or None."""
    if not trial.setup.fleet.queues:
        return None
    return next((why for rule in (_queues, _rules, _plugins, _guaranteed, _elsewhere) for why in rule(trial)), None)


def _configured_already(trial: Trial) -> bool:
    """Its actions and plugins are not ours to choose; the settings say what they are."""
    return trial.on == "kubeconfig" or bool(trial.target.cluster)


def _session(trial: Trial) -> tuple[list[str], list[list[str]]]:
    """The actions and the tiers of plugins of the trial's Volcano."""
    own = trial.setup.settings["volcano"]
    fleet = Fleet() if _configured_already(trial) else trial.setup.fleet
    return actions_of(fleet, own["actions"]), tiers_of(fleet, own["plugins"])


def _queues(trial: Trial) -> Iterator[str]:
    fleet = trial.setup.fleet
    for cohort in fleet.cohorts:
        if cohort.parent:
            yield f"Volcano v1.10 has one level of queues: a cohort has no `parent` ({cohort.name}: {cohort.parent})"
        if cohort.quotas:
            yield f"Volcano v1.10 has one level of queues: a cohort has no `quota` of its own ({cohort.name})"
    cohorts = list(dict.fromkeys(queue.cohort for queue in fleet.queues if queue.cohort))
    if len(cohorts) > 1:
        yield f"Volcano v1.10 has one level of queues, which all lend to each other: one cohort, not {', '.join(cohorts)}"


def _rules(trial: Trial) -> Iterator[str]:
    rules, (actions, _) = trial.setup.fleet.preemption, _session(trial)
    yield from unknown_rules("Volcano", rules)
    if rules.while_borrowing != NEVER:
        yield "Volcano takes nothing from other queues for one above its share: it has no `while-borrowing`"
    for rule, value, action in actions_needed(rules):
        if value != NEVER and action not in actions:
            yield f"`{rule}: {value}` needs Volcano's action {action}, which volcano.actions does not have{_claim(trial)}"
    if rules.within_queue == NEVER and "preempt" in actions:
        yield "`within-queue: never` is broken by Volcano's action preempt, which volcano.actions has"


def _plugins(trial: Trial) -> Iterator[str]:
    fleet, (_, tiers) = trial.setup.fleet, _session(trial)
    rules, sharing = fleet.preemption, sharing_of(tiers)
    if rules.fair_sharing and sharing != "proportion":
        yield f"`fair-sharing` needs Volcano's plugin proportion, which volcano.plugins does not have{_claim(trial)}"
    if not rules.fair_sharing and sharing != "capacity":
        yield f"quotas (`queues`) need Volcano's plugin capacity, which volcano.plugins does not have{_claim(trial)}"
    if rules.within_queue != NEVER and not any("priority" in tier for tier in tiers):
        yield f"`within-queue: {rules.within_queue}` needs Volcano's plugin priority, which volcano.plugins does not have"
    if rules.reclaim == NEVER or sharing != "capacity":
        return
    for queue, used in _requested(trial).items():
        for name in used:
            if name not in ("cpu", "memory", *nominal(fleet.queue(queue).quotas)):
                yield f"Volcano reclaims only resources that its queue's quota names, and the quota of {queue} lacks {name}"


def _claim(trial: Trial) -> str:
    if not _configured_already(trial):
        return ""
    return "; if the Volcano of this cluster has it, say so in `settings: {volcano: {…}}`"


def _guaranteed(trial: Trial) -> Iterator[str]:
    """Both plugins take what queues are guaranteed from what the nodes have (capacity.go:113, proportion.go:120), and Resource.Sub
    panics where that is less than nothing (api/resource_info.go:260)."""
    kept: dict[str, int] = {}
    for queue in volcano_queues(trial.setup.fleet, {}):
        for name, amount in queue.guarantee.items():
            kept[name] = kept.get(name, 0) + amount
    for name, amount in kept.items():
        least = min((there.get(name, 0) for there in _capacities(trial)), default=amount)
        if amount > least:
            have, lack = (f"{name} {format_quantity(one, name)}" for one in (amount, least))
            yield (
                f"Volcano's scheduler panics when queues are guaranteed more ({have}) than the nodes have ({lack}), and a quota is "
                "guaranteed as far as the queue does not lend it, without a `cohort` all of it"
            )


def _capacities(trial: Trial) -> Iterator[dict[str, int]]:
    """What the nodes have together, at first and after each step that adds or removes some; not of existing nodes."""
    from seatrial.scenario.actions.change_nodes import NodeChange

    if any(group.existing for group in trial.setup.nodes):
        return
    count = {group.name: group.count for group in trial.setup.nodes}
    groups = {group.name: group for group in trial.node_groups()}

    def there() -> dict[str, int]:
        found: dict[str, int] = {}
        for name, many in count.items():
            for resource, amount in groups[name].capacity.items():
                found[resource] = found.get(resource, 0) + amount * many
        return found

    yield there()
    for change in trial.phases(NodeChange):
        if change.add:
            count[change.add.name] = change.add.count
        elif change.change == "remove":
            had = count.get(change.group, 0)
            count[change.group] = had - min(had, had if change.count is None else change.count)
        yield there()


def _elsewhere(trial: Trial) -> Iterator[str]:
    rules = trial.setup.fleet.preemption
    takes = rules.reclaim != NEVER or rules.within_queue != NEVER
    if trial.on == "kubeconfig" and takes and any(group.existing for group in trial.setup.nodes):
        yield "Volcano evicts pods of every queue to make room, so with preemption a foreign cluster gets fake nodes only"


def otherwise(trial: Trial) -> Iterator[str]:
    """Volcano's deviations from what the scenario suggests."""
    fleet, start = trial.setup.fleet, f"set-up '{trial.setup.name}': "
    if not fleet.queues:
        return
    rules = fleet.preemption
    if rules.fair_sharing:
        yield f"{start}with `fair-sharing` Volcano (proportion) divides the nodes by `weight`, whatever the quotas are"
    _, tiers = _session(trial)
    if rules.within_queue != NEVER and {int(demand.shape.priority) for demand in _demands(trial)} - {0}:
        yield (
            f"{start}Volcano admits no group to a full queue: a higher priority preempts only while its queue is "
            "below its capability (quota and `borrow`, at most the nodes)"
        )
    takes = rules.reclaim != NEVER or rules.within_queue != NEVER
    if takes and any(demand.gang for demand in _demands(trial)):
        yield f"{start}Volcano evicts single pods: a gang that loses one keeps its other nodes and waits for another"
    if rules.reclaim != NEVER:
        if any("overcommit" in tier for tier in tiers):
            yield (
                f"{start}Volcano's plugin overcommit lets in groups up to 120 % of the nodes: on full nodes a larger workload "
                "cannot reclaim, and smaller ones do so a fifth of the nodes at a time"
            )
        if any(not demand.gang and demand.largest > 1 for demand in _demands(trial)):
            yield (
                f"{start}Volcano consults plugin gang before the quotas: pods of a workload beyond its first are reclaimed even "
                "from a queue within its quota"
            )
        yield from _unused(trial, start)
    if _configured_already(trial):
        yield f"{start}it is not checked that the Volcano of this cluster has the actions and plugins of the settings"


def _unused(trial: Trial, start: str) -> Iterator[str]:
    """Resource.LessEqual (pkg/scheduler/api/resource_info.go:412) takes a resource that no pod holds for more than deserved."""
    for queue in trial.setup.fleet.queues if not trial.setup.fleet.preemption.fair_sharing else ():
        used = _requested(trial).get(queue.name, ())
        for name in nominal(queue.quotas):
            if used and name not in ("cpu", "memory") and name not in used:
                yield f"{start}Volcano reclaims from {queue.name} even within its quota: none of its pods holds {name}"


def _demands(trial: Trial) -> Iterator[ShapeDemand]:
    for submit in submits(trial):
        yield from submit.demands(trial)


def _requested(trial: Trial) -> dict[str, list[str]]:
    """Queue → resources that pods of its workloads request."""
    found: dict[str, dict[str, None]] = {}
    for demand in _demands(trial):
        for queue, _ in demand.queues:
            found.setdefault(queue, {}).update(dict.fromkeys(demand.shape.requests))
    return {queue: list(names) for queue, names in found.items()}
