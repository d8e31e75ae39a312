"""KAI's binder in the simulator: workers that carry out BindRequests, each with four writes (v0.12.0).

pkg/binder/controllers/bindrequest_controller.go:85 and pkg/binder/binding/binder.go:38: PATCH of the pod's annotation, POST of the
binding, PATCH of the BindRequest's status, PATCH of the pod's condition PodBound. The first two go through a client that the binder
makes for itself, the others through that of its manager (cmd/binder/app/app.go:94, :171, :177). Clients of controller-runtime have
a token bucket per kind of object (its pkg/client/client_rest_resources.go:54), so there are three. On fake nodes the last write
restarts KWOK's timer, as every update of a pod does.
"""

from __future__ import annotations

from collections.abc import Mapping

from seatrial.model.plan import Scalar
from seatrial.model.units import MICROSECOND, MILLISECOND
from seatrial.sim.apiserver import WRITE, ApiClient
from seatrial.sim.goroutines import Calls, Goroutine, Goroutines
from seatrial.sim.pods import ASSUMED
from seatrial.sim.workqueue import WorkQueue
from seatrial.sim.world import Sim

# Orders of magnitude, chosen, not measured: from a write to the informer's cache, and a reconciliation from memory.
WATCH_LAG = 1 * MILLISECOND
RECONCILE = 200 * MICROSECOND


class KaiBinder:
    """`requested(pod)` for every new BindRequest."""

    def __init__(self, sim: Sim, processes: Goroutines, settings: Mapping[str, Scalar]) -> None:
        limits = float(settings["qps"]), float(settings["burst"])
        self._sim = sim
        self._binding = ApiClient("kai-binder-pods", *limits)
        self._requests, self._conditions = (
            ApiClient("kai-manager-requests", *limits),
            ApiClient("kai-manager-pods", *limits),
        )
        self._queue = WorkQueue(sim.kernel, processes, int(settings["concurrency"]), self._bind)
        sim.kwok.follows_updates()

    def requested(self, pod: int) -> None:
        """The server has a BindRequest for the pod."""
        self._sim.kernel.at(self._sim.kernel.now + WATCH_LAG, self._queue.add, pod)

    def _bind(self, pod: int) -> Goroutine:
        state = self._sim.pods.state
        yield RECONCILE
        for then in (None, self._sim.scheduler.is_bound):
            if state[pod] != ASSUMED:
                return  # the pod is gone
            yield Calls(self._binding, WRITE)
            if then is not None and state[pod] == ASSUMED:
                then(pod)
        yield Calls(self._requests, WRITE)
        yield Calls(self._conditions, WRITE)
        self._sim.kwok.updated(pod)
