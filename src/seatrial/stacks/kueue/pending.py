"""Kueue's queue of pending workloads: a heap of those to try next, and beside it those that did not fit.

Facts (Kueue v0.16.1, pkg/cache/queue/cluster_queue.go): priority first, then the time of creation (of eviction, if it was evicted
for not running in time) in whole seconds. Less is "not later", so that among workloads of the same second each counts as less
than the other, and Go's heap lets the last one pushed rise to the top: within a second, nearly last in, first out.

BestEffortFIFO sets a workload that does not fit aside until something is freed; then all of these go back at once, in the order of
a Go map, which is none. A workload that waits for its victims to go is sticky: it stays the head, before all priorities, until it
is admitted or deleted, or another one waits for victims. StrictFIFO pushes every workload back, so that the head stays the head.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from random import Random

from seatrial.model.plan import Workload
from seatrial.stacks.kueue.quota_tree import QuotaClaim

Key = tuple[int, int]  # minus the priority, whole seconds


@dataclass(slots=True)
class Entry:
    """A Job and its Workload, as the server has them."""

    number: int
    workload: Workload
    claim: QuotaClaim  # what the scheduler knows of it
    created: int  # whole seconds
    exists: bool = False  # the Workload
    suspended: bool = True  # the Job, by its spec
    started: bool = False  # since the last admission: pods may exist
    stopped: bool = True  # suspended with its own template
    failures: int = 0  # reconciliations of the Job that failed, one after another
    suspension_noted: bool = False  # in the Job's status
    complete: bool = False  # the Job
    deleted: bool = False  # the Job
    admitted_at: int = -1  # quota reserved and admitted are one write: there are no admission checks
    finished: bool = False
    finalizer: bool = True  # of the Workload
    message: str = ""  # why its quota is not reserved
    ready: str = ""  # the reason of PodsReady
    reclaimed: int = 0  # pods that are over, whose quota others may have
    evicted: bool = False
    timed_out: bool = False  # evicted because its pods did not run in time: it is requeued after a backoff
    requeues: int = 0
    requeue_at: int = 0
    events: int = 0

    @property
    def admitted(self) -> bool:
        """The Workload has its quota."""
        return self.admitted_at >= 0

    @property
    def key(self) -> Key:
        """Its place in the queue."""
        return -self.claim.priority, self.claim.created


class GoHeap:
    """container/heap over keys where of two equal ones each is less than the other; `heapq` would keep their order."""

    def __init__(self) -> None:
        self._items: list[tuple[Key, int]] = []
        self._at: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, number: int) -> bool:
        return number in self._at

    def push(self, key: Key, number: int) -> None:
        """heap.Push."""
        self._at[number] = len(self._items)
        self._items.append((key, number))
        self._up(len(self._items) - 1)

    def first(self) -> Key:
        """The key of the next `pop`."""
        return self._items[0][0]

    def pop(self) -> int:
        """heap.Pop."""
        number = self._items[0][1]
        self.remove(number)
        return number

    def remove(self, number: int) -> None:
        """heap.Remove: the last takes its place and moves down, or else up."""
        place, last = self._at.pop(number), len(self._items) - 1
        if place != last:
            self._put(place, self._items[last])
        self._items.pop()
        if place != last and not self._down(place):
            self._up(place)

    def fix(self, number: int) -> None:
        """heap.Fix: every update of an object in the heap does this."""
        place = self._at[number]
        if not self._down(place):
            self._up(place)

    def _put(self, place: int, item: tuple[Key, int]) -> None:
        self._items[place] = item
        self._at[item[1]] = place

    def _swap(self, one: int, other: int) -> None:
        items = self._items
        first, second = items[one], items[other]
        self._put(one, second)
        self._put(other, first)

    def _up(self, place: int) -> None:
        items = self._items
        while place > 0:
            parent = (place - 1) // 2
            if items[place][0] > items[parent][0]:
                break
            self._swap(parent, place)
            place = parent

    def _down(self, start: int) -> bool:
        items, count, place = self._items, len(self._items), start
        while True:
            child = 2 * place + 1
            if child >= count:
                break
            if child + 1 < count and items[child + 1][0] <= items[child][0]:
                child += 1
            if items[child][0] > items[place][0]:
                break
            self._swap(place, child)
            place = child
        return place > start


class Inadmissible:
    """Workloads that did not fit, by key. After `renew` all of them can be taken again, at random among equals.

    Kueue pushes each of them back into its heap. With thousands that wait and thousands that finish, that would be most of a
    simulation, so nothing is moved here: of every key the first `tried` members had their turn.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._keys: list[Key] = []  # sorted; each has members
        self._members: dict[Key, list[int]] = {}
        self._tried: dict[Key, int] = {}
        self._at: dict[int, tuple[Key, int]] = {}
        self._scan = 0  # all members of keys before this one had their turn
        self.untried = 0  # how many can be taken

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, number: int) -> bool:
        return number in self._at

    def add(self, number: int, key: Key) -> None:
        """The workload has just had its turn."""
        if key not in self._members:
            place = bisect_left(self._keys, key)
            self._keys.insert(place, key)
            self._scan += place < self._scan
            self._members[key], self._tried[key] = [], 0
        members = self._members[key]
        members.append(number)
        self._at[number] = (key, len(members) - 1)
        self._swap(key, self._tried[key], len(members) - 1)
        self._tried[key] += 1

    def renew(self) -> None:
        """All can be taken again."""
        self._scan, self.untried = 0, len(self._at)
        self._tried = dict.fromkeys(self._members, 0)

    def can_take(self, number: int) -> bool:
        """Whether the workload is here and has not had its turn."""
        key, place = self._at.get(number, (None, 0))
        return key is not None and place >= self._tried[key]

    def first(self) -> Key | None:
        """The key of the next `pop`."""
        if not self.untried:
            return None
        while self._tried[self._keys[self._scan]] == len(self._members[self._keys[self._scan]]):
            self._scan += 1
        return self._keys[self._scan]

    def pop(self) -> int:
        """Takes an available workload of the first key, at random."""
        key = self.first()
        assert key is not None
        tried, members = self._tried[key], self._members[key]
        number = members[tried + int(self._random.random() * (len(members) - tried))]
        self.remove(number)
        return number

    def remove(self, number: int) -> None:
        """The workload waits no longer."""
        key, place = self._at[number]
        members, tried = self._members[key], self._tried[key]
        if place < tried:
            self._swap(key, place, tried - 1)
            place = self._tried[key] = tried - 1
        else:
            self.untried -= 1
        self._swap(key, place, len(members) - 1)
        members.pop()
        del self._at[number]
        if not members:
            gone = bisect_left(self._keys, key)
            self._keys.pop(gone)
            self._scan -= gone < self._scan
            del self._members[key], self._tried[key]

    def _swap(self, key: Key, one: int, other: int) -> None:
        members = self._members[key]
        members[one], members[other] = members[other], members[one]
        self._at[members[one]], self._at[members[other]] = (key, one), (key, other)


@dataclass(slots=True)
class Freed:
    """How often something was freed in a tree of cohorts."""

    times: int = 0


class Pending:
    """The pending workloads of one ClusterQueue. `strict` is StrictFIFO; `freed` is shared by the queues of a tree."""

    def __init__(self, strict: bool, random: Random, freed: Freed) -> None:
        self._strict, self._freed = strict, freed
        self._heap = GoHeap()
        self._inadmissible = Inadmissible(random)  # or moved back into the heap
        self._popped_at = 0  # how often something had been freed then
        self._sticky = -1  # the workload that waits for its victims

    def __len__(self) -> int:
        """The number of waiting workloads, in the heap or beside it."""
        return len(self._heap) + len(self._inadmissible)

    @property
    def heads(self) -> bool:
        """Whether there is something to pop."""
        return self._inadmissible.untried > 0 or len(self._heap) > 0

    def push(self, number: int, key: Key) -> None:
        """The workload is new, or changed so that it may fit now."""
        self._take_out(number)
        self._heap.push(key, number)

    def updated(self, number: int) -> None:
        """Its object changed, but nothing that matters for admission."""
        if number in self._heap:
            self._heap.fix(number)

    def pop(self) -> int:
        """The head. Of equal keys, those in the heap came last and go first."""
        self._popped_at = self._freed.times
        sticky = self._sticky
        if sticky >= 0 and (sticky in self._heap or self._inadmissible.can_take(sticky)):
            self._take_out(sticky)
            return sticky
        key = self._inadmissible.first()
        if key is not None and (not len(self._heap) or key < self._heap.first()):
            return self._inadmissible.pop()
        return self._heap.pop()

    def put_back(self, number: int, key: Key, at_once: bool = False, waits_for_victims: bool = False) -> None:
        """The workload could not be admitted. `at_once`: it is tried again in the next cycle."""
        if waits_for_victims and not self._strict:
            self._sticky = number
        if self._strict or at_once or self._freed.times > self._popped_at:
            self._heap.push(key, number)
        else:
            self._inadmissible.add(number, key)

    @property
    def is_aside(self) -> bool:
        """Whether workloads wait until something is freed."""
        return len(self._inadmissible) > self._inadmissible.untried

    def move(self) -> None:
        """Retries inadmissible workloads, after something was freed."""
        self._inadmissible.renew()

    def remove(self, number: int) -> None:
        """The workload waits no longer, if it did."""
        self._take_out(number)
        if number == self._sticky:
            self._sticky = -1

    def _take_out(self, number: int) -> None:
        if number in self._heap:
            self._heap.remove(number)
        elif number in self._inadmissible:
            self._inadmissible.remove(number)
