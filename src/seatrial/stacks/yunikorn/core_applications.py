"""YuniKorn's core: applications with their asks, filed in the leaves of a tree of queues, in the order in which they are tried.

Facts (yunikorn-core v1.8.0-1, pkg/scheduler/objects):
- An application's time is that of its submission, in nanoseconds, until an ask comes that is older (application.go:679): a pod's,
  which is in whole seconds (allocation.go:98). Placeholders are younger than their application, so gangs are in the order in which
  they were submitted. `fifo` is priority, then that time; `fair` priority, then the larger of its shares (sorters.go:130). Among
  equals chance decides, anew in each cycle: Go's maps are walked in random order, and the sort is stable (:178, queue.go:1332).
- Headroom is the least of what is left of the maxima on the way to the root, whose maximum is what all nodes have (queue.go:1385).
- Children of a queue are ordered by the highest priority that waits, then by usage: the largest share of the guaranteed
  amount, of the maximum where nothing is guaranteed (sorters.go:57, resources.go:526).

All pods of an application have one shape here, as a workload's have.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from random import Random

from seatrial.model.plan import PodShape
from seatrial.model.units import SECOND
from seatrial.stacks.yunikorn import FIFO
from seatrial.stacks.yunikorn.yunikorn_queues import ROOT, YunikornQueue

ResourceAmounts = tuple[int, ...]  # by the resources of the nodes
NEVER_CHECKED = -(1 << 62)
MIXED = 0  # no id of a shape
LEAST_PRIORITY = -(1 << 31)


class Ask:
    """A pod that waits, or has a node in the core's books."""

    __slots__ = (
        "app", "checked", "created", "heir", "node", "originates", "placeholder", "pod", "preempted", "released", "reserved",
        "told", "triggered",
    )  # fmt: skip

    def __init__(self, app: CoreApplication, pod: int, created: int, placeholder: bool) -> None:
        self.app, self.pod, self.placeholder = app, pod, placeholder
        self.created = created // SECOND * SECOND
        self.node = self.reserved = -1
        self.released = self.preempted = self.triggered = self.told = self.originates = False
        self.heir: Ask | None = None  # of a placeholder: the pod that gets its node
        self.checked = NEVER_CHECKED  # when preemption was last tried for it


class CoreApplication:
    """A workload. `planned`: placeholders that it will have, 0 without a gang."""

    def __init__(self, number: int, leaf: LeafQueue, shape: PodShape, asked: ResourceAmounts, planned: int) -> None:
        self.number, self.leaf, self.shape, self.asked, self.planned = number, leaf, shape, asked, planned
        self.submitted = self.serial = 0  # when, and as which
        self.pending: dict[Ask, None] = {}  # in the order of their creation
        self.reserved: dict[Ask, None] = {}
        self.placeholders: dict[Ask, None] = {}  # that have nodes
        self.allocated: dict[Ask, None] = {}  # others that have nodes
        self.counted = self.replaced = self.timed_out = 0  # PlaceholderData
        self.running = False  # else Accepted
        self.resuming = False

    def can_replace(self) -> bool:
        """Its pods wait for placeholders that they may replace (canReplace, application.go:1032)."""
        return self.counted > self.replaced + self.timed_out

    @property
    def priority(self) -> int:
        """Of the asks that wait."""
        return self.shape.priority if self.pending else LEAST_PRIORITY


class TreeQueue:
    """A queue: what it has, and what stands in it."""

    def __init__(self, spec: YunikornQueue | None, parent: TreeQueue | None, names: Sequence[str]) -> None:
        self.path = spec.path if spec else ROOT
        self.spec, self.parent = spec, parent
        self.children: list[TreeQueue] = []
        self.most = _amounts(spec.most if spec else {}, names)
        self.guaranteed = _amounts(spec.guaranteed if spec else {}, names)
        self.allocated = [0] * len(names)
        self.preempting = [0] * len(names)
        self.waiting = 0  # asks
        self.line: list[TreeQueue] = [self, *(parent.line if parent else ())]  # up to the root

    def headroom(self) -> list[int | None]:
        """What may still be allocated here; None: no limit."""
        above = self.parent.headroom() if self.parent else [None] * len(self.allocated)
        here = (None if most is None else most - used for most, used in zip(self.most, self.allocated, strict=True))
        return [
            left if over is None else over if left is None else min(left, over)
            for left, over in zip(here, above, strict=True)
        ]

    def headroom_below_root(self) -> list[int | None]:
        """The same, whatever the nodes have (getOutStandingRequestsInternal)."""
        root = self.line[-1]
        most, root.most = root.most, [None] * len(self.allocated)
        found = self.headroom()
        root.most = most
        return found

    def fair_most(self) -> list[int | None]:
        """The maximum that a share is of: its own, else its parent's (queue.go:1457)."""
        above = self.parent.fair_most() if self.parent else self.most
        return [over if most is None else most for most, over in zip(self.most, above, strict=True)]

    def share(self) -> float:
        """getFairShare."""
        shares = [0.0]
        for used, guaranteed, most in zip(self.allocated, self.guaranteed, self.fair_most(), strict=True):
            of = most if guaranteed is None else guaranteed
            if of is not None:
                shares.append(used / of if of > 0 else float(used > 0))
        return max(shares)

    def priority(self) -> int:
        """The highest that waits; a fenced queue's is 0."""
        if not self.waiting:
            return LEAST_PRIORITY
        if self.spec and self.spec.fenced:
            return 0
        return max((child.priority() for child in self.children), default=LEAST_PRIORITY)

    def change(self, amounts: ResourceAmounts, count: int) -> None:
        """So many places are taken, or given back, here and above."""
        for queue in self.line:
            for at, amount in enumerate(amounts):
                queue.allocated[at] += amount * count

    def preempts(self, amounts: ResourceAmounts, sign: int) -> None:
        """A pod of it is being evicted, or gone."""
        for queue in self.line:
            for at, amount in enumerate(amounts):
                queue.preempting[at] += amount * sign

    def waits(self, count: int) -> None:
        """Asks come, or go."""
        for queue in self.line:
            queue.waiting += count

    def sorted_children(self, random: Random) -> list[TreeQueue]:
        """Those in which something waits (sortQueues)."""
        there = [child for child in self.children if child.waiting]
        if len(there) > 1:
            random.shuffle(there)
            there.sort(key=lambda child: (-child.priority(), child.share(), -child.waiting))
        return there


class LeafQueue(TreeQueue):
    """A queue with applications. Those that wait for ordinary places are filed by their key and shape, so that a cycle tries a
    shape once and not each of a thousand applications."""

    def __init__(self, spec: YunikornQueue, parent: TreeQueue | None, names: Sequence[str], policy: str) -> None:
        super().__init__(spec, parent, names)
        self._policy, self._names = policy, names
        self.applications: dict[CoreApplication, None] = {}
        self.reserving: dict[CoreApplication, None] = {}
        self.replacing: dict[CoreApplication, None] = {}  # whose pods wait for placeholders of theirs
        self._filed: dict[CoreApplication, tuple[int, int, int]] = {}
        self._bins: dict[tuple[int, int], dict[int, _Bin]] = {}  # key → shape → applications
        self._keys: dict[
            int, list[tuple[int, int]]
        ] = {}  # shape → keys of that shape alone, in order; MIXED: of several
        self.untold: dict[CoreApplication, None] = {}  # that may have asks which an inspection has not told yet

    def priority(self) -> int:
        if not self.waiting:
            return LEAST_PRIORITY
        if self.spec and self.spec.fenced:
            return 0
        return -min((key[0] for key in self._bins), default=min((-app.priority for app in self.replacing), default=0))

    def file(self, app: CoreApplication) -> None:
        """Something of the application changed that its place depends on."""
        before = self._filed.pop(app, None)
        if before is not None:
            key = before[:2]
            shapes = self._bins[key]
            shapes[before[2]].remove(app)
            if not shapes[before[2]].members:
                self._keys_of(shapes).remove(key)
                del shapes[before[2]]
                if shapes:
                    insort(self._keys_of(shapes), key)
                else:
                    del self._bins[key]
        self.replacing.pop(app, None)
        if not app.pending:
            return
        if app.can_replace() and not next(iter(app.pending)).placeholder:
            self.replacing[app] = None
            return
        when = app.submitted if self._policy == FIFO else 0
        key = (-app.priority, when)
        self._filed[app] = (*key, id(app.shape))
        shapes = self._bins.setdefault(key, {})
        if id(app.shape) not in shapes:
            if shapes:
                self._keys_of(shapes).remove(key)
            shapes[id(app.shape)] = _Bin()
            insort(self._keys_of(shapes), key)
        shapes[id(app.shape)].add(app)

    def _keys_of(self, shapes: Mapping[int, _Bin]) -> list[tuple[int, int]]:
        return self._keys.setdefault(next(iter(shapes)) if len(shapes) == 1 else MIXED, [])

    def bins(self, closed: Mapping[int, bool]) -> Iterator[list[list[CoreApplication]]]:
        """Applications in the order in which they are tried: lists of equals, by shape. By `fair` each is its own list.
        Of shapes in `closed`, which may grow meanwhile, no list is tried, or (False) none with a single application."""
        heads = [(keys[0], shape, 0) for shape, keys in self._keys.items() if keys]
        heapify(heads)
        while heads:
            key, shape, at = heappop(heads)
            whole = closed.get(shape)
            if whole:
                continue
            keys = self._keys[shape]
            if at + 1 < len(keys):
                heappush(heads, (keys[at + 1], shape, at + 1))
            if whole is False and len(self._bins[key][shape].members) == 1:
                continue
            members = [one.members for one in self._bins[key].values()]
            if self._policy == FIFO:
                yield members
            else:
                yield from ([[app]] for app in self._by_share(members, closed))

    def _by_share(
        self, members: Sequence[Sequence[CoreApplication]], closed: Mapping[int, bool]
    ) -> Iterator[CoreApplication]:
        """Applications by their shares. Most that wait have nothing yet: they come first, and their shares are not worked out."""
        for apps in sorted(members, key=lambda apps: sum(map(bool, apps[0].asked))):
            for app in apps:
                if id(app.shape) in closed:
                    break
                if not (app.allocated and any(app.asked)):
                    yield app
        left = [app for apps in members if id(apps[0].shape) not in closed for app in apps]
        for app in sorted((app for app in left if app.allocated and any(app.asked)), key=self._used):
            if id(app.shape) not in closed:
                yield app

    def _used(self, app: CoreApplication) -> list[float]:
        """CompUsageRatio: its shares of what the queue is guaranteed, the largest first; of 1 where nothing is."""
        count = len(app.allocated)
        shares = [count * asked / (of or 1) for asked, of in zip(app.asked, self.guaranteed, strict=True) if asked]
        return sorted(shares, reverse=True)


class _Bin:
    """Applications of one key and shape; one of them is taken by chance."""

    __slots__ = ("_place", "members")

    def __init__(self) -> None:
        self.members: list[CoreApplication] = []
        self._place: dict[CoreApplication, int] = {}

    def add(self, app: CoreApplication) -> None:
        self._place[app] = len(self.members)
        self.members.append(app)

    def remove(self, app: CoreApplication) -> None:
        at, last = self._place.pop(app), self.members.pop()
        if last is not app:
            self.members[at] = last
            self._place[last] = at


def _amounts(given: object, names: Sequence[str]) -> list[int | None]:
    assert hasattr(given, "get")
    return [given.get(name) for name in names]


def fits(asked: ResourceAmounts, headroom: Sequence[int | None]) -> bool:
    """FitInMaxUndef: what is not limited does not count, and what is below zero is zero."""
    return all(left is None or amount <= max(left, 0) for amount, left in zip(asked, headroom, strict=True))


def queue_tree(
    specs: Sequence[YunikornQueue], names: Sequence[str], policy: str
) -> tuple[TreeQueue, dict[str, LeafQueue]]:
    """The root, and the leaves by the names of the fleet's queues."""
    root = TreeQueue(None, None, names)
    known: dict[str, TreeQueue] = {root.path: root}
    leaves: dict[str, LeafQueue] = {}
    for spec in specs:
        parent = known[spec.parent]
        if spec.leaf:
            made: TreeQueue = leaves.setdefault(spec.name, LeafQueue(spec, parent, names, policy))
        else:
            made = TreeQueue(spec, parent, names)
        parent.children.append(made)
        known[spec.path] = made
    return root, leaves
