"""KAI in the simulator: its scheduler's cycle, what it writes, and its binder (v0.12.0; docs/stacks/kai.md).

A cycle takes a snapshot, decides by its actions (kai_actions.py), and creates the BindRequests one after another, through the
client of KAI's own kinds; pods that it evicts are patched and deleted side by side through the other client, and the cycle ends
when all of that is done (pkg/scheduler/cache/cache.go:225, framework/session.go:387). The next one begins a period later. Why
groups wait is written by five workers, and as events.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

from seatrial.model.plan import Workload
from seatrial.model.settings import Settings
from seatrial.model.units import MICROSECOND, SECOND
from seatrial.sim.apiserver import WRITE, ApiClient
from seatrial.sim.event_stream import EventStream
from seatrial.sim.goroutines import Calls, Goroutine, Goroutines, Signal
from seatrial.sim.periodic_sessions import PeriodicSessions
from seatrial.sim.placed_pods import PlacedPods
from seatrial.sim.pods import ASSUMED, BOUND, RUNNING
from seatrial.sim.workqueue import WorkQueue
from seatrial.sim.world import Sim
from seatrial.stacks.kai import BIND_REQUESTED
from seatrial.stacks.kai.fleet_rules import actions_of
from seatrial.stacks.kai.kai_actions import KaiActions, KaiDecisions, KaiEviction
from seatrial.stacks.kai.kai_binder import KaiBinder
from seatrial.stacks.kai.kai_cache import KaiCache
from seatrial.stacks.kai.kai_session import RELEASING, KaiJob, KaiNodes, KaiSession
from seatrial.stacks.kai.queue_shares import ShareTree
from seatrial.stacks.kai.queue_tree import RESOURCES, kai_queues

# What a cycle takes without requests, measured 2026-11-20 (docs/stacks/kai.md).
CYCLE = 500 * MICROSECOND  # with nothing to do, on 20 to 400 nodes
PER_POD = 40 * MICROSECOND  # in the snapshot, with its share of its PodGroup (cache/cluster_info/cluster_info.go:292)
PER_NODE = 5 * MICROSECOND  # a goroutine for every node and pod (session.go:283)
SCENARIO = 400 * MICROSECOND  # evicting, placing everybody again and taking it back, beside PER_NODE
STATUS_WORKERS = 5  # --num-of-status-recording-workers (cmd/scheduler/app/options/options.go:42)
EVENTS_PER_OBJECT = (
    25  # client-go's EventSourceObjectSpamFilter: defaultSpamBurst; one more every five minutes is left out
)


class KaiModel:
    """The scheduler."""

    def __init__(self, sim: Sim, settings: Settings) -> None:
        own = settings["kai"]
        limits = float(own["qps"]), float(own["burst"])
        self._sim, self._kernel = sim, sim.kernel
        self._processes = Goroutines(sim.kernel, sim.api)
        self._own, self._core = ApiClient("kai", *limits), ApiClient("kai-core", *limits)
        self._events = EventStream(sim.api, self._core)
        self._actions = actions_of(sim.fleet, own["actions"])
        self._placement, self._staleness = str(own["placement"]), int(own["staleness"])
        self._random = sim.stream("kai")
        self._tree = ShareTree(kai_queues(sim.fleet))
        self._nodes: KaiNodes | None = None
        self._placed = PlacedPods(sim, self._core, self._pod_changed, self._pod_changed)
        self._cache = KaiCache(sim, self._placed.releasing)
        self._talks: dict[int, None] = {}  # waiting groups that get events in every session
        self._binder = KaiBinder(sim, self._processes, settings["kai-binder"])
        self._status = WorkQueue(sim.kernel, self._processes, STATUS_WORKERS, self._write_status)
        self._to_write: dict[int, tuple[int, int]] = {}  # group → requests of pods, of the group
        period = int(own["period"])
        first = int(self._random.random() * period)  # KAI has been up for a while
        self._sessions = PeriodicSessions(sim.kernel, period, self._hold, CYCLE, first)
        sim.when_nodes_change.append(self._stir)
        sim.when_completed.append(self._over)
        sim.when_deleted.append(self._over)

    def created(self, number: int, workload: Workload) -> None:
        """The server has a PodGroup and its Job."""
        self._cache.add(number, workload, self._kernel.now // SECOND)
        self._sim.jobs.add(number, workload)

    def _over(self, number: int) -> None:
        self._cache.remove(number)
        self._sim.said.pop(number, None)
        self._stir()

    def _stir(self, _: object = None) -> None:
        self._sessions.stir()

    def _pod_changed(self, pod: int) -> None:
        self._cache.changed(self._sim.pods.job[pod])
        self._sessions.stir()

    # a session

    def _hold(self) -> None:
        sim = self._sim
        if self._nodes is None or self._nodes.layouts != sim.nodes.layouts:
            self._nodes = KaiNodes(sim.nodes, sim.ledger.nodes, self._placement)
        nodes = self._nodes
        built = self._cache.refresh(nodes.column)
        self._share(nodes)
        session = KaiSession(nodes, self._tree, self._cache.placed)
        actions = KaiActions(
            session, self._cache, self._random, self._is_stale, lambda number: sim.workloads[number].name
        )
        decided = actions.run(self._actions)
        for _, pods, _ in decided.binds:
            for pod, column in pods:
                self._placed.assume(pod, nodes.order[column])
        self._placed.releasing.update(eviction.pod for eviction in decided.evictions)
        told = self._to_tell(built, session)
        for number in session.touched:
            self._cache.changed(number)
        self._processes.start(self._carry_out(decided, told, session.looked))

    def _to_tell(self, built: Iterable[KaiJob], session: KaiSession) -> list[KaiJob]:
        """Groups of which there may be something to write after the session, as they came."""
        found = {job.number: job for job in (*built, *session.touched.values(), *self._cache.news())}
        for number in self._talks:
            if number in self._cache.jobs:
                found[number] = self._cache.jobs[number]
        return sorted(found.values(), key=attrgetter("serial"))

    def _share(self, nodes: KaiNodes) -> None:
        """calculateResourcesProportion (plugins/proportion/proportion.go:264). Pods of kube-scheduler are not there for KAI."""
        tree = self._tree
        for queue in tree.queues.values():
            queue.clear()
        held = self._cache.count(tree)
        total = []
        for name, amount in zip(RESOURCES, held, strict=True):
            row = self._sim.nodes.resources.index(name) if name in self._sim.nodes.resources else -1
            total.append(float(nodes.free()[row][nodes.open].sum()) + amount if row >= 0 else 0.0)
        tree.divide(total)

    def _is_stale(self, job: KaiJob) -> bool:
        """IsStale (api/podgroup_info/job_info.go:401), for longer than the grace period."""
        group = self._cache.groups[job.number]
        used = job.active + sum(task.status == RELEASING for task in job.tasks)
        if job.finished or not used or used >= job.least:
            group.stale_since = -1
            self._cache.stale.discard(job.number)
            return False
        if group.stale_since < 0:
            group.stale_since = self._kernel.now
            self._cache.stale.add(job.number)
            self._kernel.at(self._kernel.now + self._staleness, self._stir)
        return self._kernel.now - group.stale_since >= self._staleness

    # what it writes

    def _carry_out(self, decided: KaiDecisions, told: Iterable[KaiJob], looked: int) -> Goroutine:
        """Each BindRequest is created before the next pod is looked at (statement.go:519); `looked`: nodes, by all actions."""
        opening = CYCLE + PER_POD * self._cache.pods
        yield opening
        scoring = PER_NODE * decided.scored // max(sum(len(pods) for _, pods, _ in decided.binds), 1)
        for job, pods, _ in decided.binds:
            for pod, _ in pods:
                yield scoring
                yield Calls(self._own, WRITE)
                self._requested(job.number, pod)
        searching = SCENARIO * decided.scenarios + PER_NODE * (looked - decided.scored)
        yield searching + (0 if decided.binds else scoring)
        for job, _, began in decided.binds:
            if began:  # the annotation with the time of its start, as the session closes (updatePodGroupAnnotations)
                self._write(job.number, 0, 1)
        left = [len(decided.evictions)]
        gone = Signal(happened=not left[0])
        for eviction in decided.evictions:
            self._events.add()
            self._processes.start(self._evict(eviction, left, gone))
        for job in told:
            self._explain(job)
        yield gone
        self._sessions.ended(idle=opening + searching)

    def _requested(self, number: int, pod: int) -> None:
        if self._sim.pods.state[pod] == ASSUMED:
            self._sim.reach(number, BIND_REQUESTED)
            self._events.add()
            self._binder.requested(pod)

    def _evict(self, eviction: KaiEviction, left: list[int], gone: Signal) -> Goroutine:
        """PATCH of the condition DisruptionTarget, then DELETE (cache/evictor/default_evictor.go:30)."""
        yield Calls(self._core, WRITE, 2, in_turn=True)
        pod, state = eviction.pod, self._sim.pods.state
        if state[pod] == ASSUMED or BOUND <= state[pod] <= RUNNING:
            self._sim.places.preempted(self._sim.pods.job[pod], eviction.by, eviction.reason, eviction.message)
            self._sim.delete_pod(pod)
        left[0] -= 1
        if not left[0]:
            self._processes.happen(gone)

    def _explain(self, job: KaiJob) -> None:
        """RecordJobStatusEvent (cache/status_updater/default_status_updater.go:198): events each time, changed conditions."""
        group = self._cache.groups.get(job.number)
        waiting = job.waiting
        self._talks.pop(job.number, None)
        if group is None or not waiting:
            self._sim.said.pop(job.number, None)
            return
        ready = waiting + job.active >= job.least
        if group.events < EVENTS_PER_OBJECT:
            group.events += 1
            self._events.add(waiting + 1 if ready else 1)
            if self._core.limited:
                self._talks[job.number] = None
        if not ready:
            self._sim.said[job.number] = (
                f"NotReady: Job is not ready for scheduling. Waiting for {job.least} pods, currently {waiting + job.active} exist"
            )
            return
        said = job.said if job.active or job.alike is None else job.alike.said(job)
        self._sim.said[job.number] = f"UnschedulableOnNodePool: {said}"
        if said != group.written or waiting > group.waiting:
            self._write(job.number, waiting, 0 if job.active else 1)
        group.written, group.waiting = said, waiting

    def _write(self, number: int, of_pods: int, of_group: int) -> None:
        pods, groups = self._to_write.get(number, (0, 0))
        self._to_write[number] = max(pods, of_pods), groups + of_group
        self._status.add(number)

    def _write_status(self, number: int) -> Goroutine:
        pods, groups = self._to_write.pop(number, (0, 0))
        if pods:
            yield Calls(self._core, WRITE, pods)
        if groups:
            yield Calls(self._own, WRITE, groups, in_turn=True)
