"""The reasons for a standstill with work left, as far as the state shows them, the most certain first.

Unlike a knot, most reasons are not proven: that a component does not act shows only by waiting. The caller must have waited long
enough; `quiet_ns` says how long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import islice

from seatrial.clog import diagnosis as kinds
from seatrial.clog.diagnosis import LISTED, Diagnosis, Edge
from seatrial.clog.knots import added, knot, missing, scaled
from seatrial.clog.situation import COMPLETION, END, NODES, PODS, QUEUE, SCHEDULER, Situation, declared, lacking
from seatrial.clog.wording import amounts_of, doing, listing, only, quantities, quoted, some
from seatrial.model.state import State, WorkloadState
from seatrial.model.units import SECOND, format_duration

# Wording by the component that should act on a workload and does not.
REFUSED = "pods refused"  # the Job controller says why it creates none
_UNDONE = {
    QUEUE: "would fit, and the queue does not admit {it}",
    PODS: "may run, and the Job controller does not create {its} pods",
    REFUSED: "may run, and {its} pods cannot be created",
    SCHEDULER: "{has} pods that would fit, and the scheduler does not place them",
    NODES: "{has} bound pods that the nodes do not start",
    END: "{has} run for {its} duration, and {its} pods do not end",
    COMPLETION: "{has} finished all {its} pods, and the Job controller does not complete {it}",
}
_WORDS_SAID = 2  # quotations in a summary; the diagnosis carries them all


def diagnose(
    state: State,
    quiet_ns: int,
    releases: Sequence[int] = (),
    dead: Sequence[str] = (),
    moving: Collection[str] = (),
) -> Diagnosis:
    """Why nothing moves; with `quiet_ns` 0 the diagnosis omits for how long. `dead`: messages on components that died; `moving`:
    names of workloads that only take turns in failing; `releases`: timeouts of the stack that free what is held and so dissolve
    a knot."""
    situation = Situation(state, quiet_ns, tuple(releases), tuple(dead), frozenset(moving))
    reasons: tuple[Callable[[Situation], Diagnosis | None], ...] = (
        _dead, _too_large, _deadlock, _turns, _quota_exhausted, _queue_exhausted, _head_of_line, _nobody_acts,
    )  # fmt: skip
    return _first(situation, reasons)


def unfinished(state: State, quiet_ns: int, releases: Sequence[int] = (), patient: bool = False) -> Diagnosis:
    """Why work is left when a timeout ends a wait; unlike in a clog, some of it may still move. Head-of-line blocking is reported
    only if the queue had time to let others pass (`patient`): room may have become free just before."""
    situation = Situation(state, quiet_ns, tuple(releases), state.dead, frozenset())
    if not any(workload.runs or workload.starting for workload in state.workloads):
        return diagnose(state, quiet_ns, releases, state.dead)
    return _first(situation, (_dead, *((_head_of_line,) if patient else ()), _still_running))


def _first(situation: Situation, reasons: Sequence[Callable[[Situation], Diagnosis | None]]) -> Diagnosis:
    found = next((found for reason in reasons if (found := reason(situation))), None) or _unknown(situation)
    words = tuple(dict.fromkeys((*found.words, *situation.dead, *situation.state.troubles)))
    return replace(found, words=words)


# the reasons


def _dead(situation: Situation) -> Diagnosis | None:
    if not situation.dead:
        return None
    left = situation.state.workloads
    said = "; ".join(quoted(text) for text in situation.dead[:_WORDS_SAID])
    summary = f"A component died: {said}. {some(len(left), 'workload')} not finished: {listing(situation.names(left))}."
    return Diagnosis(kinds.CONTROLLER_DEAD, summary, situation.names(left))


def _too_large(situation: Situation) -> Diagnosis | None:
    """Reported only if it explains the rest too: others may wait for it, but not for each other, nor for a component to act."""
    if not situation.too_large:
        return None
    never = [workload for workload in situation.state.workloads if workload.number in situation.too_large]
    rest = [workload for workload in situation.state.workloads if workload.number not in situation.too_large]
    if rest and not _explains(situation, never, rest):
        return None
    first = next((workload for workload in never if workload.admitted), never[0])
    released = situation.state.queued and first.admitted
    can = "was admitted by the queue, but can never run" if released else "can never run"
    summary = f"{first.name} {can}: {situation.too_large[first.number]}."
    if len(never) > 1:
        also = [workload.name for workload in never if workload is not first]
        summary += f" Neither can {listing(also)}."
    if rest:
        behind = f"behind {'it' if len(never) == 1 else 'them'}{_kept(situation, never)}"
        summary += f" {doing(situation.names(rest), 'waits', 'wait')} {behind}."
    if closed := situation.closed():
        summary += f" {closed}."
    shape = situation.grid.shape(first.shape)
    return situation.diagnosis(
        kinds.AGGREGATE_ADMISSION if released else kinds.NEVER_FITS,
        summary,
        [first, *(workload for workload in never if workload is not first)],
        rest,
        {
            "asked": dict(first.shape.requests),
            "largest node": situation.largest(shape),
            "in all": situation.grid.in_all(situation.grid.capacity, situation.grid.allowed(shape)),
            **({"quota": dict(situation.state.quota)} if situation.state.quota is not None else {}),
        },
        _quota_edges([workload for workload in never if workload.admitted], situation.line)
        if situation.state.queued
        else (),
        proven=not closed,
        can_finish=len(rest),
    )


def _explains(situation: Situation, never: Sequence[WorkloadState], rest: Sequence[WorkloadState]) -> bool:
    """Whether only the workloads that never fit keep the rest from moving."""
    if situation.moving:
        return situation.moving <= set(situation.names(never))
    first_in_line = bool(situation.line) and situation.line[0].number in situation.too_large
    actors = {situation.undone(workload) for workload in rest} - ({"", QUEUE} if first_in_line else {""})
    return not actors and knot(replace(situation.state, workloads=tuple(rest)), as_it_stands=True) is None


def _kept(situation: Situation, never: Sequence[WorkloadState]) -> str:
    nodes, one = situation.places(never), len(never) == 1
    if nodes:
        return f", for {some(len(nodes), 'node')} that {'it keeps' if one else 'they keep'}"
    if situation.state.quota is not None and any(workload.admitted for workload in never) and situation.line:
        return f", for {'its' if one else 'their'} share of the quota"
    return ""


def _deadlock(situation: Situation) -> Diagnosis | None:
    """If timeouts dissolve every knot and workloads do move, the current knot is not the clog."""
    return None if situation.moving and situation.releases else knot(situation.state, as_it_stands=True)


def _turns(situation: Situation) -> Diagnosis | None:
    if not situation.moving:
        return None
    turning = [workload for workload in situation.state.workloads if workload.name in situation.moving]
    waiting = [workload for workload in situation.state.workloads if workload.name not in situation.moving]
    now = knot(situation.state, as_it_stands=True)
    names = situation.names(turning) or tuple(sorted(situation.moving))
    quiet = f"in {_time(situation.quiet_ns)} " if situation.quiet_ns else ""
    summary = f"{listing(names)} fail in turn: {quiet}none of them made progress."
    if situation.releases:
        summary += f" They lose what they hold after {_time(max(situation.releases))}, and start over."
    for workload in turning:
        if workload.number in situation.too_large:
            summary += f" {workload.name} can never run: {situation.too_large[workload.number]}."
            break
    if now:
        summary += f" At this moment {now.summary.partition('. ')[0]}."
    elif waiting:
        summary += f" {some(len(waiting), 'more workload')} not finished."
    return Diagnosis(
        kinds.LIVELOCK,
        summary,
        names,
        situation.names(waiting),
        situation.places(turning),
        {"held": _held(turning)},
        now.edges if now else (),
        words=_said(turning),
    )


def _quota_exhausted(situation: Situation) -> Diagnosis | None:
    """No waiting workload fits into the rest of the quota, and no workload that holds quota runs."""
    left = situation.quota_left
    line = [workload for workload in situation.line if workload.number not in situation.too_large]
    holders = [workload for workload in situation.state.workloads if workload.admitted]
    if left is None or not line or not holders or any(workload.runs for workload in holders):
        return None
    if not all(lacking(left, declared(workload)) for workload in line):
        return None
    short = sorted({name for workload in line for name in lacking(left, declared(workload))})
    held = added(declared(workload) for workload in holders)
    summary = (
        f"{doing(situation.names(holders), 'holds', 'hold')} {quantities(only(held, short))} of the quota of "
        f"{amounts_of(situation.state.quota or {}, short)} and cannot finish{_why_not(situation, holders)}. {line[0].name} waits "
        f"for {quantities(only(declared(line[0]), short))} and {amounts_of(left, short)} is left"
        + (f"; {len(line) - 1} more wait with it." if len(line) > 1 else ".")
    )
    return situation.diagnosis(
        kinds.QUOTA_EXHAUSTED,
        summary,
        holders,
        line,
        {"quota": dict(situation.state.quota or {}), "held": held, "left": left, "wanted": declared(line[0])},
        _quota_edges(holders, line),
        words=_said([*holders, *line]),
    )


def _queue_exhausted(situation: Situation) -> Diagnosis | None:
    """The same with several queues: every waiting workload lacks quota of its own queue, and no workload that holds quota runs."""
    quotas = situation.quotas
    line = [workload for workload in situation.line if workload.number not in situation.too_large]
    holders = [workload for workload in situation.state.workloads if workload.admitted]
    if quotas is None or not line or not holders or any(workload.runs for workload in holders):
        return None
    if not all(situation.lacks_quota(workload) for workload in line):
        return None
    first = line[0]
    more = f" {len(line) - 1} more wait." if len(line) > 1 else ""
    summary = (
        f"{first.name} waits for {quotas.waits_for(first.queue, declared(first))}. {listing(situation.names(holders))} "
        f"{'holds' if len(holders) == 1 else 'hold'} quota and cannot finish{_why_not(situation, holders)}.{more}"
    )
    held = added(declared(workload) for workload in holders)
    amounts = {
        "quota": quotas.own(first.queue),
        "held": held,
        "left": quotas.left(first.queue),
        "wanted": declared(first),
    }
    return situation.diagnosis(
        kinds.QUOTA_EXHAUSTED,
        summary,
        holders,
        line,
        amounts,
        _quota_edges(holders, line),
        words=_said([*holders, *line]),
    )


def _why_not(situation: Situation, holders: Sequence[WorkloadState]) -> str:
    actors = Counter(actor for workload in holders if (actor := situation.undone(workload)))
    if actors:
        one = len(holders) == 1
        return f": {'it' if one else 'they'} {_undone(actors.most_common(1)[0][0], one)}"
    waiting = sum(missing(workload) for workload in holders)
    return f": {some(waiting, 'pod')} of {'its' if len(holders) == 1 else 'theirs'} fit nowhere now" if waiting else ""


def _head_of_line(situation: Situation) -> Diagnosis | None:
    return next((found for line in situation.lines if (found := _blocked_line(situation, line))), None)


def _blocked_line(situation: Situation, line: Sequence[WorkloadState]) -> Diagnosis | None:
    """The blocked line of one queue."""
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
    said = _said([head])
    return Diagnosis(
        kinds.HEAD_OF_LINE,
        summary + _words(said),
        (head.name,),
        situation.names(behind),
        amounts={"wanted": declared(head), **({"left": left} if left is not None else {})},
        words=said,
    )


def _still_running(situation: Situation) -> Diagnosis | None:
    """Which workloads run and until when, which start, which wait for room or their turn, and which can never run."""
    state = situation.state
    running = [workload for workload in state.workloads if workload.runs]
    starting = [workload for workload in state.workloads if workload.starting and not workload.runs]
    busy = {workload.number for workload in (*running, *starting)}
    never = [workload for workload in state.workloads if workload.number in situation.too_large]
    waiting = [w for w in state.workloads if w.number not in busy and w.number not in situation.too_large]
    parts = []
    if running:
        last = max(workload.due for workload in running)
        until = f", until {last / SECOND:.0f} s" if last > state.at else ""
        parts.append(f"{doing(situation.names(running), 'runs', 'run')}{until}.")
    if starting:
        parts.append(f"{doing(situation.names(starting), 'starts', 'start')}.")
    if waiting:
        first = next((workload for workload in waiting if not situation.fits_now(workload)), waiting[0])
        who = f"{listing(situation.names(waiting))} {'waits: it' if len(waiting) == 1 else f'wait: {first.name}'}"
        if situation.quotas and situation.lacks_quota(first):
            parts.append(f"{who} waits for {situation.quotas.waits_for(first.queue, situation.asks(first))}.")
        else:
            room = situation.room[situation.grid.shape(first.shape)]
            pods = f"{some(missing(first), 'pod')} ({quantities(first.shape.requests)} each)"
            parts.append(f"{who} needs room for {pods}, and there is room for {room} now.")
    if keepers := [workload for workload in waiting if workload.nodes]:
        kept = some(len(situation.places(keepers)), "node")
        parts.append(f"Meanwhile {doing(situation.names(keepers), 'holds', 'hold')} {kept}.")
    if never:
        one = never[0]
        parts.append(f"{one.name} can never run: {situation.too_large[one.number]}.")
        if len(never) > 1:
            parts.append(f"Neither can {listing(situation.names(never[1:]))}.")
    if closed := situation.closed():
        parts.append(f"{closed}.")
    said = (*state.troubles, *_said([*waiting, *never]))
    summary, can_finish = " ".join(parts) + _words(said), len(state.workloads) - len(never)
    holders, amounts = [*running, *starting], {"free": situation.free}
    return situation.diagnosis(
        kinds.STILL_RUNNING, summary, holders, [*waiting, *never], amounts, can_finish=can_finish, words=said
    )


def _nobody_acts(situation: Situation) -> Diagnosis | None:
    """Names the component that leaves most workloads undone, and quotes the components' own messages."""
    actors: dict[str, list[WorkloadState]] = {}
    for workload in situation.state.workloads:
        if actor := situation.undone(workload):
            actors.setdefault(actor, []).append(workload)
    if not actors and not situation.state.troubles:
        return None
    left = max(actors.values(), key=len) if actors else list(situation.state.workloads)
    actor = next((name for name, workloads in actors.items() if workloads is left), "")
    words = (*situation.state.troubles, *_said(left))
    one = len(left) == 1
    if actor == PODS and _said(left):
        actor = REFUSED
    what = _undone(actor, one) if actor else f"{'has' if one else 'have'} not ended, and a component reports trouble"
    quiet = f": nothing has moved for {_time(situation.quiet_ns)}" if situation.quiet_ns else ""
    summary = f"{listing(situation.names(left))} {what}{quiet}.{_words(words)}"
    named = {workload.number for workload in left}
    waiters = [workload for workload in situation.state.workloads if workload.number not in named]
    wanted = added(scaled(w.shape.requests, missing(w)) for w in left)
    amounts = {"wanted": wanted, "free": situation.free}
    return situation.diagnosis(kinds.NOT_ACTING, summary, left, waiters, amounts, words=words)


def _unknown(situation: Situation) -> Diagnosis:
    workloads = situation.state.workloads
    holding = [workload for workload in workloads if workload.nodes]
    waiting = [workload for workload in workloads if not workload.nodes]
    quiet = f" for {_time(situation.quiet_ns)}" if situation.quiet_ns else ""
    parts = [f"nothing has moved{quiet}, and the state does not explain it"]
    if holding:
        nodes = situation.places(holding)
        parts.append(f"{doing(situation.names(holding), 'holds', 'hold')} {some(len(nodes), 'node')}")
    if waiting:
        parts.append(doing(situation.names(waiting), "waits", "wait"))
    parts.append(f"free: {quantities(situation.free)}")
    words = _said(workloads)
    summary = "; ".join(parts)
    summary = f"{summary[0].upper()}{summary[1:]}.{_words(words)}"
    amounts = {"held": _held(workloads), "free": situation.free}
    return situation.diagnosis(kinds.UNKNOWN, summary, workloads, amounts=amounts, words=words)


# the words


def _undone(actor: str, one: bool) -> str:
    words = {"it": "it", "its": "its", "has": "has"} if one else {"it": "them", "its": "their", "has": "have"}
    return _UNDONE[actor].format(**words)


def _said(workloads: Sequence[WorkloadState]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(workload.said for workload in workloads if workload.said))[:LISTED]


def _words(words: Sequence[str]) -> str:
    return f" Messages: {'; '.join(quoted(text) for text in words[:_WORDS_SAID])}." if words else ""


def _held(workloads: Sequence[WorkloadState]) -> dict[str, int]:
    return added(scaled(workload.shape.requests, len(workload.nodes)) for workload in workloads)


def _quota_edges(holders: Sequence[WorkloadState], line: Sequence[WorkloadState]) -> tuple[Edge, ...]:
    pairs = ((holder, waiter) for waiter in line for holder in holders)
    edges = (Edge(holder.name, kinds.QUOTA, declared(holder), waiter.name) for holder, waiter in pairs)
    return tuple(islice(edges, LISTED))


def _time(nanoseconds: int) -> str:
    """A time in whole seconds from one second on."""
    return format_duration(nanoseconds // SECOND * SECOND if nanoseconds >= SECOND else nanoseconds)
