"""Kueue's controllers in the simulator: what they write for a Job, in which order, through one shared token bucket.

Facts (Kueue v0.16.1): pkg/controller/jobframework/reconciler.go makes at most one step per reconciliation, each a write that
brings the next event. A Job that is admitted at once costs twelve requests: POST Workload, PATCH its admission, PATCH Job
(unsuspended), at the end PATCH Finished and PUT without finalizer, and seven events (counted on `local`: docs/stacks/kueue.md).
All of them, events included, share one bucket (cmd/kueue/main.go sets one RateLimiter for every client).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from seatrial.model.fleet import FAIR_SHARING, PREEMPTED, RECLAIMED, TIMED_OUT
from seatrial.model.lifecycle import ADMITTED, QUEUED, RELEASED
from seatrial.model.plan import Scalar, Workload
from seatrial.model.units import MILLISECOND, MINUTE, SECOND
from seatrial.sim import pods as pod_state
from seatrial.sim.apiserver import ApiClient
from seatrial.sim.goroutines import Goroutine, Goroutines
from seatrial.sim.workqueue import WorkQueue
from seatrial.sim.world import Sim
from seatrial.stacks.kueue import QUOTA_RESERVED
from seatrial.stacks.kueue.api_writes import (
    RECONCILE,
    UPDATES_BATCHED,
    WATCH_LAG,
    WEBHOOK,
    QueueStatus,
    WorkloadEvents,
    Writer,
)
from seatrial.stacks.kueue.pending import Entry
from seatrial.stacks.kueue.quota_preemption import BY_FAIR_SHARING, IN_QUEUE, RECLAIM_WHILE_BORROWING, RECLAMATION
from seatrial.stacks.kueue.quota_scheduler import QuotaScheduler
from seatrial.stacks.kueue.quota_tree import QuotaClaim

WORKERS = 5  # groupKindConcurrency of Jobs and of Workloads in the shipped configuration
UNGATED_TOGETHER = 8  # pkg/util/parallelize: maxParallelism
REQUEUE_FIRST, REQUEUE_MOST = 1 * MINUTE, 60 * MINUTE  # requeuingStrategy: backoffBaseSeconds, backoffMaxSeconds
# client-go, util/workqueue/default_rate_limiters.go: per key, and 10 per second of all with a burst of 100.
RETRY_FIRST, RETRY_MOST, RETRY_DOUBLINGS = 5 * MILLISECOND, 1000 * SECOND, 18
RETRIES, RETRIES_AT_ONCE = 10, 100
REASONS = {
    IN_QUEUE: PREEMPTED, RECLAMATION: RECLAIMED, RECLAIM_WHILE_BORROWING: RECLAIMED, BY_FAIR_SHARING: FAIR_SHARING,
}  # fmt: skip
START, RUNS, RECOVERY = "WaitForStart", "Started", "WaitForRecovery"  # reasons of PodsReady


class KueueModel:
    """The reconcilers of Jobs and Workloads, and the ungater of topology-aware scheduling."""

    def __init__(self, sim: Sim, settings: Mapping[str, Scalar]) -> None:
        self._sim, self._kernel = sim, sim.kernel
        self._processes = Goroutines(sim.kernel, sim.api)
        client = ApiClient("kueue", float(settings["qps"]), float(settings["burst"]))
        self._writer = Writer(client)
        self._events = WorkloadEvents(sim, client)
        self._waits = bool(settings["wait-for-pods-ready"])
        self._timeout = int(settings["pods-ready-timeout"])
        self._entries: dict[int, Entry] = {}
        self._scheduler = QuotaScheduler(
            sim, self._processes, self._writer, self._events, settings, self._admitted, self._refused, self._preempted
        )
        self._uids = sim.stream("kueue-uids")
        sim.pods.have_priorities = not sim.fleet.queues  # with queues, priorities are WorkloadPriorityClasses
        self._status = QueueStatus(sim, self._processes, client, self._scheduler.counts)
        self._jobs = WorkQueue(sim.kernel, self._processes, WORKERS, self._reconcile)
        self._ungater = WorkQueue(sim.kernel, self._processes, WORKERS, self._ungate)
        self._retries = ApiClient("kueue-retries", RETRIES, RETRIES_AT_ONCE)
        self._gates: dict[int, list[int]] = {}  # workload → pods that wait for their node
        sim.when_completed.append(self._job_complete)
        sim.when_deleted.append(self._job_deleted)
        sim.jobs.when_written.append(self._job_written)
        sim.jobs.pod_webhooks = 2 * WEBHOOK
        if self._scheduler.topology:
            sim.gated = self._gate

    # what happens on the server

    def created(self, number: int, workload: Workload) -> None:
        """The server has a new suspended Job."""
        requests = {name: amount * workload.pods for name, amount in workload.shape.requests.items()}
        priority, second = workload.shape.priority, self._kernel.now // SECOND
        claim = self._scheduler.claim(number, priority, workload.queue, requests, second, self._uids.random())
        self._entries[number] = Entry(number, workload, claim, second)
        self._create_suspended(number, workload)
        self._job_changed(number)

    def _create_suspended(self, number: int, workload: Workload) -> None:
        self._sim.jobs.add(number, workload, suspended=True)

    def _unsuspend(self, number: int) -> None:
        self._sim.jobs.resume(number)

    def _all_ready(self, entry: Entry) -> bool:
        return self._sim.jobs.ready(entry.number) >= entry.workload.pods

    def _job_complete(self, number: int) -> None:
        self._entries[number].complete = True
        self._job_changed(number)

    def _job_deleted(self, number: int) -> None:
        self._entries[number].deleted = True
        self._job_changed(number)

    def _job_written(self, number: int) -> None:
        """The Job controller writes into the status of every Job that it is suspended. For thousands of Jobs that takes minutes,
        and admitted Jobs wait behind them."""
        entry = self._entries[number]
        if not entry.suspension_noted:
            entry.suspension_noted = True
            self._sim.ledger.achieved(self._kernel.now)
        self._job_changed(number)

    def _job_changed(self, number: int) -> None:
        self._kernel.at(self._kernel.now + WATCH_LAG, self._jobs.add, number)

    def _publish(self, entry: Entry, handle: Callable[[Entry], None]) -> None:
        """The Workload changed: `handle` updates Kueue's cache and queues."""
        self._kernel.at(self._kernel.now + WATCH_LAG, self._seen, (entry, handle))

    def _seen(self, change: tuple[Entry, Callable[[Entry], None]]) -> None:
        entry, handle = change
        handle(entry)
        self._status.changed(entry.workload.queue)
        self._jobs.add(entry.number)

    # the Job's reconciler: one step at a time

    def _reconcile(self, number: int) -> Goroutine:
        yield RECONCILE
        entry = self._entries.get(number)
        if entry is None:
            return
        if entry.deleted:
            yield from self._let_go(entry)
        elif not entry.exists:
            yield from self._create(entry)
        elif entry.finished:
            self._events.of(entry)
            yield from self._remove_finalizer(entry)
        elif entry.complete:
            yield from self._finish(entry)
        elif self._reclaimable(entry) != entry.reclaimed:
            yield from self._writer.workload()
            entry.reclaimed = self._reclaimable(entry)
            self._publish(entry, self._scheduler.reclaim)
        elif self._waits and self._readiness(entry) != entry.ready:
            yield from self._tell_ready(entry)
        elif entry.evicted:
            yield from self._stop(entry)
        elif entry.suspended and entry.admitted:
            yield from self._start(entry)

    def _create(self, entry: Entry) -> Goroutine:
        yield from self._writer.create_workload()
        entry.exists = True
        self._sim.reach(entry.number, QUEUED)
        self._events.of(entry)
        self._publish(entry, self._scheduler.add)

    def _start(self, entry: Entry) -> Goroutine:
        """Unsuspends the Job; its pods get the node selector of its flavor."""
        yield from self._writer.job()
        entry.suspended, entry.started, entry.stopped = False, True, False
        shape = self._scheduler.nodes.shape(entry.claim, entry.workload.shape)
        if shape is not None:
            self._sim.pod_shapes[entry.number] = shape
        self._events.of(entry)
        self._kernel.at(self._kernel.now + WATCH_LAG, self._unsuspend, entry.number)
        self._job_changed(entry.number)

    def _finish(self, entry: Entry) -> Goroutine:
        yield from self._writer.workload()
        entry.finished = True
        self._sim.reach(entry.number, RELEASED)
        self._events.of(entry)
        self._publish(entry, self._scheduler.finish)

    def _remove_finalizer(self, entry: Entry) -> Goroutine:
        if entry.finalizer:
            entry.finalizer = False
            yield from self._writer.workload()
            self._publish(entry, self._nothing)

    def _let_go(self, entry: Entry) -> Goroutine:
        """A deleted Job's Workload goes with it, once its finalizer is removed."""
        if entry.exists and entry.finalizer:
            yield from self._remove_finalizer(entry)
            self._publish(entry, self._gone)

    def _gone(self, entry: Entry) -> None:
        self._scheduler.forget(entry)
        self._scheduler.release(entry)
        self._sim.said.pop(entry.number, None)

    def _nothing(self, entry: Entry) -> None:
        pass

    def _reclaimable(self, entry: Entry) -> int:
        """Pods that succeeded, of a Job with more than one (job_controller.go, ReclaimablePods)."""
        return self._sim.jobs.succeeded(entry.number) if entry.workload.pods > 1 else 0

    # what the scheduler wrote

    def _admitted(self, entry: Entry) -> None:
        self._sim.reach(entry.number, QUOTA_RESERVED)
        self._sim.reach(entry.number, ADMITTED)
        self._sim.places.admitted(entry.number)
        self._publish(entry, self._scheduler.left)
        if self._waits:
            due = entry.admitted_at // SECOND * SECOND + self._timeout
            self._kernel.at(due, self._time_out, (entry, entry.admitted_at))

    def _refused(self, entry: Entry) -> None:
        self._publish(entry, self._scheduler.updated)

    # preemption

    def _preempted(self, entry: Entry, by: QuotaClaim, reason: str) -> None:
        """The Workload is marked as evicted. Its place in the queue is that of its creation."""
        if not entry.admitted:  # the write of the admission is still on its way, and this one has it too
            self._admitted_by_eviction(entry)
        elif entry.evicted:
            return
        entry.evicted, entry.timed_out = True, False
        entry.claim.created = entry.created
        name = self._sim.workloads[by.number].name
        message = f"{reason}: {entry.claim.queue.name} gives way to {name} of {by.queue.name}"
        self._sim.places.evicted(entry.number, REASONS[reason], by.number, message)
        self._publish(entry, self._nothing)

    def _admitted_by_eviction(self, entry: Entry) -> None:
        entry.admitted_at = self._kernel.now
        self._sim.reach(entry.number, QUOTA_RESERVED)
        self._sim.reach(entry.number, ADMITTED)
        self._sim.places.admitted(entry.number)

    # waitForPodsReady

    def _readiness(self, entry: Entry) -> str:
        """jobframework/reconciler.go, generatePodsReadyCondition."""
        if not entry.admitted:
            return START
        if self._all_ready(entry):
            return RUNS
        return RECOVERY if entry.ready in (RUNS, RECOVERY) else START

    def _tell_ready(self, entry: Entry) -> Goroutine:
        readiness = self._readiness(entry)
        yield from self._writer.workload()
        entry.ready = readiness
        self._publish(entry, self._ready_seen)
        if readiness == RECOVERY:  # recoveryTimeout is the same by default
            self._kernel.at(self._kernel.now + self._timeout, self._time_out, (entry, entry.admitted_at))

    def _ready_seen(self, entry: Entry) -> None:
        if self._waits:
            self._scheduler.set_ready(entry, entry.ready == RUNS)

    def _time_out(self, admission: tuple[Entry, int]) -> None:
        entry, admitted_at = admission
        if (
            entry.admitted_at == admitted_at
            and entry.ready != RUNS
            and not (entry.complete or entry.deleted or entry.evicted)
        ):
            self._processes.start(self._evict(entry))

    def _evict(self, entry: Entry) -> Goroutine:
        """The workload is requeued by the time of its eviction, after a backoff that doubles each time."""
        entry.requeues += 1
        wait = min(REQUEUE_FIRST << (entry.requeues - 1), REQUEUE_MOST)
        yield from self._writer.workload()
        entry.evicted = entry.timed_out = True
        entry.claim.created = self._kernel.now // SECOND
        entry.claim.evicted = True
        self._sim.places.evicted(entry.number, TIMED_OUT, -1, "PodsReadyTimeout")
        entry.requeue_at = (self._kernel.now + wait) // SECOND * SECOND
        self._events.of(entry)
        self._publish(entry, self._nothing)

    def _stop(self, entry: Entry) -> Goroutine:
        """Suspends the Job, resets its start time, restores its template; the quota is freed once its pods are gone.

        The server refuses another template (422) while the Job's status has active pods (pkg/registry/batch/job/strategy.go,
        shouldAllowMutablePodTemplate). Kueue tries again after 5, 10, 20 ms …, both writes of the Job each time: it marks a Job
        that it stops, and takes the mark away with the template (jobs/job/job_controller.go, Stop).

        Only the admission that the reconciliation began with loses its quota: the scheduler may admit the workload again while
        the Job is written.
        """
        admission = entry.admitted_at
        if not entry.stopped:
            yield from self._writer.job()
            if not entry.suspended:
                entry.suspended = True
                self._kernel.at(self._kernel.now + WATCH_LAG, self._sim.jobs.suspend, entry.number)
                yield from self._writer.job_status()
                self._sim.jobs.changed_by_others(entry.number)
        yield from self._writer.job()  # changes nothing if the Job was stopped before
        active = entry.started and self._sim.jobs.is_active(entry.number)
        if not entry.stopped:
            if active:
                self._try_again(entry)
                return
            entry.stopped, entry.failures = True, 0
            self._sim.jobs.changed_by_others(entry.number)
            self._events.of(entry)
            self._job_changed(entry.number)
        if entry.admitted and entry.admitted_at == admission and not active:
            yield from self._give_quota_back(entry)

    def _give_quota_back(self, entry: Entry) -> Goroutine:
        """Releases the quota once no pod of the evicted workload is active."""
        yield from self._writer.workload()
        entry.admitted_at, entry.started = -1, False
        if entry.timed_out:
            self._publish(entry, self._scheduler.release)
            self._kernel.at(entry.requeue_at, self._back, entry)
        else:
            self._publish(entry, self._scheduler.requeue)

    def _try_again(self, entry: Entry) -> None:
        """A reconciliation failed."""
        now = self._kernel.now
        wait = min(RETRY_FIRST << min(entry.failures, RETRY_DOUBLINGS), RETRY_MOST)
        entry.failures += 1
        self._jobs.add_after(entry.number, max(wait, self._retries.slot(now) - now))

    def _back(self, entry: Entry) -> None:
        if not entry.deleted:
            self._processes.start(self._requeue(entry))

    def _requeue(self, entry: Entry) -> Goroutine:
        """Two writes of the Workload's reconciler: the backoff is over, and the workload is queued again."""
        yield from self._writer.workload(2)
        self._publish(entry, self._scheduler.add)

    # topology: pods are created behind a scheduling gate, which is removed with the name of their node

    def _gate(self, pod: int) -> bool:
        number = self._sim.pods.job[pod]
        self._gates.setdefault(number, []).append(pod)
        self._ungater.add_after(number, WATCH_LAG + UPDATES_BATCHED)
        return True

    def _ungate(self, number: int) -> Goroutine:
        topology = self._scheduler.topology
        entry = self._entries[number]
        pods = [pod for pod in self._gates.pop(number, []) if self._sim.pods.state[pod] == pod_state.PENDING]
        if topology is None or not entry.admitted or entry.deleted:
            return
        scheduler = self._sim.scheduler
        nodes = topology.nodes(number)
        for pod in self._sim.pods_of(number):
            if pod in scheduler.pinned and self._sim.pods.state[pod] < pod_state.FINISHED:
                nodes.remove(scheduler.pinned[pod])
        for first in range(0, len(pods), UNGATED_TOGETHER):
            some = pods[first : first + UNGATED_TOGETHER]
            yield from self._writer.pods(len(some))
            for pod in some:
                if self._sim.pods.state[pod] == pod_state.PENDING and nodes:
                    scheduler.pinned[pod] = nodes.pop(0)
                    self._sim.jobs.pod_changed(number)
                    scheduler.add(pod)
