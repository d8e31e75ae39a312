"""The proof of a gang deadlock: nothing that can still happen lets these gangs finish.

The banker's algorithm: running workloads end and free their nodes; workloads that can then be placed run, end and free theirs; and
so on. A workload that finishes leaves at least the room it found, so the order does not matter, and the rest can never finish: the
first of the rest would need its room while all others hold what they hold now. If some of the rest hold nodes, that is a knot.

The proof holds only if nothing is taken back. So every doubt counts as room: closed nodes may open again; foreign pods and pods
of finished workloads will leave; gangs of a lower priority than a waiting workload may be preempted; a queue admits everything;
whatever is bound will run. `as_it_stands` drops these doubts, for an explanation when nothing moves. The caller must
know of timeouts of the stack (a permit wait, an eviction) and of steps that add nodes or delete workloads: they are not seen here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from seatrial.clog.diagnosis import AGGREGATE_ADMISSION, GANG_DEADLOCK, LISTED, NEVER_FITS, Diagnosis, Edge
from seatrial.clog.node_grid import Mask, NodeGrid, Numbers
from seatrial.clog.wording import NAMED, listing, quantities, some
from seatrial.model.plan import Amounts
from seatrial.model.state import State, WorkloadState


@dataclass(frozen=True, slots=True)
class _Claim:
    """The pods that a workload must place at once before it can finish, and the nodes it holds until then."""

    workload: WorkloadState
    shape: int
    need: int
    nodes: tuple[int, ...]

    @property
    def name(self) -> str:
        """The workload's."""
        return self.workload.name


def knot(state: State, as_it_stands: bool = False) -> Diagnosis | None:
    """The workloads that can never finish because of what they hold, or None; without `as_it_stands` only if proven.

    Cheap enough to ask often: 500 half-placed gangs on 1,000 nodes take about 7 ms; if none is half placed, next to nothing.
    """
    if not any(w.gang and w.nodes and missing(w) for w in state.workloads):
        return None
    proof = _knot(state, as_it_stands=False)
    return _knot(state, as_it_stands=True) if as_it_stands and proof is None else proof


def _knot(state: State, as_it_stands: bool) -> Diagnosis | None:
    grid = NodeGrid(state, closed_too=not as_it_stands)
    claims = _claims(state, grid, preempted=not as_it_stands)
    room = _room_when_all_that_runs_has_ended(state, grid, claims, as_it_stands)
    stuck = _settle(grid, room, claims)
    if not any(claim.nodes for claim in stuck):
        return None
    empty = {shape: grid.total(grid.capacity, shape) for shape in {claim.shape for claim in stuck}}
    alone: list[_Claim] = []
    others: list[_Claim] = []
    for claim in stuck:
        (alone if _too_large(grid, claim, empty[claim.shape]) else others).append(claim)
    _change(grid, room, ((claim.shape, claim.nodes) for claim in alone), 1)
    entangled = [claim for claim in _settle(grid, room, others) if claim.nodes]
    proven, can_finish = not as_it_stands, len(state.workloads) - len(stuck)
    if not entangled:
        holding = [claim for claim in alone if claim.nodes]
        return _never(state, grid, holding, others, empty, proven, can_finish) if holding else None
    core, gain = _core(grid, room, entangled)
    if not core:
        return None  # other workloads, which may end, hold what it waits for
    return _deadlock(grid, room, core, gain, stuck, proven, can_finish)


def missing(workload: WorkloadState) -> int:
    """Pods that are not bound and have not finished, whether created or not."""
    return max(workload.size - workload.finished - len(workload.nodes), 0)


def _claims(state: State, grid: NodeGrid, preempted: bool) -> list[_Claim]:
    """Pods outside gangs need room one at a time, and free it. A gang that is placed as a whole needs nothing more."""
    waiting = [workload for workload in state.workloads if missing(workload) and not workload.runs]
    highest = max((workload.shape.priority for workload in waiting), default=0)
    claims = []
    for workload in state.workloads:
        need = missing(workload)
        if not need or (workload.gang and workload.runs):
            continue
        shape = grid.shape(workload.shape)
        if not workload.gang:
            claims.append(_Claim(workload, shape, 1, ()))
        elif preempted and workload.shape.priority < highest:
            claims.append(_Claim(workload, shape, need + len(workload.nodes), ()))
        else:
            claims.append(_Claim(workload, shape, need, workload.nodes))
    return claims


def _room_when_all_that_runs_has_ended(
    state: State, grid: NodeGrid, claims: Iterable[_Claim], as_it_stands: bool
) -> Numbers:
    """The room after all other work has ended; as it stands, foreign pods keep their room, else only the claims do."""
    if not as_it_stands:
        room = grid.capacity.copy()
        _change(grid, room, ((claim.shape, claim.nodes) for claim in claims), -1)
        return room
    room = grid.free()
    kept = {claim.workload.number for claim in claims if claim.nodes}
    ending = (workload for workload in state.workloads if workload.nodes and workload.number not in kept)
    _change(grid, room, ((grid.shape(workload.shape), workload.nodes) for workload in ending), 1)
    return room


def _change(grid: NodeGrid, room: Numbers, standing: Iterable[tuple[int, tuple[int, ...]]], sign: int) -> None:
    by_shape: dict[int, list[int]] = {}
    for shape, nodes in standing:
        by_shape.setdefault(shape, []).extend(nodes)
    for shape, nodes_of_all in by_shape.items():
        grid.give(room, shape, nodes_of_all, sign)


def _settle(grid: NodeGrid, room: Numbers, claims: Iterable[_Claim]) -> list[_Claim]:
    """Lets every claim finish that can, adding to `room` what it frees. Returns those that cannot."""
    queues: dict[int, list[_Claim]] = {}
    for claim in claims:
        queues.setdefault(claim.shape, []).append(claim)
    for queue in queues.values():
        queue.sort(key=lambda claim: -claim.need)
    moved = True
    while moved:
        moved = False
        for shape, queue in queues.items():
            while queue and queue[-1].need <= (slots := grid.total(room, shape)):
                given: list[int] = []
                while queue and queue[-1].need <= slots:
                    given += queue.pop().nodes
                grid.give(room, shape, given)
                moved = moved or bool(given)
    stuck = [claim for queue in queues.values() for claim in queue]
    return sorted(stuck, key=lambda claim: claim.workload.number)


def _too_large(grid: NodeGrid, claim: _Claim, empty: int) -> bool:
    """Whether the claim would find no room even alone on these nodes, with its pods where they are."""
    allowed = grid.allowed(claim.shape)
    return claim.need + sum(bool(allowed[node]) for node in claim.nodes) > empty


def _core(grid: NodeGrid, room: Numbers, holders: Sequence[_Claim]) -> tuple[list[_Claim], dict[int, Mask]]:
    """The smallest group that waits only for itself, and per shape the nodes that its pods wait for.

    Who waits for whom depends on the shape of the one and the nodes of the other, so the graph is one of shapes, and has as many
    vertices as the scenario has submits. A group that waits only for itself is a strongly connected part that nothing leaves.
    """
    shapes = sorted({holder.shape for holder in holders})
    full = room.copy()
    _change(grid, full, ((holder.shape, holder.nodes) for holder in holders), 1)
    gain = {shape: grid.slots(full, shape) > grid.slots(room, shape) for shape in shapes}
    stands = {shape: np.zeros(len(grid.nodes), dtype=bool) for shape in shapes}
    for holder in holders:
        stands[holder.shape][list(holder.nodes)] = True
    waits_for = np.array([[bool((gain[one] & stands[other]).any()) for other in shapes] for one in shapes])
    for middle in range(len(shapes)):  # Warshall: whom it waits for, directly or not
        waits_for |= np.outer(waits_for[:, middle], waits_for[middle])
    groups: list[list[_Claim]] = []
    for one in range(len(shapes)):
        reached = np.flatnonzero(waits_for[one])
        if len(reached) and reached[0] == one and waits_for[reached, one].all():
            among = {shapes[other] for other in reached}
            wanted = np.logical_or.reduce([gain[shape] for shape in among])
            groups.append([h for h in holders if h.shape in among and any(wanted[node] for node in h.nodes)])
    core = min((group for group in groups if len(group) > 1), key=len, default=[])
    return sorted(core, key=lambda claim: (claim.need, claim.workload.number)), gain


def _deadlock(
    grid: NodeGrid,
    room: Numbers,
    core: list[_Claim],
    gain: dict[int, Mask],
    stuck: Sequence[_Claim],
    proven: bool,
    can_finish: int,
) -> Diagnosis:
    nodes = sorted({node for claim in core for node in claim.nodes})
    names = {claim.name for claim in core}
    waiters = tuple(claim.name for claim in stuck if claim.name not in names)
    held = added(scaled(claim.workload.shape.requests, len(claim.nodes)) for claim in core)
    wanted = added(scaled(claim.workload.shape.requests, claim.need) for claim in core)
    allowed = np.logical_or.reduce([grid.allowed(shape) for shape in {claim.shape for claim in core}])
    said = core if len(core) <= NAMED + 1 else core[:NAMED]
    holding = [f"{claim.name} holds {_what(claim)}" for claim in said]
    if len(said) < len(core):
        holding.append(f"{len(core) - len(said)} more do the same")
    least = min(grid.total(room, shape) for shape in {claim.shape for claim in core})
    closed = 0 if proven else sum(not node.open for node in grid.nodes)
    room_left = (
        f"room for {some(least, 'more pod')}, too little for any of them" if least else "no room for another pod"
    )
    sentences = [
        f"{'; '.join(holding)}.",
        f"Together they hold {some(len(nodes), 'node')} ({quantities(held)}) and none releases them: "
        f"even after all other work has ended there is {room_left}"
        + (f", as long as {some(closed, 'node')} {'takes' if closed == 1 else 'take'} no pods." if closed else "."),
    ]
    if waiters:
        sentences.append(f"{listing(waiters)} {'waits' if len(waiters) == 1 else 'wait'} behind them.")
    return Diagnosis(
        GANG_DEADLOCK,
        " ".join(sentences),
        tuple(claim.name for claim in core),
        waiters,
        tuple(grid.nodes[node].name for node in nodes),
        {"held": held, "wanted": wanted, "free": grid.in_all(room, allowed)},
        tuple(islice(_edges(grid, core, gain), LISTED)),
        proven,
        can_finish,
    )


def _what(claim: _Claim) -> str:
    nodes, pods = len(set(claim.nodes)), len(claim.nodes)
    if nodes == pods:
        return f"{some(nodes, 'node')} and waits for {claim.need} more"
    return f"room for {some(pods, 'pod')} on {some(nodes, 'node')} and waits for room for {claim.need} more"


def _edges(grid: NodeGrid, core: Sequence[_Claim], gain: dict[int, Mask]) -> Iterable[Edge]:
    """Around the ring first, so that a list cut short still shows a cycle through all of them."""
    for step in range(1, len(core)):
        for place, waiter in enumerate(core):
            holder = core[(place + step) % len(core)]
            for node in sorted(set(holder.nodes)):
                if gain[waiter.shape][node]:
                    amount = scaled(holder.workload.shape.requests, holder.nodes.count(node))
                    yield Edge(holder.name, grid.nodes[node].name, amount, waiter.name)


def _never(
    state: State,
    grid: NodeGrid,
    holding: Sequence[_Claim],
    others: Sequence[_Claim],
    empty: dict[int, int],
    proven: bool,
    can_finish: int,
) -> Diagnosis:
    """The knot is a workload that is too large by itself and keeps what it holds."""
    first = holding[0]
    nodes = sorted({node for claim in holding for node in claim.nodes})
    size = first.workload.size
    summary = (
        f"{listing([claim.name for claim in holding])} can never run: {first.name} needs {some(size, 'pod')} at once "
        f"({quantities(first.workload.shape.requests)} each) and the nodes have room for {empty[first.shape]} when empty. "
    )
    behind = (f", and {listing([o.name for o in others])} {'waits' if len(others) == 1 else 'wait'} behind"
              if others else "")  # fmt: skip
    summary += f"They keep {some(len(nodes), 'node')}{behind}."
    edges = (
        Edge(claim.name, grid.nodes[node].name, claim.workload.shape.requests, other.name)
        for other in others
        for claim in holding
        for node in sorted(set(claim.nodes))
    )
    held = added(scaled(claim.workload.shape.requests, len(claim.nodes)) for claim in holding)
    return Diagnosis(
        AGGREGATE_ADMISSION if state.queued and first.workload.admitted else NEVER_FITS,
        summary,
        tuple(claim.name for claim in holding),
        tuple(claim.name for claim in others),
        tuple(grid.nodes[node].name for node in nodes),
        {"held": held, "wanted": scaled(first.workload.shape.requests, size)},
        tuple(islice(edges, LISTED)),
        proven,
        can_finish,
    )


def scaled(amounts: Amounts, by: int) -> dict[str, int]:
    """The amounts of `by` pods."""
    return {name: amount * by for name, amount in amounts.items()}


def added(amounts: Iterable[Amounts]) -> dict[str, int]:
    """The sum, resource by resource."""
    total: dict[str, int] = {}
    for part in amounts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total
