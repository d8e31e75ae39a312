"""The controller that writes the status of PodGroups (pkg/controllers/podgroup_controller.go, v0.34.7).

It decides nothing, but every status it writes is a PodGroup/Update, which wakes all pods that the plugin has rejected. One
worker; two PATCHes per turn, whether something changed or not; no client limit, because its flags are applied to a configuration
that is then not used (cmd/controller/app/server.go, Run).
"""

from __future__ import annotations

from collections import deque

from seatrial.sim import pods as pod_state
from seatrial.sim.apiserver import WRITE, ApiClient
from seatrial.sim.framework import GROUP, SchedulerPlugin
from seatrial.sim.world import Sim

_Status = tuple[str, int, int]  # phase, running, succeeded


class PodGroupController(SchedulerPlugin):
    """Gets pod events as a plugin does; a group is in the work queue at most once."""

    helped_by = GROUP

    def __init__(self, sim: Sim) -> None:
        self._sim = sim
        self._client = ApiClient("scheduler-plugins-controller")
        self._status: dict[int, _Status] = {}
        self._due: deque[int] = deque()
        self._queued: set[int] = set()
        self._now = -1  # the group whose turn it is
        sim.when_running.append(self.changed)
        for ends in (sim.when_completed, sim.when_deleted):
            ends.append(self._forget)

    def made(self, group: int) -> None:
        """The PodGroup was created: an event that wakes pods rejected by the plugin."""
        self._status[group] = ("", 0, 0)
        self._sim.scheduler.queue.moved(GROUP)
        self._enqueue(group)

    def changed(self, pod: int) -> None:
        """Requeues a group after a change of one of its pods."""
        self._enqueue(self._sim.pods.job[pod])

    added = bound = gone = changed

    def _forget(self, group: int) -> None:
        self._status.pop(group, None)

    def _enqueue(self, group: int) -> None:
        if group in self._status and group not in self._queued:
            self._queued.add(group)
            if group != self._now:
                self._due.append(group)
                self._take()

    def _take(self) -> None:
        while self._now < 0 and self._due:
            group = self._due.popleft()
            self._queued.discard(group)
            if group in self._status and self._status[group][0] != "Finished":
                self._now = group
                self._sim.api.call(self._client, WRITE, self._write_status, (group, self._reconciled(group)))

    def _write_status(self, what: tuple[int, _Status]) -> None:
        group, status = what
        if group in self._status and self._status[group] != status:
            self._status[group] = status
            self._sim.scheduler.queue.moved(GROUP)
            self._enqueue(group)
        self._sim.api.call(self._client, WRITE, self._done, group)

    def _done(self, group: int) -> None:
        self._now = -1
        if group in self._queued:
            self._due.append(group)
        self._take()

    def _reconciled(self, group: int) -> _Status:
        """Reconcile: the phase advances one step at a time."""
        phase, running, succeeded = self._status[group]
        wanted = self._sim.workloads[group].pods
        states = [self._sim.pods.state[pod] for pod in self._sim.pods_of(group)]
        there = len(states) - states.count(pod_state.GONE)
        if not phase:
            return ("Pending", running, succeeded)
        if phase == "Pending":
            return ("Scheduling" if there >= wanted else "Pending", running, succeeded)
        running, succeeded = states.count(pod_state.RUNNING), states.count(pod_state.FINISHED)
        if there < wanted:
            phase = "Pending"
        elif succeeded >= wanted:
            phase = "Finished"
        else:
            phase = "Running" if succeeded + running >= wanted else "Scheduling"
        return (phase, running, succeeded)
