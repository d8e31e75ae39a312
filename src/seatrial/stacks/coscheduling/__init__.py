"""Coscheduling of scheduler-plugins: pods of a group hold their nodes until enough of them have one, for a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from seatrial.model.plan import Trial, Workload
from seatrial.model.settings import Setting, Settings
from seatrial.model.units import SECOND
from seatrial.stacks.base import StackBase

if TYPE_CHECKING:
    from seatrial.sim.world import Sim
    from seatrial.stacks.coscheduling.real import CoschedulingReal


class Coscheduling(StackBase):
    """Identity: the arguments of the plugin."""

    name = "coscheduling"
    honours = ("queues", "checkpoint")
    about = "kube-scheduler with the Coscheduling plugin: PodGroups, nodes held until the whole gang has its own"
    needs = "scheduler-plugins v0.34.7: its scheduler as default-scheduler, its controller, the CRD PodGroup"
    verified = "the real scheduler and controller on `local`, side by side with the model (docs/stacks/coscheduling.md)"
    model_verified = True
    settings = (
        Setting("coscheduling", "permit-wait", 60 * SECOND, "how long a pod holds its node for its siblings; whole seconds "
                "(permitWaitingTimeSeconds)", kind="duration"),
        Setting("coscheduling", "backoff", 0, "how long a group is rejected after it failed; whole seconds "
                "(podGroupBackoffSeconds)", kind="duration"),
        Setting("coscheduling", "reject-percentage", 10, "a group that lacks at most this share of its pods keeps its nodes "
                "when one finds none (podGroupRejectPercentage)"),
    )  # fmt: skip

    def refuses(self, trial: Trial) -> str | None:
        own = trial.setup.settings.get("coscheduling", {})
        for name in ("permit-wait", "backoff"):
            if int(own.get(name, 0)) % SECOND:
                return f"coscheduling has its {name} in whole seconds only"
        if not 0 <= float(own.get("reject-percentage", 0)) <= 100:
            return "coscheduling's reject-percentage is between 0 and 100"
        return super().refuses(trial)

    def releases(self, settings: Settings) -> Sequence[int]:
        own = settings["coscheduling"]
        return [int(own[name]) for name in ("permit-wait", "backoff") if own[name]]

    def model(self, sim: Sim, settings: Settings) -> Callable[[int, Workload], None]:
        from seatrial.stacks.coscheduling.model import put_into

        return put_into(sim, settings["coscheduling"])

    @property
    def real(self) -> CoschedulingReal:
        from seatrial.stacks.coscheduling.real import CoschedulingReal

        return CoschedulingReal()


stack = Coscheduling()
