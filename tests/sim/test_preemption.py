"""DefaultPreemption in the simulated kube-scheduler: who goes, who comes, and what is written down."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seatrial import stacks
from seatrial.clusters.sim_cluster import SimCluster
from seatrial.model.fleet import NODE_GONE, PREEMPTED
from seatrial.model.plan import NodeGroup, Pace, PodShape, Span, Toleration
from seatrial.model.units import SECOND
from seatrial.record.ledger import Ledger
from seatrial.record.segments import RECORD, Segment
from seatrial.record.submissions import Submissions
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from seatrial.sim.kernel import Kernel
from seatrial.sim.nodes import Nodes
from seatrial.sim.pods import ASSUMED, RUNNING, Pods
from seatrial.sim.preemption import VictimSearch
from seatrial.steps.choreography import run_steps
from tests.sim.making import GI, Ran, fakes, never_judged, run, trial

ANY = (Toleration(),)
SCHEDULERS = ["default", "coscheduling", "gang"]


def shape(cpu: int, priority: int = 0) -> PodShape:
    return PodShape({"cpu": cpu}, tolerations=ANY, priority=priority)


def jobs(
    name: str, count: int, what: PodShape, seconds: float, pods: int = 1, gang: bool = False, **more: object
) -> Submit:
    return Submit(name, count, (pods,), False, what, int(seconds * SECOND), gang=gang, **more)  # type: ignore[arg-type]


def times_of(ran: Ran, stage: str, phase: str) -> list[float]:
    """When the workloads of a phase, or their pods, reached a stage."""
    ledger = ran.cluster.ledger
    number = ledger.phase(phase)
    of_pods = ledger.stages[ledger.number[stage]].of == "pod"
    rows = ran.seen.filter(pl.col("stage") == stage).sort("at_ns")
    owner = [ledger.pod_workload[one] if of_pods else one for one in rows["object"].to_list()]
    return [
        at / 1e9 for at, one in zip(rows["at_ns"].to_list(), owner, strict=True) if ledger.workload_phase[one] == number
    ]


# the choice of node and victims


class Cluster:
    """Nodes with pods on them, for the search alone."""

    def __init__(self, *nodes: Sequence[tuple[PodShape, float]], cpu: int = 10) -> None:
        self.nodes, self.pods = Nodes([], Random(1)), Pods()
        self.kernel = Kernel()
        self.kernel.now = 1000 * SECOND
        group = NodeGroup("fake", len(nodes), {"cpu": cpu, "memory": GI, "pods": 10})
        for pods in nodes:
            node = self.nodes.add(group)
            for what, started_s in pods:
                pod = self.pods.add(0, what)
                self.pods.state[pod], self.pods.node[pod] = RUNNING, node
                self.pods.started[pod] = int(started_s * SECOND)
                self.nodes.take(node, what)
        self.search = VictimSearch(self.kernel, self.nodes, self.pods, Random(1))

    def plan(self, what: PodShape) -> tuple[int, tuple[int, ...]]:
        pod = self.pods.add(1, what)
        assert self.nodes.choose(what) < 0
        made = self.search.plan(pod)
        return made.node, made.victims


def test_pods_of_the_same_priority_are_no_victims() -> None:
    assert Cluster([(shape(10, 5), 1)]).plan(shape(1, 5)) == (-1, ())


def test_as_many_as_possible_are_spared_and_the_most_important_first() -> None:
    """Of three pods of 3 on a node of 10, two must go for one of 7; the one of the highest priority stays."""
    cluster = Cluster([(shape(3, 1), 1), (shape(3, 2), 1), (shape(3, 1), 1)])
    assert cluster.plan(shape(7, 9)) == (0, (0, 2))


def test_of_equals_the_pod_that_started_first_is_spared() -> None:
    assert Cluster([(shape(5, 1), 20), (shape(5, 1), 10)]).plan(shape(5, 9)) == (0, (0,))


def test_the_node_whose_most_important_victim_matters_least_wins() -> None:
    """Even where more pods have to go."""
    cluster = Cluster([(shape(10, 3), 1)], [(shape(5, 2), 1), (shape(5, 2), 1)])
    assert cluster.plan(shape(10, 9)) == (1, (1, 2))


def test_then_the_node_with_fewer_victims() -> None:
    assert Cluster([(shape(5, 2), 1), (shape(5, 2), 1)], [(shape(10, 2), 1)]).plan(shape(10, 9)) == (1, (2,))


def test_then_the_node_whose_victims_started_last() -> None:
    assert Cluster([(shape(10, 2), 10)], [(shape(10, 2), 11)], [(shape(10, 2), 9)]).plan(shape(10, 9)) == (1, (1,))


def test_a_node_that_is_too_small_or_closed_is_no_candidate() -> None:
    cluster = Cluster([(shape(10, 1), 1)], [(shape(10, 1), 1)])
    cluster.nodes.close(0)
    assert cluster.plan(shape(5, 9)) == (1, (1,))
    assert cluster.plan(shape(11, 9)) == (-1, ())


def test_a_nomination_counts_for_pods_of_the_same_or_a_lower_priority_only() -> None:
    cluster = Cluster([(shape(4, 1), 1)])
    nominated = cluster.pods.add(1, shape(6, 5))
    cluster.nodes.nominate(nominated, 0, cluster.pods.shape[nominated])
    assert cluster.nodes.choose(shape(1, 5)) < 0
    assert cluster.nodes.choose(shape(1, 6)) == 0
    assert cluster.nodes.takes_nominated(nominated, cluster.pods.shape[nominated])
    cluster.nodes.withdraw(nominated)
    assert cluster.nodes.choose(shape(1, 5)) == 0


def test_what_was_found_is_found_again_only_while_the_node_is_as_it_was() -> None:
    cluster = Cluster([(shape(5, 1), 1), (shape(5, 1), 2)])
    big = shape(5, 9)
    assert cluster.plan(big) == (0, (1,))
    cluster.nodes.give_back(0, cluster.pods.shape[1])
    cluster.search.left(1, 0)
    other = cluster.pods.add(2, shape(5, 9))
    cluster.pods.state[other] = ASSUMED
    cluster.nodes.take(0, cluster.pods.shape[other])
    cluster.search.placed(other, 0)
    assert cluster.plan(big) == (0, (0,))


# a whole cluster


def test_a_pod_takes_the_node_of_one_with_a_lower_priority_within_a_moment(tmp_path: Path) -> None:
    """PATCH and DELETE of the victim, KWOK's removal, another cycle, the binding: about 30 ms."""
    steps = ((jobs("low", 1, shape(32_000, 1), 100),), (Pause("until", 20 * SECOND),),
             (jobs("high", 1, shape(32_000, 2), 10),), (Wait("done", "completed"),))  # fmt: skip
    ran = run(trial(*steps, nodes=[fakes(1)]), tmp_path)
    assert ran.ending.outcome == "completed"
    assert ran.evictions.select("workload", "event", "reason", "by").rows() == [
        (0, "evicted", PREEMPTED, 1),
        (0, "readmitted", "", -1),
    ]
    assert ran.evictions["message"][0] == "default-scheduler: preempting to accommodate a higher priority pod"
    [bound] = times_of(ran, "scheduled", "high")
    assert 20 < bound < 20.2
    # From the start: 10 s of the one, then 100 s again.
    assert max(times_of(ran, "finished", "low")) == pytest.approx(20 + 1 + 10 + 1 + 100, abs=0.5)


def test_without_a_lower_priority_nothing_is_evicted_and_the_first_come_first(tmp_path: Path) -> None:
    steps = ((jobs("a", 1, shape(32_000, 7), 100),), (jobs("b", 1, shape(32_000, 7), 10),), (Wait("d", "completed"),))
    ran = run(trial(*steps, nodes=[fakes(1)]), tmp_path)
    assert ran.evictions.is_empty()
    assert min(times_of(ran, "scheduled", "b")) > 100


def test_pods_of_a_stack_whose_queue_has_the_priorities_evict_nobody(tmp_path: Path) -> None:
    low, high = (jobs(name, 1, shape(32_000, priority), 30) for name, priority in (("low", 1), ("high", 2)))
    steps = ((low,), (Pause("until", 10 * SECOND),), (high,), (Wait("done", "completed"),))
    found = stacks.find("default")
    ledger = Ledger(found.stages, Segment(tmp_path))
    cluster = SimCluster(trial(*steps, nodes=[fakes(1)]), found, ledger, Submissions(tmp_path), tmp_path)
    cluster._sim.pods.have_priorities = False
    cluster.run(run_steps(cluster, cluster._trial, never_judged, ()))
    assert ledger.evictions == 0


def test_the_room_that_an_eviction_made_goes_to_the_pod_it_was_made_for(tmp_path: Path) -> None:
    """Pods of the victim's priority are in the queue too, one of them its replacement: the nomination keeps them out."""
    steps = ((jobs("low", 4, shape(16_000, 1), 200),), (Pause("until", 20 * SECOND),),
             (jobs("high", 1, shape(32_000, 2), 10), jobs("more", 5, shape(16_000, 1), 10)),
             (Wait("done", "completed"),))  # fmt: skip
    ran = run(trial(*steps, nodes=[fakes(2)]), tmp_path)
    assert ran.ending.outcome == "completed"
    assert max(times_of(ran, "scheduled", "high")) < 20.5
    assert ran.evictions.filter(pl.col("event") == "evicted").height == 2


def test_pods_nominated_to_one_node_keep_each_other_out_and_evict_more_than_needed(tmp_path: Path) -> None:
    """Seen on `local` too, with 4 pods and 5 victims (docs/stacks/default.md)."""
    low, high = (
        jobs(name, n, shape(16_000, of), 30, 2, gang=True) for name, n, of in (("low", 8, 10), ("high", 3, 100))
    )
    steps = ((low,), (Pause("until", 8 * SECOND),), (high,), (Wait("done", "completed"),))
    lost = [run(trial(*steps, nodes=[fakes(8)], seed=seed), tmp_path / str(seed)).count("lost") for seed in range(6)]
    assert min(lost) == 6
    assert 6 < max(lost) <= 9


@pytest.mark.parametrize("stack", SCHEDULERS)
def test_a_wave_of_high_gangs_displaces_low_ones_on_two_hundred_nodes_and_the_books_add_up(
    tmp_path: Path, stack: str
) -> None:
    low = jobs("low", 50, shape(16_000, 10), 600, pods=8, gang=True)
    high = jobs("high", 12, shape(16_000, 100), 60, pods=8, gang=True)
    steps = ((low,), (Pause("until", 120 * SECOND),), (high,), (Wait("done", "completed"),))
    ran = run(trial(*steps, nodes=[fakes(200)], stack=stack), tmp_path)
    assert ran.ending.outcome == "completed"
    assert ran.count("completed") == 62
    # The order: all of the wave runs while low gangs wait, and ends before the first low gang that was evicted.
    assert max(times_of(ran, "completed", "high")) < 120 + 60 + 20
    events = ran.evictions
    evicted, readmitted = (events.filter(pl.col("event") == event) for event in ("evicted", "readmitted"))
    assert set(evicted["reason"]) == {PREEMPTED}
    assert set(evicted["workload"]) <= set(range(50))
    assert set(evicted["by"]) <= set(range(50, 62))
    assert sorted(evicted["workload"]) == sorted(readmitted["workload"])
    assert not ran.cluster.ledger.evicted
    assert ran.count("lost") == 96  # one low pod per high pod, on nodes that hold two
    check_books(ran)


def test_a_group_that_cannot_be_placed_even_so_has_evicted_for_nothing(tmp_path: Path) -> None:
    """Kubernetes 1.36's own gangs preempt pod by pod: the first pods evict before it is known that the last finds no victim."""
    steps = ((jobs("low", 2, shape(32_000, 1), 100),), (jobs("same", 1, shape(32_000, 9), 200),),
             (Pause("until", 20 * SECOND),), (jobs("high", 1, shape(32_000, 9), 10, pods=3, gang=True),),
             (Wait("done", "completed"),))  # fmt: skip
    ran = run(trial(*steps, nodes=[fakes(3)], stack="gang"), tmp_path)
    assert ran.ending.outcome == "completed"
    assert ran.evictions.filter(pl.col("event") == "evicted").height >= 2
    assert min(times_of(ran, "scheduled", "high")) > 200


# checkpoints, and other ways to lose a place


@pytest.mark.parametrize("gang", [False, True])
@pytest.mark.parametrize(("checkpoint", "saved"), [(0, 0), (7, 14), (30, 0)])
def test_an_evicted_workload_goes_on_at_its_last_checkpoint(
    tmp_path: Path, gang: bool, checkpoint: int, saved: int
) -> None:
    """It has run for 19 s when it loses a pod."""
    low = jobs("low", 1, shape(32_000, 1), 100, pods=2, gang=gang, checkpoint=checkpoint * SECOND)
    steps = ((low,), (Pause("until", 20 * SECOND),), (jobs("high", 1, shape(32_000, 2), 10, pods=2),),
             (Wait("done", "completed"),))  # fmt: skip
    ran = run(trial(*steps, nodes=[fakes(2)]), tmp_path)
    resumed = max(times_of(ran, "running", "low"))
    assert max(times_of(ran, "finished", "low")) - resumed == pytest.approx(100 - saved, abs=0.1)


def test_a_second_eviction_counts_from_the_checkpoint_before(tmp_path: Path) -> None:
    low = jobs("low", 1, shape(32_000, 1), 100, checkpoint=10 * SECOND)
    first, second = (jobs(name, 1, shape(32_000, 2), 5) for name in ("first", "second"))
    steps = (
        (low,),
        (Pause("a", 40 * SECOND),),
        (first,),
        (Pause("b", 40 * SECOND),),
        (second,),
        (Wait("d", "completed"),),
    )
    ran = run(trial(*steps, nodes=[fakes(1)]), tmp_path)
    began = times_of(ran, "running", "low")
    lost = (ran.seen.filter(pl.col("stage") == "lost").sort("at_ns")["at_ns"] / 1e9).to_list()
    saved = sum((end - start) // 10 * 10 for start, end in zip(began, lost, strict=False))
    assert saved == 60  # 39 s, then 33 s
    assert max(times_of(ran, "finished", "low")) - began[-1] == pytest.approx(100 - saved, abs=0.1)


def test_a_lost_node_evicts_each_workload_once_and_says_so(tmp_path: Path) -> None:
    """Four nodes with two pods each; two nodes go at once, and each gang had pods on both."""
    gangs = jobs("gang", 2, shape(16_000), 50, pods=4, gang=True)
    remove = NodeChange("go", "remove", group="fake", count=2)
    steps = ((gangs,), (Pause("until", 10 * SECOND),), (remove,), (NodeChange("more", "add", "new", add=fakes_named("new", 2)),),
             (Wait("done", "completed"),))  # fmt: skip
    ran = run(trial(*steps, nodes=[fakes(4)]), tmp_path)
    assert ran.ending.outcome == "completed"
    evicted = ran.evictions.filter(pl.col("event") == "evicted")
    assert evicted["workload"].is_unique().all()
    assert set(evicted["reason"]) == {NODE_GONE}
    assert all(message.startswith("node fake-") for message in evicted["message"])
    check_books(ran)


def fakes_named(name: str, count: int) -> NodeGroup:
    return NodeGroup(name, count, {"cpu": 32_000, "memory": 256 * GI, "pods": 110}, start=Span(SECOND))


# what always holds


def check_books(ran: Ran) -> None:
    """Who was evicted has its place again or is over; nobody gets its place again without an eviction before."""
    out: set[int] = set()
    for at, workload, event in (
        ran.evictions.select("at_ns", "workload", "event").sort("at_ns", maintain_order=True).rows()
    ):
        assert at >= 0
        if event == "evicted":
            assert workload not in out
            out.add(workload)
        else:
            assert workload in out
            out.discard(workload)
    assert out == ran.cluster.ledger.evicted


def check_nodes(ran: Ran, shapes: Sequence[PodShape]) -> None:
    """No node ever holds more than it has: bindings and ends in the order of time, ends first."""
    ledger = ran.cluster.ledger
    rows = ran.seen.filter(pl.col("stage").is_in(["scheduled", "finished", "lost"])).select(
        "at_ns", "object", "stage", "node"
    )
    placed: dict[int, int] = {}
    used: dict[int, int] = {}
    order = {"finished": 0, "lost": 0, "scheduled": 1}
    for _, pod, stage, node in sorted(rows.rows(), key=lambda row: (row[0], order[row[2]])):
        cpu = shapes[ledger.pod_workload[pod]].requests["cpu"]
        if stage == "scheduled":
            placed[pod] = node
            used[node] = used.get(node, 0) + cpu
            assert used[node] <= 32_000
        elif pod in placed:
            used[placed.pop(pod)] -= cpu
    assert not any(used.values())


LOADS = st.lists(
    st.tuples(
        st.integers(1, 6),  # workloads
        st.integers(1, 4),  # pods
        st.sampled_from([4_000, 11_000, 16_000, 32_000]),
        st.integers(0, 3),  # priority
        st.integers(2, 40),  # seconds
        st.booleans(),  # gang
        st.sampled_from([0, 3, 10]),  # checkpoint
    ),
    min_size=2,
    max_size=5,
)


@example(  # a group waits for its victims while the other groups rest
    "gang",
    [(2, 3, 4000, 1, 3, True, 0), (1, 3, 11000, 1, 6, False, 0), (4, 3, 16000, 2, 2, False, 0),
     (4, 2, 32000, 0, 2, False, 0), (4, 4, 32000, 2, 2, True, 0)],
    6, 1000,
)  # fmt: skip
@settings(max_examples=40, deadline=None)
@given(st.sampled_from(SCHEDULERS), LOADS, st.integers(4, 6), st.integers(1, 1000))
def test_no_node_is_overcommitted_and_no_victim_matters_as_much_as_its_preemptor(
    stack: str, loads: list[tuple[int, int, int, int, int, bool, int]], nodes: int, seed: int
) -> None:
    phases = tuple(
        jobs(f"load{number}", count, shape(cpu, priority), seconds, pods, gang, checkpoint=checkpoint * SECOND,
             pace=Pace("rate", per_s=0.5))
        for number, (count, pods, cpu, priority, seconds, gang, checkpoint) in enumerate(loads)
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        ran = run(trial(phases, (Wait("done", "completed", timeout=3600 * SECOND),), nodes=[fakes(nodes)], stack=stack,
                        seed=seed), directory)  # fmt: skip
        times = [record[0] for file in directory.rglob("*observed*") if file.is_file()
                 for record in RECORD.iter_unpack(file.read_bytes())]  # fmt: skip
    workloads = ran.cluster._sim.workloads
    if ran.ending.outcome == "completed":  # gangs may deadlock with a scheduler that places pod by pod
        check_nodes(ran, [workload.shape for workload in workloads])
    assert ran.ending.outcome == "completed" or any(gang for *_, gang, _ in loads)
    check_books(ran)
    for workload, by in ran.evictions.filter(pl.col("event") == "evicted").select("workload", "by").rows():
        assert workloads[workload].shape.priority < workloads[by].shape.priority
    assert times == sorted(times)
