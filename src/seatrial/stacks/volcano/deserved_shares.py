"""Limits of Volcano's queues in a session: the plugins `capacity` and `proportion`, and `overcommit` for all queues together.

Facts (v1.10.0, pkg/scheduler/plugins):
- `capacity`: a queue deserves what its spec says, at most its capability and what its pods request (capacity/capacity.go:182). It
  may use as much as its capability (:264), takes from others up to what it deserves (:243), and others take what is above (:213).
  What others are guaranteed is not in its capability (:113). A resource other than cpu and memory that `deserved` names counts as
  more than deserved while no pod of the queue has it (api/resource_info.go:412).
- `proportion`: what a queue deserves is the cluster divided by weights, round after round, at most what its pods request
  (proportion/proportion.go:206-262). It may use that (:346), and is overused from there on (:333).
- Both let a PodGroup in if its minimum, what the queue has allocated, and what is in already fit its capability, not counting pods
  beyond the minimum of their group (:358, capacity.go:277). The queue with the smallest share of what it deserves comes first.
- `overcommit`: the minima of all groups that are in fit 1.2 times the cluster less what is used (overcommit/overcommit.go:75).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from seatrial.stacks.volcano.pod_groups import INQUEUE, Amount, GroupState, minus, plus, times, within, within_asked
from seatrial.stacks.volcano.volcano_queues import VolcanoQueue

FACTOR_NUMERATOR, FACTOR_DENOMINATOR = 12, 10  # overcommit/overcommit.go:37, defaultOverCommitFactor


class _Queue:
    __slots__ = (
        "allocated", "capability", "deserved", "elastic", "guarantee", "inqueue", "named", "reclaimable", "request", "share",
        "weight",
    )  # fmt: skip

    def __init__(
        self, none: Amount, spec: VolcanoQueue, total: Amount, names: Sequence[str], guaranteed: Amount
    ) -> None:
        """`guaranteed`: to all queues together."""
        self.allocated = self.request = self.inqueue = self.elastic = none
        self.weight, self.reclaimable = spec.weight, spec.reclaimable
        self.guarantee = tuple(spec.guarantee.get(name, 0) for name in names)
        room = plus(minus(total, guaranteed), self.guarantee)
        self.capability = tuple(
            min(all_, spec.capability.get(name, all_)) for name, all_ in zip(names, room, strict=True)
        )
        self.deserved = tuple(spec.deserved.get(name, 0) for name in names)
        # The resources of `deserved`: cpu and memory are in every Resource, others if they are named.
        self.named = [at for at, name in enumerate(names) if at < 2 or name in spec.deserved]
        self.share = 0.0

    def within_deserved(self, allocated: Amount) -> bool:
        """LessEqual with the dimension Infinity."""
        return all(allocated[at] <= self.deserved[at] and (at < 2 or allocated[at]) for at in self.named)

    def settle(self) -> None:
        """Its share, of what `deserved` names."""
        pairs = ((self.allocated[at], self.deserved[at]) for at in self.named)
        self.share = max((have / most if most else float(have > 0) for have, most in pairs), default=0.0)


class SessionShares:
    """The queues of one session; `names` are the resources, `sharing` is the plugin that divides them, or empty. `groups` are those
    that are in or have something, `waiting` counts all pending pods by queue and request, `queues` are those that have groups."""

    def __init__(
        self,
        names: Sequence[str],
        specs: Mapping[str, VolcanoQueue],
        groups: Iterable[GroupState],
        total: Amount,
        used: Amount,
        sharing: str,
        waiting: Mapping[tuple[str, Amount], int],
        queues: Iterable[str],
    ) -> None:
        self._sharing = sharing
        none = tuple(0 for _ in names)
        guaranteed = tuple(sum(spec.guarantee.get(name, 0) for spec in specs.values()) for name in names)
        self._queues: dict[str, _Queue] = {}
        self._idle = tuple(
            all_ * FACTOR_NUMERATOR // FACTOR_DENOMINATOR - held for all_, held in zip(total, used, strict=True)
        )
        self._let_in = none  # overcommit's inqueueResource
        self._total = total
        for name in queues:
            self._queues[name] = _Queue(none, specs[name], total, names, guaranteed)
        entered: Counter[tuple[str, Amount]] = Counter()  # queue and minimum → groups
        for group in groups:
            if group.phase == INQUEUE:
                entered[group.queue, group.minimum] += 1
            if group.allocated:
                self._count(self._queues[group.queue], group)
        for (name, asked), count in waiting.items():
            if count:
                self._queues[name].request = plus(self._queues[name].request, times(asked, count))
        for (name, minimum), count in entered.items():
            self._queues[name].inqueue = plus(self._queues[name].inqueue, times(minimum, count))
            self._let_in = plus(self._let_in, times(minimum, count))
        if sharing == "capacity":
            for queue in self._queues.values():
                least = _least(_least(queue.deserved, queue.capability), queue.request)
                queue.deserved = tuple(map(max, least, queue.guarantee))
        elif sharing == "proportion":
            self._divide()
        for queue in self._queues.values():
            queue.settle()

    def _count(self, queue: _Queue, group: GroupState) -> None:
        allocated = group.total()
        queue.allocated = plus(queue.allocated, allocated)
        queue.request = plus(queue.request, allocated)
        queue.elastic = plus(queue.elastic, group.elastic())

    def _divide(self) -> None:
        """proportion.go:206: in rounds, until nothing is left or nobody wants more."""
        remaining = [float(amount) for amount in self._total]
        deserved = {name: [0.0] * len(remaining) for name in self._queues}
        met: set[str] = set()
        while True:
            weight = sum(queue.weight for name, queue in self._queues.items() if name not in met)
            if not weight:
                break
            before, given = list(remaining), [0.0] * len(remaining)
            for name, queue in self._queues.items():
                if name in met:
                    continue
                old = deserved[name]
                rows = zip(old, remaining, queue.capability, queue.request, queue.guarantee, strict=True)
                new = [
                    max(min(had + left * queue.weight / weight, limit, wanted), float(sure))
                    for had, left, limit, wanted, sure in rows
                ]
                deserved[name] = new
                if all(w <= d for w, d in zip(queue.request, new, strict=True)) or new == old:
                    met.add(name)
                given = [g + n - o for g, n, o in zip(given, new, old, strict=True)]
            remaining = [left - gave for left, gave in zip(remaining, given, strict=True)]
            if all(left < 0.1 for left in remaining) or remaining == before:
                break
        for name, queue in self._queues.items():
            queue.deserved = tuple(round(amount) for amount in deserved[name])
            queue.named = list(range(len(queue.deserved)))

    def order(self, queue: str) -> tuple[float, str]:
        """QueueOrderFn: the smallest share first, then by name; without a plugin by name."""
        return (self._queues[queue].share if self._sharing else 0.0, queue)

    def changes(self, queue: str, asked: Amount, sign: int = 1) -> None:
        """A pod of the queue is placed or pipelined; `sign` −1: it is not any more, or is evicted."""
        one = self._queues[queue]
        one.allocated = plus(one.allocated, asked) if sign > 0 else minus(one.allocated, asked)
        one.settle()

    def overused(self, queue: str) -> bool:
        """Whether nothing more is placed for the queue (proportion alone)."""
        one = self._queues[queue]
        return self._sharing == "proportion" and within(one.deserved, one.allocated)

    def allocatable(self, queue: str, asked: Amount) -> bool:
        """Whether the queue may have one more such pod."""
        if not self._sharing:
            return True
        one = self._queues[queue]
        limit = one.capability if self._sharing == "capacity" else one.deserved
        return within_asked(plus(one.allocated, asked), limit, asked)

    def preemptive(self, queue: str, asked: Amount) -> bool:
        """Whether the queue may take from others for such a pod (capacity alone asks)."""
        one = self._queues[queue]
        return self._sharing != "capacity" or within_asked(plus(one.allocated, asked), one.deserved, asked)

    @property
    def sharing(self) -> str:
        """The plugin that divides the nodes among queues, or empty."""
        return self._sharing

    def may_lose(self, queue: str) -> bool:
        """`reclaimable` of its spec."""
        return self._queues[queue].reclaimable

    def reclaimable(self, asked: Amount, victims: Sequence[tuple[GroupState, int]]) -> list[tuple[GroupState, int]]:
        """The pods among these whose queues have more than they deserve, one after another (ReclaimableFn)."""
        left: dict[str, Amount] = {}
        found = []
        for group, pod in victims:
            one = self._queues[group.queue]
            allocated = left.setdefault(group.queue, one.allocated)
            # LessPartly (api/resource_info.go:510) compares cpu and memory always, others if both have them.
            if any(allocated[at] < ask for at, ask in enumerate(asked) if at < 2 or ask):
                continue
            after = minus(allocated, group.asked)
            if self._sharing == "capacity":
                if one.within_deserved(allocated) or not within(one.guarantee, after):
                    continue
            elif within(allocated, one.deserved):
                continue
            left[group.queue] = after
            found.append((group, pod))
        return found

    def lets_in(self, group: GroupState, plugin: str) -> bool | None:
        """A plugin's vote on whether a pending PodGroup becomes Inqueue; None: it has none (JobEnqueueableFn)."""
        if plugin == "overcommit":
            return within_asked(plus(self._let_in, group.minimum), self._idle, group.minimum)
        if plugin != self._sharing or not plugin:
            return None
        one = self._queues[group.queue]
        wanted = minus(plus(plus(group.minimum, one.allocated), one.inqueue), one.elastic)
        if not within_asked(wanted, one.capability, group.minimum):
            return False
        one.inqueue = plus(one.inqueue, group.minimum)
        return True

    def is_in(self, group: GroupState) -> None:
        """The group is Inqueue now (JobEnqueuedFn of overcommit)."""
        self._let_in = plus(self._let_in, group.minimum)


def _least(left: Amount, right: Amount) -> Amount:
    return tuple(map(min, left, right))
