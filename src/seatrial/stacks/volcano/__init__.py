"""Volcano: a batch scheduler that decides once a second, for whole PodGroups, queue by queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from seatrial.model.lifecycle import PODS_CREATED, SCHEDULED, Stage, lifecycle_with
from seatrial.model.plan import Trial, Workload
from seatrial.model.settings import Setting, Settings
from seatrial.model.units import SECOND
from seatrial.stacks.base import StackBase
from seatrial.stacks.volcano.fleet_rules import otherwise, unfit
from seatrial.stacks.volcano.session_configuration import ACTIONS, PLUGINS, SHIPPED_ACTIONS, SHIPPED_PLUGINS, unknown

if TYPE_CHECKING:
    from seatrial.sim.world import Sim
    from seatrial.stacks.volcano.real import VolcanoReal

INQUEUE = Stage(
    "inqueue", "workload", "its PodGroup is Inqueue: Volcano may place its pods",
    spent_on="waiting for its queue", after=PODS_CREATED,
)  # fmt: skip


class Volcano(StackBase):
    """Identity: the settings of its scheduler, as its chart ships them."""

    name = "volcano"
    about = "Volcano's scheduler: PodGroups placed whole, in sessions of one second"
    stages = lifecycle_with(INQUEUE)
    needs = "Volcano v1.10: its scheduler under the name `volcano`, the CRDs PodGroup and Queue"
    verified = (
        "four scenarios (gangs, queues, evictions) beside the real Volcano v1.10.0, once or twice each (docs/fidelity.md); "
        "many-small-jobs was not compared"
    )
    settings = (
        Setting("volcano", "qps", 2000, "client requests per second (--kube-api-qps)"),
        Setting("volcano", "burst", 2000, "client burst (--kube-api-burst)"),
        Setting("volcano", "period", 1 * SECOND, "time between sessions (--schedule-period)", kind="duration"),
        Setting("volcano", "actions", SHIPPED_ACTIONS, "the actions of a session, in order", ACTIONS, "names"),
        Setting("volcano", "plugins", SHIPPED_PLUGINS, "plugins; tiers are separated by a semicolon", PLUGINS, "names"),
    )  # fmt: skip

    quota_from = SCHEDULED.name
    honours = ("queues", "cohorts", "fair-sharing", "checkpoint")

    def refuses(self, trial: Trial) -> str | None:
        own = trial.setup.settings["volcano"]
        return next(unknown(trial, own["actions"], own["plugins"]), None) or super().refuses(trial) or unfit(trial)

    def findings(self, trial: Trial) -> Sequence[str]:
        return tuple(otherwise(trial))

    def model(self, sim: Sim, settings: Settings) -> Callable[[int, Workload], None]:
        from seatrial.stacks.volcano.model import VolcanoModel

        return VolcanoModel(sim, settings["volcano"]).created

    @property
    def real(self) -> VolcanoReal:
        from seatrial.stacks.volcano.real import VolcanoReal

        return VolcanoReal()


stack = Volcano()
