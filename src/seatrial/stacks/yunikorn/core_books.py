"""The accounts of YuniKorn's core: waiting applications, allocations, and placeholders that have timed out.

Facts (yunikorn-core v1.8.0-1, pkg/scheduler/objects/application.go):
- The placeholder timer begins with the first placeholder that gets a node (:1776). If all had one before it ends, it deletes those
  that are left. Otherwise the application resumes without a gang (Soft): all placeholders go, those with a node and those that
  wait for one (timeoutPlaceholderProcessing, :397).
- Only then, once the last of them is gone, do its pods wait as any others (:1955).
- A leaf that sorts by `fair` rejects gangs, and so does one whose maximum is less than all of the gang (partition.go:369).
"""

from __future__ import annotations

from collections.abc import Callable

from seatrial.model.plan import Workload
from seatrial.sim.kernel import Kernel
from seatrial.stacks.yunikorn.core_applications import Ask, CoreApplication, LeafQueue, ResourceAmounts
from seatrial.stacks.yunikorn.core_cycles import CoreLoop
from seatrial.stacks.yunikorn.core_nodes import CoreNodes


class CoreBooks:
    """`let_go(ask)`: a placeholder whose time is over is to be deleted; `resumes(number)`: the gang goes on as single pods."""

    def __init__(
        self,
        kernel: Kernel,
        nodes: CoreNodes,
        timeout: int,
        let_go: Callable[[Ask], None],
        resumes: Callable[[int], None],
    ) -> None:
        self._kernel, self._nodes, self._timeout = kernel, nodes, timeout
        self._let_go, self._resumes = let_go, resumes
        self.loop: CoreLoop
        self.asks: dict[int, Ask] = {}  # pod → its ask
        self._submitted = self._came = 0
        self._timers: dict[CoreApplication, int] = {}  # when its placeholders have had their time

    def submit(self, number: int, workload: Workload, leaf: LeafQueue, asked: ResourceAmounts) -> CoreApplication:
        """A new application (AddApplication)."""
        planned = workload.pods if workload.gang else 0
        app = CoreApplication(number, leaf, workload.shape, asked, planned)
        self._submitted = app.submitted = max(self._kernel.now, self._submitted + 1)  # one after another
        leaf.applications[app] = None
        app.serial = self._came = self._came + 1
        return app

    def ask(self, app: CoreApplication, pod: int, created: int, placeholder: bool, originates: bool) -> None:
        """The pod waits for a node (AddAllocationAsk)."""
        ask = self.asks[pod] = Ask(app, pod, created, placeholder)
        ask.originates = originates
        app.submitted = min(app.submitted, ask.created)
        app.counted += placeholder
        app.pending[ask] = None
        app.leaf.untold[app] = None
        app.leaf.waits(1)
        app.leaf.file(app)
        self.loop.waits(ask)

    def placed(self, ask: Ask) -> None:
        """The ask has a node (addAllocationInternal)."""
        app = ask.app
        if not ask.placeholder:
            app.allocated[ask] = None
            return
        if not app.placeholders and app not in self._timers:
            self._timers[app] = due = self._kernel.now + self._timeout
            self._kernel.at(due, self._time_is_over, (app, due))
        app.placeholders[ask] = None
        app.running = app.running or len(app.placeholders) == app.planned

    def gone(self, pod: int) -> Ask | None:
        """The pod is over, or deleted (removeAllocation). Returns the ask that gets the place of a placeholder."""
        ask = self.asks.pop(pod, None)
        if ask is None:
            return None
        app, heir = ask.app, None
        if ask in app.pending:
            self._cancel(ask)
        elif ask.placeholder:
            heir = self._placeholder_gone(ask)
        elif ask in app.allocated:
            del app.allocated[ask]
            self._give_back(ask)
        app.leaf.file(app)
        self.loop.stir()
        return heir

    def _placeholder_gone(self, ask: Ask) -> Ask | None:
        app = ask.app
        del app.placeholders[ask]
        heir = ask.heir
        if heir is None:
            app.timed_out += 1
            self._give_back(ask)
        else:
            app.replaced += 1
            app.allocated[heir] = None
        if not app.placeholders:
            self._timers.pop(app, None)
            app.resuming = False
        return heir

    def _give_back(self, ask: Ask) -> None:
        ask.app.leaf.change(ask.app.asked, -1)
        if ask.preempted:
            ask.app.leaf.preempts(ask.app.asked, -1)

    def _cancel(self, ask: Ask) -> None:
        app = ask.app
        self._nodes.unreserve(ask)
        del app.pending[ask]
        app.leaf.waits(-1)
        app.leaf.file(app)

    def _time_is_over(self, what: tuple[CoreApplication, int]) -> None:
        app, due = what
        if self._timers.get(app) != due:
            return
        del self._timers[app]
        left = [ask for ask in app.placeholders if not ask.released and not ask.preempted]
        if not app.running:
            app.resuming = True
            self._resumes(app.number)
            waiting = list(app.pending)
            for ask in waiting:
                self._cancel(ask)
                del self.asks[ask.pod]
            app.timed_out += len(waiting)
            left += waiting
        for ask in left:
            ask.released = True
            self._let_go(ask)
