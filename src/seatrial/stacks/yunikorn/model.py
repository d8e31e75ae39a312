"""YuniKorn in the simulator: the shim's looks at applications, the core's loop, and what both make of pods and placeholders.

The facts are with the parts: shim_tasks.py, core_books.py, core_cycles.py, core_nodes.py, core_applications.py, core_preemption.py
(yunikorn-k8shim v1.8.0, yunikorn-core v1.8.0-1). docs/stacks/yunikorn.md says what is left out.

Once a second the core tells the shim of pods that wait although their queue would let them, and the shim writes that into their
conditions, one after another, with a GET and a PUT each (scheduler.go:158, context.go:1212, client/kubeclient.go:206).
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from seatrial.model.fleet import NEVER, RECLAIMED
from seatrial.model.plan import Workload
from seatrial.model.settings import Settings
from seatrial.model.units import SECOND
from seatrial.sim.apiserver import GET, WRITE, ApiClient
from seatrial.sim.goroutines import Calls, Goroutine, Goroutines
from seatrial.sim.periodic_sessions import PeriodicSessions
from seatrial.sim.placed_pods import PlacedPods
from seatrial.sim.pods import ASSUMED, BOUND, PENDING, RUNNING
from seatrial.sim.world import PodOwners, Sim
from seatrial.stacks.yunikorn import RECLAIMS, RESERVED
from seatrial.stacks.yunikorn.core_applications import Ask, CoreApplication, LeafQueue, fits, queue_tree
from seatrial.stacks.yunikorn.core_books import CoreBooks
from seatrial.stacks.yunikorn.core_cycles import CoreLoop
from seatrial.stacks.yunikorn.core_nodes import CoreNodes
from seatrial.stacks.yunikorn.core_preemption import CorePreemption
from seatrial.stacks.yunikorn.shim_tasks import (
    HAND_OVER,
    RESERVING,
    RESUMING,
    WATCH_LAG,
    PlaceholderMaker,
    ShimApplication,
    ShimDispatcher,
    ShimLooks,
)
from seatrial.stacks.yunikorn.shim_tasks import RUNNING as APP_RUNNING
from seatrial.stacks.yunikorn.yunikorn_queues import ONLY, yunikorn_queues

WAITS = "request is waiting for cluster resources become available"  # scheduler.go:177
INSPECTION = 1 * SECOND  # scheduler.go:90


class YunikornModel:
    """Shim and core, and the pods between them."""

    def __init__(self, sim: Sim, settings: Settings) -> None:
        own = settings["yunikorn"]
        self._sim, self._kernel, self._pods = sim, sim.kernel, sim.pods
        # Of bindings, placeholders and conditions. Events delay none of them: they have a client, and so a bucket, of their own
        # (k8shim 1.8.0: shim/scheduler.go:67 and client/apifactory.go:94 each make one).
        self._client = ApiClient("yunikorn", float(own["qps"]), float(own["burst"]))
        processes = self._processes = Goroutines(sim.kernel, sim.api)
        self._created: dict[int, int] = {}  # pod → when
        self._apps: dict[int, ShimApplication] = {}
        self._of_placeholder: dict[int, ShimApplication] = {}
        self._others: PodOwners | None = None
        self._arrives = 0  # when the last task came to the core
        self._dispatcher = ShimDispatcher(processes, self._client)
        self._maker = PlaceholderMaker(sim, processes, self._client, self._placeholder_made)
        random = sim.stream("yunikorn")
        self._looks = ShimLooks(sim, random, int(own["interval"]), self._submit, self._hand_over, self._reserve)
        nodes = CoreNodes(sim.nodes, lambda: list(sim.ledger.nodes), str(own["node-sort"]))
        specs = yunikorn_queues(sim.fleet)
        self._root, self._leaves = queue_tree(specs, sim.nodes.resources, str(own["application-sort"]))
        timeout = int(own["placeholder-timeout"])
        self._books = CoreBooks(sim.kernel, nodes, timeout, self._delete, self._resumes)
        self._nodes = nodes
        loop = CoreLoop(sim.kernel, random, self._root, nodes, self._allocated, self._delete)
        self._loop = self._books.loop = loop
        if sim.fleet.queues and sim.fleet.preemption.reclaim != NEVER:
            delay = int(own["preemption-delay"])
            preemption = CorePreemption(sim.kernel, sim.nodes, nodes, self._root, delay, self._evict)
            loop.preempt, loop.preempts_from = preemption.attempt, preemption.tries_from
        self._placed = PlacedPods(sim, self._client, self._pod_created, self._pod_ended)
        self._inspections = PeriodicSessions(sim.kernel, INSPECTION, lambda: processes.start(self._inspect()))
        sim.when_nodes_change.append(self._nodes_changed)
        sim.when_completed.append(self._over)
        sim.when_deleted.append(self._over)

    def created(self, number: int, workload: Workload) -> None:
        """The server has the Job."""
        self._sim.jobs.add(number, workload)

    def _nodes_changed(self) -> None:
        self._root.most = self._nodes.total()
        self._loop.stir()

    # the workload's pods

    def _pod_created(self, pod: int) -> None:
        self._created[pod] = self._kernel.now
        self._kernel.at(self._kernel.now + WATCH_LAG, self._seen, pod)

    def _seen(self, pod: int) -> None:
        if self._pods.state[pod] != PENDING:
            return
        number = self._pods.job[pod]
        app = self._apps.get(number)
        if app is None:
            app = self._apps[number] = ShimApplication(number, self._sim.workloads[number], pod)
        app.fresh.append(pod)
        if app.state not in (RESERVING, RESUMING):
            self._looks.wake(app)

    def _submit(self, app: ShimApplication) -> None:
        workload = app.workload
        names = self._sim.nodes.resources
        asked = tuple(1 if name == "pods" else workload.shape.requests.get(name, 0) for name in names)
        app.core = self._books.submit(app.number, workload, self._leaves[workload.queue or ONLY], asked)

    def _hand_over(self, app: ShimApplication, pod: int, placeholder: bool) -> None:
        """Tasks come to the core one after another, and it places the first while others are on their way."""
        self._arrives = max(self._arrives, self._kernel.now) + HAND_OVER
        self._kernel.at(self._arrives, self._asked, (app, pod, placeholder))

    def _asked(self, what: tuple[ShimApplication, int, bool]) -> None:
        app, pod, placeholder = what
        if self._pods.state[pod] != PENDING or app.core is None:
            return
        self._books.ask(app.core, pod, self._created[pod], placeholder, pod == app.first)
        self._inspections.stir()

    # what the core decides

    def _allocated(self, ask: Ask) -> None:
        self._books.placed(ask)
        self._has_node(ask)

    def _has_node(self, ask: Ask) -> None:
        """The pod is assumed on its node, and bound when the dispatcher comes to it."""
        number = ask.app.number
        self._placed.assume(ask.pod, ask.node)
        if ask.placeholder:
            self._sim.view.stand_ins.setdefault(number, {})[ask.pod] = None
        if not ask.app.pending:
            self._sim.said.pop(number, None)
        self._dispatcher.put(self._bind, ask)

    def _bind(self, ask: Ask) -> None:
        self._placed.bind(ask.pod, self._kernel.now)

    def _delete(self, ask: Ask) -> None:
        """A placeholder that is replaced, or whose time is over: the dispatcher deletes it."""
        self._dispatcher.put(self._deleted, ask.pod, requests=1)

    def _deleted(self, pod: int) -> None:
        if self._pods.state[pod] in (PENDING, ASSUMED, BOUND, RUNNING):
            self._sim.delete_pod(pod)

    def _evict(self, victim: Ask, by: Ask) -> None:
        self._dispatcher.put(self._evicted, (victim, by.app.number), requests=1)

    def _evicted(self, what: tuple[Ask, int]) -> None:
        victim, by = what
        state = self._pods.state[victim.pod]
        if not victim.placeholder and BOUND <= state <= RUNNING:
            self._sim.places.preempted(victim.app.number, by, RECLAIMED, RECLAIMS)
        self._deleted(victim.pod)

    # gangs

    def _reserve(self, app: ShimApplication) -> None:
        if self._others is None:
            self._others, self._sim.owners = getattr(self._sim, "owners", None), self
        self._maker.make(app)

    def _placeholder_made(self, app: ShimApplication, pod: int) -> None:
        self._created[pod] = self._kernel.now
        self._of_placeholder[pod] = app
        self._kernel.at(self._kernel.now + WATCH_LAG, self._placeholder_seen, pod)

    def _placeholder_seen(self, pod: int) -> None:
        app = self._of_placeholder.get(pod)
        if app is not None:
            app.fresh_placeholders.append(pod)
            self._looks.wake(app)

    def scheduled(self, pod: int) -> bool:
        """A placeholder, or somebody else's pod, is bound."""
        app = self._of_placeholder.get(pod)
        if app is None:
            return self._others is None or self._others.scheduled(pod)
        app.placeholders[pod] = True
        if sum(app.placeholders.values()) >= app.workload.pods:
            self._sim.reach(app.number, RESERVED)
        self._dispatcher.put(self._may_run, app)
        return True

    def _may_run(self, app: ShimApplication) -> None:
        """onReservationStateChange: the pods follow once all placeholders are bound."""
        if app.state == RESERVING and sum(app.placeholders.values()) >= app.workload.pods:
            self._runs(app)

    def _runs(self, app: ShimApplication) -> None:
        app.state = APP_RUNNING
        self._looks.wake(app)

    def running(self, pod: int) -> None:
        """A placeholder runs as any pod does; that changes nothing."""
        if pod not in self._of_placeholder and self._others is not None:
            self._others.running(pod)

    def lost(self, pod: int) -> None:
        """A placeholder is gone: replaced, timed out, or with its node."""
        app = self._of_placeholder.pop(pod, None)
        if app is None:
            if self._others is not None:
                self._others.lost(pod)
            return
        del app.placeholders[pod]
        held = self._sim.view.stand_ins.get(app.number, {})
        held.pop(pod, None)
        if not held:
            self._sim.view.stand_ins.pop(app.number, None)
        heir = self._books.gone(pod)
        if heir is not None:
            self._inherits(heir)
        if app.state == RESUMING and not app.placeholders:
            self._runs(app)

    def _inherits(self, heir: Ask) -> None:
        """Its node is free for this pod alone; the pod may be gone meanwhile."""
        if self._pods.state[heir.pod] == PENDING and self._sim.nodes.takes(heir.node, heir.app.shape):
            self._has_node(heir)
        else:
            self._books.gone(heir.pod)

    def _resumes(self, number: int) -> None:
        app = self._apps.get(number)
        if app is not None and app.state == RESERVING:
            app.state = RESUMING

    # the end

    def _pod_ended(self, pod: int) -> None:
        self._kernel.at(self._kernel.now + WATCH_LAG, self._released, pod)

    def _released(self, pod: int) -> None:
        self._created.pop(pod, None)
        self._books.gone(pod)

    def _over(self, number: int) -> None:
        app = self._apps.pop(number, None)
        self._sim.said.pop(number, None)
        if app is None:
            return
        app.over = True
        for pod in list(app.placeholders):  # their owner is gone
            self._deleted(pod)
        if app.core is not None:
            app.core.leaf.applications.pop(app.core, None)

    # conditions

    def _inspect(self) -> Goroutine:
        """calculateOutstandingRequests (objects/queue.go:1682): each pod once."""
        for app, ask in self._outstanding():
            ask.told = True
            if ask in app.pending:
                yield Calls(self._client, GET)
                yield Calls(self._client, WRITE)
            if ask in app.pending:
                self._sim.said[app.number] = WAITS
        self._inspections.ended()

    def _outstanding(self) -> list[tuple[CoreApplication, Ask]]:
        found: list[tuple[CoreApplication, Ask]] = []
        for leaf in self._leaves.values():
            left = leaf.headroom_below_root()
            if left == [None] * len(left):  # those that were told take nothing from the others
                found += self._untold(leaf)
                continue
            for app in leaf.applications:
                if app in leaf.replacing:
                    continue
                for ask in app.pending:
                    if not fits(app.asked, left):
                        break
                    left = [over if over is None else over - one for over, one in zip(left, app.asked, strict=True)]
                    if not ask.told:
                        found.append((app, ask))
        return found

    def _untold(self, leaf: LeafQueue) -> Iterator[tuple[CoreApplication, Ask]]:
        for app in sorted(leaf.untold, key=attrgetter("serial")):
            if app not in leaf.applications:
                del leaf.untold[app]
            elif app not in leaf.replacing:
                yield from ((app, ask) for ask in app.pending if not ask.told)
                del leaf.untold[app]
