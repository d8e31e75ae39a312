"""Preemption between YuniKorn's queues: a queue takes back what it is guaranteed from queues that use more than they are.

Facts (yunikorn-core v1.8.0-1, pkg/scheduler/objects/preemption.go; queue.go:1973 for who may be a victim):
- An ask tries `preemption.delay` after its creation, and every 15 s again until it had success once (:115). Its own queue must be
  within what it is guaranteed with it (:255); victims are pods of other leaves, whose queue stays at what it is guaranteed or
  more without them (:300).
- Victims have the ask's priority or a lower one; any, if their queue ends priorities (priority.policy: fence). Nothing is preempted
  within one queue.
- Per node, victims are tried with the youngest first, and each application's first pod last (:868). The node with the fewest
  is taken, those without a first pod before others; then its name decides.
- The node is reserved for the ask, and the victims are deleted (:640).

Amounts are mappings here, as in YuniKorn: a resource that is not named is neither zero nor unlimited. The functions below have the
names and the rules of pkg/common/resources/resources.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from seatrial.model.units import SECOND
from seatrial.sim.kernel import Kernel
from seatrial.sim.nodes import Nodes
from seatrial.stacks.yunikorn.core_applications import Ask, LeafQueue, TreeQueue
from seatrial.stacks.yunikorn.core_nodes import CoreNodes

ATTEMPT_FREQUENCY = 15 * SECOND  # preemptAttemptFrequency, :37
_ORIGINATOR = 1 << 33  # scoreOriginator, :40
Named = Mapping[int, int]  # resource, by its number among those of nodes


@dataclass(slots=True, eq=False)
class QueueSnapshot:
    """A queue while victims are tried out (QueuePreemptionSnapshot)."""

    queue: TreeQueue
    parent: QueueSnapshot | None
    allocated: dict[int, int]
    preempting: Named
    guaranteed: Named
    of_asker: bool  # the asker's queue, or one above it
    asker: QueueSnapshot | None = None
    victims: list[Ask] = field(default_factory=list)

    def change(self, amounts: Named, sign: int) -> None:
        """A pod more, or less, here and above."""
        for name, amount in amounts.items():
            self.allocated[name] = self.allocated.get(name, 0) + sign * amount
        if self.parent:
            self.parent.change(amounts, sign)

    def used(self) -> dict[int, int]:
        """The usage without pods that are being evicted."""
        return _sub(self.allocated, self.preempting)

    def remaining(self) -> Named | None:
        """GetRemainingGuaranteedResource; None: nothing is guaranteed here nor above."""
        parent = self.parent.remaining() if self.parent else None
        if not parent and not self.guaranteed:
            return None
        here = _sub(self.guaranteed, self.used())
        asker = self.asker
        if asker is not None and asker.queue is self.queue and here:
            return {**(parent or {}), **here}
        if asker is not None and here and self.of_asker and asker.guaranteed:
            return None
        both = {**(parent or {}), **here}
        return {name: min(amount, (parent or {}).get(name, amount)) for name, amount in both.items()}

    def preemptable(self) -> Named:
        """GetPreemptableResource: what is used beyond the guaranteed amount, here and above."""
        if not self.allocated:
            return {}
        above = self.parent.preemptable() if self.parent else None
        over = {name: amount for name, amount in _sub(self.used(), self.guaranteed).items() if amount > 0}
        return {name: min(amount, (above or {}).get(name, amount)) for name, amount in over.items()}


class CorePreemption:
    """`evict(victim, asker)` marks and deletes a pod."""

    def __init__(
        self,
        kernel: Kernel,
        nodes: Nodes,
        order: CoreNodes,
        root: TreeQueue,
        delay: int,
        evict: Callable[[Ask, Ask], None],
    ) -> None:
        self._kernel, self._nodes, self._order, self._root = kernel, nodes, order, root
        self._delay, self._evict = delay, evict
        self._in_vain: dict[
            tuple[LeafQueue, int, bool], int
        ] = {}  # queue, shape, `tried` → the state of nodes at the time

    def tries_from(self, ask: Ask) -> int:
        """When the ask may try next."""
        return max(ask.created + self._delay, ask.checked + ATTEMPT_FREQUENCY)

    def attempt(self, ask: Ask, tried: bool) -> int:
        """TryPreemption; `tried`: no node has room for it now. Returns the node that is to be reserved, or −1."""
        ask.checked = self._kernel.now
        key = ask.app.leaf, id(ask.app.shape), tried
        if self._in_vain.get(key) == self._nodes.changes:
            return -1  # another of its kind has just had no success
        node = self._attempt(ask, tried)
        if node < 0:
            self._in_vain[key] = self._nodes.changes
        return node

    def _attempt(self, ask: Ask, tried: bool) -> int:
        asked = _named(ask)
        snapshots = self._snapshots(ask)
        if not self._helps(snapshots, ask, asked):
            return -1
        node, victims = self._best_node(snapshots, ask, asked, tried)
        if node < 0:
            return -1
        more = self._more_victims(snapshots, ask, asked, victims)
        if more is None:
            return -1
        final = self._enough(node, [*victims, *more], asked)
        if not final:
            return -1
        for victim in final:
            victim.preempted = True
            victim.app.leaf.preempts(victim.app.asked, 1)
            self._evict(victim, ask)
        ask.triggered = True
        return node

    # who may be evicted

    def _snapshots(self, ask: Ask) -> dict[TreeQueue, QueueSnapshot]:
        """FindEligiblePreemptionVictims."""
        found: dict[TreeQueue, QueueSnapshot] = {}
        asker = _snapshot(found, ask.app.leaf, ask.app.leaf)
        for queue in ask.app.leaf.line[:-1]:
            found[queue].asker = asker
        spec = ask.app.leaf.spec
        priority = 0 if spec and spec.fenced else ask.app.shape.priority
        self._find(found, self._root, ask, priority, fenced=False)
        return found

    def _find(
        self, found: dict[TreeQueue, QueueSnapshot], queue: TreeQueue, ask: Ask, priority: int, fenced: bool
    ) -> None:
        if queue is ask.app.leaf:
            return
        if not isinstance(queue, LeafQueue):
            for child in queue.children:
                ends = child.spec is not None and child.spec.fenced and child not in ask.app.leaf.line
                if not ends or priority >= 0:
                    self._find(found, child, ask, priority, fenced or ends)
            return
        snapshot = _snapshot(found, queue, ask.app.leaf)
        snapshot.asker = found[ask.app.leaf]
        remaining = snapshot.remaining()
        if remaining is None or any(amount < 0 for amount in remaining.values()):
            for app in queue.applications:
                if fenced or app.shape.priority <= priority:
                    held = (*app.allocated, *app.placeholders)
                    snapshot.victims += [one for one in held if not one.released and not one.preempted]
        if not snapshot.victims:
            del found[queue]

    def _helps(self, snapshots: Mapping[TreeQueue, QueueSnapshot], ask: Ask, asked: Named) -> bool:
        """checkPreemptionQueueGuarantees."""
        copies = _copied(snapshots)
        asker = copies[ask.app.leaf]
        if (left := asker.remaining()) is not None and _fits(asked, left):
            return True
        asker.change(asked, 1)
        for snapshot in copies.values():
            for victim in snapshot.victims:
                snapshot.change(_named(victim), -1)
                left = asker.remaining()
                if left is not None and all(left.get(name, 0) >= 0 for name in asked):
                    return True
        return False

    # who is evicted

    def _best_node(
        self, snapshots: Mapping[TreeQueue, QueueSnapshot], ask: Ask, asked: Named, tried: bool
    ) -> tuple[int, list[Ask]]:
        on_node: dict[int, list[Ask]] = {}
        for snapshot in snapshots.values():
            for victim in snapshot.victims:
                on_node.setdefault(victim.node, []).append(victim)
        best: tuple[tuple[int, int, int], int, list[Ask]] | None = None
        for node in range(len(self._nodes)):
            reserved = self._order.reservations.get(node)
            if (reserved is not None and reserved is not ask) or not self._nodes.could_take(node, ask.app.shape):
                continue
            there = sorted(on_node.get(node, ()), key=_order_of_victims)
            victims = self._victims_on(snapshots, node, there, ask, asked)
            if victims is None or (not victims and tried):
                continue
            score = len(victims) + (_ORIGINATOR if any(one.originates for one in there[: len(victims)]) else 0)
            rank = (score, len(victims), self._order.rank(node))
            if best is None or rank < best[0]:
                best = rank, node, victims
        return (best[1], best[2]) if best else (-1, [])

    def _victims_on(
        self, snapshots: Mapping[TreeQueue, QueueSnapshot], node: int, there: list[Ask], ask: Ask, asked: Named
    ) -> list[Ask] | None:
        """calculateVictimsByNode: as many as make room, or None."""
        free = {name: self._nodes.free[name][node] for name in range(len(self._nodes.resources))}
        if _fits_in(asked, free):
            return []
        copies = _copied(snapshots)
        asker, left = copies[ask.app.leaf], dict(free)
        head: list[Ask] = []
        tail: list[Ask] = []
        for victim in there:
            amounts = _named(victim)
            if not _may_go(copies[victim.app.leaf], amounts, asked):
                continue
            if not _has_left(asker, amounts):
                copies[victim.app.leaf].change(amounts, 1)
                break
            if any(asked[name] > left[name] for name in asked if amounts.get(name, 0) > 0):
                asker.change(amounts, 1)
                for name, amount in amounts.items():
                    left[name] += amount
                head.append(victim)
            else:
                copies[victim.app.leaf].change(amounts, 1)
                tail.append(victim)
        copies = _copied(snapshots)
        left, chosen = dict(free), []
        for victim in (*head, *tail):
            amounts = _named(victim)
            if _may_go(copies[victim.app.leaf], amounts, asked):
                chosen.append(victim)
                for name, amount in amounts.items():
                    left[name] += amount
                if _fits_in(asked, left):
                    return chosen
        return None

    def _more_victims(
        self, snapshots: Mapping[TreeQueue, QueueSnapshot], ask: Ask, asked: Named, chosen: list[Ask]
    ) -> list[Ask] | None:
        """calculateAdditionalVictims; None: the ask's queue would be beyond what it is guaranteed."""
        copies = _copied(snapshots)
        asker = copies[ask.app.leaf]
        for victim in chosen:
            copies[victim.app.leaf].change(_named(victim), -1)
        others = [one for snapshot in copies.values() for one in snapshot.victims if one not in chosen]
        victims = []
        for victim in sorted(others, key=_order_of_victims):
            amounts = _named(victim)
            if not _may_go(copies[victim.app.leaf], amounts, asked):
                continue
            if not _has_left(asker, amounts):
                copies[victim.app.leaf].change(amounts, 1)
                break
            asker.change(amounts, 1)
            victims.append(victim)
        left = asker.remaining()
        within = left is not None and all(left.get(name, 0) >= 0 for name in asked)
        return victims if within or not victims else None

    def _enough(self, node: int, victims: Iterable[Ask], asked: Named) -> list[Ask]:
        """Those whose room the ask needs: of one node, unless that has room and only the queue lacks it."""
        has_room = _fits_in(asked, {name: self._nodes.free[name][node] for name in asked})
        total: dict[int, int] = {}
        final = []
        for victim in victims:
            if not has_room and victim.node != node:
                continue
            if _greater(asked, total):
                final.append(victim)
            for name, amount in _named(victim).items():
                total[name] = total.get(name, 0) + amount
        return [] if _greater(asked, total) else final


def _snapshot(found: dict[TreeQueue, QueueSnapshot], queue: TreeQueue, asker: TreeQueue) -> QueueSnapshot:
    """createPreemptionSnapshot: of the queue and those above it."""
    if queue not in found:
        parent = _snapshot(found, queue.parent, asker) if queue.parent else None
        used = {name: amount for name, amount in enumerate(queue.allocated) if amount}
        going = {name: amount for name, amount in enumerate(queue.preempting) if amount}
        guaranteed = {name: amount for name, amount in enumerate(queue.guaranteed) if amount is not None}
        made = QueueSnapshot(queue, parent, used, going, guaranteed, queue in asker.line)
        if queue is not asker and asker in found and queue.parent:
            made.asker = found[asker]
        found[queue] = made
    return found[queue]


def _copied(snapshots: Mapping[TreeQueue, QueueSnapshot]) -> dict[TreeQueue, QueueSnapshot]:
    """To try out on. As in YuniKorn (Duplicate, :703), the asker that the copies know is the one of the original."""
    copies: dict[TreeQueue, QueueSnapshot] = {}

    def copy(one: QueueSnapshot) -> QueueSnapshot:
        if one.queue not in copies:
            parent = copy(one.parent) if one.parent else None
            copies[one.queue] = QueueSnapshot(
                one.queue,
                parent,
                dict(one.allocated),
                one.preempting,
                one.guaranteed,
                one.of_asker,
                one.asker,
                one.victims,
            )
        return copies[one.queue]

    for one in snapshots.values():
        copy(one)
    return copies


def _named(ask: Ask) -> dict[int, int]:
    return {name: amount for name, amount in enumerate(ask.app.asked) if amount}


def _sub(base: Named, less: Named) -> dict[int, int]:
    """SubOnlyExisting."""
    return {name: amount - less.get(name, 0) for name, amount in base.items()}


def _fits(asked: Named, left: Named) -> bool:
    """FitInActual: what is not named does not count."""
    return all(amount <= left[name] for name, amount in asked.items() if name in left)


def _fits_in(asked: Named, free: Named) -> bool:
    """FitIn."""
    return all(amount <= max(free.get(name, 0), 0) for name, amount in asked.items())


def _greater(asked: Named, total: Named) -> bool:
    """StrictlyGreaterThanOnlyExisting: none of what both name is more in `total`, and one is less."""
    if not total:
        return bool(asked)
    common = [(amount, total[name]) for name, amount in asked.items() if name in total]
    return all(amount >= other for amount, other in common) and any(amount != other for amount, other in common)


def _has_left(asker: QueueSnapshot, amounts: Named) -> bool:
    left = asker.remaining()
    return left is not None and _fits(amounts, left)


def _may_go(queue: QueueSnapshot, amounts: Named, asked: Named) -> bool:
    """Takes the pod out of its queue, unless that would then have less than it is guaranteed."""
    remaining = queue.remaining()
    queue.change(amounts, -1)
    over = remaining is None or any(remaining.get(name, 0) < 0 for name in asked)
    if over and all(amount >= 0 for amount in queue.preemptable().values()):
        return True
    queue.change(amounts, 1)
    return False


def _order_of_victims(ask: Ask) -> tuple[bool, int]:
    """Victims that are not the first of their application; the youngest first."""
    return ask.originates, -ask.created
