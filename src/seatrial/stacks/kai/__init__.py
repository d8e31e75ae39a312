"""KAI: NVIDIA's scheduler. It decides once a second, for whole PodGroups, queue by queue; its binder carries decisions out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from seatrial.model.lifecycle import PODS_CREATED, SCHEDULED, Stage, lifecycle_with
from seatrial.model.plan import Trial, Workload
from seatrial.model.settings import Setting, Settings, words
from seatrial.model.units import SECOND
from seatrial.stacks.base import StackBase, submits
from seatrial.stacks.kai.fleet_rules import otherwise, unfit

if TYPE_CHECKING:
    from seatrial.sim.world import Sim
    from seatrial.stacks.kai.real import KaiReal

BIND_REQUESTED = Stage(
    "bind_requested", "workload", "KAI has chosen its nodes: its first BindRequest exists",
    spent_on="waiting for KAI", after=PODS_CREATED,
)  # fmt: skip
ACTIONS = ("allocate", "consolidation", "reclaim", "preempt", "stalegangeviction")


class Kai(StackBase):
    """Identity: the settings of its two programs, as its chart ships them."""

    name = "kai"
    about = "NVIDIA's KAI scheduler: PodGroups placed whole, in cycles of one second, bound by a program of its own"
    stages = lifecycle_with(BIND_REQUESTED)
    needs = "KAI v0.12: scheduler and binder, the CRDs PodGroup, Queue and BindRequest"
    verified = (
        "four scenarios beside the real KAI v0.12.0, once or twice each (docs/fidelity.md); "
        "reclaiming and preemption were not compared in figures"
    )
    settings = (
        Setting("kai", "qps", 50, "client requests per second of the scheduler, per client (--qps)"),
        Setting("kai", "burst", 300, "client burst of the scheduler (--burst)"),
        Setting("kai", "period", 1 * SECOND, "time between cycles (--schedule-period)", kind="duration"),
        Setting("kai", "actions", ", ".join(ACTIONS), "the actions of a cycle, in order", ACTIONS, "names"),
        Setting("kai", "placement", "binpack", "which of the nodes that fit: the fullest or the emptiest (placementStrategy)",
                choices=("binpack", "spread"), kind="text"),
        Setting("kai", "staleness", 60 * SECOND, "stalegangeviction: how long a gang may lack pods "
                "(--default-staleness-grace-period)", kind="duration"),
        Setting("kai-binder", "qps", 20, "client requests per second of the binder, per client and kind (--qps)"),
        Setting("kai-binder", "burst", 100, "client burst of the binder (--burst)"),
        Setting("kai-binder", "concurrency", 10, "BindRequests handled in parallel (--max-concurrent-reconciles)", least=1),
    )  # fmt: skip

    quota_from = SCHEDULED.name
    honours = ("queues", "cohorts", "fair-sharing", "checkpoint")

    def refuses(self, trial: Trial) -> str | None:
        written = trial.setup.settings["kai"]["actions"]
        for action in words(written) or ("",):
            if action not in ACTIONS:
                return f"kai has no action '{action}'; it has {', '.join(ACTIONS)}"
        elsewhere = _not_elsewhere(trial) if trial.on == "kubeconfig" else None
        return super().refuses(trial) or elsewhere or unfit(trial, written)

    def findings(self, trial: Trial) -> Sequence[str]:
        return tuple(otherwise(trial))

    def releases(self, settings: Settings) -> Sequence[int]:
        own = settings["kai"]
        return (int(own["staleness"]),) if "stalegangeviction" in words(own["actions"]) else ()

    def model(self, sim: Sim, settings: Settings) -> Callable[[int, Workload], None]:
        from seatrial.stacks.kai.model import KaiModel

        return KaiModel(sim, settings).created

    @property
    def real(self) -> KaiReal:
        from seatrial.stacks.kai.real import KaiReal

        return KaiReal()


def _not_elsewhere(trial: Trial) -> str | None:
    """Limits of the KAI of a foreign cluster."""
    if any(group.existing for group in trial.setup.nodes):
        return "KAI moves and evicts pods of every queue to make room, so on a foreign cluster it gets fake nodes only"
    if any(submit.gang for submit in submits(trial)):
        return "the pod-grouper of an installed KAI makes a group of each pod of a Job: gangs of Jobs run on local only"
    return None


stack = Kai()
