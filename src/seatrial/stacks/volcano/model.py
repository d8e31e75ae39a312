"""Volcano's scheduler in the simulator: a session a second, what it decides, and how that reaches the API server.

Facts (v1.10.0, pkg/scheduler): the next session begins a period after the last one ended (wait.Until, scheduler.go:93). A session
works on a snapshot of the cache; a pod that it places is bound by a goroutine of its own, and a loop that looks every 20 ms starts
them (cache/cache.go:788, :1243). Evictions are goroutines as well: a PUT of the pod's status, then a DELETE (:223).
docs/stacks/volcano.md says what is left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from seatrial.model.fleet import PREEMPTED, RECLAIMED
from seatrial.model.plan import Scalar, Workload
from seatrial.model.units import MILLISECOND
from seatrial.sim.apiserver import ApiClient
from seatrial.sim.event_stream import EventStream
from seatrial.sim.goroutines import Goroutine, Goroutines
from seatrial.sim.periodic_sessions import PeriodicSessions
from seatrial.sim.placed_pods import PlacedPods
from seatrial.sim.world import Sim
from seatrial.stacks.volcano import INQUEUE
from seatrial.stacks.volcano.deserved_shares import SessionShares
from seatrial.stacks.volcano.group_cache import GroupCache
from seatrial.stacks.volcano.pod_groups import PENDING, UNKNOWN, Amount, GroupState, amounts, plus, times
from seatrial.stacks.volcano.session_actions import PER_GROUP
from seatrial.stacks.volcano.session_configuration import actions_of, sharing_of, tiers_of
from seatrial.stacks.volcano.session_evictions import EvictingSession
from seatrial.stacks.volcano.session_nodes import SessionNodes
from seatrial.stacks.volcano.status_writes import GroupUpdate, StatusWriter, conditions, settle
from seatrial.stacks.volcano.volcano_queues import ONLY, volcano_queues

BIND_LOOP = 20 * MILLISECOND  # cache/cache.go:788: how often the binder looks for pods to bind
REASONS = {"reclaim": RECLAIMED, "preempt": PREEMPTED}
_IDLE = PER_GROUP  # what a session takes that finds nothing to do


class VolcanoModel:
    """The cache and the loop."""

    def __init__(self, sim: Sim, settings: Mapping[str, Scalar]) -> None:
        self._sim, self._kernel = sim, sim.kernel
        self._actions = actions_of(sim.fleet, settings["actions"])
        self._tiers = tiers_of(sim.fleet, settings["plugins"])
        plugins = [plugin for tier in self._tiers for plugin in tier]
        self._sharing = sharing_of(self._tiers)
        limits = float(settings["qps"]), float(settings["burst"])
        processes = Goroutines(sim.kernel, sim.api)
        self._events = EventStream(sim.api, ApiClient("volcano-events", *limits))
        client = ApiClient("volcano", *limits)
        self._placed = PlacedPods(sim, client, self._pod_changed, self._pod_changed)
        self._writer = StatusWriter(processes, ApiClient("volcano-groups", *limits), client, self._written)
        self._nodes = SessionNodes(sim.nodes, sim.stream("volcano"), plugins)
        self._names = [name for name in sim.nodes.resources if name != "pods"]
        self._groups = GroupCache(self._tiers, "enqueue" in self._actions)
        self._in_use: dict[str, Amount] = {}  # queue → `allocated` of its status
        period = int(settings["period"])
        first = int(sim.stream("volcano-start").random() * period)  # it has been running when the trial begins
        self._sessions = PeriodicSessions(sim.kernel, period, lambda: processes.start(self._session()), _IDLE, first)
        sim.when_running.append(self._pod_changed)
        sim.when_completed.append(self._completed)
        sim.when_deleted.append(self._deleted)
        sim.when_nodes_change.append(self._sessions.stir)

    # the cache

    def created(self, number: int, workload: Workload) -> None:
        """The server has a PodGroup, then the Job."""
        asked = amounts(self._names, workload.shape.requests)
        self._groups.add(GroupState(number, workload, workload.queue or ONLY, asked, self._kernel.now))
        self._sessions.stir()
        self._sim.jobs.add(number, workload)

    def _pod_changed(self, pod: int) -> None:
        job = self._sim.pods.job[pod]
        if job >= 0:
            self._groups.changed(job)
            self._sessions.stir()

    def _completed(self, number: int) -> None:
        if number in self._groups:
            self._groups.complete(number, self._sim.workloads[number].pods)
            self._sessions.stir()

    def _deleted(self, number: int) -> None:
        self._groups.remove(number)
        self._sessions.stir()

    # a session

    def _session(self) -> Goroutine:
        session = self._opened()
        for action in self._actions:
            getattr(session, action)()
        for pod, node, after in session.bound:
            self._placed.assume(pod, node)
            self._groups.changed(self._sim.pods.job[pod])
            self._placed.bind(pod, -(-(self._kernel.now + after) // BIND_LOOP) * BIND_LOOP)
            self._events.add()
        for group, pod, _, by, action in session.evicted:
            self._groups.changed(group.number)
            self._placed.evict(pod, by, REASONS[action], f"Pod is evicted, because of {action}")
            self._events.add()
        updates = self._updates(session)
        yield session.spent
        yield from self._writer.write(updates, self._queue_updates())
        self._sessions.ended()

    def _opened(self) -> EvictingSession:
        sim, pods = self._sim, self._sim.pods
        known = self._groups
        known.open(sim, self._placed.releasing)
        groups = known.inside
        self._nodes.open((pods.node[pod], pods.shape[pod]) for pod in sorted(self._placed.releasing))
        in_all = self._nodes.total()
        total = amounts(self._names, in_all)
        free = dict(zip(sim.nodes.resources, map(sum, self._nodes.idle), strict=True))
        used = tuple(most - free.get(name, 0) for name, most in zip(self._names, total, strict=True))
        specs = {queue.name: queue for queue in volcano_queues(sim.fleet, in_all)}
        shares = SessionShares(self._names, specs, groups, total, used, self._sharing, known.waiting, known.queues())
        session = EvictingSession(
            groups, self._nodes, shares, total, self._tiers, self._actions, known.lines, known.cloned
        )
        session.knows_pods(pods.node.__getitem__, pods.state.__getitem__)
        return session

    def _updates(self, session: EvictingSession) -> list[GroupUpdate]:
        """The session's writes: groups that it changed, or whose pods changed. Those that are over are written once."""
        found = []
        self._groups.let_in(session.let_in)
        for group in self._groups.to_write():
            if group.settled and not group.touched() and group.phase == group.status[0]:
                continue
            group.settled = not group.touched()
            said = settle(group, session.has_gangs)
            status = (group.phase, group.running, group.succeeded, said)
            told = conditions(group, session.ready(group)) if group.pending else 0
            if status != group.status or told:
                found.append(GroupUpdate(group, status != group.status, said, told))
                group.status = status
            if said or told:
                self._events.add(1 + told)
            if group.over:
                self._groups.retire(group)
        return found

    def _written(self, update: GroupUpdate) -> None:
        number, phase = update.group.number, update.group.phase
        if phase not in (PENDING, UNKNOWN):
            self._sim.reach(number, INQUEUE)
        self._sim.said[number] = f"NotEnoughResources: {update.said}" if update.said else ""

    def _queue_updates(self) -> int:
        """Queues whose running pods request another amount than at the last session (framework/session.go:199)."""
        now: dict[str, Amount] = {}
        for group in self._groups.inside:
            if group.running:
                has = times(group.asked, group.running)
                before = now.get(group.queue)
                now[group.queue] = has if before is None else plus(before, has)
        changed = {name for name in {*now, *self._in_use} if now.get(name) != self._in_use.get(name)}
        self._in_use = now
        return len(changed)
