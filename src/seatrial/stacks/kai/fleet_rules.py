"""Rules of a fleet that KAI cannot honour, and its deviations; reported before anything is created."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from seatrial.model.fleet import NEVER, Cohort, Fleet, Queue
from seatrial.model.plan import Scalar, Trial
from seatrial.model.settings import words
from seatrial.stacks.base import actions_needed, submits, unknown_rules
from seatrial.stacks.kai.queue_tree import RESOURCES

PREEMPTIBLE_BELOW = 100  # pkg/common/podgroup/preemptible.go: a priority from here on is not preemptible


def actions_of(fleet: Fleet, written: Scalar) -> list[str]:
    """The actions of a cycle: those of the setting, without those that the fleet's rules forbid."""
    actions = words(written)
    if not fleet.queues:
        return actions
    rules = fleet.preemption
    forbidden = {"reclaim": rules.reclaim == NEVER, "preempt": rules.within_queue == NEVER}
    return [action for action in actions if not forbidden.get(action, False)]


def unfit(trial: Trial, written: Scalar) -> str | None:
    """The first part of the trial's fleet that KAI cannot honour, or None."""
    if not trial.setup.fleet.queues:
        return None
    return next(_unfit_queues(trial), None) or next(_unfit_rules(trial, words(written)), None)


def _unfit_queues(trial: Trial) -> Iterator[str]:
    fleet = trial.setup.fleet
    for cohort in fleet.cohorts:
        if cohort.parent:
            yield f"KAI orders two levels of queues: a cohort has no `parent` ({cohort.name}: {cohort.parent})"
    owners: list[Queue | Cohort] = [*fleet.queues, *fleet.cohorts]
    for owner in owners:
        for quota in owner.quotas:
            if quota.lend:
                yield f"KAI lends all that a queue does not use: `lend` of {owner.name} has no counterpart"
            unknown = [resource for resource in quota.nominal if resource not in RESOURCES]
            if unknown:
                yield f"KAI's queues have quotas of {', '.join(RESOURCES)}, not of {unknown[0]} ({owner.name})"


def _unfit_rules(trial: Trial, actions: Sequence[str]) -> Iterator[str]:
    rules = trial.setup.fleet.preemption
    yield from unknown_rules("KAI", rules)
    if rules.while_borrowing != NEVER:
        yield "KAI preempts no other queue for one above its share: it has no `while-borrowing`"
    for rule, value, action in actions_needed(rules):
        if value == NEVER and trial.on != "sim" and (trial.on == "kubeconfig" or trial.target.cluster):
            yield f"`{rule}: never` takes an action out of KAI's configuration, and the KAI of this cluster is configured already"
        if value != NEVER and action not in actions:
            yield f"`{rule}: {value}` needs KAI's action {action}, which kai.actions does not have"


def otherwise(trial: Trial) -> Iterator[str]:
    """KAI's deviations from what the scenario suggests."""
    fleet, name = trial.setup.fleet, trial.setup.name
    if not fleet.queues:
        return
    if not fleet.preemption.fair_sharing:
        yield f"set-up '{name}': KAI always shares usage beyond quotas by weight, even without `fair-sharing`"
    if any(submit.shape.priority >= PREEMPTIBLE_BELOW for submit in submits(trial)):
        yield (
            f"set-up '{name}': KAI does not preempt workloads of priority {PREEMPTIBLE_BELOW} or more, and does not start them "
            "beyond their queue's quota"
        )
    if trial.on == "kubeconfig":
        yield (
            f"set-up '{name}': evictions are counted if the scheduler of this cluster has --update-pod-eviction-condition=true; "
            "its default is false"
        )
