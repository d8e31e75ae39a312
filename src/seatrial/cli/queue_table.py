"""The queues of a set-up in `seatrial validate` and `seatrial run --dry-run`: a thousand that are alike are one row."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from seatrial.model.fleet import NEVER, FlavorQuota, Fleet, Preemption, Queue
from seatrial.model.plan import Trial
from seatrial.model.units import format_quantity
from seatrial.scenario.actions.submit_workloads import Submit

if TYPE_CHECKING:
    from rich.console import Console


def counted_queues(fleet: Fleet) -> str:
    """`30 queues in 5 cohorts`; nothing for a scenario without queues."""
    if not fleet.queues:
        return ""
    cohorts = {queue.cohort for queue in fleet.queues} - {""}
    among = f" in {_counted(len(cohorts), 'cohort')}" if cohorts else ""
    return _counted(len(fleet.queues), "queue") + among


def preemption_rules(rules: Preemption) -> str:
    """`within-queue lower-priority, reclaim any, fair sharing`"""
    given = {"within-queue": rules.within_queue, "reclaim": rules.reclaim, "while-borrowing": rules.while_borrowing}
    words = [f"{name} {rule}" for name, rule in given.items() if rule != NEVER]
    return ", ".join([*words, *(["fair sharing"] if rules.fair_sharing else [])]) or "no preemption"


def print_queues(trial: Trial, console: Console) -> None:
    """A row per queue, or per run of queues that are alike."""
    from seatrial.report.text_tables import Column, print_columns

    workloads = _workloads(trial)

    def alike(queue: Queue) -> tuple[object, ...]:
        return dataclasses.replace(queue, name="", cohort=""), bool(queue.cohort), workloads[queue.name]

    rows = [list(run) for _, run in groupby(trial.setup.fleet.queues, key=lambda queue: repr(alike(queue)))]
    columns = [
        Column("queue", [_span([queue.name for queue in run]) for run in rows], left=True),
        Column("cohort", [_span(list(dict.fromkeys(queue.cohort for queue in run))) for run in rows], left=True),
        Column("quota", [_quota(run[0]) for run in rows], left=True),
        Column("borrows", [_limits(run[0], "borrow") for run in rows], left=True),
        Column("lends", [_limits(run[0], "lend") for run in rows], left=True),
        Column("weight", [f"{run[0].weight:g}" for run in rows]),
        Column("workloads", [f"{sum(workloads[queue.name] for queue in run):,}" for run in rows]),
    ]
    print_columns(console, columns, [True] * len(rows))


def _workloads(trial: Trial) -> Counter[str]:
    counts: Counter[str] = Counter()
    for submit in trial.phases(Submit):
        counts.update(submit.queue_counts())
    return counts


def _span(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names):,})"


def _quota(queue: Queue) -> str:
    return "; ".join(f"{_of(quota)}{_amounts(quota.nominal)}" for quota in queue.quotas)


def _limits(queue: Queue, which: str) -> str:
    """Borrowing and lending limits of a queue; unlimited resources are left out."""
    if not queue.cohort:
        return ""
    found = []
    for quota in queue.quotas:
        limits: Mapping[str, int] = getattr(quota, which)
        nothing = limits.keys() == quota.nominal.keys() and not any(limits.values())
        found.append("none" if nothing else _amounts(limits) or "any")
    if len(set(found)) == 1:
        return found[0]
    return "; ".join(f"{_of(quota)}{words}" for quota, words in zip(queue.quotas, found, strict=True))


def _of(quota: FlavorQuota) -> str:
    return f"{quota.flavor}: " if quota.flavor else ""


def _amounts(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{resource} {format_quantity(amount, resource)}" for resource, amount in amounts.items())


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
