"""The AppWrapper operator: an AppWrapper holds a Job, watches its pods, and starts the Job anew when they do not run in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from seatrial.model.lifecycle import ADMITTED, FINISHED, QUEUED, RUNNING, Stage, lifecycle_with
from seatrial.model.plan import Scalar, Trial, Workload
from seatrial.model.settings import Setting, Settings
from seatrial.model.units import HOUR, MINUTE, SECOND, format_duration
from seatrial.stacks.base import StackBase, submits

if TYPE_CHECKING:
    from seatrial.sim.world import Sim
    from seatrial.stacks.appwrapper.real import AppWrapperReal

RESOURCES_DEPLOYED = Stage(
    "resources_deployed", "workload", "the operator has created the Job", spent_on="deploying", after=ADMITTED
)
PODS_READY = Stage(
    "pods_ready", "workload", "the operator has seen all pods running", spent_on="noticing that pods run", after=RUNNING
)
SUCCEEDED = Stage(
    "succeeded", "workload", "the operator has seen all pods succeed", spent_on="noticing the end", after=FINISHED
)
CEILING = 24 * HOUR  # gracePeriodCeiling (pkg/config/config.go): longer grace periods are cut to it
GRACES = ("admission-grace", "warmup-grace", "failure-grace", "retry-pause")


class AppWrapperOperator(StackBase):
    """Identity: the operator without a queue. Every AppWrapper is deployed at once."""

    name = "appwrapper"
    about = (
        "the AppWrapper operator in front of kube-scheduler: deploys at once, resets workloads that do not run in time"
    )
    stages: Sequence[Stage] = lifecycle_with(QUEUED, ADMITTED, RESOURCES_DEPLOYED, PODS_READY, SUCCEEDED)
    needs = "the AppWrapper operator v1.2 and its CRD; built from its Go module"
    verified = (
        "two scenarios beside the real operator v1.2.0, once each (docs/fidelity.md); "
        "evictions and many workloads were not compared"
    )
    settings: Sequence[Setting] = (
        Setting("appwrapper", "qps", 20, "client requests per second, per kind of object (rest.Config.QPS)"),
        Setting("appwrapper", "burst", 30, "client burst, per kind of object (rest.Config.Burst)"),
        Setting("appwrapper", "admission-grace", 1 * MINUTE, "until all pods must exist (admissionGracePeriod)", kind="duration"),
        Setting("appwrapper", "warmup-grace", 5 * MINUTE, "until all pods must run (warmupGracePeriod)", kind="duration"),
        Setting("appwrapper", "failure-grace", 1 * MINUTE, "for the Job to replace failed pods (failureGracePeriod)",
                kind="duration"),
        Setting("appwrapper", "retry-pause", 90 * SECOND, "pause before a reset AppWrapper is deployed again (resetPause)",
                kind="duration"),
        Setting("appwrapper", "retry-limit", 3, "resets before it is Failed (retryLimit)"),
    )  # fmt: skip

    def refuses(self, trial: Trial) -> str | None:
        return super().refuses(trial) or bad_graces(trial.setup.settings["appwrapper"])

    def releases(self, settings: Settings) -> Sequence[int]:
        """Partly placed gangs are deleted when the warm-up grace ends."""
        return tuple(int(settings["appwrapper"][grace]) for grace in GRACES)

    def releases_of(self, trial: Trial) -> Sequence[int]:
        """Only gangs hold nodes without running; a pod that fits no node does not fit after a reset either."""
        return self.releases(trial.setup.settings) if any(submit.gang for submit in submits(trial)) else ()

    def model(self, sim: Sim, settings: Settings) -> Callable[[int, Workload], None]:
        from seatrial.stacks.appwrapper.model import AppWrapperModel

        return AppWrapperModel(sim, settings["appwrapper"]).created

    @property
    def real(self) -> AppWrapperReal:
        from seatrial.stacks.appwrapper.real import AppWrapperReal

        return AppWrapperReal()


def bad_graces(settings: Mapping[str, Scalar]) -> str | None:
    """Grace periods that the operator would reject (ValidateAppWrapperConfig)."""
    for name in GRACES:
        if int(settings[name]) > CEILING:
            return f"appwrapper.{name} is more than {format_duration(CEILING)}, which the operator does not accept"
    if int(settings["admission-grace"]) > int(settings["warmup-grace"]):
        return "appwrapper.admission-grace is longer than warmup-grace, which the operator does not accept"
    return None


stack = AppWrapperOperator()
