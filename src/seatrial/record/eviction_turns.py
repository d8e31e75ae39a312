"""Workloads that evict each other again and again: rounds of evictions, counted as they happen.

A round is a workload that has its place and loses it to another. Until it has its place again, further evictions belong to the same
round: kube-scheduler preempts pod by pod. Only evictions for somebody else count; a timeout or a lost node is no turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from seatrial.model.fleet import FAIR_SHARING, PREEMPTED, RECLAIMED

REPEATED = 3  # rounds of the same two workloads that look like more to come
_FOR_OTHERS = (PREEMPTED, RECLAIMED, FAIR_SHARING)


@dataclass(slots=True)
class EvictionTurn:
    """How often one workload lost its place to another."""

    rounds: int
    since: int
    last: int
    reason: str  # of the last round


class EvictionTurns:
    """Of all pairs of workloads. `repeated` has the pairs (who lost, who got the place) with REPEATED rounds or more."""

    def __init__(self) -> None:
        self.repeated: dict[tuple[int, int], EvictionTurn] = {}
        self._longest: dict[int, int] = {}  # workload → the longest time that it had its place after an eviction
        self._turns: dict[tuple[int, int], EvictionTurn] = {}
        self._out: set[int] = set()
        self._back: dict[int, int] = {}

    def evicted(self, at: int, workload: int, by: int, reason: str) -> None:
        """A workload lost its place."""
        if workload in self._out:
            return
        self._out.add(workload)
        if workload in self._back:
            self._longest[workload] = max(self._longest.get(workload, 0), at - self._back[workload])
        if reason not in _FOR_OTHERS:
            return
        turn = self._turns.setdefault((workload, by), EvictionTurn(0, at, at, reason))
        turn.rounds, turn.last, turn.reason = turn.rounds + 1, at, reason
        if turn.rounds >= REPEATED:
            self.repeated[workload, by] = turn

    def readmitted(self, at: int, workload: int) -> None:
        """A workload has its place again."""
        self._out.discard(workload)
        self._back[workload] = at

    def longest_since_asked(self, workload: int) -> int:
        """The longest time that it had its place after an eviction, and lost it again, since this was last asked."""
        return self._longest.pop(workload, 0)
