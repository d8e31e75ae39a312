"""Kueue's own scheduler: one head per cycle, checked against the quota (and the nodes), admitted by a write outside the loop.

Facts (Kueue v0.16.1, pkg/scheduler/scheduler.go and pkg/util/wait/backoff.go):
- A cycle pops the head, takes a snapshot, and either assumes the head in memory and starts a goroutine that writes the admission,
  or puts it back and writes the reason, in the loop itself.
- After a cycle that admitted nothing, the next begins at least 1 ms later, then 2, 4, … 100 ms, counted from start to start. To
  go through n workloads that do not fit takes about n · 100 ms, and all of them are tried again whenever one has finished.
- With `blockAdmission` the loop blocks, holding the head, until everything admitted is ready.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from seatrial.model.plan import Scalar
from seatrial.model.units import MILLISECOND, format_quantity
from seatrial.sim.goroutines import GoCond, Goroutine, Goroutines
from seatrial.sim.world import Sim
from seatrial.stacks.kueue import quota
from seatrial.stacks.kueue.api_writes import Events, Writer
from seatrial.stacks.kueue.pending import Entry, Pending
from seatrial.stacks.kueue.topology import Topology

SLOW_FIRST, SLOW_MOST = 1 * MILLISECOND, 100 * MILLISECOND  # initialBackoff, maxBackoff
CYCLE = 1 * MILLISECOND  # a snapshot of one queue and the check of one workload; chosen, not measured
WAITING = "waiting for all admitted workloads to be in PodsReady condition"
FLAVOR = "seatrial"


class QuotaScheduler:
    """The loop. `admitted(entry)` and `refused(entry)` are called when the server has the write."""

    def __init__(
        self,
        sim: Sim,
        processes: Goroutines,
        writer: Writer,
        events: Events,
        settings: Mapping[str, Scalar],
        admitted: Callable[[Entry], None],
        refused: Callable[[Entry], None],
    ) -> None:
        self._sim, self._processes, self._writer, self._events = sim, processes, writer, events
        self._settings = settings
        self._admitted, self._refused = admitted, refused
        self._blocks = bool(settings["wait-for-pods-ready"] and settings["block-admission"])
        self._entries: dict[int, Entry] = {}
        self.pending = Pending(settings["strategy"] == "StrictFIFO", sim.stream("kueue"))
        self.topology = Topology(sim) if settings["topology"] else None
        self.quota: dict[str, int] = {}
        self._used: dict[str, int] = {}
        self._held: dict[int, dict[str, int]] = {}  # workloads in Kueue's cache: what they hold
        self._not_ready: set[int] = set()
        self._heads, self._all_ready = GoCond(processes), GoCond(processes)
        sim.when_nodes_change.append(self._resize)
        processes.start(self._loop())

    # called by the controllers

    def _resize(self) -> None:
        """The ClusterQueue's quota follows the nodes."""
        self.quota = quota(self._settings, self._sim.capacity())
        self._move()

    def add(self, entry: Entry) -> None:
        """The workload is queued."""
        self._entries[entry.number] = entry
        self.pending.push(entry.number, entry.key)
        self._heads.wake()

    def updated(self, entry: Entry) -> None:
        """A pending Workload was written."""
        self.pending.updated(entry.number)

    def release(self, entry: Entry) -> None:
        """The workload finished, was evicted or is gone: its quota is free."""
        number = entry.number
        self._hold(number, {})
        self._held.pop(number, None)
        self.set_ready(entry, True)
        if self.topology:
            self.topology.release(number)
        self._move()

    def forget(self, entry: Entry) -> None:
        """The workload was deleted."""
        self.pending.remove(entry.number)
        self._entries.pop(entry.number, None)

    def reclaim(self, entry: Entry) -> None:
        """The quota of its succeeded pods is free."""
        if entry.number in self._held:
            workload = entry.workload
            left = max(workload.pods - entry.reclaimed, 0)
            self._hold(entry.number, {name: amount * left for name, amount in workload.shape.requests.items()})
            self._move()

    def set_ready(self, entry: Entry, ready: bool) -> None:
        """PodsReady changed; with `blockAdmission` the loop may go on."""
        if ready:
            self._not_ready.discard(entry.number)
        elif entry.number in self._held:
            self._not_ready.add(entry.number)
        if not self._not_ready:
            self._all_ready.wake()

    def counts(self) -> tuple[int, ...]:
        """The figures in the status of the queues."""
        return (len(self.pending), len(self._held), *self._used.values())

    def _move(self) -> None:
        if self.pending.move():
            self._heads.wake()

    def _hold(self, number: int, amounts: dict[str, int]) -> None:
        before = self._held.get(number, {})
        for name in {*before, *amounts}:
            self._used[name] = self._used.get(name, 0) - before.get(name, 0) + amounts.get(name, 0)
        self._held[number] = amounts

    # the loop

    def _loop(self) -> Goroutine:
        kernel = self._sim.kernel
        slow = 0
        while True:
            begun, pause = kernel.now, slow
            slow = min(2 * slow, SLOW_MOST)
            while not self.pending.heads:
                yield self._heads.wait()
            entry = self._entries.get(self.pending.pop())
            yield CYCLE
            if entry and not entry.deleted and entry.number not in self._held and not (yield from self._cycle(entry)):
                slow = slow or SLOW_FIRST
            else:
                slow = 0
            rest = begun + pause - kernel.now
            if rest > 0:
                yield rest

    def _cycle(self, entry: Entry) -> Goroutine:
        """Returns whether the workload was admitted."""
        why = self._why_not(entry)
        if why:
            self.pending.put_back(entry.number, entry.key)
            yield from self._say(entry, f"couldn't assign flavors to pod set main: {why}")
            self._events.of(entry)
            return False
        if self._blocks and self._not_ready:
            yield from self._say(entry, WAITING)
            while self._not_ready:
                yield self._all_ready.wait()
        if entry.deleted:
            if self.topology:
                self.topology.release(entry.number)
            return True
        self._hold(entry.number, entry.requests)
        if self._blocks:
            self._not_ready.add(entry.number)
        self._processes.start(self._admit(entry))
        return True

    def _say(self, entry: Entry, message: str) -> Goroutine:
        """A message is written only if it is new."""
        if entry.message != message:
            entry.message = self._sim.said[entry.number] = message
            yield from self._writer.workload()
            self._refused(entry)

    def _admit(self, entry: Entry) -> Goroutine:
        yield from self._writer.workload()
        if entry.deleted:
            self.release(entry)
            return
        entry.message, entry.evicted = "", False
        entry.admitted_at = self._sim.kernel.now
        self._sim.said.pop(entry.number, None)
        self._events.of(entry, 2)  # QuotaReserved, Admitted
        self._admitted(entry)

    # room

    def _why_not(self, entry: Entry) -> str:
        """In Kueue's words (flavorassigner.go, fitsResourceQuota); empty if it fits, and its nodes are then assigned."""
        reasons = [self._lacks(name, amount) for name, amount in sorted(entry.requests.items())]
        why = ", ".join(reason for reason in sorted(reasons) if reason)
        if not why and self.topology:
            why = self.topology.assign(entry.number, entry.workload.shape, entry.workload.pods)
        return why

    def _lacks(self, name: str, amount: int) -> str:
        nominal = self.quota.get(name)
        if not amount:
            return ""
        if nominal is None:
            return f"resource {name} unavailable in ClusterQueue"
        if amount > nominal:
            return (
                f"insufficient quota for {name} in flavor {FLAVOR}, previously considered podsets requests (0) + current "
                f"podset request ({format_quantity(amount, name)}) > maximum capacity ({format_quantity(nominal, name)})"
            )
        more = self._used.get(name, 0) + amount - nominal
        missing = format_quantity(max(more, 0), name)
        return f"insufficient unused quota for {name} in flavor {FLAVOR}, {missing} more needed" if more > 0 else ""
