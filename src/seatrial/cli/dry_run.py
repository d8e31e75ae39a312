"""`seatrial run --dry-run`: the trials of a scenario and what each would create. Nothing is started, contacted or written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seatrial import stacks
from seatrial.cli.queue_table import counted_queues, preemption_rules, print_queues
from seatrial.model.plan import Amounts, NodeGroup, Trial
from seatrial.report.durations import lasting
from seatrial.scenario.actions.send_requests import Requests
from seatrial.scenario.actions.submit_workloads import Submit

if TYPE_CHECKING:
    from rich.console import Console


def print_plan(trials: Sequence[Trial], console: Console) -> None:
    """Prints a line for the nodes of each set-up, then a row for each trial."""
    from seatrial.report.text_tables import Column, print_columns, print_line

    first = {trial.setup.name: trial for trial in reversed(trials)}
    for trial in reversed(first.values()):
        nodes = ", ".join(map(_described, trial.node_groups())) or "no nodes"
        fleet = trial.setup.fleet
        shared = f"; {counted_queues(fleet)}, {preemption_rules(fleet.preemption)}" if fleet.queues else ""
        print_line(console, f"set-up {trial.setup.name}: stack {trial.setup.stack} on {trial.on}; {nodes}{shared}")
    if trials[0].setup.fleet.queues:
        print_queues(trials[0], console)
    columns = [
        Column("trial", [trial.name for trial in trials], left=True),
        Column("nodes", [f"{sum(group.count for group in trial.node_groups()):,}" for trial in trials]),
        Column("workloads", [f"{sum(phase.count for phase in trial.phases(Submit)):,}" for trial in trials]),
        Column("pods", [f"{sum(phase.pods_in(trial) for phase in trial.phases(Submit)):,}" for trial in trials]),
        Column("creates", [_objects(trial) for trial in trials], left=True),
    ]
    print_columns(console, columns, [True] * len(trials))
    print_line(console, f"{len(trials):,} trial{'' if len(trials) == 1 else 's'}; nothing was started or written")


def _described(group: NodeGroup) -> str:
    if group.existing:
        return f"existing nodes with {group.existing}"
    kind = "kubelet" if group.kubelet else "fake"
    return f"{group.count:,} {kind} nodes {group.name}-0 …" if group.count != 1 else f"1 {kind} node {group.name}-0"


def _objects(trial: Trial) -> str:
    """`50 Job, 50 PodGroup, 1 ClusterQueue`; requests of a timed phase are not counted."""
    counts: Counter[str] = Counter()
    open_ended: list[str] = []
    real = stacks.find(trial.setup.stack).real.for_setup(trial.setup)
    if trial.phases(Submit):
        for manifest in real.prepare(trial.setup, _capacity(trial.node_groups()), {}, "default"):
            counts[manifest.resource.kind] += 1
    for submit in trial.phases(Submit):
        for manifest in real.render(submit.load(*submit.seeds(trial)).item(0), {}):
            counts[manifest.resource.kind] += submit.count
    for phase in trial.phases(Requests):
        if phase.count is None:
            open_ended.append(f"{phase.verb} requests of {phase.name} for {lasting(phase.lasting / 1e9, decimals=0)}")
        elif phase.verb == "create":
            for body in phase.objects:
                counts[str(body.get("kind"))] += phase.count
        else:
            counts[f"{phase.verb} requests"] += phase.count * max(len(phase.objects), 1)
    return ", ".join([*(f"{count:,} {kind}" for kind, count in counts.items()), *open_ended])


def _capacity(groups: Sequence[NodeGroup]) -> Amounts:
    total: Counter[str] = Counter()
    for group in groups:
        for resource, amount in group.capacity.items():
            total[resource] += amount * group.count
    return total
