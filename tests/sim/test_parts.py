"""The simulator's parts, each alone."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.plan import NodeGroup, PlayedRuntime, PodShape, Span, Taint, Toleration
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.sim.apiserver import LATENCY, WRITE, ApiClient, ApiServer
from seatrial.sim.event_stream import QUEUED_AT_MOST, EventStream
from seatrial.sim.framework import GROUP, POD_BOUND, POD_GONE, ROOM
from seatrial.sim.goroutines import GoMutex, Goroutine, Goroutines, Signal
from seatrial.sim.kernel import Kernel
from seatrial.sim.kubelets import RELIST, Kubelets
from seatrial.sim.nodes import Nodes, nodes_to_find
from seatrial.sim.queue import BACKOFF_FIRST, BACKOFF_MOST, UNSCHEDULABLE_LOOK, UNSCHEDULABLE_MOST, SchedulingQueue

GI = 1 << 30


@given(st.lists(st.integers(0, 10**12)))
def test_events_happen_in_order_of_time_and_then_of_asking(moments: list[int]) -> None:
    kernel = Kernel()
    seen: list[tuple[int, int]] = []
    for order, when in enumerate(moments):
        kernel.at(when, lambda order: seen.append((kernel.now, order)), order)
    kernel.run(10**12)
    assert seen == sorted((when, order) for order, when in enumerate(moments))


def test_an_event_asked_for_in_the_past_happens_now() -> None:
    kernel = Kernel()
    seen: list[int] = []
    kernel.at(100, lambda _: kernel.at(5, lambda _: seen.append(kernel.now)))
    kernel.run(200)
    assert seen == [100]
    assert kernel.now == 200


def test_a_halt_ends_the_run_after_the_current_event() -> None:
    kernel = Kernel()
    seen: list[int] = []

    def happen(_: object) -> None:
        seen.append(kernel.now)
        if kernel.now == 2:
            kernel.halt()

    for when in (1, 2, 3):
        kernel.at(when, happen)
    kernel.run(10)
    assert (seen, kernel.now) == ([1, 2], 2)
    kernel.run(10)
    assert seen == [1, 2, 3]


@given(st.integers(1, 200), st.integers(1, 100), st.lists(st.integers(0, 3 * SECOND), min_size=1, max_size=200))
def test_a_bucket_never_lets_more_than_burst_and_rate_allow_go(qps: int, burst: int, gaps: list[int]) -> None:
    client = ApiClient("c", qps, burst)
    now, left = 0, []
    for gap in gaps:
        now += gap
        leave = client.slot(now)
        assert leave >= now
        left.append(leave)
    assert left == sorted(left)
    for i in range(len(left)):
        for j in range(i, len(left)):
            assert j - i + 1 <= burst + (left[j] - left[i]) * qps / SECOND + 1


def test_an_unlimited_client_never_waits() -> None:
    client = ApiClient("c")
    assert [client.slot(7) for _ in range(1000)] == [7] * 1000


def test_a_component_sends_its_events_one_after_another_and_drops_what_its_queue_does_not_hold() -> None:
    kernel = Kernel()
    api = ApiServer(kernel, 1)
    client = ApiClient("controller", 10, 1)
    stream = EventStream(api, client)
    stream.add(5000)
    kernel.run()
    took = kernel.now / SECOND
    assert took == pytest.approx((QUEUED_AT_MOST - 1) / 10, rel=0.01)


def test_a_request_takes_about_its_latency() -> None:
    kernel = Kernel()
    api = ApiServer(kernel, 1)
    answered: list[int] = []
    for _ in range(1001):
        api.call(ApiClient("c"), WRITE, lambda _: answered.append(kernel.now))
    kernel.run(SECOND)
    assert sorted(answered)[500] == pytest.approx(LATENCY[WRITE], rel=0.1)
    assert max(answered) > 2 * LATENCY[WRITE]


@pytest.mark.parametrize(
    ("nodes", "found"), [(1, 1), (99, 99), (100, 100), (125, 100), (1000, 420), (5000, 500), (10_000, 500)]
)
def test_the_share_of_nodes_looked_at_is_kube_schedulers(nodes: int, found: int) -> None:
    assert nodes_to_find(nodes) == found


_GROUP = NodeGroup("n", 1, {"cpu": 4000, "memory": 16 * GI, "pods": 5, "nvidia.com/gpu": 2})


def _nodes(*groups: NodeGroup) -> Nodes:
    nodes = Nodes(["nvidia.com/gpu"], Random(1))
    for group in groups:
        nodes.add(group)
    return nodes


def test_a_pod_goes_to_the_node_with_most_left() -> None:
    shape = PodShape({"cpu": 1000, "memory": GI})
    nodes = _nodes(_GROUP, _GROUP)
    first = nodes.choose(shape)
    nodes.take(first, shape)
    assert nodes.choose(shape) == 1 - first


def test_equal_nodes_are_chosen_by_chance() -> None:
    nodes = _nodes(*[_GROUP] * 10)
    assert len({nodes.choose(PodShape({"cpu": 1})) for _ in range(200)}) == 10


@pytest.mark.parametrize("shape", [
    PodShape({"cpu": 4001}),
    PodShape({"memory": 17 * GI}),
    PodShape({"nvidia.com/gpu": 3}),
    PodShape({"cpu": 1}, selector={"zone": "b"}),
    PodShape({"cpu": 1}, affinity=(("zone", ("b", "c")),)),
])  # fmt: skip
def test_a_pod_that_does_not_fit_finds_no_node(shape: PodShape) -> None:
    nodes = _nodes(NodeGroup("n", 1, _GROUP.capacity, labels={"zone": "a"}))
    assert nodes.choose(shape) == -1
    assert nodes.feasible(shape) == 0


def test_a_node_takes_only_as_many_pods_as_it_may() -> None:
    nodes, shape = _nodes(_GROUP), PodShape({"cpu": 1})
    for _ in range(5):
        nodes.take(nodes.choose(shape), shape)
    assert nodes.choose(shape) == -1
    nodes.give_back(0, shape)
    assert nodes.choose(shape) == 0


def test_a_taint_keeps_pods_off_that_do_not_tolerate_it() -> None:
    tainted = NodeGroup("n", 1, _GROUP.capacity, taints=(Taint("kwok", "fake"),))
    nodes = _nodes(tainted)
    assert nodes.choose(PodShape({"cpu": 1})) == -1
    assert nodes.choose(PodShape({"cpu": 1}, tolerations=(Toleration("kwok", "Equal", "fake"),))) == 0
    assert nodes.choose(PodShape({"cpu": 1}, tolerations=(Toleration("kwok", "Equal", "real"),))) == -1


def test_a_soft_taint_only_lowers_the_score() -> None:
    soft = NodeGroup("n", 1, _GROUP.capacity, taints=(Taint("spot", "", "PreferNoSchedule"),))
    assert _nodes(soft).choose(PodShape({"cpu": 1})) == 0
    assert {_nodes(soft, _GROUP).choose(PodShape({"cpu": 1})) for _ in range(20)} == {1}


def test_a_closed_node_is_chosen_again_once_it_is_open() -> None:
    nodes, shape = _nodes(_GROUP), PodShape({"cpu": 1})
    nodes.close(0)
    assert nodes.choose(shape) == -1
    nodes.open(0)
    assert nodes.choose(shape) == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.booleans()), max_size=60), st.integers(1, 130))
def test_cached_scores_say_what_a_fresh_look_says(changes: list[tuple[int, int, bool]], count: int) -> None:
    shapes = [
        PodShape({"cpu": 500 * (i + 1), "memory": GI, **({"nvidia.com/gpu": 1} if i == 3 else {})}) for i in range(4)
    ]
    nodes = _nodes(*[_GROUP] * count)
    held: list[tuple[int, PodShape]] = []
    for which, place, take in changes:
        if take:
            node = nodes.choose(shapes[which])
            if node >= 0:
                nodes.take(node, shapes[which])
                held.append((node, shapes[which]))
        elif held:
            nodes.give_back(*held.pop(place % len(held)))
    for shape in shapes:
        fits = [
            node
            for node in range(count)
            if all(
                shape.requests.get(name, int(name == "pods")) <= nodes.free[i][node]
                for i, name in enumerate(nodes.resources)
            )
        ]
        assert nodes.feasible(shape) == len(fits)
        assert nodes.choose(shape) in (fits or [-1])


def _queue() -> tuple[Kernel, SchedulingQueue]:
    kernel = Kernel()
    return kernel, SchedulingQueue(kernel, lambda _pod, at: (at,), lambda: None)


def test_a_failed_pod_waits_for_an_event_and_then_backs_off_longer_each_time() -> None:
    kernel, queue = _queue()
    waits: list[int] = []
    queue.add(0)
    for _ in range(6):
        assert queue.pop() == 0
        failed_at = kernel.now
        queue.failed(0, queue.events)
        kernel.run(kernel.now + BACKOFF_FIRST // 4)
        assert queue.pop() == -1
        queue.moved()
        blocker = 1_000_000 + len(waits)
        queue.add(blocker)  # while something is active, nobody is taken out of their back-off
        assert queue.pop() == blocker
        while not queue.waiting:
            kernel.run(kernel.now + SECOND // 10)
        waits.append(kernel.now - failed_at)
    seconds = [round(wait / SECOND) for wait in waits]  # back-offs end with the second
    assert seconds == sorted(seconds)
    assert BACKOFF_FIRST <= waits[0] <= BACKOFF_FIRST + 2 * SECOND
    assert BACKOFF_MOST <= waits[-1] <= BACKOFF_MOST + 2 * SECOND


def test_an_idle_scheduler_takes_pods_out_of_their_back_off() -> None:
    _, queue = _queue()
    queue.add(0)
    queue.pop()
    queue.failed(0, queue.events)
    queue.moved()
    assert queue.pop() == 0


def test_a_pod_that_no_event_helps_is_tried_again_after_five_minutes() -> None:
    kernel, queue = _queue()
    queue.add(0)
    queue.pop()
    queue.failed(0, queue.events)
    kernel.run(UNSCHEDULABLE_MOST - SECOND)
    assert queue.pop() == -1
    kernel.run(UNSCHEDULABLE_MOST + UNSCHEDULABLE_LOOK + SECOND)
    assert queue.pop() == 0


def test_a_pod_is_woken_only_by_what_helps_it() -> None:
    _, queue = _queue()
    for pod, helped_by in ((0, ROOM), (1, POD_BOUND | GROUP)):
        queue.add(pod)
        assert queue.pop() == pod
        queue.failed(pod, queue.events, helped_by)
    queue.moved(POD_GONE)
    assert [queue.pop(), queue.pop()] == [0, -1]
    queue.moved(GROUP)
    assert [queue.pop(), queue.pop()] == [1, -1]


def test_what_happens_while_a_pod_is_looked_at_counts_for_it() -> None:
    _, queue = _queue()
    for event, comes_back in ((POD_BOUND, -1), (POD_GONE, 0)):
        queue.add(0)
        queue.pop()
        before = queue.events
        queue.moved(event)
        queue.failed(0, before, ROOM)
        assert queue.pop() == comes_back
        queue.remove(0)
        queue._deleted.clear()


def test_a_pods_own_room_does_not_wake_it() -> None:
    _, queue = _queue()
    for pod in (0, 1):
        queue.add(pod)
        queue.pop()
        queue.failed(pod, queue.events)
    queue.moved(POD_GONE, but=0)
    assert [queue.pop(), queue.pop()] == [1, -1]


def test_an_activated_pod_leaves_its_back_off_and_is_popped_once() -> None:
    kernel, queue = _queue()
    queue.add(0)
    queue.pop()
    queue.failed(0, queue.events)
    queue.moved()
    for _ in range(2):
        queue.activate((0,))
    assert [queue.pop(), queue.pop()] == [0, -1]
    kernel.run(30 * SECOND)
    assert queue.pop() == -1


def test_a_pod_that_failed_keeps_its_place_by_when_it_failed() -> None:
    kernel, queue = _queue()
    queue.add(0)
    queue.pop()
    queue.failed(0, queue.events)
    kernel.run(5 * SECOND)
    queue.add(1)
    queue.moved()
    assert [queue.pop(), queue.pop()] == [0, 1]


def test_a_deleted_pod_is_never_popped() -> None:
    _, queue = _queue()
    for pod in range(3):
        queue.add(pod)
    queue.remove(1)
    assert [queue.pop(), queue.pop(), queue.pop()] == [0, 2, -1]


@pytest.mark.parametrize(("pods", "machine_cores", "seconds"), [(1, 0, 3), (4, 0, 3), (8, 0, 5), (8, 2, 9)])
def test_containers_that_start_together_share_the_cores(pods: int, machine_cores: int, seconds: float) -> None:
    kernel = Kernel()
    settings = {"start-latency": SECOND, "start-work": 2 * SECOND, "machine-cores": machine_cores}
    kubelets = Kubelets(kernel, settings, Random(1))
    started: list[int] = []
    for pod in range(pods):
        kubelets.start(pod, 0, 4.0, lambda _: started.append(kernel.now))
    kernel.run(60 * SECOND)
    assert len(started) == pods
    assert max(started) == pytest.approx(seconds * SECOND, abs=MILLISECOND)


def test_a_kubelet_says_the_end_one_relist_after_it_saw_it() -> None:
    kernel = Kernel()
    settings = {"start-latency": 0, "start-work": 0, "machine-cores": 0}
    kubelets = Kubelets(kernel, settings, Random(1))
    ends: list[int] = []
    kubelets.start(0, 0, 1.0, lambda pod: kubelets.run(pod, 0, 3 * SECOND, lambda _: ends.append(kernel.now)))
    kernel.run(60 * SECOND)
    assert 3 * SECOND + RELIST <= ends[0] <= 3 * SECOND + 2 * RELIST + MILLISECOND


@pytest.mark.parametrize(("at_once", "bandwidth", "seconds"), [(0, 0, 3), (2, 0, 6), (0, 100, 8)])
def test_a_runtime_of_the_scenario_takes_its_own_times(at_once: int, bandwidth: int, seconds: float) -> None:
    """Four pods: 1 s sandbox and 2 s start each, two at once, or behind a pull of 5 s."""
    kernel = Kernel()
    settings = {"start-latency": 50 * SECOND, "start-work": 50 * SECOND, "machine-cores": 0}
    kubelets = Kubelets(kernel, settings, Random(1))
    said = PlayedRuntime(Span(SECOND, SECOND), Span(2 * SECOND, 2 * SECOND), at_once, 500, bandwidth)
    started: list[int] = []
    for pod in range(4):
        kubelets.start(pod, 0, 4.0, lambda _: started.append(kernel.now), said)
    kernel.run(60 * SECOND)
    assert len(started) == 4
    assert max(started) == pytest.approx(seconds * SECOND, abs=MILLISECOND)


def test_a_mutex_is_held_by_one_at_a_time_and_everyone_gets_it() -> None:
    kernel = Kernel()
    processes = Goroutines(kernel, ApiServer(kernel, 1))
    mutex = GoMutex(kernel, processes)
    inside: list[int] = []
    turns: list[int] = []

    def loop(who: int) -> Goroutine:
        for _ in range(20):
            yield mutex.lock()
            assert not inside
            inside.append(who)
            yield 500_000
            inside.remove(who)
            turns.append(who)
            mutex.unlock()
            yield 1000

    for who in range(3):
        processes.start(loop(who))
    kernel.run(SECOND)
    assert sorted(turns) == sorted([0, 1, 2] * 20)


def test_a_signal_that_has_happened_holds_nobody_up() -> None:
    kernel = Kernel()
    processes = Goroutines(kernel, ApiServer(kernel, 1))
    seen: list[int] = []

    def wait(signal: Signal) -> Goroutine:
        yield signal
        seen.append(kernel.now)

    late = Signal()
    processes.start(wait(Signal(happened=True)))
    processes.start(wait(late))
    kernel.at(50, lambda _: processes.happen(late))
    kernel.run(100)
    assert seen == [0, 50]


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=60))
def test_events_of_one_delay_keep_their_place_among_the_others(asked: list[tuple[int, bool]]) -> None:
    """Those that stand in a lane happen as if they were in the heap."""

    def happened(lanes: bool) -> list[tuple[int, int]]:
        kernel = Kernel()
        seen: list[tuple[int, int]] = []

        def note(number: int) -> None:
            seen.append((kernel.now, number))
            delay, again = asked[number % len(asked)]
            if again and number < 200:
                ask(delay, number + len(asked))

        def ask(delay: int, number: int) -> None:
            if lanes:
                kernel.after(delay, note, number)
            else:
                kernel.at(kernel.now + delay, note, number)

        for number, (delay, _) in enumerate(asked):
            ask(delay, number)
        kernel.run(1000)
        assert kernel.events == len(seen)
        return seen

    assert happened(True) == happened(False)


def test_the_clock_moves_on_inside_an_event_only_while_nobody_else_is_due() -> None:
    kernel = Kernel()
    seen: list[int] = []

    def steps(_: object) -> None:
        seen.extend(kernel.advance(moment) for moment in (2, 4, 5, 6))
        seen.append(kernel.now)

    kernel.at(1, steps)
    kernel.at(5, lambda _: None)
    kernel.run(10)
    assert seen == [True, True, False, False, 4]
    assert kernel.events == 4
    assert not kernel.advance(20), "nothing is happening"
