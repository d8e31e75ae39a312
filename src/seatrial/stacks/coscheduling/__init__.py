"""Coscheduling of scheduler-plugins: pods of a group hold their nodes until enough of them have one, for a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seatrial.model.interfaces import Manifest
from seatrial.model.plan import Trial, Workload
from seatrial.model.settings import Setting
from seatrial.model.units import SECOND
from seatrial.stacks.plain import Plain, Settings


class Coscheduling(Plain):
    name = "coscheduling"
    about = "kube-scheduler with the Coscheduling plugin: PodGroups, nodes held until the whole gang has its own"
    needs = "scheduler-plugins v0.34.7: its scheduler as default-scheduler, its controller, the CRD PodGroup"
    verified = "the real scheduler and controller on `local`, side by side with the model (docs/stacks/coscheduling.md)"
    model_verified = True
    settings = (
        Setting("coscheduling", "permit-wait", 60 * SECOND, "how long a pod holds its node for its siblings; whole seconds "
                "(permitWaitingTimeSeconds)", kind="duration"),
        Setting("coscheduling", "backoff", 0, "how long a group is turned down after it failed; whole seconds "
                "(podGroupBackoffSeconds)", kind="duration"),
        Setting("coscheduling", "reject-percentage", 10, "a group that lacks no more of its pods than this keeps its nodes "
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

    def model(self, sim: Any, settings: Settings) -> Callable[[int, Workload], None]:
        from seatrial.stacks.coscheduling.controller import PodGroups
        from seatrial.stacks.coscheduling.plugin import Coscheduling as Plugin

        plugin, groups = Plugin(sim, settings["coscheduling"]), PodGroups(sim)
        sim.scheduler.use(plugin, groups)

        def deliver(number: int, workload: Workload) -> None:
            if workload.gang:
                plugin.made(number)
                groups.made(number)
            sim.jobs.add(number, workload)

        return deliver

    def releases(self, settings: Settings) -> Sequence[int]:
        own = settings["coscheduling"]
        return [int(own[name]) for name in ("permit-wait", "backoff") if own[name]]

    def programs(self) -> Sequence[Any]:
        from seatrial.stacks.coscheduling.processes import CONTROLLER, SCHEDULER

        return (SCHEDULER, CONTROLLER)

    def amend(self, plane: Any, settings: Settings) -> Any:
        from seatrial.stacks.coscheduling.processes import amended

        return amended(plane, settings["coscheduling"])

    def render(self, workload: Workload, labels: Mapping[str, str]) -> Sequence[Manifest]:
        from seatrial.stacks.coscheduling.objects import manifests

        return manifests(workload, labels)

    def watches(self) -> Sequence[Any]:
        from seatrial.stacks.coscheduling.objects import WATCHES

        return WATCHES


stack = Coscheduling()
