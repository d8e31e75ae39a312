"""The garbage collector of the controller manager: a Job that is deleted in the background is gone at once, and its pods follow.

Facts (Kubernetes 1.36, cmd/kube-controller-manager/app/core.go): a client of its own with twice the QPS of other controllers, since
each deletion takes two requests, a GET and a DELETE.
"""

from __future__ import annotations

from seatrial.sim import pods as pod_state
from seatrial.sim.apiserver import GET, WRITE, ApiClient
from seatrial.sim.world import Sim


class GarbageCollector:
    """Deletes pods whose Job is gone."""

    def __init__(self, sim: Sim) -> None:
        self._sim = sim
        manager = sim.settings["kube-controller-manager"]
        self._client = ApiClient("garbage-collector", 2 * float(manager["qps"]), float(manager["burst"]))

    def drop_job(self, number: int) -> None:
        """The workload's Job was deleted; another may follow."""
        self._sim.jobs.remove(number)
        for pod in self._sim.pods_of(number):
            if self._sim.pods.state[pod] < pod_state.FINISHED:
                self._sim.api.call(self._client, GET, self._found, pod)

    def _found(self, pod: int) -> None:
        self._sim.api.call(self._client, WRITE, self._deleted, pod)

    def _deleted(self, pod: int) -> None:
        if self._sim.pods.state[pod] < pod_state.FINISHED:
            self._sim.delete_pod(pod)
