"""The reasons for a standstill with work left, as far as the state shows them, the most certain first.

Unlike a knot, most reasons are not proven: that a component does not act shows only by waiting. The caller must have waited long
enough; `quiet_ns` says how long.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from seatrial.clog import diagnosis as kinds
from seatrial.clog.diagnosis import Diagnosis
from seatrial.clog.knots import added, knot, missing, scaled
from seatrial.clog.quota_reasons import head_of_line, quota_edges, quota_exhausted
from seatrial.clog.situation import Situation
from seatrial.clog.wording import (
    PODS,
    QUEUE,
    REFUSED,
    WORDS_SAID,
    doing,
    listing,
    messages,
    not_done,
    quantities,
    quoted,
    said_of,
    some,
)
from seatrial.model.state import State, WorkloadState
from seatrial.model.units import SECOND, format_duration


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
        _dead, _too_large, _deadlock, _turns, quota_exhausted, head_of_line, _nobody_acts,
    )  # fmt: skip
    return _first(situation, reasons)


def unfinished(state: State, quiet_ns: int, releases: Sequence[int] = (), patient: bool = False) -> Diagnosis:
    """Why work is left when a timeout ends a wait; unlike in a clog, some of it may still move. Head-of-line blocking is reported
    only if the queue had time to let others pass (`patient`): room may have become free just before."""
    situation = Situation(state, quiet_ns, tuple(releases), state.dead, frozenset())
    if not any(workload.runs or workload.starting for workload in state.workloads):
        return diagnose(state, quiet_ns, releases, state.dead)
    return _first(situation, (_dead, *((head_of_line,) if patient else ()), _still_running))


def _first(situation: Situation, reasons: Sequence[Callable[[Situation], Diagnosis | None]]) -> Diagnosis:
    found = next((found for reason in reasons if (found := reason(situation))), None) or _unknown(situation)
    words = tuple(dict.fromkeys((*found.words, *situation.dead, *situation.state.troubles)))
    return replace(found, words=words)


# the reasons


def _dead(situation: Situation) -> Diagnosis | None:
    if not situation.dead:
        return None
    left = situation.state.workloads
    said = "; ".join(quoted(text) for text in situation.dead[:WORDS_SAID])
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
        quota_edges([workload for workload in never if workload.admitted], situation.line)
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
        words=said_of(turning),
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
    said = (*state.troubles, *said_of([*waiting, *never]))
    summary, can_finish = " ".join(parts) + messages(said), len(state.workloads) - len(never)
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
    words = (*situation.state.troubles, *said_of(left))
    one = len(left) == 1
    if actor == PODS and said_of(left):
        actor = REFUSED
    what = not_done(actor, one) if actor else f"{'has' if one else 'have'} not ended, and a component reports trouble"
    quiet = f": nothing has moved for {_time(situation.quiet_ns)}" if situation.quiet_ns else ""
    summary = f"{listing(situation.names(left))} {what}{quiet}.{messages(words)}"
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
    words = said_of(workloads)
    summary = "; ".join(parts)
    summary = f"{summary[0].upper()}{summary[1:]}.{messages(words)}"
    amounts = {"held": _held(workloads), "free": situation.free}
    return situation.diagnosis(kinds.UNKNOWN, summary, workloads, amounts=amounts, words=words)


def _held(workloads: Sequence[WorkloadState]) -> dict[str, int]:
    return added(scaled(workload.shape.requests, len(workload.nodes)) for workload in workloads)


def _time(nanoseconds: int) -> str:
    """A time in whole seconds from one second on."""
    return format_duration(nanoseconds // SECOND * SECOND if nanoseconds >= SECOND else nanoseconds)
