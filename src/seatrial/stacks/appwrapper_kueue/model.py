"""Kueue in front of the AppWrapper operator in the simulator: the models of both, and what they say to each other.

Facts (Kueue v0.16.1, pkg/controller/jobs/appwrapper/appwrapper_controller.go and jobframework/reconciler.go): Kueue reads and
writes `spec.suspend`. An AppWrapper is active while its condition QuotaReserved is true (:104), ready by its condition PodsReady,
and finished in its phase Succeeded, or Failed once its resources are gone (:171). It is stopped by one write (reconciler.go:1232);
its quota is free when it is not active any more, which is when the operator has seen that no pod is left. Pods that have succeeded
give nothing back before the end: an AppWrapper has no reclaimable pods.
"""

from __future__ import annotations

from seatrial.model.plan import Workload
from seatrial.model.settings import Settings
from seatrial.sim.goroutines import Goroutine
from seatrial.sim.world import Sim
from seatrial.stacks.appwrapper.model import FAILED_PHASE, SUCCEEDED_PHASE, AppWrapperModel
from seatrial.stacks.kueue.model import KueueModel
from seatrial.stacks.kueue.pending import Entry


class KueueOfAppWrappers(KueueModel):
    """Kueue's reconcilers, with AppWrappers where `kueue` has Jobs."""

    def __init__(self, sim: Sim, settings: Settings) -> None:
        super().__init__(sim, settings["kueue"])
        self._wrappers = AppWrapperModel(sim, settings["appwrapper"], queued=True)
        self._wrappers.when_changed.append(self._wrapper_changed)

    def _create_suspended(self, number: int, workload: Workload) -> None:
        self._wrappers.created(number, workload)

    def _unsuspend(self, number: int) -> None:
        self._wrappers.set_suspend(number, suspend=False)

    def _all_ready(self, entry: Entry) -> bool:
        wrapper = self._wrappers.server.get(entry.number)
        return wrapper is not None and wrapper.ready

    def _reclaimable(self, entry: Entry) -> int:  # noqa: ARG002
        return 0

    def _job_complete(self, number: int) -> None:
        """The operator tells Kueue, not the Job."""

    def _job_written(self, number: int) -> None:
        """The Job is the operator's: Kueue leaves it alone."""

    def _wrapper_changed(self, number: int) -> None:
        entry, wrapper = self._entries.get(number), self._wrappers.server.get(number)
        if entry is None or wrapper is None:
            return
        over = wrapper.phase == SUCCEEDED_PHASE or (wrapper.phase == FAILED_PHASE and not wrapper.deployed)
        entry.complete = entry.complete or over
        self._jobs.add(number)

    def _stop(self, entry: Entry) -> Goroutine:
        """One write suspends it; the operator then deletes the Job, and looks every 5 s whether the pods are gone."""
        if not entry.suspended:
            yield from self._writer.job()
            entry.suspended = True
            self._events.of(entry)
            self._wrappers.set_suspend(entry.number, suspend=True)
        wrapper = self._wrappers.server.get(entry.number)
        if entry.admitted and wrapper is not None and not wrapper.quota_reserved and wrapper.suspend:
            yield from self._give_quota_back(entry)
