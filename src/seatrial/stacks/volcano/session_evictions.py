"""The actions of a session that evict: `reclaim` for a queue that has less than it deserves, `preempt` for a higher priority.

Facts (v1.10.0, pkg/scheduler):
- `reclaim` (actions/reclaim/reclaim.go:40) takes the queue with the smallest share, its first group, one pod of it, and tries node
  after node. A queue is out for the session as soon as it may not have or take such a pod, or its first group has no pods left.
- Victims are running pods of other queues that are `reclaimable`, as far as the plugins agree: tier by tier, and the first tier
  that names any decides (Reclaimable, framework/session_plugins.go:107). So `gang`, which gives pods beyond the minimum of a
  group, decides before `capacity` sees the quotas. Evictions take effect at once, and stay if they were not enough (:171).
- `preempt` (actions/preempt/preempt.go:45) does the same within a queue, for groups that lack pods (of their minimum, with `gang`),
  in a statement that is discarded if the group does not get all that it lacks. As shipped, `gang` and `drf` have no say.
- Of victims the last queue, the last group in the order of groups comes first (BuildVictimsPriorityQueue, :794).
Left out: preemption among pods of one group, which all have the same priority.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

from seatrial.sim.pods import BOUND, RUNNING
from seatrial.stacks.volcano.pod_groups import GroupState, plus, within
from seatrial.stacks.volcano.session_actions import Placed, VolcanoSession

Victim = tuple[GroupState, int]  # a pod, and its group


class VolcanoEviction(NamedTuple):
    """A pod that loses its node to a pod of the group `by`, by this action."""

    group: GroupState
    pod: int
    node: int
    by: int
    action: str


class EvictingSession(VolcanoSession):
    """A session with all its actions. `evicted`: what it carries out."""

    evicted: list[VolcanoEviction]
    _state_of: Callable[[int], int]
    _on_nodes: dict[int, list[Victim]]

    def knows_pods(self, node_of: Callable[[int], int], state_of: Callable[[int], int]) -> None:
        """Sets the lookups of nodes and states for pods placed before this session."""
        self.knows_nodes(node_of)
        self.evicted = []
        self._state_of = state_of
        self._on_nodes = {}

    def _pods_on(self, node: int) -> list[Victim]:
        """Pods with their groups that are bound to the node and not being deleted."""
        if not self._on_nodes:
            for group in self.groups:
                for pod in () if group.over else group.held:
                    self._on_nodes.setdefault(self._node_of(pod), []).append((group, pod))
        return [one for one in self._on_nodes.get(node, ()) if one[1] in one[0].held]

    # reclaim

    def reclaim(self) -> None:
        """Reclaims for queues below what they deserve."""
        jobs: dict[str, list[tuple[Any, GroupState]]] = {}
        tasks: dict[int, deque[int]] = {}
        queues = {group.queue for group in self.eligible()}
        for group in self.eligible():
            if group.waiting():
                heappush(jobs.setdefault(group.queue, []), (self.order(group), group))
                tasks[group.number] = deque(group.waiting())
        turns = sorted((self.shares.order(queue), queue) for queue in queues)
        failed: dict[tuple[str, int], tuple[int, int]] = {}  # queue and shape → the state in which no node helped
        while turns:
            _, queue = heappop(turns)
            if self.shares.overused(queue) or not jobs.get(queue):
                continue
            _, group = heappop(jobs[queue])
            if not tasks[group.number]:
                continue
            pod = tasks[group.number].popleft()
            if not self.shares.allocatable(queue, group.asked) or not self.shares.preemptive(queue, group.asked):
                continue
            like, now = (queue, id(group.shape)), (self.nodes.state, len(self.evicted))
            if failed.get(like) != now:
                if self._reclaims(group, pod):
                    heappush(jobs[queue], (self.order(group), group))
                else:
                    failed[like] = (self.nodes.state, len(self.evicted))
            heappush(turns, (self.shares.order(queue), queue))

    def _reclaims(self, group: GroupState, pod: int) -> bool:
        for node in self.nodes.open_to(group.shape):
            others = [
                (other, one)
                for other, one in self._pods_on(node)
                if other.queue != group.queue and self.shares.may_lose(other.queue) and self._state_of(one) == RUNNING
            ]
            if not others:
                continue
            victims = self._agreed(others, lambda plugin, among: self._reclaimable(group, plugin, among))
            if not self.nodes.fits_without(node, group.shape, (victim.shape for victim, _ in victims)):
                continue
            taken = tuple(0 for _ in group.asked)
            for victim, one in self._last_first(victims):
                self._evict(VolcanoEviction(victim, one, node, group.number, "reclaim"))
                taken = plus(taken, victim.asked)
                if within(group.asked, taken):
                    self.step(group, pod, node, now=False)
                    return True
        return False

    def _reclaimable(self, group: GroupState, plugin: str, among: Sequence[Victim]) -> list[Victim] | None:
        if plugin == "gang":
            return beyond_the_minimum(among)
        if plugin == "conformance":
            return list(among)
        return self.shares.reclaimable(group.asked, among) if plugin and plugin == self.shares.sharing else None

    def _agreed(
        self, among: Sequence[Victim], ask: Callable[[str, Sequence[Victim]], list[Victim] | None]
    ) -> list[Victim]:
        """The victims that the plugins of the first tier with an opinion agree on; `ask` has None for a plugin without."""
        victims: list[Victim] = []
        begun = False
        for tier in self.tiers:
            for plugin in tier:
                found = ask(plugin, among)
                if found is None:
                    continue
                if not found:
                    victims = []
                    break
                victims = [one for one in victims if one in found] if begun else found
                begun = True
            if victims:
                return victims
        return victims

    def _last_first(self, victims: Iterable[Victim]) -> list[Victim]:
        return sorted(
            victims, key=lambda one: (self.shares.order(one[0].queue), self.order(one[0]), one[1]), reverse=True
        )

    # preempt

    def preempt(self) -> None:
        """Preempts for groups of a higher priority, within their queues."""
        jobs: dict[str, list[tuple[Any, GroupState]]] = {}
        for group in self.eligible():
            if group.waiting() and self._starves(group):
                heappush(jobs.setdefault(group.queue, []), (self.order(group), group))
        for queue in sorted(jobs):
            failed: dict[tuple[int, int], tuple[int, int]] = {}
            while jobs[queue]:
                _, group = heappop(jobs[queue])
                like, now = (id(group.shape), group.shape.priority), (self.nodes.state, len(self.evicted))
                if failed.get(like) == now and group.least == 1:
                    continue
                if not self._preempts_all(group):
                    failed[like] = (self.nodes.state, len(self.evicted))

    def _starves(self, group: GroupState) -> bool:
        """JobStarving: `gang` asks for the minimum, `priority` for all pods; the first tier that has one of them decides."""
        held = group.ready_tasks() + len(group.pipelined)
        wants = {"gang": group.least, "priority": group.pods()}
        for tier in self.tiers:
            asked = [wants[plugin] for plugin in tier if plugin in wants]
            if asked:
                return held < min(asked)
        return False

    def _preempts_all(self, group: GroupState) -> bool:
        """One statement: evictions and pods that wait for the room. Those of a group that does not get all it lacks are undone."""
        steps: list[Placed | VolcanoEviction] = []
        waiting = deque(group.waiting())
        while waiting and self._starves(group):
            self._preempts(group, waiting.popleft(), steps)
        if self.pipelined(group):
            return bool(steps)
        for one in reversed(steps):
            if isinstance(one, VolcanoEviction):
                self._stays(one)
            else:
                self.discard([one])
        return False

    def _preempts(self, group: GroupState, pod: int, steps: list[Placed | VolcanoEviction]) -> None:
        for node in self.nodes.ranked(group.shape):
            others = [
                (other, one)
                for other, one in self._pods_on(node)
                if other.queue == group.queue
                and other is not group
                and self._state_of(one) >= BOUND
                and (other.best_effort or not group.best_effort)
            ]
            victims = self._agreed(others, lambda plugin, among: _lower(group, plugin, among))
            if not self.nodes.fits_without(node, group.shape, (victim.shape for victim, _ in victims)):
                continue
            for victim, one in self._last_first(victims):
                if self._has_room(group, node):
                    break
                evicted = VolcanoEviction(victim, one, node, group.number, "preempt")
                self._evict(evicted)
                steps.append(evicted)
            if self._has_room(group, node):
                steps.append(self.step(group, pod, node, now=False))
                return

    def _has_room(self, group: GroupState, node: int) -> bool:
        return self.shares.allocatable(group.queue, group.asked) and self.nodes.fits(node, group.shape, later=True)

    # both

    def _evict(self, eviction: VolcanoEviction) -> None:
        group, pod = eviction.group, eviction.pod
        self.evicted.append(eviction)
        group.evicted(pod, running=self._state_of(pod) == RUNNING)
        self.nodes.release(eviction.node, group.shape)
        self.shares.changes(group.queue, group.asked, -1)

    def _stays(self, eviction: VolcanoEviction) -> None:
        group, pod = eviction.group, eviction.pod
        self.evicted.remove(eviction)
        group.evicted(pod, running=self._state_of(pod) == RUNNING, undone=True)
        self.nodes.release(eviction.node, group.shape, -1)
        self.shares.changes(group.queue, group.asked)


def beyond_the_minimum(among: Sequence[Victim]) -> list[Victim]:
    """Pods that their groups can spare (plugins/gang/gang.go:86): each that is taken counts for the next."""
    ready: dict[int, int] = {}
    found = []
    for group, pod in among:
        left = ready.setdefault(group.number, group.ready_tasks())
        if left > group.least:
            ready[group.number] = left - 1
            found.append((group, pod))
    return found


def _lower(group: GroupState, plugin: str, among: Sequence[Victim]) -> list[Victim] | None:
    if plugin == "priority":
        return [one for one in among if one[0].shape.priority < group.shape.priority]
    return list(among) if plugin == "conformance" else None
