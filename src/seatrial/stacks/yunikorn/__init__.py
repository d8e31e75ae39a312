"""YuniKorn: a scheduler of applications in a tree of queues; a gang holds nodes with placeholder pods until all of it can run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seatrial.model.lifecycle import PODS_CREATED, Stage, lifecycle_with
from seatrial.model.plan import Trial
from seatrial.model.settings import Setting, Settings
from seatrial.model.units import MINUTE, SECOND
from seatrial.stacks.base import StackBase

if TYPE_CHECKING:
    from seatrial.stacks.yunikorn.real import YunikornReal

RESERVED = Stage(
    "reserved", "workload", "placeholder pods hold a node for every pod of the gang",
    spent_on="reserving nodes with placeholders", after=PODS_CREATED,
)  # fmt: skip
HARD, SOFT = "Hard", "Soft"


class Yunikorn(StackBase):
    """Identity: stages and settings of YuniKorn, with what it is shipped with."""

    name = "yunikorn"
    about = "YuniKorn's scheduler: applications in queues, gangs that reserve nodes with placeholder pods"
    stages = lifecycle_with(RESERVED)
    needs = "YuniKorn v1.8: its scheduler under the name `yunikorn`"
    runs_on: Sequence[str] = ("local", "kubeconfig")
    verified = "it is the real one: there is no model for sim yet"
    honours = ("checkpoint",)
    settings = (
        Setting("yunikorn", "qps", 1000, "client requests per second (kubernetes.qps)"),
        Setting("yunikorn", "burst", 1000, "client burst (kubernetes.burst)"),
        Setting("yunikorn", "interval", 1 * SECOND, "time between looks at applications (service.schedulingInterval)",
                kind="duration"),
        Setting("yunikorn", "gang-style", SOFT, "a gang after the placeholder timeout: `Soft` goes on pod by pod, `Hard` fails "
                "(gangSchedulingStyle)", choices=(SOFT, HARD), kind="text", per_trial=True),
        Setting("yunikorn", "placeholder-timeout", 15 * MINUTE, "how long placeholders may hold nodes "
                "(placeholderTimeoutInSeconds)", kind="duration", per_trial=True),
        Setting("yunikorn", "application-sort", "fifo", "order of a queue's applications (application.sort.policy)",
                choices=("fifo", "fair"), kind="text"),
        Setting("yunikorn", "node-sort", "fair", "order in which nodes are tried: emptiest or fullest first (nodesortpolicy)",
                choices=("fair", "binpacking"), kind="text"),
    )  # fmt: skip

    def refuses(self, trial: Trial) -> str | None:
        timeout = int(trial.setup.settings.get("yunikorn", {}).get("placeholder-timeout", SECOND))
        if timeout < SECOND or timeout % SECOND:
            return "yunikorn has its placeholder-timeout in whole seconds, 1s at least"
        return super().refuses(trial)

    def releases(self, settings: Settings) -> Sequence[int]:
        return (int(settings["yunikorn"]["placeholder-timeout"]),)

    @property
    def real(self) -> YunikornReal:
        from seatrial.stacks.yunikorn.real import YunikornReal

        return YunikornReal()


stack = Yunikorn()
