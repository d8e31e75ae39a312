"""What each of KAI's queues may have, has, and is entitled to: the division of its proportion plugin (v0.12.0).

A parent divides what it is entitled to among its leaves. Each queue first gets its quota, as far as its pods ask for it; the rest
goes round by round to those that ask for more, in whole units by weight. References are to pkg/scheduler/plugins/proportion.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from seatrial.stacks.kai.queue_tree import RESOURCES, UNLIMITED, KaiQueue

KINDS = range(len(RESOURCES))
Amounts3 = Sequence[float]  # of RESOURCES
Standing = tuple[bool, bool, bool, float, float]  # what decides whose turn it is (queue_turns.py)
NO_SHARE = 1000.0  # resource_share/queue_resource_share.go:20: what is used without a share counts this much


def at_most(amounts: Amounts3, bounds: Amounts3) -> bool:
    """LessEqual (resource_share/resource_quantities.go:57): no bound at all is more than any amount."""
    return all(
        bound == UNLIMITED or (amount != UNLIMITED and amount <= bound)
        for amount, bound in zip(amounts, bounds, strict=True)
    )


def added(left: Amounts3, right: Amounts3) -> list[float]:
    """The sum, resource by resource."""
    return [a + b for a, b in zip(left, right, strict=True)]


class QueueShare:
    """One queue in a session. Lists are in the order of RESOURCES."""

    __slots__ = (
        "_may",
        "allocated",
        "children",
        "fair",
        "firm",
        "key",
        "limit",
        "name",
        "parent",
        "quota",
        "request",
        "version",
        "weight",
    )

    def __init__(self, queue: KaiQueue) -> None:
        self.key, self.name, self.parent, self.weight = queue.key, queue.name, queue.parent, queue.weight
        self.quota = [float(queue.quota[name]) for name in RESOURCES]
        self.limit = [float(queue.limit[name]) for name in RESOURCES]
        self.children: list[QueueShare] = []
        self.version = 0  # grows with every change
        self._may: list[float] = []
        self.clear()

    def clear(self) -> None:
        """Before the snapshot of a session."""
        self.allocated, self.firm, self.request, self.fair = ([0.0] * len(RESOURCES) for _ in range(4))
        self.settle()

    def settle(self) -> None:
        """What it has or is entitled to changed."""
        self.version += 1
        self._may = []

    def requestable(self, kind: int) -> float:
        """What its pods ask for, up to its limit (resource_share.go:40)."""
        limit = self.limit[kind]
        return self.request[kind] if limit == UNLIMITED else min(limit, self.request[kind])

    def allocatable(self) -> list[float]:
        """What it may use without being above its share (resource_share.go:51)."""
        if self._may:
            return self._may
        found = self._may
        for quota, fair, limit in zip(self.quota, self.fair, self.limit, strict=True):
            if quota == UNLIMITED:
                found.append(limit)
            else:
                most = max(quota, fair)
                found.append(most if limit == UNLIMITED else min(limit, most))
        return found

    def dominant(self, allocated: Amounts3, total: Amounts3) -> float:
        """The largest of its shares, if it had that allocated (queue_resource_share.go:139)."""
        largest, may = 0.0, self.allocatable()
        for kind in KINDS:
            bound = total[kind] if may[kind] == UNLIMITED else may[kind]
            share = allocated[kind] / bound if bound else allocated[kind] * NO_SHARE
            largest = max(largest, share)
        return largest


class ShareTree:
    """All queues: parents and their leaves."""

    def __init__(self, queues: Sequence[KaiQueue]) -> None:
        self.queues: Mapping[str, QueueShare] = {queue.key: QueueShare(queue) for queue in queues}
        self.total: Amounts3 = [0.0] * len(RESOURCES)
        # Queue → its version, who is next, and where it stands.
        self.standings: dict[str, tuple[int, object, Standing]] = {}
        for queue in self.queues.values():
            if queue.parent:
                self.queues[queue.parent].children.append(queue)

    def path(self, key: str) -> list[QueueShare]:
        """The queue and what is above it."""
        found = []
        while key:
            found.append(self.queues[key])
            key = found[-1].parent
        return found

    def allocate(self, key: str, amounts: Amounts3, times: float, firm: bool) -> None:
        """Pods got their place (`times` > 0) or lost it; `firm`: they are not preemptible (proportion.go:433)."""
        for queue in self.path(key):
            queue.version += 1
            for kind in KINDS:
                change = amounts[kind] * times
                queue.allocated[kind] += change
                if firm:
                    queue.firm[kind] += change

    def ask(self, key: str, amounts: Amounts3, times: float) -> None:
        """Pods that have or want a place (proportion.go:373)."""
        for queue in self.path(key):
            for kind in KINDS:
                queue.request[kind] += amounts[kind] * times

    def divide(self, total: Amounts3) -> None:
        """Sets every queue's fair share (proportion.go:396)."""
        self.total = total
        tops = [queue for queue in self.queues.values() if not queue.parent]
        divide(tops, total)
        for top in tops:
            divide(top.children, top.fair)
        for queue in self.queues.values():
            queue.settle()

    def over_limit(self, key: str, amounts: Amounts3, firm: bool) -> str:
        """Why so much more would be too much for the queue or what is above it; empty: it is not (capacity_policy)."""
        path = self.path(key)
        for queue in path:  # max_allowed_check.go:50
            for kind in KINDS:
                limit = queue.limit[kind]
                if limit != UNLIMITED and amounts[kind] and limit < queue.allocated[kind] + amounts[kind]:
                    return _over_limit(queue, kind, amounts[kind])
        for queue in path if firm else ():  # quota_check.go:62
            for kind in KINDS:
                quota = queue.quota[kind]
                if quota != UNLIMITED and amounts[kind] and quota < queue.firm[kind] + amounts[kind]:
                    return (
                        f"NonPreemptibleOverQuota: Non-preemptible workload is over quota. {queue.name} has a quota of "
                        f"{_human(kind, quota)}. Use a preemptible workload to go over quota."
                    )
        return ""


def _over_limit(queue: QueueShare, kind: int, asked: float) -> str:
    used, limit = _human(kind, queue.allocated[kind]), _human(kind, queue.limit[kind])
    return (
        f"OverLimit: {queue.name} quota has reached the allowable limit of {RESOURCES[kind]}. Limit is {limit}, currently "
        f"{used} allocated and workload requested {_human(kind, asked)}"
    )


def _human(kind: int, amount: float) -> str:
    return f"{amount / (1000, 1e9, 1)[kind]:g}"


def divide(queues: Sequence[QueueShare], total: Amounts3) -> None:
    """SetResourcesShare (resource_division/resource_division.go:25): quotas, then the rest by weight."""
    for kind in KINDS:
        left = total[kind]
        for queue in queues:
            quota = total[kind] if queue.quota[kind] == UNLIMITED else queue.quota[kind]
            amount = min(quota, queue.requestable(kind))
            queue.fair[kind] += amount
            left -= amount
        if left > 0:
            _divide_rest(queues, kind, left)


def _divide_rest(queues: Sequence[QueueShare], kind: int, left: float) -> None:
    """divideUpToFairShare (:188), then divideRemainingResource (:282): what rounding left, a unit each, largest remainder first."""
    remainders: dict[str, float] = {}
    while True:
        hungry = [queue for queue in queues if not _satisfied(queue, kind)]
        weights = sum(queue.weight for queue in hungry)
        if not weights:
            break
        round_total, again = left, False
        for queue in hungry:
            if left == 0:
                break
            asked = max(queue.requestable(kind) - queue.fair[kind], 0.0)
            share = round_total * queue.weight / weights
            if asked <= share:
                given = asked
                remainders.pop(queue.key, None)
            else:
                given = float(math.floor(share))
                if share > given:
                    remainders[queue.key] = share - given
            if given:
                queue.fair[kind] += given
                left -= given
                again = again or asked < share
        if not again or left == 0:
            break
    by_key = {queue.key: queue for queue in queues}
    for key in sorted(remainders, key=lambda one: (-remainders[one], one)):
        if left <= 0:
            break
        by_key[key].fair[kind] += min(1.0, left)
        left -= min(1.0, left)


def _satisfied(queue: QueueShare, kind: int) -> bool:
    limit, fair = queue.limit[kind], queue.fair[kind]
    return queue.request[kind] <= fair or (limit != UNLIMITED and limit <= fair)
