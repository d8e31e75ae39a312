"""Writes of Kueue's model to the API server, all through one client: Workloads, Jobs, events, the status of queues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from seatrial.model.units import MICROSECOND, MILLISECOND, SECOND
from seatrial.sim.apiserver import WRITE, ApiClient
from seatrial.sim.event_stream import EventStream
from seatrial.sim.goroutines import Calls, Goroutine, Goroutines
from seatrial.sim.workqueue import WorkQueue
from seatrial.sim.world import Sim
from seatrial.stacks.kueue.pending import Entry

# Orders of magnitude, chosen, not measured: from a write to the handlers of its watchers, and a reconciliation from memory.
WATCH_LAG = 1 * MILLISECOND
RECONCILE = 200 * MICROSECOND
# The API server waits this long for each webhook: 2.4 ms on an idle machine, 10 to 14 ms with two busy cores
# (apiserver_admission_webhook_admission_duration_seconds on `local`).
WEBHOOK = 2400 * MICROSECOND
UPDATES_BATCHED = 1 * SECOND  # pkg/constants: UpdatesBatchPeriod
# client-go's burst of events about one object; the further one every five minutes is left out.
EVENTS_AT_MOST = 25
LOCAL_QUEUE, CLUSTER_QUEUE = 0, 1


@dataclass(frozen=True, slots=True)
class Writer:
    """Kueue's client. A write passes Kueue's own webhooks, how many depends on the kind (`real.webhooks`)."""

    client: ApiClient

    def create_workload(self) -> Goroutine:
        """POST, through both webhooks."""
        yield Calls(self.client, WRITE)
        yield 2 * WEBHOOK

    def workload(self, count: int = 1) -> Goroutine:
        """`count` writes of spec or status, one after another."""
        for _ in range(count):
            yield Calls(self.client, WRITE)
            yield WEBHOOK

    def workloads(self, count: int) -> Goroutine:
        """Writes of `count` Workloads side by side."""
        yield Calls(self.client, WRITE, count)
        yield WEBHOOK

    def job(self) -> Goroutine:
        """A write of a Job's spec."""
        yield Calls(self.client, WRITE)
        yield WEBHOOK

    def job_status(self) -> Goroutine:
        """A write of a Job's status, which no webhook sees."""
        yield Calls(self.client, WRITE)

    def pods(self, count: int) -> Goroutine:
        """Writes of `count` pods side by side."""
        yield Calls(self.client, WRITE, count)
        yield WEBHOOK


class WorkloadEvents:
    """Events about workloads, through the same token bucket as everything else."""

    def __init__(self, sim: Sim, client: ApiClient) -> None:
        self._stream = EventStream(sim.api, client)

    def of(self, entry: Entry, count: int = 1) -> None:
        """`count` events about this workload."""
        sent = min(count, EVENTS_AT_MOST - entry.events)
        entry.events += sent
        self._stream.add(sent)


class QueueStatus:
    """The status of each ClusterQueue and its LocalQueue, a second after the first change; one worker for either kind.

    Every reconciliation writes: the old status is a pointer, the new one is not, so they are never equal (updateCqStatusIfChanged
    and UpdateStatusIfChanged in pkg/controller/core). A write that changes something is an event of the queue, which brings the
    next reconciliation at once. So there are two writes per change; with an exhausted bucket, where the figures change while a
    write waits, either worker always has a request in the bucket's queue.
    """

    def __init__(
        self, sim: Sim, processes: Goroutines, client: ApiClient, status: Callable[[str], tuple[int, ...]]
    ) -> None:
        self._kernel, self._client, self._status = sim.kernel, client, status
        self._names: list[str] = []  # of the queues that changed, in the order in which they first did
        self._numbers: dict[str, int] = {}
        self._written: dict[int, tuple[int, ...]] = {}
        self._kinds = [WorkQueue(sim.kernel, processes, 1, self._write) for _ in (LOCAL_QUEUE, CLUSTER_QUEUE)]

    def changed(self, name: str) -> None:
        """The figures of this queue may have changed."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
        for kind, queue in enumerate(self._kinds):
            queue.add_after(2 * number + kind, UPDATES_BATCHED)

    def _write(self, key: int) -> Goroutine:
        status = self._status(self._names[key // 2])
        yield Calls(self._client, WRITE)
        if self._written.get(key) != status:
            self._written[key] = status
            self._kernel.at(self._kernel.now + WATCH_LAG, self._kinds[key % 2].add, key)
