"""The scheduling loop of YuniKorn's core: one pod a cycle, taken from reservations, from placeholders, or from those that wait.

Facts (yunikorn-core v1.8.0-1, pkg/scheduler):
- A cycle looks at reservations, then replaces a placeholder, then allocates (context.go:116). If it placed something the next one
  follows at once, else after something happens, or 100 ms (scheduler.go:73).
- A pod that finds no node and is older than 2 s reserves one (application.go:46, :1564): the node that lacks least. Each pod
  reserves one node, and a reserved node takes no other pod. Only nodes that would take the pod if they were empty are reserved,
  and a reservation has no end but its pod's place. A cycle that reserves counts as one that placed nothing.
- Reservations are tried by applications and in them in random order, at the reserved node, then at all that are not reserved
  (queue.go:1725, application.go:1400).
- A pod that fits into no headroom is passed over, and reserves nothing (application.go:1075).
- A placeholder is replaced by a pod of its group on the same node: first the placeholder is deleted, and once it is gone the pod
  is bound (application.go:1203, partition.go:1460).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TypeVar

from seatrial.model.units import MICROSECOND, MILLISECOND, SECOND
from seatrial.sim.kernel import NEVER, Kernel
from seatrial.stacks.yunikorn.core_applications import Ask, CoreApplication, LeafQueue, TreeQueue, fits
from seatrial.stacks.yunikorn.core_nodes import CoreNodes

IDLE = 100 * MILLISECOND  # scheduler.go:79
RESERVATION_DELAY = 2 * SECOND  # objects/application.go:46
# What a cycle takes, with kube-scheduler's filters: 8 in 2.5 ms in the log of the real one with 8 nodes, two busy cores.
CYCLE = 300 * MICROSECOND
MOST_PREEMPTIONS = 10  # tries per queue and cycle: maxPreemptionsPerQueue (objects/queue.go:48)
NOTHING, PLACED, RESERVED = range(3)  # outcomes of a cycle
T = TypeVar("T")


class CoreLoop:
    """`allocated(ask)`: the ask has a node; `replaced(placeholder)`: the placeholder is to be deleted, for the pod that gets its
    node. `preempt(ask, tried)` makes room by evictions, from `preempts_from(ask)` on, and returns the node to reserve, or −1."""

    def __init__(
        self,
        kernel: Kernel,
        random: Random,
        root: TreeQueue,
        nodes: CoreNodes,
        allocated: Callable[[Ask], None],
        replaced: Callable[[Ask], None],
    ) -> None:
        self._kernel, self._random, self._root, self._nodes = kernel, random, root, nodes
        self._allocated, self._replaced = allocated, replaced
        self.preempt: Callable[[Ask, bool], int] | None = None
        self.preempts_from: Callable[[Ask], int] = lambda _: 0
        self._busy = self._again = False
        self._idle_since = 0
        self._wakes: set[int] = set()
        self._failed: set[int] = set()  # shapes that fit nowhere, of this cycle
        self._unreservable: set[int] = set()  # shapes that no node is left to be reserved for, of this cycle
        self._preempts_next = 0  # before this no ask may try to preempt
        self._earliest = NEVER  # as far as this cycle has seen

    def stir(self, _: object = None) -> None:
        """Wakes the loop (registerActivity)."""
        if self._busy:
            self._again = True
            return
        self._busy = True
        self._kernel.at(self._kernel.now + CYCLE, self._cycle)

    def stir_at(self, when: int) -> None:
        """Something depends on time alone: the loop looks every 100 ms."""
        late = max(when - self._idle_since, 0)
        when = self._idle_since + -(-late // IDLE) * IDLE
        if when not in self._wakes:
            self._wakes.add(when)
            self._kernel.at(when, self._wake, when)

    def _wake(self, when: int) -> None:
        self._wakes.discard(when)
        self.stir()

    def waits(self, ask: Ask) -> None:
        """A new ask: the loop hears of it, and again when it may reserve a node."""
        self.stir()
        self.stir_at(ask.created + RESERVATION_DELAY + 1)
        if self.preempt is not None:
            self._preempts_next = min(self._preempts_next, self.preempts_from(ask))
            self.stir_at(self.preempts_from(ask))

    def _cycle(self, _: object) -> None:
        self._again = False
        self._failed.clear()
        self._unreservable.clear()
        self._earliest = NEVER
        root = self._root
        outcome = NOTHING
        if root.waiting:
            outcome = self._from_reservations(root) or self._from_placeholders(root) or self._from_asks(root)
        if outcome == PLACED or self._again:
            self._kernel.at(self._kernel.now + CYCLE, self._cycle)
            return
        self._busy = False
        self._idle_since = self._kernel.now
        if outcome == NOTHING and self._preempts_next <= self._kernel.now:
            self._preempts_next = self._earliest  # all asks were looked at
            if self._earliest <= self._kernel.now:
                self.stir_at(self._kernel.now + IDLE)  # some have not had their try
        if outcome == RESERVED:
            self.stir_at(self._kernel.now + IDLE)

    def _below(self, queue: TreeQueue, step: Callable[[LeafQueue], int]) -> int:
        """The step in the first leaf in which it does something."""
        if isinstance(queue, LeafQueue):
            return step(queue)
        return next(filter(None, (self._below(child, step) for child in queue.sorted_children(self._random))), NOTHING)

    # reservations

    def _from_reservations(self, root: TreeQueue) -> int:
        return self._below(root, self._reserved_in) if self._nodes.reservations else NOTHING

    def _reserved_in(self, leaf: LeafQueue) -> int:
        if not leaf.reserving:
            return NOTHING
        headroom = leaf.headroom()
        for app in self._shuffled(leaf.reserving):
            if not fits(app.asked, headroom):
                continue
            asks = self._shuffled(app.reserved)
            for ask in asks:
                if self._nodes.takes(ask.reserved, app.shape):
                    return self._allocate(ask, ask.reserved)
            node = self._nodes.choose(app.shape)
            if node >= 0:
                return self._allocate(asks[0], node)
        return NOTHING

    def _shuffled(self, things: Iterable[T]) -> list[T]:
        found = list(things)
        if len(found) > 1:
            self._random.shuffle(found)
        return found

    # placeholders

    def _from_placeholders(self, root: TreeQueue) -> int:
        return self._below(root, self._replaces_in)

    def _replaces_in(self, leaf: LeafQueue) -> int:
        for app in sorted(leaf.replacing, key=lambda app: (-app.priority, app.submitted)):
            ready = next((held for held in app.placeholders if not held.released and not held.preempted), None)
            if ready is None:
                continue
            ask = next(iter(app.pending))
            ready.heir, ask.node, ready.released = ask, ready.node, True
            self._no_longer_waits(ask)
            self._replaced(ready)
            return PLACED
        return NOTHING

    # asks

    def _from_asks(self, root: TreeQueue) -> int:
        return self._below(root, self._asked_in)

    def _asked_in(self, leaf: LeafQueue) -> int:
        headroom = leaf.headroom()
        attempts = [MOST_PREEMPTIONS]
        closed: dict[int, bool] = {}
        for equals in leaf.bins(closed):
            outcome = self._from_equals(equals, headroom, attempts)
            if outcome:
                return outcome
            if len(equals) == 1:
                self._close(equals[0][0], headroom, closed)
        return NOTHING

    def _close(self, app: CoreApplication, headroom: Sequence[int | None], closed: dict[int, bool]) -> None:
        """Nothing came of the application, and nothing will of others of its shape in this cycle, unless they may preempt or
        reserve a node. Where chance would choose who reserves one, it is asked all the same (False)."""
        if self.preempt is not None and self._kernel.now >= self._preempts_next:
            return
        shape = id(app.shape)
        if not fits(app.asked, headroom) or self._nodes.all_reserved:
            closed[shape] = True
        elif shape in self._unreservable:
            closed[shape] = False

    def _from_equals(
        self, equals: list[list[CoreApplication]], headroom: Sequence[int | None], attempts: list[int]
    ) -> int:
        """Of applications that are equals chance takes one; those of a shape that finds nothing are passed over together."""
        left = list(equals)
        while left:
            apps = left[0] if len(left) == 1 else self._random.choices(left, [len(apps) for apps in left])[0]
            left.remove(apps)
            one, failed = apps[0], id(apps[0].shape) in self._failed
            has_room = fits(one.asked, headroom)
            node = self._nodes.choose(one.shape) if has_room and not failed else -1
            if node >= 0:
                app = apps[int(self._random.random() * len(apps))]
                return self._allocate(next(iter(app.pending)), node)
            if has_room:
                self._failed.add(id(one.shape))
            if (has_room and self._reserves(apps)) or self._preempts(apps, has_room, attempts):
                return RESERVED
        return NOTHING

    def _reserves(self, apps: list[CoreApplication]) -> bool:
        """The first of their asks that is old enough and has no node reserved reserves one."""
        if self._nodes.all_reserved:
            return False
        latest = self._kernel.now - RESERVATION_DELAY
        for app in self._shuffled(apps):
            ask = next((ask for ask in app.pending if ask.reserved < 0 and ask.created < latest), None)
            if ask is None:
                continue
            node = self._nodes.to_reserve(app.shape, app.asked)
            if node >= 0:
                self._nodes.reserve(node, ask)
            else:
                self._unreservable.add(id(app.shape))
            return node >= 0
        return False

    def _preempts(self, apps: list[CoreApplication], tried: bool, attempts: list[int]) -> bool:
        """Tries, for ask after ask, to evict others (tryPreemption, application.go:1445)."""
        now = self._kernel.now
        if self.preempt is None or now < self._preempts_next:
            return False
        for app in apps:
            for ask in [ask for ask in app.pending if not ask.triggered]:
                due = self.preempts_from(ask)
                if due <= now and attempts[0]:
                    attempts[0] -= 1
                    node = self.preempt(ask, tried)
                    if node >= 0:
                        self._nodes.unreserve(ask)
                        if node not in self._nodes.reservations:
                            self._nodes.reserve(node, ask)
                        return True
                    due = self.preempts_from(ask)
                    self.stir_at(due)
                self._earliest = min(self._earliest, due)
        return False

    def _allocate(self, ask: Ask, node: int) -> int:
        self._nodes.unreserve(ask)
        ask.node = node
        self._no_longer_waits(ask)
        ask.app.leaf.change(ask.app.asked, 1)
        self._allocated(ask)
        return PLACED

    def _no_longer_waits(self, ask: Ask) -> None:
        app = ask.app
        self._nodes.unreserve(ask)
        del app.pending[ask]
        app.leaf.waits(-1)
        app.leaf.file(app)
