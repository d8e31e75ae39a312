"""Workloads that evict each other, and never get further: a livelock of preemption.

It is no stall: pods start, run and are lost, and a queue admits and evicts at full speed. Only the evictions show it. Two kinds:

- A ring: each of the workloads lost its place to another of them, several times.
- In vain: a workload lost its place several times for one that never got it. Who lost its own place to that victim, just as often,
  is part of it: it comes back whenever the victim is gone, before the one that it went for.

Workloads that get further between two evictions (a checkpoint was made) are not stuck.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from seatrial.clog.diagnosis import LIVELOCK, QUOTA, Diagnosis, Edge
from seatrial.clog.situation import declared
from seatrial.clog.wording import doing, listing, some
from seatrial.model.fleet import FAIR_SHARING, RECLAIMED
from seatrial.model.state import State, WorkloadState
from seatrial.model.units import SECOND, format_duration

IN_VAIN = 5  # rounds where it is not known for whom

Pairs = Mapping[
    tuple[int, int], tuple[int, int, str]
]  # (who lost, who got the place) → rounds, since when, last reason


def stuck(pairs: Pairs, is_over: Callable[[int], bool], was_placed: Callable[[int], bool]) -> set[int]:
    """The workloads that only evict each other. `was_placed`: whether a workload ever had its place."""
    alive = [(lost, got) for lost, got in pairs if not is_over(lost) and (got < 0 or not is_over(got))]
    ring = {pair for pair in alive if pair[1] >= 0}
    while True:
        losers, winners = {lost for lost, _ in ring}, {got for _, got in ring}
        kept = {(lost, got) for lost, got in ring if lost in winners and got in losers}
        if kept == ring:
            break
        ring = kept
    found = {number for pair in ring for number in pair}
    vain = set()
    for lost, got in alive:
        rounds = pairs[lost, got][0]
        if (got >= 0 and not was_placed(got)) or (got < 0 and rounds >= IN_VAIN):
            vain.add(lost)
            found |= {lost, got} - {-1}
    while more := {lost for lost, got in alive if got in vain} - vain:
        vain |= more
    return found | vain


def livelock(state: State, members: Collection[int], pairs: Pairs) -> Diagnosis:
    """The diagnosis: who evicts whom, how often and why, and what to change."""
    by_number = {workload.number: workload for workload in state.workloads}
    those = [by_number[number] for number in sorted(members) if number in by_number]
    others = [workload for workload in state.workloads if workload.number not in members]
    turns = sorted(
        ((rounds, since, reason, by_number[lost], by_number.get(got)) for (lost, got), (rounds, since, reason) in pairs.items()
         if lost in members and lost in by_number),
        key=lambda turn: (-turn[0], turn[3].number),
    )  # fmt: skip
    told = [f"{lost.name} lost its place {some(rounds, 'time')} to {got.name if got else 'another'} ({reason})"
            for rounds, _, reason, lost, got in turns[:2]]  # fmt: skip
    more = f", and {some(len(turns) - 2, 'pair')} more likewise" if len(turns) > 2 else ""
    began = min(since for _, since, _, _, _ in turns)
    summary = (
        f"{doing([_called(one) for one in those], 'is evicted again and again', 'evict each other')}: {'; '.join(told)}{more}. "
        f"That began {format_duration(max(round((state.at - began) / SECOND), 0) * SECOND)} ago, and none of them got further. "
        f"{_remedy({reason for _, _, reason, _, _ in turns}, those)}"
    )
    if others:
        summary += f" {doing([one.name for one in others], 'waits', 'wait')} meanwhile."
    edges = tuple(Edge(got.name, QUOTA, declared(lost), lost.name) for _, _, _, lost, got in turns if got)
    nodes = sorted({node for one in those for node in one.nodes})
    return Diagnosis(
        LIVELOCK, summary, tuple(one.name for one in those), tuple(one.name for one in others),
        tuple(state.nodes[node].name for node in nodes), {"asked": declared(those[0])} if those else {}, edges,
        words=tuple(dict.fromkeys(one.said for one in those if one.said)),
    )  # fmt: skip


def _called(workload: WorkloadState) -> str:
    return f"{workload.name} (queue {workload.queue})" if workload.queue else workload.name


def _remedy(reasons: Collection[str], those: Collection[WorkloadState]) -> str:
    ways = []
    if FAIR_SHARING in reasons:
        ways.append("set `fair-sharing: false`")
    if RECLAIMED in reasons:
        ways.append("set `reclaim: never` or `lower-priority`")
    queues = list(dict.fromkeys(one.queue for one in those if one.queue))
    if queues:
        ways.append(
            f"give {'queue' if len(queues) == 1 else 'queues'} {listing(queues)} quota for both, or less to borrow"
        )
    priorities = {one.shape.priority for one in those}
    ways.append("give one of them a higher priority" if len(priorities) == 1 else "give them the same priority")
    return f"To end it, {', or '.join(ways)}."
