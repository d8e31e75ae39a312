"""The pods on every node, and the nodes that a pod may go to.

Pods of one shape see the nodes alike, so feasibility and score are kept per shape in one array and only nodes that changed
are looked at again. A choice among 1,000 nodes takes about 6 µs this way; filtering and scoring all of them for each pod took
90 µs. Rules and rounding are those of kube-scheduler's NodeResourcesFit (LeastAllocated), NodeAffinity, TaintToleration
and NodeUnschedulable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from random import Random
from typing import Any

import numpy as np

from seatrial.model.fit import admits, ignores_cordons
from seatrial.model.plan import NodeGroup, PodShape

DEFAULT_PODS = 110  # kubelet's maxPods
# What a pod without requests counts as when nodes are scored (kube-scheduler's NonZeroRequested, in millicores and bytes).
SCORED_CPU, SCORED_MEMORY = 100, 200 * 1024 * 1024
# Scores run from 0 to 100; weights are those of the default profile.
TAINT_WEIGHT, SPREAD_WEIGHT = 3, 2
NOT_FEASIBLE = -1
_largest = np.maximum.reduce  # what an array's max() calls, without what it does before
# percentageOfNodesToScore 0: below 100 nodes all of them, else 50 % less 1 % per 125 nodes, 5 % at least, 100 nodes at least.
FEW = 8  # feasible nodes up to which a loop is faster than numpy; below MIN_FEASIBLE, so that all nodes are looked at
MIN_FEASIBLE, SHARE_AT_MOST, SHARE_AT_LEAST, NODES_PER_PERCENT = 100, 50, 5, 125


class _View:
    """The nodes as pods of one shape see them."""

    __slots__ = (
        "allowed", "feasible", "ignores_cordons", "known", "needs", "place", "priority", "scored_cpu", "scored_memory",
        "scores",
    )  # fmt: skip

    def __init__(
        self, needs: list[tuple[list[int], int]], scored: tuple[int, int], ignores_cordons: bool, priority: int
    ) -> None:
        self.ignores_cordons, self.priority = ignores_cordons, priority
        self.needs = needs  # (what is free of a resource per node, amount); pods is one of them
        self.scored_cpu, self.scored_memory = scored
        self.allowed: list[int] = []  # per node: NOT_FEASIBLE, or what taints add to the score
        self.scores = np.empty(0, dtype=np.int32)
        self.known: list[int] = []  # the scores again: a list's item costs a third of an array's
        self.feasible: set[int] = set()  # nodes
        self.place = 0  # how much of the journal is taken into account


class Nodes:
    """Free amounts per node as plain lists (a scalar costs a fraction of numpy's), scores per shape as arrays."""

    def __init__(self, resources: Iterable[str], random: Random) -> None:
        self.resources = ["cpu", "memory", "pods", *(r for r in resources if r not in ("cpu", "memory", "pods"))]
        self._column = {name: number for number, name in enumerate(self.resources)}
        self.groups: list[NodeGroup] = []  # per node
        self.capacity: list[list[int]] = [[] for _ in self.resources]  # per resource and node
        self.free: list[list[int]] = [[] for _ in self.resources]
        self._scored_cpu: list[int] = []  # asked for, as scoring counts it
        self._scored_memory: list[int] = []
        self._closed: set[int] = set()  # not ready, or gone
        self._cordoned: set[int] = set()
        self._views: dict[int, _View] = {}
        self._shapes: list[PodShape] = []  # keeps the ids above from being reused
        self._journal: list[int] = []
        self._forgotten = 0  # entries that were removed from the journal
        self.layouts = 0  # how often a node was added, closed, opened, cordoned or uncordoned
        self.nominations: dict[int, int] = {}  # pod → the node it is nominated to
        self._nominated: dict[int, dict[int, PodShape]] = {}  # node → pods that are nominated to it
        self._start = 0  # where the next search begins, as kube-scheduler's nextStartNodeIndex
        self._random = random
        self._wanted = 0  # feasible nodes that end a search
        self.searched = 0  # nodes looked at in the last choice

    def __len__(self) -> int:
        return len(self.groups)

    def add(self, group: NodeGroup) -> int:
        """Adds a node of the group; returns its number."""
        node = len(self.groups)
        self.groups.append(group)
        for number, name in enumerate(self.resources):
            amount = group.capacity.get(name, DEFAULT_PODS if name == "pods" else 0)
            self.capacity[number].append(amount)
            self.free[number].append(amount)
        for asked in (self._scored_cpu, self._scored_memory):
            asked.append(0)
        for shape, view in zip(self._shapes, self._views.values(), strict=True):
            view.allowed.append(_allowed(group, shape))
            view.scores = np.append(view.scores, np.int32(NOT_FEASIBLE))
            view.known.append(NOT_FEASIBLE)
        self._relaid(node)
        self._wanted = nodes_to_find(len(self.groups))
        return node

    @property
    def scored(self) -> tuple[list[int], list[int]]:
        """Cores and memory requested per node as scoring counts them (NonZeroRequested)."""
        return self._scored_cpu, self._scored_memory

    def _relaid(self, node: int) -> None:
        self.layouts += 1
        self._journal.append(node)

    @property
    def changes(self) -> int:
        """Grows with every change of a node: what it has free, whether it takes pods, who is nominated to it."""
        return self._forgotten + len(self._journal)

    def changed_since(self, change: int) -> Collection[int]:
        """The nodes that changed since `changes` was so much; all of them if that is long ago."""
        begin = change - self._forgotten
        return range(len(self.groups)) if begin < 0 else set(self._journal[begin:])

    def close(self, node: int) -> None:
        """No further pod goes there: the node is not ready, or about to be removed."""
        self._closed.add(node)
        self._relaid(node)

    def open(self, node: int) -> None:
        """The node is ready again."""
        self._closed.discard(node)
        self._relaid(node)

    def cordon(self, node: int) -> None:
        """Cordons the node: only pods that tolerate that go there from now on."""
        self._cordoned.add(node)
        self._relaid(node)

    def uncordon(self, node: int) -> None:
        """The node is schedulable again."""
        self._cordoned.discard(node)
        self._relaid(node)

    def is_open(self, node: int, ignoring_cordons: bool = False) -> bool:
        """Whether the node takes pods; a cordoned one those that tolerate it."""
        return node not in self._closed and (ignoring_cordons or node not in self._cordoned)

    def take(self, node: int, shape: PodShape) -> None:
        """Takes the room of one pod on the node."""
        view = self._views.get(id(shape)) or self._view(shape)
        for free, amount in view.needs:
            free[node] -= amount
        self._scored_cpu[node] += view.scored_cpu
        self._scored_memory[node] += view.scored_memory
        self._journal.append(node)

    def give_back(self, node: int, shape: PodShape) -> None:
        """Gives back the room of one pod on the node."""
        view = self._views.get(id(shape)) or self._view(shape)
        for free, amount in view.needs:
            free[node] += amount
        self._scored_cpu[node] -= view.scored_cpu
        self._scored_memory[node] -= view.scored_memory
        self._journal.append(node)

    def nominate(self, pod: int, node: int, shape: PodShape) -> None:
        """The node is kept for the pod: to pods of the same or a lower priority its room counts as taken (nominatedNodeName)."""
        self.withdraw(pod)
        self._view(shape)
        self.nominations[pod] = node
        self._nominated.setdefault(node, {})[pod] = shape
        self._journal.append(node)

    def withdraw(self, pod: int) -> None:
        """The pod is not nominated any more."""
        node = self.nominations.pop(pod, None)
        if node is not None:
            del self._nominated[node][pod]
            if not self._nominated[node]:
                del self._nominated[node]
            self._journal.append(node)

    def nominated_to(self, node: int) -> dict[int, PodShape]:
        """The pods that are nominated to the node."""
        return self._nominated.get(node, {})

    def left(self, node: int, shape: PodShape, but: int = -1) -> list[tuple[str, int, int]]:
        """Per resource that a pod of this shape asks for: its name, what is free for the pod, what the pod asks for. Free is what
        pods on the node and pods nominated to it leave (RunFilterPluginsWithNominatedPods: those of the same or a higher
        priority count, except the pod `but`)."""
        amounts = [(name, amount) for name, amount in shape.requests.items() if amount]
        amounts.append(("pods", 1))
        ahead = [
            other for pod, other in self.nominated_to(node).items() if other.priority >= shape.priority and pod != but
        ]
        found = []
        for name, amount in amounts:
            taken = sum(1 if name == "pods" else other.requests.get(name, 0) for other in ahead)
            found.append((name, self.free[self._column[name]][node] - taken, amount))
        return found

    def could_take(self, node: int, shape: PodShape) -> bool:
        """Whether the empty node would take a pod of this shape; if not, no preemption helps (UnschedulableAndUnresolvable)."""
        view = self._view(shape)
        if view.allowed[node] < 0 or not self.is_open(node, view.ignores_cordons):
            return False
        return all(self.capacity[self._column[name]][node] >= amount for name, amount in shape.requests.items())

    def takes_nominated(self, pod: int, shape: PodShape) -> bool:
        """Whether the node that the pod is nominated to takes it now."""
        node = self.nominations[pod]
        self.searched = 1
        return self.could_take(node, shape) and all(free >= amount for _, free, amount in self.left(node, shape, pod))

    def choose(self, shape: PodShape, avoid: Collection[int] = ()) -> int:
        """The best of the nodes looked at, by chance among equals; −1 if none is feasible. `avoid` scores lower."""
        view = self._views.get(id(shape)) or self._view(shape)
        if view.place != len(self._journal):
            self._catch_up(view)
        count, feasible = len(self.groups), len(view.feasible)
        if not feasible or (feasible <= FEW and not avoid):
            self.searched = count
            return self._among_few(view)
        wanted = self._wanted
        scores = view.scores
        start = self._start % count
        if feasible == count and wanted < count:
            end = start + wanted
            window = scores[start:end] if end <= count else np.concatenate((scores[start:], scores[: end - count]))
            looked = wanted
        elif feasible <= wanted:
            window, start, looked = scores, 0, count
        else:
            around = np.concatenate((scores[start:], scores[:start]))
            looked = int(np.flatnonzero(around >= 0)[wanted - 1]) + 1
            window = around[:looked]
        if avoid:
            window = self._apart(window, start, avoid)
        best = (window == _largest(window)).nonzero()[0]  # np.flatnonzero costs twice as much
        pick = int(best[0]) if len(best) == 1 else int(best[int(self._random.random() * len(best))])
        self.searched = looked
        self._start = (self._start + looked) % count
        return (start + pick) % count

    def _among_few(self, view: _View) -> int:
        """The choice where few nodes are feasible: all nodes are looked at, and a list is faster than an array."""
        known, nodes = view.known, view.feasible
        if len(nodes) <= 1:
            return next(iter(nodes), -1)
        most = max(map(known.__getitem__, nodes))
        best = sorted(node for node in nodes if known[node] == most)
        return best[0] if len(best) == 1 else best[int(self._random.random() * len(best))]

    def _apart(self, window: np.ndarray, start: int, avoid: Collection[int]) -> np.ndarray:
        """Preferred anti-affinity by host name: nodes that hold pods of the same workload score 100 times the weight less."""
        window = window.copy()
        count = len(self.groups)
        for node in avoid:
            place = (node - start) % count
            if place < len(window) and window[place] >= 0:
                window[place] = max(window[place] - 100 * SPREAD_WEIGHT, 0)
        return window

    def has_room(self, node: int, shape: PodShape) -> bool:
        """Whether the requests of the pod are free there, without labels and taints."""
        return all(free[node] >= amount for free, amount in self._view(shape).needs)

    def room(self, resource: str) -> int:
        """Free on all open nodes together."""
        if resource not in self._column:
            return 0
        free = self.free[self._column[resource]]
        return sum(free) - sum(free[node] for node in self._closed | self._cordoned)

    def takes(self, node: int, shape: PodShape) -> bool:
        """Whether this node could take one more pod of this shape now."""
        view = self._view(shape)
        self._catch_up(view)
        self.searched = 1
        return view.known[node] >= 0

    def feasible(self, shape: PodShape) -> int:
        """How many nodes could take one more pod of this shape now."""
        view = self._view(shape)
        self._catch_up(view)
        return len(view.feasible)

    def fitting(self, shape: PodShape) -> np.ndarray:
        """Per node, whether it could take one more pod of this shape now."""
        view = self._view(shape)
        self._catch_up(view)
        fits: np.ndarray = view.scores >= 0
        return fits

    def _view(self, shape: PodShape) -> _View:
        view = self._views.get(id(shape))
        if view is None:
            view = self._views[id(shape)] = self._new_view(shape)
            self._shapes.append(shape)
        return view

    def _new_view(self, shape: PodShape) -> _View:
        needs = [(self.free[self._column[name]], amount) for name, amount in shape.requests.items() if amount]
        needs.append((self.free[self._column["pods"]], 1))
        scored = (shape.requests.get("cpu") or SCORED_CPU, shape.requests.get("memory") or SCORED_MEMORY)
        view = _View(needs, scored, ignores_cordons(shape), shape.priority)
        view.allowed = [_allowed(group, shape) for group in self.groups]
        view.scores = np.full(len(self.groups), NOT_FEASIBLE, dtype=np.int32)
        view.known = [NOT_FEASIBLE] * len(self.groups)
        for node in range(len(self.groups)):
            self._look(view, node)
        view.place = len(self._journal)
        return view

    def _catch_up(self, view: _View) -> None:
        journal = self._journal
        end = len(journal)
        changed = journal[view.place :]
        look = self._look
        for node in set(changed) if end - view.place > 8 else changed:
            look(view, node)
        view.place = end
        if end > 1 << 16:
            self._forget_journal()

    def _forget_journal(self) -> None:
        """Once every view has seen it; a view that has not been used for long catches up here."""
        for view in self._views.values():
            for node in set(self._journal[view.place :]):
                self._look(view, node)
            view.place = 0
        self._forgotten += len(self._journal)
        self._journal.clear()

    def _look(self, view: _View, node: int) -> None:
        score = view.allowed[node]
        if score >= 0:
            score = self._score(view, node, score)
        before = view.known[node]
        if score != before:
            if score < 0:
                view.feasible.discard(node)
            elif before < 0:
                view.feasible.add(node)
            view.known[node] = score
            view.scores[node] = score

    def _score(self, view: _View, node: int, allowed: int) -> int:
        if node in self._closed or (node in self._cordoned and not view.ignores_cordons):
            return NOT_FEASIBLE
        for free, amount in view.needs:
            if free[node] < amount:
                return NOT_FEASIBLE
        if node in self._nominated and self._is_kept(view, node):
            return NOT_FEASIBLE
        cpu, memory = self.capacity[0][node], self.capacity[1][node]
        if not cpu or not memory:
            return allowed
        left_cpu = cpu - self._scored_cpu[node] - view.scored_cpu
        left_memory = memory - self._scored_memory[node] - view.scored_memory
        share = (left_cpu * 100 // cpu if left_cpu > 0 else 0) + (left_memory * 100 // memory if left_memory > 0 else 0)
        return allowed + share // 2

    def _is_kept(self, view: _View, node: int) -> bool:
        """Pods of the same or a higher priority are nominated to the node, and leave too little."""
        kept: dict[int, int] = {}  # by the list that has what is free of the resource
        for shape in self._nominated[node].values():
            if shape.priority >= view.priority:
                for free, amount in self._view(shape).needs:
                    kept[id(free)] = kept.get(id(free), 0) + amount
        return any(free[node] - kept.get(id(free), 0) < amount for free, amount in view.needs)


def _allowed(group: NodeGroup, shape: PodShape) -> int:
    if not admits(group, shape):
        return NOT_FEASIBLE
    unwelcome = any(
        taint.effect == "PreferNoSchedule" and not any(t.tolerates(taint) for t in shape.tolerations)
        for taint in group.taints
    )
    return 0 if unwelcome else 100 * TAINT_WEIGHT


def nodes_to_find(count: int) -> int:
    """How many feasible nodes end the search (percentageOfNodesToScore 0, adaptive)."""
    if count < MIN_FEASIBLE:
        return count
    share = max(SHARE_AT_MOST - count // NODES_PER_PERCENT, SHARE_AT_LEAST)
    return max(count * share // 100, MIN_FEASIBLE)


def resources_of(groups: list[NodeGroup], requests: list[Mapping[str, Any]]) -> list[str]:
    """Every resource that a node has or a pod requests."""
    return sorted(
        {name for group in groups for name in group.capacity} | {name for asked in requests for name in asked}
    )
