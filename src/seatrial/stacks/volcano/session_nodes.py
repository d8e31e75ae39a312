"""Nodes as a session of Volcano sees them: a snapshot that placements change, what becomes free, and the scores of nodes.

Facts (v1.10.0, pkg/scheduler): a pod goes to the best node on which it fits now; if there is none, it is pipelined to the best one
on which it fits once pods being deleted are gone (actions/allocate/allocate.go:220-292, FutureIdle in api/node_info.go:96).
The search ends after as many feasible nodes as kube-scheduler's (util/scheduler_helper.go:43). Scores with the default arguments
are LeastAllocated + BalancedAllocation + 3 × TaintToleration + 2 × InterPodAffinity (plugins/nodeorder/nodeorder.go:128) and, of
binpack, the mean share of cpu and memory in use afterwards (plugins/binpack/binpack.go:206). Chance decides among equals
(util/scheduler_helper.go:162). A pod that only another plugin of nodeorder would score (images, node affinity) has none here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from random import Random
from typing import NamedTuple

import numpy as np

from seatrial.model.fit import admits, ignores_cordons
from seatrial.model.plan import PodShape
from seatrial.sim.nodes import SCORED_CPU, SCORED_MEMORY, Nodes, nodes_to_find

_NOWHERE = float("-inf")
_GPU = "nvidia.com/gpu"


class Pick(NamedTuple):
    """Where a pod goes; `now`: else it waits for what is being released there."""

    node: int  # −1: nowhere
    now: bool = True


class _Sight:
    """The nodes as pods of one shape see them."""

    __slots__ = ("allowed", "needs", "scored", "scores", "seen", "shape")

    def __init__(self, shape: PodShape, needs: list[tuple[int, int]], scored: tuple[int, int], count: int) -> None:
        self.shape, self.needs, self.scored = shape, needs, scored
        self.allowed: list[float] = []  # per node: what taints score, or _NOWHERE
        self.scores = np.full(count, _NOWHERE)
        self.seen = 0  # how much of the journal is taken into account


class SessionNodes:
    """`open` takes the snapshot. `take` and `put_back` are of pods that the session places, `pipeline` of those that wait for room,
    `release` of those that it evicts."""

    def __init__(self, nodes: Nodes, random: Random, plugins: Collection[str]) -> None:
        self._nodes, self._random = nodes, random
        self._orders, self._packs, self._checks = (name in plugins for name in ("nodeorder", "binpack", "predicates"))
        self._column = {name: at for at, name in enumerate(nodes.resources)}
        self.idle: list[list[int]] = []
        self._scored: tuple[list[int], list[int]] = ([], [])
        self._more: dict[int, list[int]] = {}  # node → per resource, what is being released less what is promised
        self._layout = -1
        self._journal: list[int] = []
        self._sights: dict[int, _Sight] = {}
        self._start = 0  # lastProcessedNodeIndex
        self._nothing: dict[int, tuple[int, str]] = {}  # shape → state in which it fitted nowhere, and why
        self.state = 0  # grows with every change
        self.looked = 0  # nodes checked and scored so far

    def open(self, releasing: Iterable[tuple[int, PodShape]]) -> None:
        """A session begins: what is on the nodes now."""
        nodes = self._nodes
        if self._layout != nodes.layouts or len(self.idle) != len(nodes.free):
            self._layout = nodes.layouts
            self.idle = [list(free) for free in nodes.free]
            self._sights.clear()
        else:
            for column, free in enumerate(nodes.free):
                if self.idle[column] != free:
                    self._journal += [
                        n for n, (was, now) in enumerate(zip(self.idle[column], free, strict=True)) if was != now
                    ]
                    self.idle[column] = list(free)
        if len(self._journal) > 1 << 16:
            self._sights.clear()
            self._journal.clear()
        cpu, memory = nodes.scored
        self._scored = (list(cpu), list(memory))
        self._more.clear()
        self.state += 1
        self.looked = 0
        for node, shape in releasing:
            self.release(node, shape)

    def take(self, node: int, shape: PodShape) -> None:
        """A pod is placed there."""
        self._change(node, shape, -1)

    def put_back(self, node: int, shape: PodShape) -> None:
        """A pod that was placed there is not."""
        self._change(node, shape, 1)

    def _change(self, node: int, shape: PodShape, sign: int) -> None:
        sight = self._sight(shape)
        for column, amount in sight.needs:
            self.idle[column][node] += sign * amount
        for scored, amount in zip(self._scored, sight.scored, strict=True):
            scored[node] -= sign * amount
        self._journal.append(node)
        self.state += 1

    def release(self, node: int, shape: PodShape, sign: int = 1) -> None:
        """A pod there is evicted; `sign` −1: it is not after all, or a pod is pipelined to the node."""
        more = self._more.setdefault(node, [0] * len(self.idle))
        for column, amount in self._sight(shape).needs:
            more[column] += sign * amount
        self.state += 1

    def pipeline(self, node: int, shape: PodShape) -> None:
        """A pod waits for what is released there."""
        self.release(node, shape, -1)

    def total(self) -> dict[str, int]:
        """The total of all Ready nodes, cordoned ones included (Ready, api/node_info.go:286)."""
        return {
            name: sum(
                capacity[node] for node in range(len(self._nodes)) if self._nodes.is_open(node, ignoring_cordons=True)
            )
            for name, capacity in zip(self._nodes.resources, self._nodes.capacity, strict=True)
        }

    def fits(self, node: int, shape: PodShape, later: bool = False) -> bool:
        """Whether there is room now, or once all that is being released is."""
        more = self._more.get(node) if later else None
        return all(
            amount <= self.idle[column][node] + (more[column] if more else 0)
            for column, amount in self._sight(shape).needs
        )

    def fits_without(self, node: int, shape: PodShape, gone: Iterable[PodShape]) -> bool:
        """Whether there is room once what is being released and these pods are gone (ValidateVictims)."""
        room = self._more.get(node, [0] * len(self.idle))
        room = [more + idle[node] for more, idle in zip(room, self.idle, strict=True)]
        for one in gone:
            for column, amount in self._sight(one).needs:
                room[column] += amount
        return all(amount <= room[column] for column, amount in self._sight(shape).needs)

    def open_to(self, shape: PodShape) -> list[int]:
        """Nodes that labels, taints and cordons leave to the pod, whatever is free."""
        allowed = self._sight(shape).allowed
        return [node for node, score in enumerate(allowed) if score > _NOWHERE]

    def pick(self, shape: PodShape, beside: Mapping[int, int]) -> Pick:
        """The best node for a pod of this shape; `beside`: pods of its own per node, for one that prefers to be apart."""
        known = self._nothing.get(id(shape))
        self.looked += len(self._nodes)
        if known is not None and known[0] == self.state:
            return Pick(-1)
        sight = self._sight(shape)
        self._catch_up(sight)
        feasible = (sight.scores > _NOWHERE).nonzero()[0]
        now = True
        if not len(feasible):
            later = [
                node for node in self._more if sight.allowed[node] > _NOWHERE and self.fits(node, shape, later=True)
            ]
            if not later:
                self._nothing[id(shape)] = (self.state, "")
                return Pick(-1)
            feasible, now = np.array(sorted(later)), False
        return Pick(self._best(self._window(feasible), sight, beside, now), now)

    def ranked(self, shape: PodShape) -> list[int]:
        """The nodes that take the pod if others go, the best first; equals by their number (SortNodes, whose order is chance)."""
        sight = self._sight(shape)
        self.looked += len(sight.allowed)
        return sorted(self.open_to(shape), key=lambda node: (-self._score(sight, node), node))

    def _window(self, feasible: np.ndarray) -> np.ndarray:
        wanted, count = nodes_to_find(len(self._nodes)), len(self._nodes)
        if len(feasible) <= wanted:
            return feasible
        at = int(np.searchsorted(feasible, self._start))
        window = np.concatenate((feasible[at:], feasible[:at]))[:wanted]
        self._start = (int(window[-1]) + 1) % count
        return window

    def _best(self, among: np.ndarray, sight: _Sight, beside: Mapping[int, int], now: bool) -> int:
        if len(among) == 1:
            return int(among[0])
        scores = sight.scores[among] if now else np.array([self._score(sight, int(node)) for node in among])
        if sight.shape.spread and beside and self._orders:
            most = max(beside.get(int(node), 0) for node in among)
            least = min(beside.get(int(node), 0) for node in among)
            if most > least:
                scores = scores + [2.0 * (100 * (most - beside.get(int(node), 0)) // (most - least)) for node in among]
        best = among[scores == scores.max()]
        return int(best[int(self._random.random() * len(best))] if len(best) > 1 else best[0])

    def _sight(self, shape: PodShape) -> _Sight:
        sight = self._sights.get(id(shape))
        if sight is None:
            needs = [(self._column[name], amount) for name, amount in shape.requests.items() if amount]
            needs.append((self._column["pods"], 1))
            scored = (shape.requests.get("cpu") or SCORED_CPU, shape.requests.get("memory") or SCORED_MEMORY)
            sight = self._sights[id(shape)] = _Sight(shape, needs, scored, len(self._nodes))
            sight.allowed = [self._taints(node, shape) for node in range(len(self._nodes))]
            for node in range(len(self._nodes)):
                self._look(sight, node)
            sight.seen = len(self._journal)
        return sight

    def _taints(self, node: int, shape: PodShape) -> float:
        group = self._nodes.groups[node]
        if not self._nodes.is_open(node, ignoring_cordons=True):
            return _NOWHERE
        if not self._checks:
            return 0.0
        if not admits(group, shape) or not self._nodes.is_open(node, ignores_cordons(shape)):
            return _NOWHERE
        unwelcome = any(
            taint.effect == "PreferNoSchedule" and not any(t.tolerates(taint) for t in shape.tolerations)
            for taint in group.taints
        )
        return 0.0 if unwelcome or not self._orders else 300.0

    def _catch_up(self, sight: _Sight) -> None:
        for node in set(self._journal[sight.seen :]):
            self._look(sight, node)
        sight.seen = len(self._journal)

    def _look(self, sight: _Sight, node: int) -> None:
        fits = sight.allowed[node] > _NOWHERE and all(
            amount <= self.idle[column][node] for column, amount in sight.needs
        )
        sight.scores[node] = self._score(sight, node) if fits else _NOWHERE

    def _score(self, sight: _Sight, node: int) -> float:
        score = 0.0
        if self._orders:
            score += self._least_allocated(sight, node) + self._balanced(sight, node)
        if self._packs:
            score += self._binpack(sight, node)
        return score + sight.allowed[node]

    def _least_allocated(self, sight: _Sight, node: int) -> int:
        total = weight = 0
        for column, asked in enumerate(sight.scored):
            capacity = self._nodes.capacity[column][node]
            if capacity:
                left = capacity - self._scored[column][node] - asked
                total += 50 * (left * 100 // capacity if left > 0 else 0)
                weight += 50
        return total // weight if weight else 0

    def _balanced(self, sight: _Sight, node: int) -> int:
        shares = []
        for name in ("cpu", "memory", _GPU):
            asked, column = sight.shape.requests.get(name, 0), self._column.get(name, -1)
            if column < 0 or not self._nodes.capacity[column][node] or (name == _GPU and not asked):
                continue
            capacity = self._nodes.capacity[column][node]
            shares.append(min((capacity - self.idle[column][node] + asked) / capacity, 1.0))
        if len(shares) == 2:
            apart = abs((shares[0] - shares[1]) / 2)
        else:
            mean = sum(shares) / max(len(shares), 1)
            apart = (sum((share - mean) ** 2 for share in shares) / max(len(shares), 1)) ** 0.5
        return int((1 - apart) * 100)

    def _binpack(self, sight: _Sight, node: int) -> float:
        score, weight = 0.0, 0
        for column, asked in sight.needs:
            if column > 1:
                continue  # binpack.resources names cpu and memory alone
            capacity = self._nodes.capacity[column][node]
            used = capacity - self.idle[column][node] + asked
            if capacity and used > capacity:
                return 0.0
            score += used / capacity if capacity else 0.0
            weight += 1
        return score / weight * 100 if weight else 0.0

    def why(self, shape: PodShape) -> str:
        """Why the pod fits nowhere, in the words of FitErrors (api/unschedule_info.go:84)."""
        known = self._nothing.get(id(shape))
        if known is not None and known[0] == self.state and known[1]:
            return known[1]
        sight, names = self._sight(shape), self._nodes.resources
        reasons: Counter[str] = Counter()
        for node in range(len(self._nodes)):
            more = self._more.get(node)
            if not self._nodes.is_open(node, ignoring_cordons=True):
                continue
            short = [
                names[column]
                for column, amount in sight.needs
                if amount > self.idle[column][node] + (more[column] if more else 0)
            ]
            reasons[f"Insufficient {short[0]}" if short else "node(s) the pod may not go to"] += 1
        counted = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
        said = f"0/{sum(reasons.values())} nodes are unavailable" + (f": {counted}." if counted else "")
        self._nothing[id(shape)] = (self.state, said)
        return said
