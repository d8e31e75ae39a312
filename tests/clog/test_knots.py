"""A knot is claimed where nothing can finish any more, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.clog import KINDS, Diagnosis, knot
from seatrial.model.fit import admits
from seatrial.model.plan import NodeGroup, PodShape, Taint, Toleration
from seatrial.model.state import State, WorkloadState
from tests.clog.making import CORE, TWO_CORES, cores, gang, pods, state
from tests.effort import LINEAR, costs_at_most

GPU = PodShape({"cpu": CORE, "nvidia.com/gpu": 8})


def found(state: State, as_it_stands: bool = False) -> Diagnosis:
    diagnosis = knot(state, as_it_stands)
    assert diagnosis is not None
    json.dumps(diagnosis.as_json(), allow_nan=False)
    assert diagnosis.kind in KINDS
    assert diagnosis.summary.endswith(".")
    return diagnosis


def test_two_half_placed_gangs_are_a_deadlock_and_the_message_says_who_holds_what() -> None:
    clog = found(state(cores(8), [gang(3, 6, range(4)), gang(7, 5, range(4, 8)), gang(9, 2)]))
    assert (clog.kind, clog.proven, clog.can_finish) == ("gang deadlock", True, 0)
    assert clog.workloads == ("gang-7", "gang-3")
    assert clog.waiters == ("gang-9",)
    assert len(clog.nodes) == 8
    assert clog.amounts["held"] == {"cpu": 16 * CORE}
    assert clog.amounts["wanted"] == {"cpu": 6 * CORE}
    assert "gang-7 holds 4 nodes and waits for 1 more; gang-3 holds 4 nodes and waits for 2 more." in clog.summary
    assert "8 nodes (cpu 16)" in clog.summary
    assert "gang-9 waits behind them" in clog.summary


def test_edges_say_who_waits_for_whom_on_which_node() -> None:
    clog = found(state(cores(2), [gang(1, 2, [0]), gang(2, 2, [1])]))
    assert [(edge.holder, edge.where, edge.waiter, dict(edge.amount)) for edge in clog.edges] == [
        ("gang-2", "fake-1", "gang-1", {"cpu": 2 * CORE}),
        ("gang-1", "fake-0", "gang-2", {"cpu": 2 * CORE}),
    ]


def test_a_long_list_is_cut_short_in_the_message_and_whole_in_the_diagnosis() -> None:
    clog = found(
        state(cores(40), [*(gang(n, 3, [2 * n, 2 * n + 1]) for n in range(20)), *(gang(n, 2) for n in range(20, 90))])
    )
    assert len(clog.workloads) == 20
    assert len(clog.waiters) == 70
    assert "18 more do the same" in clog.summary
    assert "gang-20, gang-21 and 68 more wait behind them" in clog.summary
    assert len(clog.as_json()["edges"]) == 100


def test_what_runs_ends_and_gives_back() -> None:
    half = [gang(1, 4, [0, 1]), gang(2, 4, [2, 3])]
    assert knot(state(cores(6), [*half, gang(3, 2, [4, 5], running=2)])) is None
    assert knot(state(cores(6), [*half, gang(3, 3, [4, 5], running=2)])) is not None


def test_a_gang_that_stands_as_a_whole_will_run() -> None:
    assert knot(state(cores(4), [gang(1, 2, [0, 1]), gang(2, 3, [2, 3])])) is None


def test_pods_that_are_no_gang_run_one_by_one_and_never_hold_up_anybody() -> None:
    assert knot(state(cores(2), [pods(1, 5, [0]), gang(2, 2, [1])])) is None
    clog = found(state(cores(2), [gang(1, 2, [0]), gang(2, 2, [1]), pods(3, 5)]))
    assert clog.waiters == ("job-3",)


def test_others_that_can_still_finish_are_counted() -> None:
    workloads = [gang(1, 2, [0]), gang(2, 2, [1]), gang(3, 1, [2], running=1, shape=GPU)]
    clog = found(state([*cores(2), {"cpu": CORE, "nvidia.com/gpu": 8}], workloads))
    assert clog.can_finish == 1


def test_several_pods_on_a_node_are_told_apart_from_several_nodes() -> None:
    clog = found(state(cores(2, 6), [gang(1, 4, [0, 0, 1]), gang(2, 5, [0, 1, 1])]))
    assert "gang-1 holds room for 3 pods on 2 nodes and waits for room for 1 more" in clog.summary


def test_pods_are_counted_on_nodes_too() -> None:
    nodes = [{"cpu": 64 * CORE, "pods": 1}] * 2
    assert found(state(nodes, [gang(1, 2, [0]), gang(2, 2, [1])])).kind == "gang deadlock"


def test_the_core_is_the_group_that_waits_only_for_itself() -> None:
    left, right = (PodShape({"cpu": 2 * CORE}, {"pool": pool}) for pool in ("left", "right"))
    anywhere = PodShape({"cpu": 2 * CORE})
    labels = {n: {"pool": "left" if n < 4 else "right", "kubernetes.io/hostname": f"fake-{n}"} for n in range(7)}
    workloads = [gang(1, 3, [0, 1], left), gang(2, 3, [2, 3], left), gang(3, 3, [4, 5], right)]
    clog = found(state(cores(7), [*workloads, gang(4, 5, [6], anywhere)], labels=labels))
    assert clog.workloads == ("gang-1", "gang-2")  # gang-3 waits for gang-4, which waits for them


def test_taints_keep_pods_off_a_node_that_looks_free() -> None:
    half = [gang(1, 2, [0]), gang(2, 2, [1])]
    assert knot(state(cores(3), half)) is None
    assert knot(state(cores(3), half, taints={2: (Taint("a"),)})) is not None
    tolerant = PodShape({"cpu": 2 * CORE}, tolerations=(Toleration("a"),))
    workloads = [gang(1, 2, [0], tolerant), gang(2, 2, [1])]
    assert knot(state(cores(3), workloads, taints={2: (Taint("a"),)})) is None


# what may still change is no proof


def test_a_node_that_is_closed_may_open_again_so_it_is_no_proof() -> None:
    half = state(cores(3), [gang(1, 2, [0]), gang(2, 2, [1])], closed=[2])
    assert knot(half) is None
    clog = found(half, as_it_stands=True)
    assert not clog.proven
    assert "as long as 1 node takes no pods" in clog.summary


def test_what_others_hold_may_go_so_it_is_no_proof_and_no_deadlock_of_ours() -> None:
    alone = state(cores(3), [gang(1, 3, [0, 1])], foreign={2: {"cpu": 2 * CORE}})
    assert knot(alone) is None
    assert knot(alone, as_it_stands=True) is None
    half = state(cores(3), [gang(1, 2, [0]), gang(2, 2, [1])], foreign={2: {"cpu": 2 * CORE}})
    assert knot(half) is None
    assert not found(half, as_it_stands=True).proven


def test_a_waiter_of_higher_priority_may_preempt_so_it_is_no_proof() -> None:
    urgent = PodShape({"cpu": 2 * CORE}, priority=10)
    half = [gang(1, 2, [0]), gang(2, 2, [1])]
    assert knot(state(cores(2), [*half, gang(3, 2, shape=urgent)])) is None
    assert knot(state(cores(2), [gang(1, 2, [0], urgent), gang(2, 2, [1], urgent), gang(3, 2)])) is not None


def test_a_proof_is_preferred_to_what_only_looks_so() -> None:
    assert found(state(cores(3), [gang(1, 3, [0]), gang(2, 3, [1]), gang(3, 2, [2])]), as_it_stands=True).proven


# what is too large by itself


def test_a_gang_larger_than_all_nodes_that_keeps_what_it_got_never_fits() -> None:
    clog = found(state(cores(4), [gang(1, 6, range(4)), gang(2, 2)]))
    assert (clog.kind, clog.workloads, clog.waiters) == ("never fits", ("gang-1",), ("gang-2",))
    assert "needs 6 pods at once" in clog.summary
    assert "room for 4 when empty" in clog.summary
    queued = state(cores(4), [gang(1, 6, range(4)), gang(2, 2)], queued=True)
    assert found(queued).kind == "aggregate admission"


def test_one_too_large_beside_a_deadlock_of_others_is_a_deadlock() -> None:
    clog = found(state(cores(5), [gang(1, 6, [4]), gang(2, 4, [0, 1]), gang(3, 4, [2, 3])]))
    assert (clog.kind, clog.workloads) == ("gang deadlock", ("gang-2", "gang-3"))
    assert clog.waiters == ("gang-1",)


def test_one_too_large_that_holds_nothing_is_no_knot() -> None:
    assert knot(state(cores(4), [gang(1, 6), gang(2, 2)])) is None


# properties

SMALL = (
    PodShape({"cpu": CORE}), TWO_CORES, PodShape({"cpu": CORE, "gpu": 1}), PodShape({"cpu": CORE}, {"pool": "a"}), PodShape({}),
)  # fmt: skip


@st.composite
def states(draw: st.DrawFn) -> State:
    """Up to 4 nodes and 5 workloads with up to 4 pods that stand wherever there is room."""
    count = draw(st.integers(1, 4))
    capacities = [
        {"cpu": draw(st.integers(0, 4)) * CORE, "gpu": draw(st.integers(0, 2)), "pods": draw(st.integers(1, 3))}
        for _ in range(count)
    ]
    labels = {node: {"pool": draw(st.sampled_from("ab"))} for node in range(count)}
    left = [dict(capacity) for capacity in capacities]
    workloads = []
    for number in range(draw(st.integers(1, 5))):
        shape = draw(st.sampled_from(SMALL))
        size = draw(st.integers(1, 4))
        nodes: list[int] = []
        for node in draw(st.lists(st.integers(0, count - 1), max_size=size)):
            asked = {**shape.requests, "pods": 1}
            if all(left[node][name] >= amount for name, amount in asked.items()) and _may(shape, labels[node]):
                left[node] = {name: amount - asked.get(name, 0) for name, amount in left[node].items()}
                nodes.append(node)
        running = draw(st.integers(0, len(nodes)))
        workloads.append(gang(number, size, nodes, shape, running, gang=draw(st.integers(0, 4)) > 0))
    return state(capacities, workloads, labels=labels)


def _may(shape: PodShape, labels: dict[str, str]) -> bool:
    return admits(NodeGroup("fake", 1, {}, labels), shape)


def _placeable(left: Sequence[dict[str, int]], labels: Sequence[dict[str, str]], shape: PodShape, pods: int) -> bool:
    """Tries every way of placing the pods, one by one."""
    for places in product(range(len(left)), repeat=pods):
        free = [dict(node) for node in left]
        for node in places:
            for name, amount in {**shape.requests, "pods": 1}.items():
                free[node][name] -= amount
        if all(amount >= 0 for node in free for amount in node.values()) and all(
            _may(shape, labels[n]) for n in places
        ):
            return True
    return False


def _can_all_holders_finish(state: State) -> bool:
    """Tries every order in which workloads might finish; a gang at once, other pods one by one."""
    labels = [dict(node.labels) for node in state.nodes]
    seen: set[frozenset[int]] = set()

    def left(finished: frozenset[int]) -> list[dict[str, int]]:
        free = [dict(node.capacity) for node in state.nodes]
        for workload in state.workloads:
            if workload.gang and workload.number not in finished:
                for node in workload.nodes:
                    for name, amount in {**workload.shape.requests, "pods": 1}.items():
                        free[node][name] -= amount
        return free

    def can(workload: WorkloadState, finished: frozenset[int]) -> bool:
        need = workload.size - len(workload.nodes)
        return _placeable(left(finished), labels, workload.shape, need if workload.gang else min(need, 1))

    def search(finished: frozenset[int]) -> bool:
        if finished in seen:
            return False
        seen.add(finished)
        rest = [workload for workload in state.workloads if workload.number not in finished]
        if not any(workload.gang and workload.nodes for workload in rest):
            return True
        return any(search(finished | {w.number}) for w in rest if can(w, finished))

    return search(frozenset())


@settings(max_examples=400, deadline=None)
@given(states())
def test_a_knot_is_claimed_exactly_where_no_order_lets_all_that_hold_something_finish(state: State) -> None:
    clog = knot(state)
    assert (clog is None) == _can_all_holders_finish(state)
    if clog is not None:
        stuck = {*clog.workloads, *clog.waiters}
        holders = {w.name for w in state.workloads if w.gang and w.nodes}
        assert set(clog.workloads) <= holders
        assert len(clog.workloads) == len(set(clog.workloads))
        assert clog.can_finish <= len(state.workloads) - len(stuck & holders)
        assert {name for edge in clog.edges for name in (edge.holder, edge.waiter)} <= stuck
        json.dumps(clog.as_json(), allow_nan=False)


@pytest.mark.parametrize("seed", range(50))
def test_every_constructed_deadlock_is_found_with_all_that_belong_to_it(seed: int) -> None:
    """Gangs fill the nodes up to a few; each misses more than these few, and what still runs would not free enough either."""
    random = Random(seed)
    per_node = random.randint(1, 3)
    nodes = random.randint(2, 60)
    slots = [node for node in range(nodes) for _ in range(per_node)]
    random.shuffle(slots)
    spare = random.randint(0, len(slots) // 4)  # free now, or free when what runs has ended
    runs = slots[: random.randint(0, spare)]
    places = slots[spare:]
    workloads = [gang(900 + n, 1, [node], running=1) for n, node in enumerate(runs)]
    members: list[str] = []
    while places:
        held = min(len(places), random.randint(1, 8))
        if len(places) - held == 1 or (not members and held == len(places)):
            held = max(held - 1, 1)
        mine, places = places[:held], places[held:]
        lacks = random.randint(spare + 1, max(spare + 1, len(slots) - held))
        if held + lacks > len(slots):
            lacks = len(slots) - held  # the last ones may be too large for the nodes: then they need all of them
        members.append(f"gang-{len(members)}")
        workloads.append(gang(len(members) - 1, held + lacks, mine))
    waiters = [gang(500 + n, random.randint(spare + 1, len(slots))) for n in range(random.randint(0, 5))]
    clog = found(state(cores(nodes, 2 * per_node), [*workloads, *waiters]))
    assert clog.kind == "gang deadlock"
    assert clog.proven
    assert sorted(clog.workloads) == sorted(members)
    assert clog.waiters == tuple(waiter.name for waiter in waiters)
    assert clog.can_finish == len(runs)
    assert len(clog.nodes) == len(set(slots[spare:]))


def test_the_cost_of_five_hundred_gangs_on_a_thousand_nodes_is_in_proportion() -> None:
    """A few milliseconds: it is asked again and again while a trial runs."""
    few, many = _full_of_gangs(100), _full_of_gangs(1000)
    assert found(many).kind == found(few).kind == "gang deadlock"
    costs_at_most(LINEAR, lambda: knot(few), lambda: knot(many))


def _full_of_gangs(count: int) -> State:
    """A gang for every other node, each with eight of its pods somewhere and more to come."""
    slots = [node for node in range(count) for _ in range(4)]
    Random(1).shuffle(slots)
    shapes = [PodShape({"cpu": 2 * CORE, "memory": 2**30, "nvidia.com/gpu": n % 2}, {"pool": "a"}) for n in range(4)]
    nodes = [{"cpu": 8 * CORE, "memory": 2**38, "nvidia.com/gpu": 4}] * count
    labels = {n: {"pool": "a", "kubernetes.io/hostname": f"fake-{n}"} for n in range(count)}
    gangs = [gang(n, 10 + n % 50, slots[8 * n : 8 * n + 8], shapes[n % 4], waiting=0) for n in range(count // 2)]
    return state(nodes, gangs, labels=labels)
