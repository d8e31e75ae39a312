"""Volcano's cache between sessions: the groups that are in, and those that wait outside, in lines.

A real session clones every group, and offers each that nobody has let in to the plugins. Groups outside have nothing, so
those of a queue with the same minimum get the same answer, and nothing else in a session depends on them. Here they stay in order
in a line per queue and minimum from session to session, and a session looks at what changed, what is in, and what it lets in.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from operator import attrgetter

from seatrial.sim.world import Sim
from seatrial.stacks.volcano.pod_groups import PENDING, Amount, GroupState

Line = list[tuple[tuple[object, ...], GroupState]]  # (rank, group), in order


def rank_outside(group: GroupState, tiers: Iterable[Iterable[str]]) -> tuple[object, ...]:
    """The place in its queue of a group that has nothing: the plugins see no difference between two of them but priority."""
    known: dict[str, object] = {"priority": -group.shape.priority, "gang": False, "drf": 0.0}
    return (*(known[plugin] for tier in tiers for plugin in tier if plugin in known), group.born, group.name)


class GroupCache:
    """`holds_back`: whether there is the action `enqueue`; else no group waits outside."""

    def __init__(self, tiers: Sequence[Sequence[str]], holds_back: bool) -> None:
        self._tiers, self._holds_back = tiers, holds_back
        self._every: dict[int, GroupState] = {}
        self._inside: dict[int, GroupState] = {}
        self.lines: dict[str, dict[Amount, Line]] = {}  # queue → minimum → groups outside
        self._changed: set[int] = set()  # groups whose pods changed since the last session
        self._unwritten: dict[int, GroupState] = {}  # of those outside, those whose status may have to be written
        self.waiting: Counter[tuple[str, Amount]] = Counter()  # queue and request → pending pods
        self._arrivals: dict[str, deque[int]] = {}  # queue → groups as they came
        self._came = 0  # groups so far
        self._gone = 0  # groups whose Jobs are complete: Volcano still clones them

    def __contains__(self, number: int) -> bool:
        return number in self._every

    @property
    def cloned(self) -> int:
        """How many groups a session clones."""
        return len(self._every) + self._gone

    @property
    def inside(self) -> list[GroupState]:
        """Groups that are in, or have something, or are over."""
        return list(self._inside.values())

    def add(self, group: GroupState) -> None:
        """A new group."""
        group.serial = self._came = self._came + 1
        group.rank = rank_outside(group, self._tiers)
        self._every[group.number] = self._inside[group.number] = group
        self._arrivals.setdefault(group.queue, deque()).append(group.number)

    def changed(self, number: int) -> None:
        """Marks the group after a change of its pods."""
        self._changed.add(number)

    def complete(self, number: int, pods: int) -> None:
        """Marks the group of a completed Job."""
        self._every[number].complete(pods)
        self._changed.add(number)

    def remove(self, number: int) -> None:
        """Removes a deleted group."""
        group = self._every.pop(number, None)
        if group is not None:
            self._leave(group)
            self._inside.pop(number, None)
            self.waiting[group.queue, group.asked] -= group.counted

    def retire(self, group: GroupState) -> None:
        """Removes a finished group whose end is written."""
        self.remove(group.number)
        self._gone += 1

    def open(self, sim: Sim, releasing: set[int]) -> None:
        """Updates changed groups at the beginning of a session."""
        for number in self._changed:
            group = self._every.get(number)
            if group is None:
                continue
            group.recount(sim, releasing)
            self.waiting[group.queue, group.asked] += len(group.pending) - group.counted
            group.counted = len(group.pending)
            if number not in self._inside:
                if group.over or not group.has_nothing():
                    self._leave(group)
                    self._inside[number] = group
                else:
                    self._unwritten[number] = group
        self._changed.clear()
        for group in self.inside:
            group.begin()  # what the last session placed is among the pods now
            if self._holds_back and group.phase == PENDING and not group.over and group.has_nothing():
                del self._inside[group.number]
                insort(self._line(group), (group.rank, group))
                self._unwritten[group.number] = group

    def let_in(self, groups: Iterable[GroupState]) -> None:
        """The session took them from their lines."""
        for group in groups:
            self._inside[group.number] = group

    def to_write(self) -> list[GroupState]:
        """Groups whose status the session that ends may have to write, as they came."""
        found = sorted((self._inside | self._unwritten).values(), key=attrgetter("serial"))
        self._unwritten.clear()
        return found

    def queues(self) -> list[str]:
        """Queues that have groups, the one with the oldest group first."""
        oldest = {}
        for name, numbers in self._arrivals.items():
            while numbers and numbers[0] not in self._every:
                numbers.popleft()
            if numbers:
                oldest[name] = self._every[numbers[0]].serial
        return sorted(oldest, key=oldest.__getitem__)

    def _line(self, group: GroupState) -> Line:
        return self.lines.setdefault(group.queue, {}).setdefault(group.minimum, [])

    def _leave(self, group: GroupState) -> None:
        self._unwritten.pop(group.number, None)
        if group.number in self._inside or not self._holds_back:
            return
        line = self._line(group)
        at = bisect_left(line, (group.rank,))
        if at < len(line) and line[at][1] is group:
            del line[at]
