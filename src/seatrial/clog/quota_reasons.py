"""Why a queue admits nothing more: its quota is held by workloads that do not run, or the first of its line does not fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from seatrial.clog import diagnosis as kinds
from seatrial.clog.diagnosis import LISTED, Diagnosis, Edge
from seatrial.clog.knots import added, missing
from seatrial.clog.queue_quotas import QueueQuotas
from seatrial.clog.situation import Situation, declared, lacking
from seatrial.clog.wording import amounts_of, doing, listing, messages, not_done, only, quantities, said_of, some
from seatrial.model.plan import Amounts
from seatrial.model.state import WorkloadState


def quota_exhausted(situation: Situation) -> Diagnosis | None:
    """No waiting workload fits into the rest of the quota, or of its queue's, and no workload that holds quota runs."""
    left, quotas = situation.quota_left, situation.quotas
    line = [workload for workload in situation.line if workload.number not in situation.too_large]
    holders = [workload for workload in situation.state.workloads if workload.admitted]
    if not line or not holders or any(workload.runs for workload in holders):
        return None
    if left is not None and all(lacking(left, declared(workload)) for workload in line):
        quota, summary = situation.state.quota or {}, _one_quota(situation, left, line, holders)
    elif quotas is not None and all(situation.lacks_quota(workload) for workload in line):
        quota, left = quotas.own(line[0].queue), quotas.left(line[0].queue)
        summary = _queues(situation, quotas, line, holders)
    else:
        return None
    held = added(declared(workload) for workload in holders)
    amounts = {"quota": dict(quota), "held": held, "left": left, "wanted": declared(line[0])}
    return situation.diagnosis(
        kinds.QUOTA_EXHAUSTED, summary, holders, line, amounts, quota_edges(holders, line), words=said_of([*holders, *line])
    )  # fmt: skip


def _one_quota(
    situation: Situation, left: Amounts, line: Sequence[WorkloadState], holders: Sequence[WorkloadState]
) -> str:
    short = sorted({name for workload in line for name in lacking(left, declared(workload))})
    held = added(declared(workload) for workload in holders)
    return (
        f"{doing(situation.names(holders), 'holds', 'hold')} {quantities(only(held, short))} of the quota of "
        f"{amounts_of(situation.state.quota or {}, short)} and cannot finish{_why_not(situation, holders)}. {line[0].name} waits "
        f"for {quantities(only(declared(line[0]), short))} and {amounts_of(left, short)} is left"
        + (f"; {len(line) - 1} more wait with it." if len(line) > 1 else ".")
    )


def _queues(
    situation: Situation, quotas: QueueQuotas, line: Sequence[WorkloadState], holders: Sequence[WorkloadState]
) -> str:
    first = line[0]
    more = f" {len(line) - 1} more wait." if len(line) > 1 else ""
    return (
        f"{first.name} waits for {quotas.waits_for(first.queue, declared(first))}. {listing(situation.names(holders))} "
        f"{'holds' if len(holders) == 1 else 'hold'} quota and cannot finish{_why_not(situation, holders)}.{more}"
    )


def _why_not(situation: Situation, holders: Sequence[WorkloadState]) -> str:
    actors = Counter(actor for workload in holders if (actor := situation.undone(workload)))
    if actors:
        one = len(holders) == 1
        return f": {'it' if one else 'they'} {not_done(actors.most_common(1)[0][0], one)}"
    waiting = sum(missing(workload) for workload in holders)
    return f": {some(waiting, 'pod')} of {'its' if len(holders) == 1 else 'theirs'} fit nowhere now" if waiting else ""


def head_of_line(situation: Situation) -> Diagnosis | None:
    """The first of a queue does not fit, and others behind it would."""
    return next((found for line in situation.lines if (found := _blocked_line(situation, line))), None)


def _blocked_line(situation: Situation, line: Sequence[WorkloadState]) -> Diagnosis | None:
    """Of one queue."""
    if len(line) < 2 or situation.fits_now(line[0]):
        return None
    behind = [
        workload for workload in line[1:] if workload.number not in situation.too_large and situation.fits_now(workload)
    ]
    if not behind:
        return None
    head = line[0]
    left = situation.quota_left
    short = lacking(left, declared(head)) if left is not None else []
    if situation.quotas and situation.lacks_quota(head):
        lacks = f"waits for {situation.quotas.waits_for(head.queue, declared(head))}"
    elif left is not None and short:
        lacks = f"requests {quantities(only(declared(head), short))} and {amounts_of(left, short)} is left of the quota"
    else:
        room = situation.room[situation.grid.shape(head.shape)]
        lacks = f"needs room for {some(missing(head), 'pod')} ({quantities(head.shape.requests)} each) and there is room for {room}"
    summary = (
        f"{head.name} is first in the queue and does not fit: it {lacks}. "
        f"{listing(situation.names(behind))} would fit and {'waits' if len(behind) == 1 else 'wait'} behind it."
    )
    said = said_of([head])
    return Diagnosis(
        kinds.HEAD_OF_LINE,
        summary + messages(said),
        (head.name,),
        situation.names(behind),
        amounts={"wanted": declared(head), **({"left": left} if left is not None else {})},
        words=said,
    )


def quota_edges(holders: Sequence[WorkloadState], line: Sequence[WorkloadState]) -> tuple[Edge, ...]:
    """Who holds quota that others wait for."""
    pairs = ((holder, waiter) for waiter in line for holder in holders)
    edges = (Edge(holder.name, kinds.QUOTA, declared(holder), waiter.name) for holder, waiter in pairs)
    return tuple(islice(edges, LISTED))
