"""The Job controller: its writes, their times, and the waits in its own QPS bucket.

Facts (Kubernetes 1.36, pkg/controller/job): `job-syncs` workers; one client whose bucket pod creation, finalizers, status
writes and events share; pods are created in batches of 1, 2, 4, … (slow start); pod events are handled in batches, 1 s late.
A one-pod Job costs a pod POST, an event and a status PUT at its start, a PUT when the pod is ready, and at its end a PUT with
the finished pod's UID, a PATCH that removes the pod's finalizer, the PUT with Complete, and an event. At 20 QPS with a burst of
30, because of those four calls a hundred short Jobs that end together need 18 s more than one.

A create that the server refuses (403, a quota) ends the batches; the sync fails, and the Job is synced again after 1 s, doubling to
60 s (DefaultJobApiBackOff, MaxJobApiBackOff), or when a pod event or the Job's own update is due before. Nobody tells the
controller that there is room again.

A Job created suspended costs a PUT and an event more, and an event when it is resumed. A Job that is suspended again loses its
pods: a PATCH that removes the finalizer, a DELETE and an event each (deleteJobPods), then a PUT.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Mapping

from seatrial.model.plan import Scalar, Workload
from seatrial.model.units import SECOND
from seatrial.sim.apiserver import WRITE, ApiClient, ApiServer
from seatrial.sim.event_stream import EventStream
from seatrial.sim.kernel import Kernel

POD_EVENTS_BATCHED = 1 * SECOND  # syncJobBatchPeriod
SLOW_START = 1  # SlowStartInitialBatchSize
API_BACKOFF_FIRST, API_BACKOFF_MOST = 1 * SECOND, 60 * SECOND  # after a sync that failed
_DOUBLINGS = 6  # until API_BACKOFF_MOST

_IDLE, _QUEUED, _SYNCING, _SYNCING_AGAIN, _GONE = range(5)


class JobController:
    """A Job is the number of its workload; columns as in `Pods`.

    `create_pod(job)` creates a pod, `completed(job)` is called when the Complete condition is written. `active(job)` returns the
    pods that a suspended Job must lose, `drop_pod(pod)` deletes one. `admits(job)`: whether the server takes a pod of the Job.
    """

    def __init__(
        self,
        kernel: Kernel,
        api: ApiServer,
        settings: Mapping[str, Scalar],
        create_pod: Callable[[int], None],
        completed: Callable[[int], None],
        active: Callable[[int], list[int]] = lambda _: [],
        drop_pod: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._kernel, self._api = kernel, api
        self._active, self._drop_pod = active, drop_pod
        self.when_written: list[Callable[[int], None]] = []  # called after every status write
        self.admits: Callable[[int], bool] | None = None
        self._refusals: dict[int, int] = {}  # Job → syncs that failed one after another
        self._retry_at: dict[int, int] = {}  # Job → when it is synced again after that
        self._held_back: set[int] = set()  # Jobs whose last sync failed
        self._ready_seen: dict[int, int] = {}  # Job that had such a sync → ready pods when its current one began
        self.pod_webhooks = 0  # ns that a stack's webhooks add to the creation of a pod
        self._client = ApiClient("job-controller", float(settings["qps"]), float(settings["burst"]))
        self._event = EventStream(api, self._client).add
        self._idle_workers = int(settings["job-syncs"])
        self._create_pod, self._completed = create_pod, completed
        self._queue: deque[int] = deque()
        self._taking = False
        self._suspended: set[int] = set()  # by their spec
        self._overtaken: set[int] = set()  # written by others since their last sync read them
        self._status_suspended: set[int] = set()  # by their status
        # Columns by the Job's number: a million Jobs in dictionaries filled half a gigabyte.
        self._state = bytearray()
        self._completions = array("i")  # pods in all; 0: the Job is complete, deleted, or not created
        self._missing = array("i")  # pods to create
        self._ready = array("i")
        self._status_ready = array("i")
        self._finished = array("i")  # pods not in the status yet
        self._succeeded = array("i")
        self._batch_ends = array("q")  # end of the open batch of pod events
        self._sync_planned = array("q")  # last such end for which a sync is scheduled
        exceptions: list[set[int] | dict[int, int]] = [self._suspended, self._status_suspended, self._overtaken]
        self._exceptions = (*exceptions, self._held_back, self._refusals, self._retry_at, self._ready_seen)
        self._columns = (
            self._completions, self._missing, self._ready, self._status_ready, self._finished, self._succeeded,
            self._batch_ends, self._sync_planned,
        )  # fmt: skip

    def add(self, job: int, workload: Workload, suspended: bool = False) -> None:
        """The Job was created."""
        if job >= len(self._state):
            self._make_room(job)
        if suspended:
            self._suspended.add(job)
        self._completions[job] = self._missing[job] = workload.pods
        self._state[job] = _IDLE
        self._enqueue(job)

    def _make_room(self, job: int) -> None:
        more = job + 1024 - len(self._state)
        self._state.extend(bytes([_GONE]) * more)
        for column in self._columns:
            column.frombytes(bytes(column.itemsize * more))

    def remove(self, job: int) -> None:
        """The Job is deleted; late events for it are ignored."""
        if job < len(self._completions):
            self._completions[job] = 0
            self._enqueue(job)

    def suspend(self, job: int) -> None:
        """The Job's spec is suspended from now on."""
        if self._completions[job]:
            self._suspended.add(job)
            self._enqueue(job)

    def changed_by_others(self, job: int) -> None:
        """Another client has just written the Job: a sync that read it before cannot write its status (409)."""
        self._overtaken.add(job)

    def resume(self, job: int) -> None:
        """The Job's spec is no longer suspended."""
        if self._completions[job]:
            self._suspended.discard(job)
            self._enqueue(job)

    def is_active(self, job: int) -> bool:
        """Whether the Job exists and its status does not say suspended."""
        return bool(self._completions[job]) and job not in self._status_suspended

    def ready(self, job: int) -> int:
        """Ready pods by the status, including those that succeeded."""
        return self._status_ready[job] + self._succeeded[job] + self._finished[job]

    def succeeded(self, job: int) -> int:
        """Succeeded pods by the status."""
        return self._succeeded[job]

    # pod events

    def pod_changed(self, job: int) -> None:
        """A pod event that needs no sync; opens a batch that later events join."""
        ends, now = self._batch_ends, self._kernel.now
        if now >= ends[job] and self._completions[job]:
            ends[job] = now + POD_EVENTS_BATCHED
        if self._refusals and job in self._refusals and self._completions[job]:
            self._plan_sync(job, now, ends[job])

    def pod_ready(self, job: int) -> None:
        """A pod is ready."""
        if self._completions[job]:
            self._ready[job] += 1
            self._sync_batched(job)

    def pod_finished(self, job: int) -> None:
        """A pod succeeded."""
        if self._completions[job]:
            self._ready[job] -= 1
            self._finished[job] += 1
            self._sync_batched(job)

    def pod_lost(self, job: int, was_ready: bool) -> None:
        """A pod was lost before its end: the Job creates another."""
        if self._completions[job]:
            self._ready[job] -= was_ready
            self._missing[job] += 1
            self._sync_batched(job)

    def _sync_batched(self, job: int) -> None:
        now, when = self._kernel.now, self._batch_ends[job]
        if now >= when:
            self._batch_ends[job] = when = now + POD_EVENTS_BATCHED
        self._plan_sync(job, now, when)

    def _plan_sync(self, job: int, now: int, when: int) -> None:
        # A key waits in the work queue once, for the earliest of its times.
        if self._retry_at and job in self._retry_at:
            if self._retry_at[job] <= when:
                return
            del self._retry_at[job]
        if self._sync_planned[job] != when:
            self._sync_planned[job] = when
            self._kernel.after(when - now, self._enqueue, job)

    # the work queue

    def _enqueue(self, job: int) -> None:
        state = self._state[job]
        if state == _SYNCING:
            self._state[job] = _SYNCING_AGAIN
        elif state == _IDLE:
            if self._idle_workers and not self._queue and not self._taking:
                self._start(job)
                if self._queue:
                    self._take()
                return
            self._state[job] = _QUEUED
            self._queue.append(job)
            if self._idle_workers:
                self._take()

    def _start(self, job: int) -> None:
        """A free worker takes the Job. A sync without a request ends at once; the flag keeps the next from running inside it."""
        self._taking = True
        self._idle_workers -= 1
        self._state[job] = _SYNCING
        self._sync(job)
        self._taking = False

    def _take(self) -> None:
        """Starts syncs of Jobs that wait, unless one is being started."""
        if not self._taking:
            while self._idle_workers and self._queue:
                self._start(self._queue.popleft())

    def _done(self, job: int) -> None:
        again, self._state[job] = self._state[job] == _SYNCING_AGAIN, _IDLE
        self._idle_workers += 1
        if not self._completions[job]:
            self._forget(job)
        elif again or (self._missing[job] and job not in self._suspended and job not in self._held_back):
            self._enqueue(job)
        if self._queue:
            self._take()

    def _forget(self, job: int) -> None:
        self._state[job] = _GONE
        for column in self._columns:
            column[job] = 0
        for jobs in self._exceptions:
            if jobs:
                jobs.pop(job, None) if isinstance(jobs, dict) else jobs.discard(job)

    # one sync

    def _sync(self, job: int) -> None:
        if self._refusals:
            self._held_back.discard(job)
            self._retry_at.pop(job, None)
            if job in self._refusals:
                self._ready_seen[job] = self._ready[job]
        if not self._completions[job]:
            self._done(job)
        elif self._finished[job]:
            if self._finished[job] == 1 and self._succeeded[job] + 1 == self._completions[job]:
                # The last pod: UID, finalizer and Complete are one call, since nothing observes the steps between.
                self._api.call_in_turn(self._client, WRITE, 3, self._complete, job)
            else:
                self._api.call(self._client, WRITE, self._count_finished, job)
        elif job in self._suspended:
            self._delete_active_pods(job)
        elif self._missing[job]:
            self._create_batch((job, SLOW_START))
        elif self._ready[job] != self._status_ready[job]:
            self._write_status(job)
        else:
            self._done(job)

    def _write_status(self, job: int) -> None:
        self._status_ready[job] = self._ready[job]
        if job in self._status_suspended and job not in self._suspended:
            self._status_suspended.discard(job)
            self._event()
        self._api.call(self._client, WRITE, self._written, job)

    def _written(self, job: int) -> None:
        for call in self.when_written:
            call(job)
        if self._refusals and job in self._refusals and self._completions[job]:
            self._sync_batched(job)  # the Job's own update
        self._done(job)

    def _delete_active_pods(self, job: int) -> None:
        """Deletes the pods of a suspended Job in parallel, then writes its status."""
        self._overtaken.discard(job)
        pods = self._active(job)
        if not pods:
            self._write_suspended(job)
            return
        pending = [job, len(pods)]
        for pod in pods:
            self._api.call_in_turn(self._client, WRITE, 2, self._pod_deleted, (pod, pending))

    def _pod_deleted(self, call: tuple[int, list[int]]) -> None:
        pod, pending = call
        self._drop_pod(pod)
        self._event()
        pending[1] -= 1
        if not pending[1]:
            self._write_suspended(pending[0])

    def _write_suspended(self, job: int) -> None:
        if job in self._status_suspended or not self._completions[job]:
            self._done(job)
        else:
            self._api.call(self._client, WRITE, self._suspended_written, job)

    def _suspended_written(self, job: int) -> None:
        """After a conflict the whole sync is repeated: after the backoff, which is as long as a batch of pod events."""
        if job in self._overtaken or not self._completions[job]:
            self._retry_at[job] = when = self._kernel.now + API_BACKOFF_FIRST
            self._kernel.at(when, self._retry, (job, when))
            self._done(job)
            return
        self._status_suspended.add(job)
        self._status_ready[job] = self._ready[job]
        self._event()
        self._written(job)

    def _create_batch(self, batch: tuple[int, int]) -> None:
        """Creates a batch in parallel, then one twice as large; at the end writes the status."""
        job, size = batch
        if not self._completions[job]:
            self._done(job)
            return
        missing = self._missing[job] if job not in self._suspended else 0
        if not missing:
            self._refusals.pop(job, None)
            self._write_status(job)
            return
        first = size == SLOW_START
        size = min(size, missing)
        pending = [job, size, size, 0, first]
        then = self._call_pod_webhooks if self.pod_webhooks else self._pod_created
        for _ in range(size):
            self._api.call(self._client, WRITE, then, pending)

    def _call_pod_webhooks(self, pending: list[int]) -> None:
        self._kernel.at(self._kernel.now + self.pod_webhooks, self._pod_created, pending)

    def _pod_created(self, pending: list[int]) -> None:
        job, size, _, refused, first = pending
        pending[2] -= 1
        if self._completions[job]:
            if self.admits is None or self.admits(job):
                self._missing[job] -= 1
                self._create_pod(job)
                self.pod_changed(job)
            else:
                refused = pending[3] = refused + 1
            self._event()
        if not pending[2]:
            if refused:
                self._fail(job, created=not first or refused < size)
            else:
                self._create_batch((job, size * 2))

    def _fail(self, job: int, created: bool) -> None:
        """The sync failed. The status is written the first time, and if pods were created or became ready."""
        failures, now = self._refusals.get(job, 0), self._kernel.now
        self._refusals[job] = failures + 1
        self._held_back.add(job)
        when = now + min(API_BACKOFF_FIRST << min(failures, _DOUBLINGS), API_BACKOFF_MOST)
        if not now < self._sync_planned[job] <= when:
            self._retry_at[job] = when
            self._kernel.at(when, self._retry, (job, when))
        ready = self._ready_seen.pop(job, 0)  # pods that became ready since are for the next sync
        if created or not failures or ready != self._status_ready[job]:
            self._write_status(job)
            self._status_ready[job] = ready
        else:
            self._done(job)

    def _retry(self, what: tuple[int, int]) -> None:
        job, when = what
        if self._retry_at.get(job) == when:
            del self._retry_at[job]
            self._enqueue(job)

    def _count_finished(self, job: int) -> None:
        """The UIDs are in the status; removes the finalizers in parallel."""
        if not self._completions[job]:
            self._done(job)
            return
        count = self._finished[job]
        self._finished[job] = 0
        pending = [job, count, count]
        for _ in range(count):
            self._api.call(self._client, WRITE, self._finalizer_off, pending)

    def _finalizer_off(self, pending: list[int]) -> None:
        job, count, _ = pending
        pending[2] -= 1
        if pending[2]:
            return
        if not self._completions[job]:
            self._done(job)
            return
        self._succeeded[job] += count
        if self._succeeded[job] < self._completions[job]:
            self._write_status(job)
        else:
            self._api.call(self._client, WRITE, self._complete, job)

    def _complete(self, job: int) -> None:
        if self._completions[job]:
            self._completions[job] = 0
            self._event()
            self._completed(job)
        self._done(job)
