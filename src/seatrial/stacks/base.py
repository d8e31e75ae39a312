"""Defaults of a stack: plain Kubernetes. Every stack, ours or a foreign package's, derives from this."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from seatrial.model.fleet import ANY, LOWER, NEVER, Preemption
from seatrial.model.interfaces import RealSide, Stack
from seatrial.model.lifecycle import PLAIN, PODS_CREATED, Stage
from seatrial.model.plan import Amounts, Trial, Workload
from seatrial.model.settings import Setting, Settings

if TYPE_CHECKING:
    from seatrial.scenario.actions.submit_workloads import Submit
    from seatrial.sim.world import Sim


def submits(trial: Trial) -> list[Submit]:
    """The trial's submit phases. Their module is imported here: `seatrial stacks` takes 0.27 s instead of 0.33 s."""
    from seatrial.scenario.actions.submit_workloads import Submit

    return trial.phases(Submit)


def unknown_rules(who: str, rules: Preemption) -> Iterator[str]:
    """Rules without a counterpart in schedulers that know one way to preempt and one to reclaim."""
    if rules.within_queue not in (NEVER, LOWER):
        yield f"{who} preempts for a higher priority alone: `within-queue` is never or {LOWER}, not {rules.within_queue}"
    if rules.reclaim not in (NEVER, ANY):
        yield f"{who} reclaims whatever the priorities are: `reclaim` is never or {ANY}, not {rules.reclaim}"


def actions_needed(rules: Preemption) -> tuple[tuple[str, str, str], ...]:
    """Each rule with its value and the action of a batch scheduler that carries it out."""
    return ("within-queue", rules.within_queue, "preempt"), ("reclaim", rules.reclaim, "reclaim")


# Parts of a scenario that only some stacks honour: how a trial shows that it requests one, and why another stack cannot.
PARTS: Mapping[str, tuple[Callable[[Trial], bool], str]] = {
    "declares": (
        lambda trial: any(submit.declares is not None for submit in submits(trial)),
        "takes a workload's requests from its pods: nothing can be declared",
    ),
    "queues": (lambda trial: bool(trial.setup.fleet.queues), "has no quotas (`queues`): all share one queue"),
    "cohorts": (
        lambda trial: any(queue.cohort for queue in trial.setup.fleet.queues),
        "has no cohorts (`cohort`): no queue borrows from another",
    ),
    "flavors": (
        lambda trial: any(flavor.nodes for flavor in trial.setup.fleet.flavors),
        "has one quota per queue for all nodes together, not one per flavor (`flavors`)",
    ),
    "fair-sharing": (
        lambda trial: trial.setup.fleet.preemption.fair_sharing,
        "has no fair sharing (`fair-sharing`)",
    ),
    "checkpoint": (
        lambda trial: any(submit.checkpoint for submit in submits(trial)),
        "does not start an evicted workload again from its `checkpoint`",
    ),
}


class StackBase(Stack):
    """Jobs, the Job controller, kube-scheduler. Nothing stands between a workload and its pods."""

    name = ""
    about = ""
    stages: Sequence[Stage] = PLAIN
    settings: Sequence[Setting] = ()
    needs = "nothing"
    runs_on: Sequence[str] = ("sim", "local", "kubeconfig")
    verified = ""
    quota_from = PODS_CREATED.name  # as a ResourceQuota counts
    model_verified = False
    honours: Sequence[str] = ()  # of PARTS

    def refuses(self, trial: Trial) -> str | None:
        if trial.on not in self.runs_on:
            return f"the stack '{self.name}' does not run on {trial.on}, only on {' and '.join(self.runs_on)}"
        lacking = [why for part, (asked, why) in PARTS.items() if part not in self.honours and asked(trial)]
        return f"the stack '{self.name}' {'; it '.join(lacking)}" if lacking else None

    def findings(self, trial: Trial) -> Sequence[str]:
        """Kueue has rules of preemption, kube-scheduler has none but priorities."""
        priorities = {shape.priority for submit in submits(trial) for shape in submit.shapes}
        if not trial.setup.fleet.queues or "cohorts" in self.honours or len(priorities) < 2:
            return ()
        return (
            f"set-up '{trial.setup.name}': `preemption` has no effect on the stack '{self.name}': kube-scheduler evicts pods of "
            "a lower priority, of every queue",
        )

    def releases(self, settings: Settings) -> Sequence[int]:  # noqa: ARG002
        return ()

    def releases_of(self, trial: Trial) -> Sequence[int]:
        return self.releases(trial.setup.settings)

    def quota(self, settings: Settings, capacity: Amounts) -> Amounts | None:  # noqa: ARG002
        return None

    def model(self, sim: Sim, settings: Settings) -> Callable[[int, Workload], None]:  # noqa: ARG002
        sim.limit_queues()
        return sim.jobs.add

    @property
    def real(self) -> RealSide:
        from seatrial.stacks.default.real import DefaultReal

        return DefaultReal()
