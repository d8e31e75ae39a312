"""Kueue's model: its queue, its quota, its patience, and what it costs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial import stacks
from seatrial.model.plan import NodeGroup, Pace, PodShape, Scalar, Span, Step, Trial
from seatrial.model.units import HOUR, SECOND
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from seatrial.sim.goroutines import Goroutine
from seatrial.stacks.kueue.api_writes import QueueStatus
from seatrial.stacks.kueue.pending import Entry, GoHeap, Inadmissible, Key
from tests.sim.making import GI, Ran, run, submit, trial


def cores(count: int) -> PodShape:
    return PodShape({"cpu": count * 1000, "memory": 100_000_000})


def nodes(count: int = 2, cpu: int = 4, name: str = "fake") -> NodeGroup:
    return NodeGroup(name, count, {"cpu": cpu * 1000, "memory": 64 * GI, "pods": 110}, start=Span(SECOND))


def named(name: str, count: int = 1, pods: int = 1, cpu: int = 1, seconds: float = 5, **more: object) -> Submit:
    return Submit(name, count, (pods,), False, cores(cpu), int(seconds * SECOND), **more)  # type: ignore[arg-type]


def queued(*steps: Step, group: NodeGroup | None = None, settings: Mapping[str, Scalar] | None = None) -> Trial:
    return trial(*steps, nodes=[group or nodes()], stack="kueue", settings={"kueue": settings or {}})


def of(ran: Ran, phase: str, stage: str) -> list[float]:
    """When the workloads of a phase reached a stage, in seconds."""
    numbers = [n for n, name in enumerate(ran.cluster.ledger.workload_phase) if name == ran.cluster.ledger.phase(phase)]
    seen = ran.seen.filter((pl.col("stage") == stage) & pl.col("object").is_in(numbers))
    return sorted((seen["at_ns"] / 1e9).to_list())


WAIT = (Wait("done", "released", timeout=HOUR),)


def test_a_job_passes_all_stages_in_order(tmp_path: Path) -> None:
    ran = run(queued((submit(1),), WAIT), tmp_path)
    order = ["submitted", "created", "queued", "quota_reserved", "admitted", "completed", "released"]
    times = [ran.times(stage)[0] for stage in order]
    assert times == sorted(times)
    assert times[-2] == pytest.approx(1 + 5 + 1, abs=0.3)  # start, run, and a second for the Job controller


def test_a_job_costs_twelve_requests_and_the_queues_two_per_second(tmp_path: Path, sent: Counter[str]) -> None:
    """Counted in the audit log of a real run: 20 Jobs made 240 requests, and 29 of the two queues' status in 8 s."""
    steps = ((submit(20, pace=Pace("rate", per_s=10)),), WAIT, (Pause("rest", 10 * SECOND),))
    ran = run(queued(*steps, group=nodes(cpu=32)), tmp_path)
    status = sent["kueue"] - 20 * 12
    assert 2 <= status <= 2 * (ran.end_s + 1)


def test_a_status_that_changed_while_it_was_written_is_written_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reconciler sees its own write: with a small bucket every write takes so long that the next status is another one."""
    written: list[int] = []
    write = QueueStatus._write

    def counted(self: QueueStatus, key: int) -> Goroutine:
        for call in write(self, key):
            written.append(key)
            yield call

    monkeypatch.setattr(QueueStatus, "_write", counted)
    steps = ((submit(60, pace=Pace("rate", per_s=10)),), WAIT)
    ran = run(queued(*steps, group=nodes(cpu=64), settings={"qps": 20, "burst": 1}), tmp_path)
    assert len(written) > 2.5 * ran.end_s, "a ClusterQueue and a LocalQueue, once a second each, were 2 per second"


def test_a_small_bucket_admits_no_faster_than_four_requests_let_it(tmp_path: Path) -> None:
    """Up to the start of its pods a Job costs four writes; events compete with them for the same bucket."""
    ran = run(
        queued((submit(40, shape=cores(1)),), WAIT, group=nodes(cpu=32), settings={"qps": 10, "burst": 1}), tmp_path
    )
    admitted = ran.times("admitted")
    assert 40 * 2 / 10 < max(admitted) < 40 * 8 / 10


def test_what_does_not_fit_lets_others_pass_unless_the_queue_is_strict(tmp_path: Path) -> None:
    steps = ((named("first", cpu=4, seconds=20),), (Pause("later", 2 * SECOND),), (named("large", pods=2, cpu=4),),
             (Pause("later", 2 * SECOND),), (named("small"),), WAIT)  # fmt: skip
    free, strict = (
        run(queued(*steps, settings={"strategy": strategy}), tmp_path / strategy)
        for strategy in ("BestEffortFIFO", "StrictFIFO")
    )
    assert of(free, "small", "admitted")[0] < of(free, "large", "admitted")[0]
    assert of(strict, "small", "admitted")[0] > of(strict, "large", "admitted")[0]


def test_within_a_second_the_heap_of_go_turns_the_order_round() -> None:
    """What container/heap gives for seven equal keys where each counts as less than the other (tried with Go 1.26)."""
    heap = GoHeap()
    for number in range(7):
        heap.push((0, 0), number)
    assert [heap.pop() for _ in range(7)] == [6, 5, 1, 4, 2, 3, 0]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40), st.randoms(use_true_random=False))
def test_the_heap_gives_keys_in_order_whatever_is_taken_out(keys: list[Key], random: Random) -> None:
    heap = GoHeap()
    for number, key in enumerate(keys):
        heap.push(key, number)
    for number in random.sample(range(len(keys)), len(keys) // 3):
        heap.remove(number)
    taken = [keys[heap.pop()] for _ in range(len(heap))]
    assert taken == sorted(taken)


@given(st.lists(st.sampled_from(["add", "pop", "renew", "remove"]), max_size=80), st.randoms(use_true_random=False))
def test_everyone_aside_has_one_turn_each_time_and_the_first_keys_come_first(acts: list[str], random: Random) -> None:
    set_aside = Inadmissible(random)
    keys: dict[int, Key] = {}
    waiting: set[int] = set()
    for step, act in enumerate(acts):
        if act == "add":
            keys[step] = (0, random.randrange(3))
            set_aside.add(step, keys[step])
        elif act == "renew":
            set_aside.renew()
            waiting = set(keys)
        elif act == "remove" and keys:
            number = random.choice(sorted(keys))
            set_aside.remove(number)
            keys.pop(number)
            waiting.discard(number)
        elif act == "pop" and waiting:
            number = set_aside.pop()
            assert number in waiting
            assert keys[number] == min(keys[other] for other in waiting)
            keys.pop(number)
            waiting.discard(number)
        assert (len(set_aside), set_aside.untried) == (len(keys), len(waiting))


def test_a_strict_queue_looks_at_its_head_ten_times_a_second_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seatrial.stacks.kueue.quota_scheduler import QuotaScheduler

    looks: list[int] = []
    pop = QuotaScheduler._pop

    def counted(self: QuotaScheduler) -> list[Entry]:
        looks.append(self._sim.kernel.now)
        return pop(self)

    monkeypatch.setattr(QuotaScheduler, "_pop", counted)
    steps = ((named("first", pods=2, cpu=4, seconds=60),), (Pause("later", SECOND),), (named("next", cpu=4),), WAIT)
    run(queued(*steps, settings={"strategy": "StrictFIFO"}), tmp_path)
    blocked = [look for look in looks if 10 * SECOND <= look < 50 * SECOND]
    assert len(blocked) == pytest.approx(40 * 10, abs=3)


def test_the_quota_is_what_all_nodes_have_and_no_node_is_looked_at(tmp_path: Path) -> None:
    """Three cores on each of two nodes are three pods of two cores on paper, two in truth."""
    ran = run(queued((named("pods", 3, cpu=2),), (Wait("all", "admitted"),), group=nodes(cpu=3)), tmp_path)
    assert ran.count("admitted") == 3
    assert ran.end_s < 1


def test_with_a_topology_only_what_the_nodes_can_take_is_admitted(tmp_path: Path) -> None:
    steps = ((named("pods", 3, cpu=2),), WAIT)
    ran = run(queued(*steps, group=nodes(cpu=3), settings={"topology": True}), tmp_path)
    admitted = sorted(ran.times("admitted"))
    assert admitted[2] > min(ran.times("finished")) > admitted[1]


def test_pods_go_to_the_nodes_of_their_assignment_a_second_after_they_exist(tmp_path: Path) -> None:
    """The fullest node that takes all of a workload is chosen, so both go to one: kube-scheduler would spread them."""
    steps = ((named("pods", 2, cpu=2, pace=Pace("rate", per_s=1)),), WAIT)
    ran = run(queued(*steps, group=nodes(cpu=4), settings={"topology": True}), tmp_path)
    bound = ran.seen.filter(pl.col("stage") == "scheduled")
    assert bound["node"].n_unique() == 1
    waits = [b - c for b, c in zip(ran.times("scheduled"), ran.times("pods_created"), strict=True)]
    assert all(1 <= wait < 1.1 for wait in waits)


def test_admission_is_blocked_until_everything_admitted_runs(tmp_path: Path) -> None:
    steps = ((named("jobs", 4),), WAIT)
    ran = run(queued(*steps, settings={"wait-for-pods-ready": True}), tmp_path)
    admitted, running = sorted(ran.times("admitted")), sorted(ran.times("running"))
    for before, after in zip(running, admitted[1:], strict=False):
        assert after > before + 1  # the Job controller tells of ready pods a second later


def test_what_does_not_run_in_time_loses_its_pods_and_comes_back_a_minute_later(tmp_path: Path) -> None:
    """A gang of two is admitted on paper while a longer job holds the node of one of its pods."""
    steps = (
        (named("long", cpu=2, seconds=30),),
        (Pause("later", 3 * SECOND),),
        (named("gang", pods=2, cpu=2, gang=True),),
        WAIT,
    )
    settings: dict[str, Scalar] = {"wait-for-pods-ready": True, "pods-ready-timeout": 20 * SECOND}
    plain = run(queued(*steps, group=nodes(cpu=3)), tmp_path / "plain")
    ran = run(queued(*steps, group=nodes(cpu=3), settings=settings), tmp_path / "ready")
    assert plain.count("lost") == 0
    assert 30 < of(plain, "gang", "completed")[0] < 45
    assert ran.ending.outcome == "completed"
    assert ran.count("lost") == 2
    assert 3 + 20 + 60 < of(ran, "gang", "completed")[0] < 3 + 20 + 60 + 15


def test_the_quota_of_an_evicted_workload_is_free_a_second_after_its_pods_are_gone(tmp_path: Path) -> None:
    """The Job controller's status write conflicts with Kueue's own writes of the Job, and is repeated after a second: 1.1 to 1.3 s
    on `local`."""
    steps = (
        (named("long", cpu=2, seconds=60),),
        (Pause("later", 3 * SECOND),),
        (named("gang", pods=2, cpu=2, gang=True),),
        (Pause("later", 1 * SECOND),),
        (named("next", cpu=2),),
        (Wait("done", "released", ("next",), timeout=HOUR),),
    )
    settings: dict[str, Scalar] = {
        "wait-for-pods-ready": True, "pods-ready-timeout": 20 * SECOND, "block-admission": False,
    }  # fmt: skip
    ran = run(queued(*steps, group=nodes(cpu=3), settings=settings), tmp_path)
    assert 1.0 < of(ran, "next", "admitted")[0] - max(ran.times("lost")) < 1.2


def test_a_quota_of_nothing_admits_nothing_and_says_so(tmp_path: Path) -> None:
    ran = run(queued((submit(2),), WAIT, settings={"quota-cpu": "0"}), tmp_path)
    assert ran.ending.outcome == "clogged"
    assert ran.count("admitted") == 0
    (one, _) = ran.cluster.state().workloads
    assert "insufficient quota for cpu" in one.said
    assert "maximum capacity (0)" in one.said


def test_a_quota_of_half_a_gpu_is_refused() -> None:
    why = stacks.find("kueue").refuses(queued((submit(2),), WAIT, settings={"quota-gpu": "500m"}))
    assert why is not None
    assert "kueue.quota-gpu: '500m' is not a whole number of nvidia.com/gpu" in why


def test_a_resource_that_no_node_has_is_not_in_the_quota(tmp_path: Path) -> None:
    shape = PodShape({"cpu": 1000, "nvidia.com/gpu": 1})
    ran = run(queued((submit(1, shape=shape),), WAIT), tmp_path)
    (one,) = ran.cluster.state().workloads
    assert one.said.endswith("resource nvidia.com/gpu unavailable in ClusterQueue")


def test_another_node_makes_the_quota_larger(tmp_path: Path) -> None:
    more = NodeChange("more", "add", "more", add=nodes(1, name="more"))
    steps = ((named("large", pods=3, cpu=4),), (Pause("a while", 5 * SECOND),), (more,), WAIT)
    ran = run(queued(*steps), tmp_path)
    assert ran.ending.outcome == "completed"
    assert 5 < of(ran, "large", "admitted")[0] < 5.5


def test_what_is_deleted_gives_its_quota_back(tmp_path: Path) -> None:
    steps = ((named("first", pods=2, cpu=4, seconds=1000),), (Pause("a while", 3 * SECOND),), (named("next", cpu=4),),
             (Pause("a while", 3 * SECOND),), (DeleteWorkloads("go", ("first",)),),
             (Wait("done", "released", ("next",)),))  # fmt: skip
    ran = run(queued(*steps), tmp_path)
    assert 6 < of(ran, "next", "admitted")[0] < 7


def test_pods_that_succeeded_give_their_quota_back_before_the_job_ends(tmp_path: Path) -> None:
    """Two of three pods fit the nodes; the third runs when they are over. Their quota is then free for others."""
    steps = (
        (named("wide", pods=3, cpu=2, seconds=10),),
        (Pause("a while", 5 * SECOND),),
        (named("next", pods=2, cpu=2),),
        WAIT,
    )
    ran = run(queued(*steps, group=nodes(2, cpu=3), settings={"quota-cpu": "6"}), tmp_path)
    assert of(ran, "next", "admitted")[0] < of(ran, "wide", "completed")[0]


@pytest.mark.parametrize("topology", [False, True])
def test_no_more_is_admitted_than_the_quota_and_everything_completes(tmp_path: Path, topology: bool) -> None:
    steps = ((Submit("mix", 40, (1, 2, 3, 4), True, cores(1), 5 * SECOND, gang=True),), WAIT)
    ran = run(queued(*steps, group=nodes(4, cpu=2), settings={"topology": topology}), tmp_path)
    assert ran.ending.outcome == "completed"
    pods = {number: workload.pods for number, workload in enumerate(ran.cluster._sim.workloads)}
    moves = [(at, pods[n]) for at, n in zip(ran.times("admitted"), sorted(pods), strict=True)]
    moves += [(at, -pods[n]) for at, n in zip(ran.times("released"), sorted(pods), strict=True)]
    held = 0
    for _, change in sorted(moves):
        held += change
        assert held <= 8


def test_what_kueue_cannot_do_is_refused() -> None:
    stack = stacks.find("kueue")
    declared = queued((submit(1, declares={"cpu": 1}),), WAIT)
    assert "declared" in (stack.refuses(declared) or "")
    assert "'lots' is not a quantity" in (stack.refuses(queued(WAIT, settings={"quota-cpu": "lots"})) or "")
    assert stack.refuses(queued(WAIT)) is None


def test_the_time_outs_are_declared_only_where_they_are_on() -> None:
    stack = stacks.find("kueue")
    off, on = (queued(WAIT, settings={"wait-for-pods-ready": flag}).setup.settings for flag in (False, True))
    assert list(stack.releases(off)) == []
    assert math.isclose(max(stack.releases(on)) / SECOND, 300)
