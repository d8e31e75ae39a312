"""A session of Volcano: the actions `enqueue`, `allocate` and `backfill` on a snapshot of groups, queues and nodes. Those that
evict are in session_evictions.py.

Facts (v1.10.0, pkg/scheduler):
- Groups are ordered by the plugins in the order of their tiers, then by creation (whole seconds), then by name (JobOrderFn,
  framework/session_plugins.go:521): priority, gang (those that are ready come last), drf (the smallest share first).
- `enqueue` offers every pending group once, queue after queue (actions/enqueue/enqueue.go:82). Plugins of a tier vote, the first
  that is against decides (JobEnqueueable, framework/session_plugins.go:437).
- `allocate` takes the first queue and its first group, places pods until the group is ready, then looks at the order of queues
  again (actions/allocate/allocate.go:129). A group that is ready gives way after each pod. The statement of one that is not
  ready is discarded, unless pods that are being deleted will make room (:297-308): then what it has placed stays placed for the
  rest of the session, and none of it is bound.
- `backfill` places pods that request nothing, wherever they may go (actions/backfill/backfill.go:53).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from seatrial.model.units import MICROSECOND
from seatrial.stacks.volcano.deserved_shares import SessionShares
from seatrial.stacks.volcano.group_cache import Line
from seatrial.stacks.volcano.pod_groups import INQUEUE, PENDING, Amount, GroupState
from seatrial.stacks.volcano.session_nodes import SessionNodes

# What a session takes from a core: per group of the snapshot (a goroutine clones each, cache/cache.go:1330), and per node that is
# looked at for a pod (predicates and scores run on 16 workers). Orders of magnitude: not from a source, and not measured.
PER_GROUP, PER_NODE = 20 * MICROSECOND, 10 * MICROSECOND


class Placed(NamedTuple):
    """One step of a statement."""

    group: GroupState
    pod: int
    node: int
    now: bool  # allocated; else pipelined


class Bound(NamedTuple):
    """A pod to bind, `after` so much of the session."""

    pod: int
    node: int
    after: int


class VolcanoSession:
    """The state of one session, and its first three actions. `groups` are those that are in or have something, `lines` the others;
    `tiers` are the plugins by their tiers."""

    def __init__(
        self,
        groups: Sequence[GroupState],
        nodes: SessionNodes,
        shares: SessionShares,
        total: Amount,
        tiers: Sequence[Sequence[str]],
        actions: Sequence[str],
        lines: Mapping[str, Mapping[Amount, Line]],
        cloned: int,
    ) -> None:
        self._lines, self._cloned = lines, cloned
        self.let_in: list[GroupState] = []  # from the lines
        self.groups, self.nodes, self.shares, self.total = list(groups), nodes, shares, total
        self.tiers, self.actions = tiers, actions
        self.has_gangs = any("gang" in tier for tier in tiers)
        self.bound: list[Bound] = []
        self._node_of: Callable[[int], int] = lambda _: -1

    def knows_nodes(self, node_of: Callable[[int], int]) -> None:
        """Sets the lookup of nodes for pods placed before this session."""
        self._node_of = node_of

    @property
    def spent(self) -> int:
        """How long the session has taken so far (ns)."""
        return PER_GROUP * self._cloned + PER_NODE * self.nodes.looked

    # plugins

    def order(self, group: GroupState) -> tuple[Any, ...]:
        """The place of a group in its queue (smaller first). That of a group that has nothing is always the same."""
        if group.has_nothing():
            return group.rank
        key: list[Any] = []
        for tier in self.tiers:
            for plugin in tier:
                if plugin == "priority":
                    key.append(-group.shape.priority)
                elif plugin == "gang":
                    key.append(group.is_ready())
                elif plugin == "drf":
                    key.append(self.drf_share(group))
        return (*key, group.born, group.name)

    def drf_share(self, group: GroupState) -> float:
        """The largest share of the cluster's resources that the group's pods have."""
        return max((have / most for have, most in zip(group.total(), self.total, strict=True) if most), default=0.0)

    def ready(self, group: GroupState) -> bool:
        """JobReady: its pods may be bound."""
        return group.is_ready() or not self.has_gangs

    def pipelined(self, group: GroupState) -> bool:
        """JobPipelined: it would be ready once what is released is free."""
        return group.is_pipelined() or not self.has_gangs

    def valid(self, group: GroupState) -> bool:
        """JobValid."""
        return group.valid() or not self.has_gangs

    # actions

    def enqueue(self) -> None:
        """Lets pending groups in. Only what is in already changes meanwhile, so a group is refused if one like it was."""
        others: dict[str, list[GroupState]] = {}  # pending, and yet they have something
        for group in self.groups:
            if group.phase == PENDING and not group.over:
                others.setdefault(group.queue, []).append(group)
        for queue in sorted({*others, *self._lines_in_use()}, key=self.shares.order):
            self._offer(self._lines.get(queue, {}), others.get(queue, ()))

    def _lines_in_use(self) -> list[str]:
        return [queue for queue, lines in self._lines.items() if any(lines.values())]

    def _offer(self, lines: Mapping[Amount, Line], others: Iterable[GroupState]) -> None:
        """Groups of one queue, in order."""
        taken = dict.fromkeys(lines, 0)  # line → how many of it are let in
        refused: set[Amount] = set()
        turns = [(self.order(group), group, False) for group in others]
        turns += [(*line[0], True) for line in lines.values() if line]
        heapify(turns)
        while turns:
            _, group, is_first = heappop(turns)
            minimum = group.minimum
            if minimum not in refused and self._lets_in(group):
                self.shares.is_in(group)
                group.phase = INQUEUE
            else:
                refused.add(minimum)
                continue
            if is_first:
                self.let_in.append(group)
                self.groups.append(group)
                line, at = lines[minimum], taken[minimum] + 1
                taken[minimum] = at
                if at < len(line):
                    heappush(turns, (*line[at], True))
        for minimum, count in taken.items():
            del lines[minimum][:count]

    def _by_queue(self, groups: Iterable[GroupState]) -> list[tuple[Any, GroupState]]:
        return sorted(((self.shares.order(one.queue), self.order(one)), one) for one in groups)

    def _lets_in(self, group: GroupState) -> bool:
        for tier in self.tiers:
            votes = False
            for plugin in tier:
                vote = self.shares.lets_in(group, plugin)
                if vote is False:
                    return False
                votes = votes or vote is True
            if votes:
                return True
        return True

    def allocate(self) -> None:
        """Places pods of groups that are in, queue by queue."""
        jobs: dict[str, list[tuple[Any, GroupState]]] = {}
        for group in self.eligible():
            if group.pending and not group.best_effort:
                heappush(jobs.setdefault(group.queue, []), (self.order(group), group))
        queues = [(self.shares.order(queue), queue) for queue in jobs]
        queues.sort()
        tasks: dict[int, deque[int]] = {}
        while queues:
            _, queue = heappop(queues)
            if self.shares.overused(queue) or not jobs[queue]:
                continue
            _, group = heappop(jobs[queue])
            if group.number not in tasks:
                tasks[group.number] = deque(group.waiting())
            if tasks[group.number]:
                self._place(group, tasks[group.number], jobs[queue])
            heappush(queues, (self.shares.order(queue), queue))

    def eligible(self) -> list[GroupState]:
        """Groups that actions other than `enqueue` look at; without that action, none is held back."""
        found = []
        for group in self.groups:
            if group.over:
                continue
            if group.phase == PENDING:
                if "enqueue" in self.actions:
                    continue
                group.phase = INQUEUE
            if self.valid(group):
                found.append(group)
        return found

    def _place(self, group: GroupState, left: deque[int], jobs: list[tuple[Any, GroupState]]) -> None:
        steps: list[Placed] = []
        beside = self.beside(group)
        while left:
            pod = left.popleft()
            if not self.shares.allocatable(group.queue, group.asked):
                left.clear()  # the others are no smaller
                break
            place = self.nodes.pick(group.shape, beside)
            if place.node < 0:
                self._fits_nowhere(group, pod, left)
                break
            steps.append(self.step(group, pod, place.node, place.now))
            beside[place.node] = beside.get(place.node, 0) + 1
            if left and self.ready(group):
                heappush(jobs, (self.order(group), group))
                break
        if self.ready(group):
            self._commit(steps)
        elif not self.pipelined(group):
            self.discard(steps)

    def _fits_nowhere(self, group: GroupState, pod: int, left: deque[int]) -> None:
        """The others are tried too, unless the group needs all of them (NeedContinueAllocating, api/job_info.go:847)."""
        group.failed[pod] = why = self.nodes.why(group.shape)
        if group.least != group.pods():
            for other in left:
                group.failed[other] = why
            self.nodes.looked += len(self.nodes.idle[0]) * len(left)
            left.clear()

    def beside(self, group: GroupState) -> dict[int, int]:
        """Pods of the group per node, if it prefers them apart."""
        count: dict[int, int] = {}
        if group.shape.spread:
            for node in (*map(self._node_of, group.held), *group.placed.values(), *group.pipelined.values()):
                count[node] = count.get(node, 0) + 1
        return count

    def step(self, group: GroupState, pod: int, node: int, now: bool) -> Placed:
        """Allocates or pipelines a pod in a statement."""
        if now:
            group.placed[pod] = node
            self.nodes.take(node, group.shape)
        else:
            group.pipelined[pod] = node
            self.nodes.pipeline(node, group.shape)
        self.shares.changes(group.queue, group.asked)
        return Placed(group, pod, node, now)

    def _commit(self, steps: Sequence[Placed]) -> None:
        after = self.spent
        self.bound += [Bound(pod, node, after) for _, pod, node, now in steps if now]

    def discard(self, steps: Sequence[Placed]) -> None:
        """Takes the steps of a statement back."""
        for group, pod, node, now in reversed(steps):
            if now:
                del group.placed[pod]
                self.nodes.put_back(node, group.shape)
            else:
                del group.pipelined[pod]
                self.nodes.release(node, group.shape)
            group.discarded[pod] = node
            self.shares.changes(group.queue, group.asked, -1)

    def backfill(self) -> None:
        """Places pods that request nothing; ends at the first that no node takes."""
        waiting = [group for group in self.eligible() if group.best_effort and group.waiting()]
        for _, group in self._by_queue(waiting):
            for pod in list(group.waiting()):
                place = self.nodes.pick(group.shape, self.beside(group))
                if place.node < 0 or not place.now:
                    group.failed[pod] = self.nodes.why(group.shape)
                    return
                step = self.step(group, pod, place.node, now=True)
                if self.ready(group):
                    self._commit([step])
