"""YuniKorn's shim: it makes applications of pods, creates and deletes placeholders, and binds what the core has placed.

Facts (yunikorn-k8shim v1.8.0, pkg):
- Once a second the shim takes each application a step further (shim/scheduler.go:183, cache/application.go:330): New is submitted
  to the core, Accepted goes on to Reserving with a gang, else to Running, and in these two it hands new tasks to the core:
  placeholders in Reserving, the pods themselves in Running. So a pod is three of these looks from its place, one of a gang four.
- Placeholders of all applications are created one after another, under one lock (cache/placeholder_manager.go:73).
- When all placeholders are bound, the application is Running (cache/application.go:559).
- Events of tasks and applications go through one dispatcher. It deletes a placeholder that is replaced or timed out itself, and
  everything else waits for the answer (cache/application.go:651, dispatcher/dispatcher.go:213).
- Each binding is a goroutine of its own (cache/task.go:339).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from seatrial.model.plan import Workload
from seatrial.model.units import MICROSECOND, MILLISECOND
from seatrial.sim.apiserver import WRITE, ApiClient
from seatrial.sim.goroutines import Calls, Goroutine, Goroutines
from seatrial.sim.periodic_sessions import PeriodicSessions
from seatrial.sim.world import Sim
from seatrial.stacks.yunikorn.core_applications import CoreApplication

NEW, ACCEPTED, RESERVING, RUNNING, RESUMING = range(5)
# Of 60 tasks of a look, from the shim to the core's queues: 3.5 ms in the log of the real one, two busy cores.
HAND_OVER = 60 * MICROSECOND
WATCH_LAG = 1 * MILLISECOND  # from a write to the informer's handler: chosen, an order of magnitude


class ShimApplication:
    """A workload, as the shim has it."""

    def __init__(self, number: int, workload: Workload, first: int) -> None:
        self.number, self.workload, self.state = number, workload, NEW
        self.first = first  # its first pod: the originator
        self.core: CoreApplication | None = None
        self.fresh: list[int] = []  # pods that the core has not heard of
        self.fresh_placeholders: list[int] = []
        self.placeholders: dict[int, bool] = {}  # those that exist, and whether they are bound
        self.over = False


class ShimDispatcher:
    """Carries out one thing after another; some begin with a request."""

    def __init__(self, processes: Goroutines, client: ApiClient) -> None:
        self._processes, self._client = processes, client
        self._waiting: deque[tuple[Callable[[Any], None], Any, int]] = deque()
        self._runs = False

    def put(self, do: Callable[[Any], None], arg: object, requests: int = 0) -> None:
        """Calls `do(arg)` when its turn comes, after so many requests."""
        self._waiting.append((do, arg, requests))
        if not self._runs:
            self._runs = True
            self._processes.start(self._run())

    def _run(self) -> Goroutine:
        while self._waiting:
            do, arg, requests = self._waiting.popleft()
            if requests:
                yield Calls(self._client, WRITE, requests, in_turn=True)
            do(arg)
        self._runs = False


class PlaceholderMaker:
    """Creates the placeholders of one application after another; `made(app, pod)` is told of each."""

    def __init__(
        self, sim: Sim, processes: Goroutines, client: ApiClient, made: Callable[[ShimApplication, int], None]
    ) -> None:
        self._sim, self._processes, self._client, self._made = sim, processes, client, made
        self._waiting: deque[ShimApplication] = deque()
        self._runs = False

    def make(self, app: ShimApplication) -> None:
        """Creates as many placeholders as the gang has pods."""
        self._waiting.append(app)
        if not self._runs:
            self._runs = True
            self._processes.start(self._run())

    def _run(self) -> Goroutine:
        while self._waiting:
            app = self._waiting.popleft()
            for _ in range(app.workload.pods):
                yield Calls(self._client, WRITE)
                if app.over:
                    break  # the owner of the placeholders, the workload's first pod, is gone
                pod = self._sim.pods.add(-(1 << 32) - app.number, app.workload.shape)
                app.placeholders[pod] = False
                self._made(app, pod)
        self._runs = False


class ShimLooks:
    """The look at all applications: each goes one step further. `submit(app)` gives it to the core, `hand_over(app, pod,
    placeholder)` a task, `reserve(app)` begins a gang."""

    def __init__(
        self,
        sim: Sim,
        random: Random,
        interval: int,
        submit: Callable[[ShimApplication], None],
        hand_over: Callable[[ShimApplication, int, bool], None],
        reserve: Callable[[ShimApplication], None],
    ) -> None:
        self._random, self._submit, self._hand_over, self._reserve = random, submit, hand_over, reserve
        self._active: dict[ShimApplication, None] = {}
        first = int(random.random() * interval)  # it has been running when the trial begins
        self._looks = PeriodicSessions(sim.kernel, interval, self._look, first=first)

    def wake(self, app: ShimApplication) -> None:
        """The next look has something to do for it."""
        if not app.over:
            self._active[app] = None
            self._looks.stir()

    def _look(self) -> None:
        active, self._active = list(self._active), {}
        self._random.shuffle(active)  # Go's maps have no order
        for app in active:
            if not app.over:
                self._step(app)
        self._looks.ended()

    def _step(self, app: ShimApplication) -> None:
        if app.state == NEW:
            self._submit(app)
            app.state = ACCEPTED
            self.wake(app)
        elif app.state == ACCEPTED:
            app.state = RESERVING if app.workload.gang else RUNNING
            if app.workload.gang:
                self._reserve(app)
            else:
                self.wake(app)
        elif app.state == RESERVING:
            fresh, app.fresh_placeholders = app.fresh_placeholders, []
            for pod in fresh:
                self._hand_over(app, pod, True)
        elif app.state == RUNNING:
            fresh, app.fresh = app.fresh, []
            for pod in fresh:
                self._hand_over(app, pod, False)
