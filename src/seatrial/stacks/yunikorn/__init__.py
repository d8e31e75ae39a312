"""YuniKorn: a scheduler of applications in a tree of queues; a gang holds nodes with placeholder pods until all of it can run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from seatrial.model.lifecycle import PODS_CREATED, SCHEDULED, Stage, lifecycle_with
from seatrial.model.plan import Trial, Workload
from seatrial.model.settings import Setting, Settings
from seatrial.model.units import MINUTE, SECOND
from seatrial.stacks.base import StackBase, submits
from seatrial.stacks.yunikorn.fleet_rules import otherwise, unfit

if TYPE_CHECKING:
    from seatrial.sim.world import Sim
    from seatrial.stacks.yunikorn.real import YunikornReal

RESERVED = Stage(
    "reserved", "workload", "placeholder pods hold a node for every pod of the gang",
    spent_on="reserving nodes with placeholders", after=PODS_CREATED,
)  # fmt: skip
RECLAIMS = "YuniKorn deleted it: another queue reclaimed its guarantee"
HARD, SOFT = "Hard", "Soft"
FIFO = "fifo"


class Yunikorn(StackBase):
    """Identity: stages and settings of YuniKorn, with what it is shipped with."""

    name = "yunikorn"
    about = "YuniKorn's scheduler: applications in queues, gangs that reserve nodes with placeholder pods"
    stages = lifecycle_with(RESERVED)
    needs = "YuniKorn v1.8: its scheduler under the name `yunikorn`"
    verified = (
        "three scenarios beside the real YuniKorn v1.8.0, one to three times each (docs/fidelity.md); "
        "preemption, fair sharing and reservations were not compared in figures"
    )
    quota_from = SCHEDULED.name
    honours = ("queues", "cohorts", "fair-sharing", "checkpoint")
    settings = (
        Setting("yunikorn", "qps", 1000, "client requests per second (kubernetes.qps)"),
        Setting("yunikorn", "burst", 1000, "client burst (kubernetes.burst)"),
        Setting("yunikorn", "interval", 1 * SECOND, "time between looks at applications (service.schedulingInterval)",
                kind="duration"),
        Setting("yunikorn", "gang-style", SOFT, "a gang after the placeholder timeout: `Soft` continues pod by pod, `Hard` fails "
                "(gangSchedulingStyle)", choices=(SOFT, HARD), kind="text", per_trial=True),
        Setting("yunikorn", "placeholder-timeout", 15 * MINUTE, "how long placeholders may hold nodes "
                "(placeholderTimeoutInSeconds)", kind="duration", per_trial=True),
        Setting("yunikorn", "preemption-delay", 30 * SECOND, "how long a pod waits before its queue reclaims its "
                "guarantee (preemption.delay)", kind="duration"),
        Setting("yunikorn", "application-sort", FIFO, "order of a queue's applications (application.sort.policy)",
                choices=(FIFO, "fair"), kind="text"),
        Setting("yunikorn", "node-sort", "fair", "order in which nodes are tried: emptiest or fullest first (nodesortpolicy)",
                choices=("fair", "binpacking"), kind="text"),
    )  # fmt: skip

    def refuses(self, trial: Trial) -> str | None:
        timeout = int(trial.setup.settings.get("yunikorn", {}).get("placeholder-timeout", SECOND))
        if timeout < SECOND or timeout % SECOND:
            return "yunikorn has its placeholder-timeout in whole seconds, 1s at least"
        gangs = any(submit.gang for submit in submits(trial))
        return super().refuses(trial) or (_no_gangs(trial) if gangs else None) or unfit(trial)

    def findings(self, trial: Trial) -> Sequence[str]:
        return tuple(otherwise(trial))

    def releases(self, settings: Settings) -> Sequence[int]:
        return (int(settings["yunikorn"]["placeholder-timeout"]),)

    def releases_of(self, trial: Trial) -> Sequence[int]:
        """Without gangs there are no placeholders."""
        return self.releases(trial.setup.settings) if any(submit.gang for submit in submits(trial)) else ()

    def model(self, sim: Sim, settings: Settings) -> Callable[[int, Workload], None]:
        from seatrial.stacks.yunikorn.model import YunikornModel

        return YunikornModel(sim, settings).created

    @property
    def real(self) -> YunikornReal:
        from seatrial.stacks.yunikorn.real import YunikornReal

        return YunikornReal()


def _no_gangs(trial: Trial) -> str | None:
    """Why a gang would not be scheduled, or not as on a real cluster."""
    own = trial.setup.settings["yunikorn"]
    if own["application-sort"] != FIFO:
        return f"yunikorn rejects gangs in queues that are not sorted by {FIFO}: application-sort is {own['application-sort']}"
    if trial.on == "sim" and own["gang-style"] == HARD:
        return (
            f"gang-style: {HARD} fails pods, and the simulated Job controller has no back-off for failed pods: the model of "
            "yunikorn does not have it; it runs on local"
        )
    return None


stack = Yunikorn()
