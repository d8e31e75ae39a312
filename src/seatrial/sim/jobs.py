"""The Job controller: what it writes, when, and how long its own QPS bucket makes it wait.

Facts (Kubernetes 1.36, pkg/controller/job): `job-syncs` workers; one client whose bucket pod creation, finalizers, status
writes and events share; pods are created in batches of 1, 2, 4, … (slow start); pod events are answered 1 s late, together.
A one-pod Job costs a pod POST, an event and a status PUT at its start, a PUT when the pod is ready, and at its end a PUT with
the finished pod's UID, a PATCH that takes the finalizer off the pod, the PUT that says Complete, and an event. At 20 QPS with a
burst of 30 those four calls are why a hundred short Jobs that end together need 18 s more than one.

A Job that is created suspended costs a PUT and an event before, and an event when it is resumed. One that is suspended again
loses its pods: a DELETE and an event each, then a PUT.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping

from seatrial.model.plan import Scalar, Workload
from seatrial.model.units import SECOND
from seatrial.sim.api import WRITE, ApiServer, Client
from seatrial.sim.kernel import Kernel

POD_EVENTS_BATCHED = 1 * SECOND  # syncJobBatchPeriod
SLOW_START = 1  # SlowStartInitialBatchSize

_IDLE, _QUEUED, _SYNCING, _SYNCING_AGAIN = range(4)


class Jobs:
    """A Job is the number of its workload; columns as in `Pods`.

    `create_pod(job)` makes a pod appear, `completed(job)` is called when the server has the Complete condition. `active(job)`
    are the pods that a suspended Job has to lose, `drop_pod(pod)` makes one go.
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
        self.when_written: list[Callable[[int], None]] = []  # told of every status that the server has
        self.pod_webhooks = 0  # ns that a stack's webhooks add to the creation of a pod
        self._client = Client("job-controller", float(settings["qps"]), float(settings["burst"]))
        self._idle_workers = int(settings["job-syncs"])
        self._create_pod, self._completed = create_pod, completed
        self._queue: deque[int] = deque()
        self._taking = False
        self._events = 0  # waiting to be sent, one after another
        self._sending = False
        self._wanted: dict[int, int] = {}  # Jobs not complete yet: pods in all
        self._state: dict[int, int] = {}
        self._missing: dict[int, int] = {}  # pods still to be created
        # What most Jobs in a long queue have not got to yet takes no room: a million of them would fill half a gigabyte.
        self._ready: defaultdict[int, int] = defaultdict(int)
        self._told_ready: defaultdict[int, int] = defaultdict(int)
        self._finished: defaultdict[int, int] = defaultdict(int)  # not counted in the status yet
        self._succeeded: defaultdict[int, int] = defaultdict(int)
        self._suspended: set[int] = set()  # by their spec
        self._told_suspended: set[int] = set()  # by their status
        self._late: dict[int, int] = {}  # when the batch of pod events that is open will be answered
        self._armed: dict[int, int] = {}  # the last such moment for which there is an event

    def add(self, job: int, workload: Workload, suspended: bool = False) -> None:
        """The Job exists."""
        if suspended:
            self._suspended.add(job)
        self._wanted[job] = self._missing[job] = workload.pods
        self._state[job] = _IDLE
        self._enqueue(job)

    def remove(self, job: int) -> None:
        """The Job is deleted. What is on its way for it finds nothing."""
        self._wanted.pop(job, None)

    def suspend(self, job: int) -> None:
        """Its spec says so from now on."""
        if job in self._wanted:
            self._suspended.add(job)
            self._enqueue(job)

    def resume(self, job: int) -> None:
        if job in self._wanted:
            self._suspended.discard(job)
            self._enqueue(job)

    def is_active(self, job: int) -> bool:
        """Its status says that pods of it are left, or nobody has yet written that it is suspended."""
        return job in self._wanted and job not in self._told_suspended

    def ready(self, job: int) -> int:
        """Pods that run, as its status has them; those that succeeded among them."""
        return self._told_ready.get(job, 0) + self._succeeded.get(job, 0) + self._finished.get(job, 0)

    def succeeded(self, job: int) -> int:
        return self._succeeded.get(job, 0)

    # what pods do

    def pod_changed(self, job: int) -> None:
        """A pod event without consequence; it opens a batch that later ones join."""
        now = self._kernel.now
        if now >= self._late.get(job, 0) and job in self._wanted:
            self._late[job] = now + POD_EVENTS_BATCHED

    def pod_ready(self, job: int) -> None:
        if job in self._wanted:
            self._ready[job] += 1
            self._sync_late(job)

    def pod_finished(self, job: int) -> None:
        if job in self._wanted:
            self._ready[job] -= 1
            self._finished[job] += 1
            self._sync_late(job)

    def pod_lost(self, job: int, was_ready: bool) -> None:
        """A pod is gone before it finished: the Job makes another."""
        if job in self._wanted:
            self._ready[job] -= was_ready
            self._missing[job] += 1
            self._sync_late(job)

    def _sync_late(self, job: int) -> None:
        self.pod_changed(job)
        when = self._late[job]
        if self._armed.get(job) != when:
            self._armed[job] = when
            self._kernel.after(when - self._kernel.now, self._enqueue, job)

    # the work queue

    def _enqueue(self, job: int) -> None:
        state = self._state.get(job)
        if state == _SYNCING:
            self._state[job] = _SYNCING_AGAIN
        elif state == _IDLE:
            self._state[job] = _QUEUED
            self._queue.append(job)
            if self._idle_workers:
                self._take()

    def _take(self) -> None:
        """A sync without a request is over at once and asks for the next: one after another, not one inside another."""
        if self._taking:
            return
        self._taking = True
        while self._idle_workers and self._queue:
            job = self._queue.popleft()
            self._idle_workers -= 1
            self._state[job] = _SYNCING
            self._sync(job)
        self._taking = False

    def _done(self, job: int) -> None:
        again = self._state[job] == _SYNCING_AGAIN
        self._state[job] = _IDLE
        self._idle_workers += 1
        if job not in self._wanted:
            self._forget(job)
        elif again or (self._missing[job] and job not in self._suspended):
            self._enqueue(job)
        self._take()

    def _forget(self, job: int) -> None:
        """Late events may still come for it, and find nothing."""
        for column in (
            self._state, self._missing, self._ready, self._told_ready, self._finished, self._succeeded, self._late, self._armed,
        ):  # fmt: skip
            column.pop(job, None)
        self._suspended.discard(job)
        self._told_suspended.discard(job)

    # one sync

    def _sync(self, job: int) -> None:
        if job not in self._wanted:
            self._done(job)
        elif self._finished[job]:
            if self._finished[job] == 1 and self._succeeded[job] + 1 == self._wanted[job]:
                # Its last pod: the UID, the finalizer, Complete. Nobody sees what lies between.
                self._api.call_in_turn(self._client, WRITE, 3, self._complete, job)
            else:
                self._api.call(self._client, WRITE, self._count_finished, job)
        elif job in self._suspended:
            self._hold(job)
        elif self._missing[job]:
            self._create_batch((job, SLOW_START))
        elif self._ready[job] != self._told_ready[job]:
            self._write_status(job)
        else:
            self._done(job)

    def _write_status(self, job: int) -> None:
        self._told_ready[job] = self._ready[job]
        if job in self._told_suspended and job not in self._suspended:
            self._told_suspended.discard(job)
            self._event()
        self._api.call(self._client, WRITE, self._written, job)

    def _written(self, job: int) -> None:
        for call in self.when_written:
            call(job)
        self._done(job)

    def _hold(self, job: int) -> None:
        """The pods of a suspended Job go, side by side; then its status says so."""
        pods = self._active(job)
        if not pods:
            self._say_suspended(job)
            return
        open_calls = [job, len(pods)]
        for pod in pods:
            self._api.call(self._client, WRITE, self._pod_deleted, (pod, open_calls))

    def _pod_deleted(self, call: tuple[int, list[int]]) -> None:
        pod, open_calls = call
        self._drop_pod(pod)
        self._event()
        open_calls[1] -= 1
        if not open_calls[1]:
            self._say_suspended(open_calls[0])

    def _say_suspended(self, job: int) -> None:
        if job in self._told_suspended or job not in self._wanted:
            self._done(job)
            return
        self._told_suspended.add(job)
        self._event()
        self._write_status(job)

    def _create_batch(self, batch: tuple[int, int]) -> None:
        """Creates a batch side by side, then one twice as large; then the status is written."""
        job, size = batch
        if job not in self._wanted:
            self._done(job)
            return
        missing = self._missing[job] if job not in self._suspended else 0
        if not missing:
            self._write_status(job)
            return
        size = min(size, missing)
        open_calls = [job, size, size]
        for _ in range(size):
            self._api.call(self._client, WRITE, self._pod_asked_for, open_calls)

    def _pod_asked_for(self, open_calls: list[int]) -> None:
        if self.pod_webhooks:
            self._kernel.at(self._kernel.now + self.pod_webhooks, self._pod_created, open_calls)
        else:
            self._pod_created(open_calls)

    def _pod_created(self, open_calls: list[int]) -> None:
        job, size, _ = open_calls
        open_calls[2] -= 1
        if job in self._wanted:
            self._missing[job] -= 1
            self._create_pod(job)
            self.pod_changed(job)
            self._event()
        if not open_calls[2]:
            self._create_batch((job, size * 2))

    def _count_finished(self, job: int) -> None:
        """The UIDs are in the status; now the finalizers go, side by side."""
        if job not in self._wanted:
            self._done(job)
            return
        count = self._finished[job]
        self._finished[job] = 0
        open_calls = [job, count, count]
        for _ in range(count):
            self._api.call(self._client, WRITE, self._finalizer_off, open_calls)

    def _finalizer_off(self, open_calls: list[int]) -> None:
        job, count, _ = open_calls
        open_calls[2] -= 1
        if open_calls[2]:
            return
        if job not in self._wanted:
            self._done(job)
            return
        self._succeeded[job] += count
        if self._succeeded[job] < self._wanted[job]:
            self._write_status(job)
        else:
            self._api.call(self._client, WRITE, self._complete, job)

    def _complete(self, job: int) -> None:
        if job in self._wanted:
            del self._wanted[job]
            self._event()
            self._completed(job)
        self._done(job)

    # events, through the same bucket, one after another

    def _event(self) -> None:
        """Without a limit nobody feels it."""
        self._events += self._client.limited
        if not self._sending and self._events:
            self._send_event(None)

    def _send_event(self, _: object) -> None:
        self._sending = self._events > 0
        if self._sending:
            self._events -= 1
            self._api.call(self._client, WRITE, self._send_event)
