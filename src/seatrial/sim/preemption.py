"""DefaultPreemption: a pod that fits nowhere evicts pods of a lower priority from one node, and is nominated to it.

Facts (kube-scheduler 1.36.3, pkg/scheduler/framework; gates at their defaults):
- Candidates are nodes that an eviction can help, those that failed for want of resources (preemption/preemption.go,
  findCandidates). The search starts at a random one and ends after 10 % of them, 100 at least (plugins/defaultpreemption,
  calculateNumCandidates).
- On a node, all pods of a lower priority are removed; then as many as possible are kept, those of the highest priority first, of
  equals the one that started first (SelectVictimsOnNode; util.MoreImportantPod). Start times have whole seconds.
- The node whose most important victim has the lowest priority wins; then the lowest sum of priorities, the fewest victims, the
  latest start of its most important victims, chance (pickOneNodeForPreemption). There are no PodDisruptionBudgets here.
- The pod's nominatedNodeName is written with its condition, and the loop waits for that. Victims get a condition, then a DELETE,
  in a goroutine beside the loop: all but the last in parallel, then the last (preemption/executor.go, prepareCandidateAsync;
  SchedulerAsyncPreemption is on since 1.33). Until then the pod is not retried (PreEnqueue). Pods of a lower priority that are
  nominated to the node lose that.
- A victim that waits in permit is not deleted but rejected (`PreemptPod`).
- A nominated pod tries its node first (schedule_one.go, evaluateNominatedNode).
- While a victim on its node is still terminating, a nominated pod evicts nobody (PodEligibleToPreemptOthers).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from seatrial.model.plan import Amounts, PodShape
from seatrial.model.units import MICROSECOND, SECOND
from seatrial.sim.apiserver import WRITE, ApiClient, ApiServer
from seatrial.sim.kernel import Kernel
from seatrial.sim.nodes import Nodes
from seatrial.sim.pods import ASSUMED, PENDING, RUNNING, Pods
from seatrial.sim.queue import SchedulingQueue

CANDIDATES_AT_LEAST, CANDIDATES_PERCENT = 100, 10  # minCandidateNodesAbsolute, minCandidateNodesPercentage
PRIORITY_OFFSET = 1 << 31  # added to each priority before they are summed, so that none is negative
# What a dry run takes per node, on two cores: kube-scheduler on `local` spent 767 µs per successful PostFilter (80 of them, nodes
# with one pod each), and a search looks at 127 nodes there.
DRY_RUN = 6 * MICROSECOND
MESSAGE = "default-scheduler: preempting to accommodate a higher priority pod"

_Rank = tuple[int, int, int, int]  # of a candidate: the smallest wins


class PreemptionPlan(NamedTuple):
    """The result of preemption for a pod: a node and its victims, or why there is none."""

    node: int  # −1: none
    victims: tuple[int, ...]
    looked: int  # nodes of the dry run
    said: str  # for the pod's condition
    keeps: bool = False  # the pod's nomination stays as it is


class VictimSearch:
    """Searches the victims of a preemption among the pods on the nodes. Pods on nodes are counted from the first search on."""

    def __init__(self, kernel: Kernel, nodes: Nodes, pods: Pods, random: Random) -> None:
        self._kernel, self._nodes, self._pods, self._random = kernel, nodes, pods, random
        self._on: list[dict[int, None]] = []  # node → pods that hold room there
        self.counts = False
        self._versions: list[int] = []  # per node
        self._found: dict[
            tuple[int, int], tuple[int, _Rank | None, tuple[int, ...]]
        ] = {}  # (shape, node) → its candidate
        self._helped: dict[
            int, tuple[int, list[int]]
        ] = {}  # shape → layout of the nodes, those that an eviction can help
        self._futile: dict[
            int, tuple[int, PreemptionPlan]
        ] = {}  # shape → state of the nodes in which nothing was found
        self.terminating: set[int] = set()  # deleted, not gone

    def placed(self, pod: int, node: int) -> None:
        """The pod holds room on the node."""
        if node >= len(self._on):
            self._count()
        self._on[node][pod] = None
        self._versions[node] += 1

    def left(self, pod: int, node: int) -> None:
        """The pod holds room on the node no longer."""
        self._on[node].pop(pod, None)
        self._versions[node] += 1
        self.terminating.discard(pod)

    def _count(self) -> None:
        """Brings the table of pods per node up to date; the first call makes it."""
        for _ in range(len(self._nodes) - len(self._on)):
            self._on.append({})
            self._versions.append(0)
        if not self.counts:
            self.counts = True
            for pod, state in enumerate(self._pods.state):
                if ASSUMED <= state <= RUNNING:
                    self._on[self._pods.node[pod]][pod] = None

    def plan(self, pod: int, only: int = -1) -> PreemptionPlan:
        """The best node, and whom to evict from it. `only`: the pod may go to this node alone."""
        nodes, shape = self._nodes, self._pods.shape[pod]
        self._count()
        nominated = nodes.nominations.get(pod, -1)
        if nominated >= 0 and any(one in self.terminating for one in self._on[nominated]):
            return PreemptionPlan(-1, (), 0, "a victim is terminating", keeps=True)
        anywhere = nominated < 0 and only < 0
        known = self._futile.get(id(shape)) if anywhere else None
        if known is not None and known[0] == nodes.changes:
            return known[1]
        made = self._best(pod, shape, self._that_help(shape) if only < 0 else [only])
        if anywhere and made.node < 0:
            self._futile[id(shape)] = (nodes.changes, made)
        return made

    def _that_help(self, shape: PodShape) -> list[int]:
        nodes = self._nodes
        known = self._helped.get(id(shape))
        if known is None or known[0] != nodes.layouts:
            found = [node for node in range(len(nodes)) if nodes.could_take(node, shape)]
            known = self._helped[id(shape)] = (nodes.layouts, found)
        return known[1]

    def _best(self, pod: int, shape: PodShape, among: list[int]) -> PreemptionPlan:
        count = len(among)
        wanted = min(max(count * CANDIDATES_PERCENT // 100, CANDIDATES_AT_LEAST), count)
        offset = int(self._random.random() * count)
        best: list[tuple[int, tuple[int, ...]]] = []
        rank: _Rank | None = None
        looked = found = without = 0
        for place in range(count):
            node = among[(offset + place) % count]
            looked += 1
            its_rank, victims = self._candidate(pod, shape, node)
            if its_rank is None:
                without += not victims
                continue
            found += 1
            if rank is None or its_rank < rank:
                rank, best = its_rank, []
            if its_rank == rank:
                best.append((node, victims))
            if found == wanted:
                break
        if not best:
            # The condition has both numbers, and is written again when they change.
            return PreemptionPlan(-1, (), looked, f"no room; {without} of {count} nodes without victims")
        node, victims = best[int(self._random.random() * len(best)) if len(best) > 1 else 0]
        return PreemptionPlan(node, victims, looked, "no room")

    def _candidate(self, pod: int, shape: PodShape, node: int) -> tuple[_Rank | None, tuple[int, ...]]:
        """Rank and victims of a node. No rank: the pod does not fit even without the pods named; no victims: there are none."""
        key, version = (id(shape), node), self._versions[node]
        mine = self._nodes.nominations.get(pod) == node
        known = None if mine else self._found.get(key)
        if known is not None and known[0] == version:
            return known[1], known[2]
        pods, now = self._pods, self._kernel.now
        lower = [one for one in self._on[node] if pods.shape[one].priority < shape.priority]
        # Pods that have not started count as started now, so their order changes with time.
        lasts = not mine and all(pods.started[one] for one in lower)
        start = {one: (pods.started[one] or now) // SECOND for one in lower}
        lower.sort(key=lambda one: (-pods.shape[one].priority, start[one], one))
        victims = self._without(pod, shape, node, lower)
        rank = None
        if victims:
            priorities = [pods.shape[one].priority for one in victims]
            earliest = min(start[one] for one, of in zip(victims, priorities, strict=True) if of == priorities[0])
            rank = (priorities[0], sum(priorities) + PRIORITY_OFFSET * len(victims), len(victims), -earliest)
        elif lower:
            victims = lower
        if lasts:
            self._found[key] = (version, rank, tuple(victims))
        return rank, tuple(victims)

    def _without(self, pod: int, shape: PodShape, node: int, lower: list[int]) -> list[int]:
        """The pods of `lower`, the most important first, that must go for the pod to fit; none if it does not fit without all."""
        left = self._nodes.left(node, shape, pod)
        requests = [self._pods.shape[one].requests for one in lower]
        free = [free + sum(_of(asked, name) for asked in requests) for name, free, _ in left]
        if any(amount > there for (_, _, amount), there in zip(left, free, strict=True)):
            return []
        victims = []
        for one, asked in zip(lower, requests, strict=True):
            after = [there - _of(asked, name) for (name, _, _), there in zip(left, free, strict=True)]
            if all(there >= amount for (_, _, amount), there in zip(left, after, strict=True)):
                free = after
            else:
                victims.append(one)
        return victims

    def nominated(self, node: int) -> None:
        """Another pod is nominated to the node, or no longer."""
        if node < len(self._versions):
            self._versions[node] += 1


def _of(requests: Amounts, name: str) -> int:
    return 1 if name == "pods" else requests.get(name, 0)


class _Eviction(NamedTuple):
    """One decision on its way."""

    by: int  # the preemptor
    rest: list[int]  # victims to delete, the last one last
    left: list[int]  # how many of those in parallel are not deleted: one item
    hit: set[int]  # workloads that were told


class PreemptionExecutor:
    """Carries plans out. `delete(victim)` removes a pod that the server has marked; `evicted(job, by)` is told once per decision
    and workload; `reject(pod)` sends a pod that waits in permit back to the queue, and returns whether it did."""

    def __init__(self, search: VictimSearch, api: ApiServer, client: ApiClient, nodes: Nodes, pods: Pods) -> None:
        self.search = search
        self._api, self._client, self._nodes, self._pods = api, client, nodes, pods
        self.queue: SchedulingQueue
        self.reject: Callable[[int], bool] = lambda _: False
        self.delete: Callable[[int], None] = lambda _: None
        self.evicted: Callable[[int, int], None] = lambda _job, _by: None
        self.done: Callable[[int], None] = lambda _: None  # called with the preemptor: its last victim is deleted

    def nominate(self, pod: int, node: int) -> bool:
        """Sets the pod's nomination (−1: none); returns whether that changes it."""
        before = self._nodes.nominations.get(pod, -1)
        if before == node:
            return False
        if node >= 0:
            self._nodes.nominate(pod, node, self._pods.shape[pod])
            self.search.nominated(node)
        else:
            self._nodes.withdraw(pod)
        if before >= 0:
            self.search.nominated(before)
        return True

    def carry_out(self, pod: int, plan: PreemptionPlan) -> bool:
        """Begins to evict the victims; returns whether there is anything to wait for."""
        priority = self._pods.shape[pod].priority
        for other, shape in list(self._nodes.nominated_to(plan.node).items()):
            if shape.priority < priority:
                self._api.call(self._client, WRITE, self._withdrawn, (other, plan.node))
        victims = [one for one in plan.victims if one not in self.search.terminating]
        if not victims:
            return False
        self.queue.held.add(pod)
        eviction = _Eviction(pod, victims, [len(victims) - 1], set())
        for victim in victims[:-1]:
            self._begin(victim, eviction)
        if len(victims) == 1:
            self._begin(victims[-1], eviction)
        return True

    def _withdrawn(self, what: tuple[int, int]) -> None:
        pod, node = what
        if self._nodes.nominations.get(pod) == node:
            self.nominate(pod, -1)

    def _begin(self, victim: int, eviction: _Eviction) -> None:
        """The condition DisruptionTarget, then the DELETE."""
        if self.reject(victim):
            self._gone((victim, eviction))
        else:
            self._api.call(self._client, WRITE, self._marked, (victim, eviction))

    def _marked(self, what: tuple[int, _Eviction]) -> None:
        self._api.call(self._client, WRITE, self._deleted, what)

    def _deleted(self, what: tuple[int, _Eviction]) -> None:
        victim, eviction = what
        by = eviction.by
        alive = ASSUMED <= self._pods.state[victim] <= RUNNING and victim not in self.search.terminating
        if victim == eviction.rest[-1]:
            self.queue.held.discard(by)
            if not alive and self._pods.state[by] == PENDING:
                self.queue.activate((by,))  # the victim ended by itself: no event follows
        if alive:
            self.search.terminating.add(victim)
            job = self._pods.job[victim]
            if job >= 0 and job not in eviction.hit:
                eviction.hit.add(job)
                self.evicted(job, self._pods.job[by])
            self.delete(victim)
        self._gone(what)

    def _gone(self, what: tuple[int, _Eviction]) -> None:
        victim, eviction = what
        if victim == eviction.rest[-1]:
            self.queue.held.discard(eviction.by)
            self.done(eviction.by)
            return
        eviction.left[0] -= 1
        if not eviction.left[0]:
            self._begin(eviction.rest[-1], eviction)
