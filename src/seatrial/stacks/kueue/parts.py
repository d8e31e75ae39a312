"""What the parts of Kueue's model share: a workload as Kueue knows it, its client, events, the status of its queues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from seatrial.model.plan import Workload
from seatrial.model.units import MICROSECOND, MILLISECOND, SECOND
from seatrial.sim.api import WRITE, Client
from seatrial.sim.processes import Process, Processes, Request, Signal
from seatrial.sim.workqueue import WorkQueue
from seatrial.sim.world import Sim
from seatrial.stacks.kueue.pending import Key

# Orders of magnitude, chosen, not measured: from a write to the handlers of its watchers, and a reconciliation from memory.
WATCH_LAG = 1 * MILLISECOND
RECONCILE = 200 * MICROSECOND
# What the API server waits for each webhook: 2.4 ms where nothing else was to do, 10 to 14 ms where two cores were busy
# (apiserver_admission_webhook_admission_duration_seconds on `local`).
WEBHOOK = 2400 * MICROSECOND
UPDATES_BATCHED = 1 * SECOND  # pkg/constants: UpdatesBatchPeriod
# client-go's events: this many of one object at once; more of it every five minutes, which is left out.
EVENTS_AT_MOST = 25
LOCAL_QUEUE, CLUSTER_QUEUE = 0, 1


@dataclass(slots=True)
class Entry:
    """A Job and its Workload, as the server has them."""

    number: int
    workload: Workload
    requests: dict[str, int]  # of all pods together
    key: Key
    exists: bool = False  # the Workload
    suspended: bool = True  # the Job, by its spec
    told: bool = False  # the Job's status says so
    complete: bool = False  # the Job
    deleted: bool = False  # the Job
    admitted_at: int = -1  # quota reserved and admitted are one write: there are no admission checks
    finished: bool = False
    kept: bool = True  # by its finalizer
    message: str = ""  # why its quota is not reserved
    ready: str = ""  # the reason of PodsReady
    reclaimed: int = 0  # pods that are over, whose quota others may have
    evicted: bool = False
    requeues: int = 0
    requeue_at: int = 0
    events: int = 0

    @property
    def admitted(self) -> bool:
        return self.admitted_at >= 0


@dataclass(slots=True)
class Wakener:
    """sync.Cond: whoever waits is woken by the next `wake`."""

    processes: Processes
    _signal: Signal | None = field(default=None)

    def wait(self) -> Signal:
        self._signal = self._signal or Signal()
        return self._signal

    def wake(self) -> None:
        if self._signal:
            signal, self._signal = self._signal, None
            self.processes.happen(signal)


@dataclass(frozen=True, slots=True)
class Writer:
    """Kueue's client. How many webhooks of its own a write passes depends on the kind: process.webhooks has the list."""

    client: Client

    def create_workload(self) -> Process:
        yield Request(self.client, WRITE)
        yield 2 * WEBHOOK

    def workload(self, count: int = 1) -> Process:
        """Of spec or status, one after another."""
        for _ in range(count):
            yield Request(self.client, WRITE)
            yield WEBHOOK

    def job(self) -> Process:
        yield Request(self.client, WRITE)
        yield WEBHOOK

    def job_status(self) -> Process:
        yield Request(self.client, WRITE)

    def pods(self, count: int) -> Process:
        """Side by side."""
        yield Request(self.client, WRITE, count)
        yield WEBHOOK


class Events:
    """One after another, through the same bucket as everything else."""

    def __init__(self, sim: Sim, client: Client) -> None:
        self._api, self._client = sim.api, client
        self._waiting = 0
        self._sending = False

    def of(self, entry: Entry, count: int = 1) -> None:
        sent = min(count, EVENTS_AT_MOST - entry.events)
        entry.events += sent
        self._waiting += sent if self._client.limited else 0
        if not self._sending:
            self._send(None)

    def _send(self, _: object) -> None:
        self._sending = self._waiting > 0
        if self._sending:
            self._waiting -= 1
            self._api.call(self._client, WRITE, self._send)


class QueueStatus:
    """The status of ClusterQueue and LocalQueue: written when it changed, a second after the first of the changes."""

    def __init__(self, sim: Sim, processes: Processes, client: Client, status: Callable[[], tuple[int, ...]]) -> None:
        self._client, self._status = client, status
        self._told: dict[int, tuple[int, ...]] = {}
        self._queues = [WorkQueue(sim.kernel, processes, 1, self._write) for _ in (LOCAL_QUEUE, CLUSTER_QUEUE)]

    def changed(self) -> None:
        for kind, queue in enumerate(self._queues):
            queue.add_after(kind, UPDATES_BATCHED)

    def _write(self, kind: int) -> Process:
        status = self._status()
        if self._told.get(kind) != status:
            self._told[kind] = status
            yield Request(self._client, WRITE)
