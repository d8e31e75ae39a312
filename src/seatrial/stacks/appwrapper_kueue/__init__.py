"""Kueue in front of the AppWrapper operator: an AppWrapper stays suspended until its requests fit a quota."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from seatrial.model.lifecycle import ADMITTED, QUEUED, RELEASED, lifecycle_with
from seatrial.model.plan import Trial, Workload
from seatrial.model.settings import Settings
from seatrial.stacks.appwrapper import PODS_READY, RESOURCES_DEPLOYED, SUCCEEDED, bad_graces
from seatrial.stacks.appwrapper import stack as operator
from seatrial.stacks.kueue import QUOTA_RESERVED, Kueue

if TYPE_CHECKING:
    from seatrial.sim.world import Sim
    from seatrial.stacks.appwrapper_kueue.real import AppWrapperKueueReal


class AppWrapperKueue(Kueue):
    """Identity: Kueue's queues and settings, and the operator's."""

    name = "appwrapper-kueue"
    about = "Kueue in front of the AppWrapper operator: suspended AppWrappers, admitted by quota"
    stages = lifecycle_with(QUEUED, QUOTA_RESERVED, ADMITTED, RESOURCES_DEPLOYED, PODS_READY, SUCCEEDED, RELEASED)
    needs = "Kueue v0.16 with the integration workload.codeflare.dev/appwrapper, and the AppWrapper operator v1.2"
    verified = "many-small-jobs beside the real ones, twice (docs/fidelity.md); evictions were not compared in figures"
    model_verified = False
    honours = ("queues", "cohorts", "flavors", "fair-sharing")
    settings = (*operator.settings, *Kueue.settings)

    def refuses(self, trial: Trial) -> str | None:
        if trial.setup.settings["kueue"]["topology"]:
            return "kueue's topology was never tried with AppWrappers; the stack 'kueue' has it"
        return super().refuses(trial) or bad_graces(trial.setup.settings["appwrapper"])

    def releases(self, settings: Settings) -> Sequence[int]:
        return (*super().releases(settings), *operator.releases(settings))

    def releases_of(self, trial: Trial) -> Sequence[int]:
        return (*super().releases(trial.setup.settings), *operator.releases_of(trial))

    def model(self, sim: Sim, settings: Settings) -> Callable[[int, Workload], None]:
        from seatrial.stacks.appwrapper_kueue.model import KueueOfAppWrappers

        return KueueOfAppWrappers(sim, settings).created

    @property
    def real(self) -> AppWrapperKueueReal:
        from seatrial.stacks.appwrapper_kueue.real import AppWrapperKueueReal

        return AppWrapperKueueReal()


stack = AppWrapperKueue()
