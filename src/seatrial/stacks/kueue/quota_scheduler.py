"""Kueue's own scheduler: one head per ClusterQueue and cycle, checked against the quotas (and the nodes), admitted by writes
outside the loop.

Facts (Kueue v0.16.1, pkg/scheduler/scheduler.go and pkg/util/wait/backoff.go):
- A cycle pops the head of every queue, takes a snapshot and decides about all of them (admission_cycle.py). Those that fit are
  assumed in memory, and goroutines write the admissions. The others are put back, and their reasons are written in the loop
  itself.
- Victims are evicted in the loop too: one PATCH and two events each, eight at a time. Their quota is free only when their pods
  are gone; until then the preemptor is the head of its queue, cycle after cycle.
- After a cycle that admitted nothing, the next begins at least 1 ms later, then 2, 4, … 100 ms, counted from start to start. To
  go through n workloads of a queue that do not fit takes about n · 100 ms, and all of them are tried again whenever one has
  finished.
- Something freed in a cohort gives everybody in its whole tree another try (pkg/cache/queue/manager.go, requeueWorkloadsCQ).
- With `blockAdmission` the loop blocks, holding the heads, until everything admitted is ready.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from seatrial.model.fleet import FlavorQuota, Fleet, Queue
from seatrial.model.plan import Scalar
from seatrial.model.units import MICROSECOND, MILLISECOND
from seatrial.sim.goroutines import GoCond, Goroutine, Goroutines
from seatrial.sim.world import Sim
from seatrial.stacks.kueue import quota
from seatrial.stacks.kueue.admission_cycle import ADMITTED, PREEMPTS, WAITS, Head, decide
from seatrial.stacks.kueue.api_writes import WorkloadEvents, Writer
from seatrial.stacks.kueue.flavor_nodes import FlavorNodes
from seatrial.stacks.kueue.pending import Entry, Freed, Pending
from seatrial.stacks.kueue.quota_preemption import Victim
from seatrial.stacks.kueue.quota_tree import QuotaClaim, QuotaTree
from seatrial.stacks.kueue.topology import Topology

SLOW_FIRST, SLOW_MOST = 1 * MILLISECOND, 100 * MILLISECOND  # initialBackoff, maxBackoff
CYCLE = 1 * MILLISECOND  # a snapshot of one queue and the check of one workload; chosen, not measured
# What each further head adds, snapshot included: Kueue's own cycle without a server, 20 workloads admitted in every queue, took
# 31 µs per head with 30 queues and 50 µs with 120, the best of three on two busy cores.
PER_HEAD = 50 * MICROSECOND
PREEMPTIONS_TOGETHER = 8  # parallelPreemptions
WAITING = "waiting for all admitted workloads to be in PodsReady condition"
ONLY = "seatrial"  # the queue and the flavor of a scenario without queues


class QuotaScheduler:
    """The loop. `admitted(entry)`, `refused(entry)` and `evicted(entry, by, reason)` are called when the server has the write."""

    def __init__(
        self,
        sim: Sim,
        processes: Goroutines,
        writer: Writer,
        events: WorkloadEvents,
        settings: Mapping[str, Scalar],
        admitted: Callable[[Entry], None],
        refused: Callable[[Entry], None],
        evicted: Callable[[Entry, QuotaClaim, str], None],
    ) -> None:
        self._sim, self._processes, self._writer, self._events = sim, processes, writer, events
        self._settings = settings
        self._admitted, self._refused, self._evicted = admitted, refused, evicted
        self._blocks = bool(settings["wait-for-pods-ready"] and settings["block-admission"])
        self._entries: dict[int, Entry] = {}
        self.topology = Topology(sim) if settings["topology"] else None
        self._follows_nodes = not sim.fleet.queues
        self.tree = QuotaTree(_only_queue({}) if self._follows_nodes else sim.fleet)
        self.nodes = FlavorNodes(sim)
        strict = settings["strategy"] == "StrictFIFO"
        random = sim.stream("kueue")
        self._freed = {queue.root.name: Freed() for queue in self.tree.queues.values()}
        self._aside: dict[str, dict[str, Pending]] = {
            root: {} for root in self._freed
        }  # queues with workloads set aside
        self._pending = {
            name: Pending(strict, random, self._freed[queue.root.name]) for name, queue in self.tree.queues.items()
        }
        self._shuffle = sim.stream("kueue-heads").shuffle
        self._with_heads: dict[str, None] = {}  # queues that have something to pop
        self._held: dict[int, QuotaClaim] = {}  # workloads in Kueue's cache
        self._not_ready: set[int] = set()
        self._heads, self._all_ready = GoCond(processes), GoCond(processes)
        if self._follows_nodes:
            sim.when_nodes_change.append(self._resize)
        processes.start(self._loop())

    # called by the controllers

    def claim(
        self, number: int, priority: int, queue: str, requests: Mapping[str, int], second: int, uid: float
    ) -> QuotaClaim:
        """A new workload."""
        return QuotaClaim(number, self.tree.queues[queue or ONLY], priority, second, requests, uid)

    def _resize(self) -> None:
        """Without queues in the scenario, the quota of the only ClusterQueue follows the nodes."""
        self.tree = QuotaTree(_only_queue(quota(self._settings, self._sim.capacity())))
        for claim in self._held.values():
            self._price(claim, claim.flavors)
            self.tree.queues[ONLY].hold(claim)
        self._move(ONLY)

    def add(self, entry: Entry) -> None:
        """The workload is queued."""
        name = entry.claim.queue.name
        self._entries[entry.number] = entry
        self._pending[name].push(entry.number, entry.key)
        self._with_heads[name] = None
        self._heads.wake()

    def updated(self, entry: Entry) -> None:
        """A pending Workload was written. Kueue makes a new record of it, which does not know the flavors tried."""
        entry.claim.tried = {}
        self._pending[entry.claim.queue.name].updated(entry.number)

    def left(self, entry: Entry) -> None:
        """The admission of the workload was seen: it is in no queue any more."""
        self._pending[entry.claim.queue.name].remove(entry.number)

    def release(self, entry: Entry) -> None:
        """The workload finished, was evicted or is gone: its quota is free."""
        claim = self._held.pop(entry.number, None)
        if claim is not None:
            claim.queue.drop(claim)
        entry.claim.evicted = False
        entry.claim.queue.generation += 1
        self.set_ready(entry, True)
        if self.topology:
            self.topology.release(entry.number)
        self._move(entry.claim.queue.name)

    def finish(self, entry: Entry) -> None:
        """The workload is over, wherever it is: its Job may complete after an eviction, before it was suspended."""
        self._pending[entry.claim.queue.name].remove(entry.number)
        self.release(entry)

    def requeue(self, entry: Entry) -> None:
        """The workload was evicted and has no quota any more: it waits again at once."""
        self.release(entry)
        self.add(entry)

    def forget(self, entry: Entry) -> None:
        """The workload was deleted."""
        self._pending[entry.claim.queue.name].remove(entry.number)
        self._entries.pop(entry.number, None)

    def reclaim(self, entry: Entry) -> None:
        """The quota of its succeeded pods is free."""
        claim, workload = entry.claim, entry.workload
        left = max(workload.pods - entry.reclaimed, 0)
        claim.requests = {name: amount * left for name, amount in workload.shape.requests.items()}
        if entry.number in self._held:
            claim.queue.drop(claim)
            self._price(claim, claim.flavors)
            claim.queue.hold(claim)
            self._move(claim.queue.name)

    def set_ready(self, entry: Entry, ready: bool) -> None:
        """PodsReady changed; with `blockAdmission` the loop may go on."""
        if ready:
            self._not_ready.discard(entry.number)
        elif entry.number in self._held:
            self._not_ready.add(entry.number)
        if not self._not_ready:
            self._all_ready.wake()

    def counts(self, name: str) -> tuple[int, ...]:
        """The figures in the status of a queue."""
        queue = self.tree.queues[name or ONLY]
        return (len(self._pending[queue.name]), len(queue.workloads), *queue.usage)

    def _move(self, name: str) -> None:
        """Retries all workloads that wait in the queue's tree, after quota was freed."""
        root = self.tree.queues[name].root.name
        self._freed[root].times += 1
        aside = self._aside[root]
        if aside:
            for other, pending in aside.items():
                pending.move()
                self._with_heads[other] = None
            aside.clear()
            self._heads.wake()

    def _price(self, claim: QuotaClaim, flavors: Mapping[str, str]) -> None:
        """The amounts that the workload holds with these flavors. A resource that no node has any more is in no quota."""
        number, requests = self.tree.number, claim.requests
        claim.queue = self.tree.queues[claim.queue.name]
        claim.flavors = dict(flavors)
        claim.usage = {
            number[flavor, name]: requests[name] for name, flavor in flavors.items() if (flavor, name) in number
        }

    # the loop

    def _loop(self) -> Goroutine:
        kernel = self._sim.kernel
        slow = 0
        while True:
            begun, pause = kernel.now, slow
            slow = min(2 * slow, SLOW_MOST)
            while not (entries := self._pop()):
                yield self._heads.wait()
            heads = [] if self._follows_nodes else self._decide(entries)
            yield CYCLE + PER_HEAD * (len(entries) - 1)
            if self._follows_nodes:  # figures without queues are published: there the check is at the end of a cycle
                heads = self._decide(entries)
            if heads and not (yield from self._play(heads)):
                slow = slow or SLOW_FIRST
            else:
                slow = 0
            rest = begun + pause - kernel.now
            if rest > 0:
                yield rest

    def _pop(self) -> list[Entry]:
        """The head of every queue, in the order of a Go map, which is none."""
        numbers = []
        for name in tuple(self._with_heads):
            pending = self._pending[name]
            if pending.heads:
                numbers.append(pending.pop())
            if not pending.heads:
                del self._with_heads[name]
        if len(numbers) > 1:
            self._shuffle(numbers)
        return [self._entries[number] for number in numbers]

    def _decide(self, entries: Sequence[Entry]) -> list[Head]:
        claims = [entry.claim for entry in entries if not entry.deleted and entry.number not in self._held]
        for claim in claims:
            claim.queue = self.tree.queues[claim.queue.name]
        return decide(self.tree, claims, self.nodes.closed)

    def _play(self, heads: Sequence[Head]) -> Goroutine:
        """Does what was decided; returns whether a workload was admitted."""
        assumed: set[int] = set()
        for head in heads:
            if head.outcome == PREEMPTS:
                yield from self._preempt(head)
            elif head.outcome == ADMITTED and self._has_nodes(head):
                yield from self._wait_until_ready(head)
                self._assume(head)
                assumed.add(head.claim.number)
        for head in heads:
            if head.claim.number not in assumed:
                yield from self._put_back(head)
        return bool(assumed)

    def _has_nodes(self, head: Head) -> bool:
        if self.topology:
            shape, pods = (
                self._entries[head.claim.number].workload.shape,
                self._entries[head.claim.number].workload.pods,
            )
            if why := self.topology.assign(head.claim.number, shape, pods):
                head.outcome, head.message = WAITS, f"couldn't assign flavors to pod set main: {why}"
                return False
        return True

    def _put_back(self, head: Head) -> Goroutine:
        """The message is written only if it is new; the event is sent each time."""
        entry = self._entries.get(head.claim.number)
        if entry is None:
            return  # deleted meanwhile
        pending, name = self._pending[head.claim.queue.name], head.claim.queue.name
        pending.put_back(entry.number, entry.key, head.is_requeued_at_once, head.outcome == PREEMPTS)
        if pending.heads:
            self._with_heads[name] = None
        if pending.is_aside:
            self._aside[head.claim.queue.root.name][name] = pending
        yield from self._say(entry, head.message)
        self._events.of(entry)

    def _say(self, entry: Entry, message: str) -> Goroutine:
        if entry.message != message:
            entry.message = self._sim.said[entry.number] = message
            yield from self._writer.workload()
            self._refused(entry)

    def _wait_until_ready(self, head: Head) -> Goroutine:
        if self._blocks and self._not_ready:
            yield from self._say(self._entries[head.claim.number], WAITING)
            while self._not_ready:
                yield self._all_ready.wait()

    def _assume(self, head: Head) -> None:
        entry = self._entries.get(head.claim.number)
        if entry is None or entry.deleted:
            if self.topology:
                self.topology.release(head.claim.number)
            return
        claim = entry.claim
        self._price(claim, head.assignment.flavors)
        claim.reserved = self._sim.kernel.now // (1000 * MILLISECOND)
        claim.queue.hold(claim)
        self._held[entry.number] = claim
        if self._blocks:
            self._not_ready.add(entry.number)
        self._processes.start(self._admit(entry))

    def _admit(self, entry: Entry) -> Goroutine:
        yield from self._writer.workload()
        if entry.deleted:
            self.release(entry)
            return
        if entry.number not in self._held or entry.claim.evicted:
            return  # evicted before this was written
        entry.message, entry.evicted = "", False
        entry.admitted_at = self._sim.kernel.now
        self._sim.said.pop(entry.number, None)
        self._events.of(entry, 2)  # QuotaReserved, Admitted
        self._admitted(entry)

    def _preempt(self, head: Head) -> Goroutine:
        """Marks the victims as evicted; those that are already cost nothing."""
        victims = [victim for victim in head.victims if not victim.claim.evicted]
        for first in range(0, len(victims), PREEMPTIONS_TOGETHER):
            some = victims[first : first + PREEMPTIONS_TOGETHER]
            yield from self._writer.workloads(len(some))
            for victim in some:
                self._mark(victim, head.claim)

    def _mark(self, victim: Victim, by: QuotaClaim) -> None:
        entry = self._entries.get(victim.claim.number)
        if entry is None or entry.finished or entry.number not in self._held:
            return  # over meanwhile; a Job that is complete is evicted all the same until its Workload is finished
        victim.claim.evicted = True
        self._events.of(entry, 2)  # EvictedDueToPreempted, Preempted
        self._evicted(entry, by, victim.reason)


def _only_queue(amounts: Mapping[str, int]) -> Fleet:
    return Fleet((Queue(ONLY, (FlavorQuota(ONLY, amounts),)),))
