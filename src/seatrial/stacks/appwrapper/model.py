"""The AppWrapper operator in the simulator: one worker, a step per reconciliation, each a write that brings the next event.

Facts (AppWrapper v1.2.0, internal/controller/appwrapper; docs/stacks/appwrapper.md has file and line): one worker
(controller-runtime's MaxConcurrentReconciles), reads from the informer's cache, writes as merge patches of the status that are sent
even if they change nothing. controller-runtime v0.20.3 makes a REST client for every kind of object, and each has a token bucket of
its own: AppWrappers, Jobs, and those that only delete. Pods wake the operator only when they have succeeded; everything else it
finds out by looking every 5 s. Times in the status are whole seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from seatrial.model.fleet import TIMED_OUT
from seatrial.model.lifecycle import ADMITTED, FAILED, QUEUED
from seatrial.model.plan import Scalar, Workload
from seatrial.model.units import MICROSECOND, MILLISECOND, MINUTE, SECOND
from seatrial.sim import pods as pod_state
from seatrial.sim.apiserver import GET, WRITE, ApiClient
from seatrial.sim.event_stream import EventStream
from seatrial.sim.garbage_collector import GarbageCollector
from seatrial.sim.goroutines import Calls, Goroutine, Goroutines, Signal
from seatrial.sim.workqueue import WorkQueue
from seatrial.sim.world import Sim
from seatrial.stacks.appwrapper import PODS_READY, RESOURCES_DEPLOYED, SUCCEEDED

# Orders of magnitude, chosen, not measured: from a write to the informer's cache, and a reconciliation from memory.
WATCH_LAG = 1 * MILLISECOND
RECONCILE = 200 * MICROSECOND
POLL = 5 * SECOND  # appwrapper_controller.go: RequeueAfter while pods do not run, or are being deleted
POLL_READY = 1 * MINUTE  # and once all run

EMPTY, SUSPENDED, RESUMING, RUNNING = "", "Suspended", "Resuming", "Running"
SUSPENDING, RESETTING, SUCCEEDED_PHASE, FAILED_PHASE = "Suspending", "Resetting", "Succeeded", "Failed"
ABSENT, INITIATED, CREATED, REMOVED = range(4)  # of the Job, as the component's status has it

Deletion = Generator[int | Signal | Calls, None, tuple[bool, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class WrapperState:
    """An AppWrapper, as the server or the informer's cache has it."""

    suspend: bool = False
    finalizer: bool = False
    phase: str = EMPTY
    component: int = ABSENT
    deployed: bool = False  # the condition ResourcesDeployed, and since when
    deployed_since: int = 0
    unhealthy_since: int = 0
    ready: bool = False  # the condition PodsReady
    deleting: bool = False
    retries: int = 0

    @property
    def quota_reserved(self) -> bool:
        """The condition QuotaReserved."""
        return self.phase in (RESUMING, RUNNING, SUSPENDING, RESETTING) or (
            self.phase == FAILED_PHASE and self.deployed
        )


class AppWrapperModel:
    """The reconciler. With `queued` another controller suspends AppWrappers, and has the stages of admission."""

    def __init__(self, sim: Sim, settings: Mapping[str, Scalar], queued: bool = False) -> None:
        self._sim, self._kernel, self._queued = sim, sim.kernel, queued
        self._processes = Goroutines(sim.kernel, sim.api)
        limits = float(settings["qps"]), float(settings["burst"])
        self._wrappers, self._jobs = ApiClient("appwrapper", *limits), ApiClient("appwrapper-jobs", *limits)
        self._deletes = ApiClient("appwrapper-deletes", *limits)
        self._events = EventStream(sim.api, ApiClient("appwrapper-events", *limits))
        self._collector = GarbageCollector(sim)
        self._admission, self._warmup = int(settings["admission-grace"]), int(settings["warmup-grace"])
        self._pause, self._limit = int(settings["retry-pause"]), int(settings["retry-limit"])
        self.when_changed: list[Callable[[int], None]] = []  # called with the number when a change has reached watchers
        self.server: dict[int, WrapperState] = {}
        self._cache: dict[int, WrapperState] = {}
        self._job_exists: set[int] = set()
        self._complete: set[int] = set()  # Jobs; their pods are no longer in the simulator's lists
        self._first_pod: dict[int, int] = {}  # of the Job that exists, among all pods that the workload has had
        self._queue = WorkQueue(sim.kernel, self._processes, 1, self._reconcile)
        self._step: Mapping[str, Callable[[int, WrapperState], Goroutine]] = {
            EMPTY: self._accept, SUSPENDED: self._begin, RESUMING: self._deploy, RUNNING: self._watch,
            SUSPENDING: self._undeploy, RESETTING: self._reset, FAILED_PHASE: self._clear,
        }  # fmt: skip
        sim.when_completed.append(self._complete.add)
        sim.when_deleted.append(self._deleted)
        sim.when_pod_ends.append(self._pod_ended)

    # the server and the informer

    def created(self, number: int, workload: Workload) -> None:  # noqa: ARG002
        """The server has a new AppWrapper."""
        self.server[number] = WrapperState(suspend=self._queued)
        self._publish(number)

    def set_suspend(self, number: int, suspend: bool) -> None:
        """Handles a foreign write of `spec.suspend`."""
        if number in self.server:
            self._merge(number, {"suspend": suspend})

    def _deleted(self, number: int) -> None:
        for holder in (self.server, self._cache):
            holder.pop(number, None)

    def _merge(self, number: int, changes: Mapping[str, Any]) -> None:
        """Applies a PATCH; one without a change makes no event."""
        current = self.server.get(number)
        if current is not None and changes:
            self.server[number] = replace(current, **changes)
            if self.server[number] != current:
                self._publish(number)

    def _publish(self, number: int) -> None:
        self._kernel.at(self._kernel.now + WATCH_LAG, self._seen, (number, self.server[number]))

    def _seen(self, change: tuple[int, WrapperState]) -> None:
        number, wrapper = change
        if number in self.server:
            self._cache[number] = wrapper
            self._queue.add(number)
            for call in self.when_changed:
                call(number)

    def _pod_ended(self, number: int) -> None:
        """Pods wake the operator when they succeed."""
        seen = self._cache.get(number)
        if seen is not None and seen.phase == RUNNING:
            self._kernel.at(self._kernel.now + WATCH_LAG, self._queue.add, number)

    # the reconciler

    def _reconcile(self, number: int) -> Goroutine:
        yield RECONCILE
        seen = self._cache.get(number)
        if seen is not None and seen.phase in self._step:
            yield from self._step[seen.phase](number, seen)

    def _patch(self, number: int, seen: WrapperState, **after: Any) -> Goroutine:
        """PATCH of the status: what differs from the copy that was read."""
        yield Calls(self._wrappers, WRITE)
        self._merge(number, {name: value for name, value in after.items() if getattr(seen, name) != value})

    def _accept(self, number: int, seen: WrapperState) -> Goroutine:
        yield from self._patch(number, seen, phase=SUSPENDED)
        self._reach(number, QUEUED)

    def _begin(self, number: int, seen: WrapperState) -> Goroutine:
        if seen.suspend:
            return
        if not seen.finalizer:
            yield Calls(self._wrappers, WRITE)
            self._merge(number, {"finalizer": True})
        yield from self._patch(number, seen, phase=RESUMING, deployed=True, deployed_since=self._second(), ready=False)
        self._reach(number, ADMITTED)

    def _deploy(self, number: int, seen: WrapperState) -> Goroutine:
        if seen.suspend:
            yield from self._patch(number, seen, phase=SUSPENDING)
            return
        if seen.component != CREATED:
            if seen.component == ABSENT:
                yield from self._patch(number, seen, component=INITIATED)
            yield Calls(self._jobs, WRITE)
            if number in self._job_exists:  # its cache lags behind: it reads the Job that it has made
                yield Calls(self._jobs, GET)
            elif number in self.server:
                self._job_exists.add(number)
                self._first_pod[number] = len(self._sim.pods_of(number))
                self._sim.reach(number, RESOURCES_DEPLOYED)
                self._sim.jobs.add(number, self._sim.workloads[number])
            yield from self._patch(number, seen, component=CREATED)
        yield from self._patch(number, seen, phase=RUNNING)

    def _watch(self, number: int, seen: WrapperState) -> Goroutine:
        if seen.suspend:
            self._events.add()
            yield from self._patch(number, seen, phase=SUSPENDING)
            return
        pending, running, succeeded = self._pods(number)
        expected = self._sim.workloads[number].pods
        if succeeded >= expected and not pending + running:
            yield from self._patch(number, seen, phase=SUCCEEDED_PHASE)
            self._sim.reach(number, SUCCEEDED)
        elif running + succeeded >= expected:
            yield from self._patch(number, seen, ready=True)
            self._sim.reach(number, PODS_READY)
            self._queue.add_after(number, POLL_READY)
        else:
            all_exist = pending + running + succeeded >= expected
            due = seen.deployed_since + (self._warmup if all_exist else self._admission)
            if self._kernel.now < due:
                yield from self._patch(number, seen, ready=False)
                self._queue.add_after(number, POLL)
            else:
                words = f"{pending} pods pending; {running} pods running; {succeeded} pods succeeded"
                yield from self._give_up(number, seen, f"InsufficientPodsReady: {words}")

    def _give_up(self, number: int, seen: WrapperState, why: str) -> Goroutine:
        """Begins again, or fails after the last retry."""
        self._events.add()
        since = self._second()
        if seen.retries < self._limit:
            tried = seen.retries + 1
            yield from self._patch(number, seen, phase=RESETTING, retries=tried, unhealthy_since=since, ready=False)
            self._sim.places.evicted(number, TIMED_OUT, -1, why)
            self._sim.said[number] = f"reset {tried}: {why}"
        else:
            yield from self._patch(number, seen, phase=FAILED_PHASE, unhealthy_since=since)
            self._sim.said[number] = why
            self._sim.reach(number, FAILED)

    def _reset(self, number: int, seen: WrapperState) -> Goroutine:
        if seen.suspend:
            self._events.add()
            yield from self._patch(number, seen, phase=SUSPENDING)
            return
        gone, changes = yield from self._delete(number, seen)
        if not gone:
            yield from self._patch(number, seen, **changes)
            self._queue.add_after(number, POLL)
            return
        due = seen.unhealthy_since + self._pause
        if self._kernel.now < due:
            yield from self._patch(number, seen, **changes)
            self._queue.add_after(number, due - self._kernel.now)
            return
        changes |= {"phase": RESUMING, "deployed": True, "deployed_since": self._second()}
        yield from self._patch(number, seen, **changes)
        self._sim.places.admitted(number)
        self._sim.said[number] = ""

    def _undeploy(self, number: int, seen: WrapperState) -> Goroutine:
        gone, changes = yield from self._delete(number, seen)
        if gone:
            changes |= {"phase": SUSPENDED, "ready": False}
            yield from self._patch(number, seen, **changes)
        else:
            yield from self._patch(number, seen, **changes)
            self._queue.add_after(number, POLL)

    def _clear(self, number: int, seen: WrapperState) -> Goroutine:
        gone, changes = yield from self._delete(number, seen)
        yield from self._patch(number, seen, **changes)
        if not gone:
            self._queue.add_after(number, POLL)

    def _delete(self, number: int, seen: WrapperState) -> Deletion:
        """A pass of deleteComponents: whether Job and pods are gone, and what that changes in the status. It asks for the deletion
        until the Job is not found, and then waits for the cache to have no pods."""
        if not seen.deployed:
            return True, {}
        component = seen.component
        if component in (INITIATED, CREATED):
            yield Calls(self._deletes, WRITE)
            if number in self._job_exists:
                self._job_exists.discard(number)
                self._collector.drop_job(number)
                return False, {"deleting": True}
            component = REMOVED
        if any(self._pods(number)[:2]):
            return False, {"deleting": True, "component": component}
        return True, {"deleting": False, "component": component, "deployed": False}

    # what it reads

    def _pods(self, number: int) -> tuple[int, int, int]:
        """Pending, running and succeeded pods of the Job that exists, or of the last."""
        if number in self._complete:
            return 0, 0, self._sim.workloads[number].pods
        pods = self._sim.pods_of(number)[self._first_pod.get(number, 0) :]
        states = bytes(map(self._sim.pods.state.__getitem__, pods))
        pending = sum(states.count(state) for state in (pod_state.PENDING, pod_state.ASSUMED, pod_state.BOUND))
        return pending, states.count(pod_state.RUNNING), states.count(pod_state.FINISHED)

    def _second(self) -> int:
        return self._kernel.now // SECOND * SECOND

    def _reach(self, number: int, stage: Any) -> None:
        if not self._queued:
            self._sim.reach(number, stage)
