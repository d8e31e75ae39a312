"""What to say when nothing moves although work is left: the reasons that the state shows, the surest first.

Unlike a knot this is mostly no proof: that nobody acts shows only by nobody having acted. So whoever calls must have waited long
enough, and `quiet_ns` says how long that was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import islice

from seatrial.clog.diagnosis import (
    AGGREGATE_ADMISSION,
    CONTROLLER_DEAD,
    HEAD_OF_LINE,
    LISTED,
    LIVELOCK,
    NEVER_FITS,
    NOT_ACTING,
    QUOTA,
    QUOTA_EXHAUSTED,
    UNKNOWN,
    Diagnosis,
    Edge,
)
from seatrial.clog.knots import added, knot, missing, scaled
from seatrial.clog.scene import COMPLETION, END, NODES, PODS, QUEUE, SCHEDULER, Scene, declared, lacking
from seatrial.clog.wording import amounts_of, listing, only, quantities, quoted, some
from seatrial.model.state import State, WorkloadState
from seatrial.model.units import SECOND, format_duration

# What is said of a workload on which nobody acts, by who would have to.
_UNDONE = {
    QUEUE: "would fit, and the queue does not let {it} go",
    PODS: "may run, and nobody creates {its} pods",
    SCHEDULER: "{has} pods that wait although there is room for them, and the scheduler does not place them",
    NODES: "{has} pods that are bound, and the nodes do not start them",
    END: "{has} run {its} time, and {its} pods do not end",
    COMPLETION: "{has} finished all {its} pods, and nobody completes {it}",
}
_WORDS_SAID = 2  # quotations in a summary; the diagnosis carries them all


def diagnose(
    state: State,
    quiet_ns: int,
    releases: Sequence[int] = (),
    dead: Sequence[str] = (),
    moving: Collection[str] = (),
) -> Diagnosis:
    """Why nothing moves; with `quiet_ns` 0 it is not said for how long. `dead`: what is known of components that died; `moving`:
    names of the workloads that only take turns in failing; `releases`: time-outs of the stack that free what is held, so that a
    knot is no end."""
    scene = Scene(state, quiet_ns, tuple(releases), tuple(dead), frozenset(moving))
    reasons: tuple[Callable[[Scene], Diagnosis | None], ...] = (
        _dead, _too_large, _deadlock, _turns, _quota_exhausted, _head_of_line, _nobody_acts,
    )  # fmt: skip
    found = next((diagnosis for reason in reasons if (diagnosis := reason(scene))), None) or _unknown(scene)
    words = tuple(dict.fromkeys((*found.words, *dead, *state.troubles)))
    return replace(found, words=words)


# the reasons


def _dead(scene: Scene) -> Diagnosis | None:
    if not scene.dead:
        return None
    left = scene.state.workloads
    said = "; ".join(quoted(text) for text in scene.dead[:_WORDS_SAID])
    summary = f"A component died: {said}. {some(len(left), 'workload')} not over: {listing(scene.names(left))}."
    return Diagnosis(CONTROLLER_DEAD, summary, scene.names(left))


def _too_large(scene: Scene) -> Diagnosis | None:
    """Said only if it explains the rest too: others may be held up by it, but not by each other, nor by one who could act."""
    if not scene.too_large:
        return None
    never = [workload for workload in scene.state.workloads if workload.number in scene.too_large]
    rest = [workload for workload in scene.state.workloads if workload.number not in scene.too_large]
    if rest and not _explains(scene, never, rest):
        return None
    first = next((workload for workload in never if workload.admitted), never[0])
    released = scene.state.queued and first.admitted
    kind = AGGREGATE_ADMISSION if released else NEVER_FITS
    can = "was let go by the queue, yet it can never run" if released else "can never run"
    summary = f"{first.name} {can}: {scene.too_large[first.number]}."
    if len(never) > 1:
        also = [workload.name for workload in never if workload is not first]
        summary += f" Neither can {listing(also)}."
    if rest:
        behind = f"behind {'it' if len(never) == 1 else 'them'}{_kept(scene, never)}"
        summary += f" {listing(scene.names(rest))} {'waits' if len(rest) == 1 else 'wait'} {behind}."
    closed = sum(not node.open for node in scene.state.nodes)
    if closed:
        summary += f" {some(closed, 'node')} of {len(scene.state.nodes)} {'takes' if closed == 1 else 'take'} no pods."
    shape = scene.board.shape(first.shape)
    return Diagnosis(
        kind,
        summary,
        scene.names([first, *(workload for workload in never if workload is not first)]),
        scene.names(rest),
        scene.places(never),
        {
            "asked": dict(first.shape.requests),
            "largest node": scene.largest(shape),
            "in all": scene.board.in_all(scene.board.capacity, scene.board.allowed(shape)),
            **({"quota": dict(scene.state.quota)} if scene.state.quota is not None else {}),
        },
        _quota_edges([workload for workload in never if workload.admitted], scene.line) if scene.state.queued else (),
        proven=not closed,
        can_finish=len(rest),
    )


def _explains(scene: Scene, never: Sequence[WorkloadState], rest: Sequence[WorkloadState]) -> bool:
    """Whether nothing but those that never fit keeps the rest from moving."""
    if scene.moving:
        return scene.moving <= set(scene.names(never))
    first_in_line = bool(scene.line) and scene.line[0].number in scene.too_large
    actors = {scene.undone(workload) for workload in rest} - ({"", QUEUE} if first_in_line else {""})
    return not actors and knot(replace(scene.state, workloads=tuple(rest)), as_it_stands=True) is None


def _kept(scene: Scene, never: Sequence[WorkloadState]) -> str:
    nodes, one = scene.places(never), len(never) == 1
    if nodes:
        return f", for {some(len(nodes), 'node')} that {'it keeps' if one else 'they keep'}"
    if scene.state.quota is not None and any(workload.admitted for workload in never) and scene.line:
        return f", for {'its' if one else 'their'} share of the quota"
    return ""


def _deadlock(scene: Scene) -> Diagnosis | None:
    """Where time-outs dissolve every knot and workloads do move, the knot of this moment is not the clog."""
    return None if scene.moving and scene.releases else knot(scene.state, as_it_stands=True)


def _turns(scene: Scene) -> Diagnosis | None:
    if not scene.moving:
        return None
    turning = [workload for workload in scene.state.workloads if workload.name in scene.moving]
    waiting = [workload for workload in scene.state.workloads if workload.name not in scene.moving]
    now = knot(scene.state, as_it_stands=True)
    names = scene.names(turning) or tuple(sorted(scene.moving))
    quiet = f"in {_time(scene.quiet_ns)} " if scene.quiet_ns else ""
    summary = f"{listing(names)} take turns in failing: {quiet}none of them got on."
    if scene.releases:
        summary += f" What they hold is taken from them after {_time(max(scene.releases))}, and then they begin again."
    for workload in turning:
        if workload.number in scene.too_large:
            summary += f" {workload.name} can never run: {scene.too_large[workload.number]}."
            break
    if now:
        summary += f" At this moment {now.summary.partition('. ')[0]}."
    elif waiting:
        summary += f" {some(len(waiting), 'more workload')} not over."
    return Diagnosis(
        LIVELOCK,
        summary,
        names,
        scene.names(waiting),
        scene.places(turning),
        {"held": _held(turning)},
        now.edges if now else (),
        words=_said(turning),
    )


def _quota_exhausted(scene: Scene) -> Diagnosis | None:
    """Nothing that waits fits into what is left of the quota, and none of those who hold it runs."""
    left = scene.quota_left
    line = [workload for workload in scene.line if workload.number not in scene.too_large]
    holders = [workload for workload in scene.state.workloads if workload.admitted]
    if left is None or not line or not holders or any(workload.runs for workload in holders):
        return None
    if not all(lacking(left, declared(workload)) for workload in line):
        return None
    short = sorted({name for workload in line for name in lacking(left, declared(workload))})
    held = added(declared(workload) for workload in holders)
    summary = (
        f"{listing(scene.names(holders))} {'holds' if len(holders) == 1 else 'hold'} {quantities(only(held, short))} of the quota "
        f"of {amounts_of(scene.state.quota or {}, short)} and cannot finish{_why_not(scene, holders)}. {line[0].name} waits for "
        f"{quantities(only(declared(line[0]), short))} and {amounts_of(left, short)} is left"
        + (f"; {len(line) - 1} more wait with it." if len(line) > 1 else ".")
    )
    return Diagnosis(
        QUOTA_EXHAUSTED,
        summary,
        scene.names(holders),
        scene.names(line),
        scene.places(holders),
        {"quota": dict(scene.state.quota or {}), "held": held, "left": left, "wanted": declared(line[0])},
        _quota_edges(holders, line),
        words=_said([*holders, *line]),
    )


def _why_not(scene: Scene, holders: Sequence[WorkloadState]) -> str:
    actors = Counter(actor for workload in holders if (actor := scene.undone(workload)))
    if actors:
        one = len(holders) == 1
        return f": {'it' if one else 'they'} {_undone(actors.most_common(1)[0][0], one)}"
    waiting = sum(missing(workload) for workload in holders)
    return f": {some(waiting, 'pod')} of {'its' if len(holders) == 1 else 'theirs'} find no room" if waiting else ""


def _head_of_line(scene: Scene) -> Diagnosis | None:
    line = scene.line
    if len(line) < 2 or scene.fits_now(line[0]):
        return None
    behind = [workload for workload in line[1:] if workload.number not in scene.too_large and scene.fits_now(workload)]
    if not behind:
        return None
    head = line[0]
    left = scene.quota_left
    short = lacking(left, declared(head)) if left is not None else []
    if left is not None and short:
        lacks = f"asks for {quantities(only(declared(head), short))} and {amounts_of(left, short)} is left of the quota"
    else:
        room = scene.room[scene.board.shape(head.shape)]
        lacks = f"needs room for {some(missing(head), 'pod')} ({quantities(head.shape.requests)} each) and there is room for {room}"
    summary = (
        f"{head.name} is first in the queue and does not fit: it {lacks}. "
        f"{listing(scene.names(behind))} would fit and {'waits' if len(behind) == 1 else 'wait'} behind it."
    )
    said = _said([head])
    return Diagnosis(
        HEAD_OF_LINE,
        summary + _words(said),
        (head.name,),
        scene.names(behind),
        amounts={"wanted": declared(head), **({"left": left} if left is not None else {})},
        words=said,
    )


def _nobody_acts(scene: Scene) -> Diagnosis | None:
    """The one who leaves most undone is named; what components said of themselves is quoted."""
    actors: dict[str, list[WorkloadState]] = {}
    for workload in scene.state.workloads:
        if actor := scene.undone(workload):
            actors.setdefault(actor, []).append(workload)
    if not actors and not scene.state.troubles:
        return None
    left = max(actors.values(), key=len) if actors else list(scene.state.workloads)
    actor = next((name for name, workloads in actors.items() if workloads is left), "")
    words = (*scene.state.troubles, *_said(left))
    one = len(left) == 1
    what = _undone(actor, one) if actor else f"{'is' if one else 'are'} not over, and a component is in trouble"
    quiet = f": nothing has moved for {_time(scene.quiet_ns)}" if scene.quiet_ns else ""
    summary = f"{listing(scene.names(left))} {what}{quiet}.{_words(words)}"
    named = {workload.number for workload in left}
    waiters = [workload for workload in scene.state.workloads if workload.number not in named]
    room = scene.board.in_all(scene.board.free(), scene.board.open)
    return Diagnosis(
        NOT_ACTING,
        summary,
        scene.names(left),
        scene.names(waiters),
        scene.places(left),
        {"wanted": added(scaled(w.shape.requests, missing(w)) for w in left), "free": room},
        words=words,
    )


def _unknown(scene: Scene) -> Diagnosis:
    workloads = scene.state.workloads
    holding = [workload for workload in workloads if workload.nodes]
    waiting = [workload for workload in workloads if not workload.nodes]
    quiet = f" for {_time(scene.quiet_ns)}" if scene.quiet_ns else ""
    parts = [f"nothing has moved{quiet}, and the state does not say why"]
    if holding:
        nodes = scene.places(holding)
        parts.append(
            f"{listing(scene.names(holding))} {'stands' if len(holding) == 1 else 'stand'} on {some(len(nodes), 'node')}"
        )
    if waiting:
        parts.append(f"{listing(scene.names(waiting))} {'waits' if len(waiting) == 1 else 'wait'}")
    free = scene.board.in_all(scene.board.free(), scene.board.open)
    parts.append(f"free: {quantities(free)}")
    words = _said(workloads)
    summary = "; ".join(parts)
    return Diagnosis(
        UNKNOWN,
        f"{summary[0].upper()}{summary[1:]}.{_words(words)}",
        scene.names(workloads),
        nodes=scene.places(workloads),
        amounts={"held": _held(workloads), "free": free},
        words=words,
    )


# the words


def _undone(actor: str, one: bool) -> str:
    words = {"it": "it", "its": "its", "has": "has"} if one else {"it": "them", "its": "their", "has": "have"}
    return _UNDONE[actor].format(**words)


def _said(workloads: Sequence[WorkloadState]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(workload.said for workload in workloads if workload.said))[:LISTED]


def _words(words: Sequence[str]) -> str:
    return f" It says: {'; '.join(quoted(text) for text in words[:_WORDS_SAID])}." if words else ""


def _held(workloads: Sequence[WorkloadState]) -> dict[str, int]:
    return added(scaled(workload.shape.requests, len(workload.nodes)) for workload in workloads)


def _quota_edges(holders: Sequence[WorkloadState], line: Sequence[WorkloadState]) -> tuple[Edge, ...]:
    pairs = ((holder, waiter) for waiter in line for holder in holders)
    edges = (Edge(holder.name, QUOTA, declared(holder), waiter.name) for holder, waiter in pairs)
    return tuple(islice(edges, LISTED))


def _time(nanoseconds: int) -> str:
    """Whole seconds where there are any: nobody wants the nanoseconds of a wait."""
    return format_duration(nanoseconds // SECOND * SECOND if nanoseconds >= SECOND else nanoseconds)
