"""Queues of stacks without queues: a ResourceQuota each, and Jobs that try again."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial import stacks
from seatrial.model.fleet import Cohort, Flavor, FlavorQuota, Fleet, Preemption, Queue
from seatrial.model.plan import Pace, PodShape, Toleration
from seatrial.model.units import SECOND
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from seatrial.sim.apiserver import ApiServer
from seatrial.sim.kernel import Kernel
from seatrial.sim.resource_quotas import ResourceQuotas
from tests.sim.making import Ran, fakes, run, submit, to_the_end, trial

ANY = (Toleration(),)
STACKS = ["default", "coscheduling", "gang"]


def queue(name: str, cpu: int) -> Queue:
    return Queue(name, (FlavorQuota("", {"cpu": cpu}),))


def jobs(name: str, where: str, count: int, cpu: int, seconds: float, pods: int = 1, **more: object) -> Submit:
    shape = PodShape({"cpu": cpu}, tolerations=ANY, priority=int(more.pop("priority", 0)))  # type: ignore[call-overload]
    return Submit(name, count, (pods,), False, shape, int(seconds * SECOND), queue=where, **more)  # type: ignore[arg-type]


def live(ran: Ran, phase: str) -> list[tuple[float, int]]:
    """When the number of a phase's pods that exist and have not ended changed, and to what."""
    ledger = ran.cluster.ledger
    rows = ran.seen.filter(pl.col("stage").is_in(["pods_created", "finished", "lost"])).sort("at_ns").select(
        "at_ns", "object", "stage"
    )  # fmt: skip
    found, count = [], 0
    for at, pod, stage in rows.rows():
        if ledger.workload_phase[ledger.pod_workload[pod]] == ledger.phase(phase):
            count += 1 if stage == "pods_created" else -1
            found.append((at / 1e9, count))
    return found


@pytest.mark.parametrize("stack", STACKS)
def test_no_queue_has_more_pods_than_its_quota_and_all_complete(tmp_path: Path, stack: str) -> None:
    fleet = Fleet((queue("red", 4_000), queue("blue", 2_500)))
    phases = (jobs("a", "red", 12, 1_000, 10), jobs("b", "blue", 6, 1_000, 10))
    ran = run(trial(*to_the_end(*phases), stack=stack, fleet=fleet), tmp_path)
    assert ran.ending.outcome == "completed"
    assert max(count for _, count in live(ran, "a")) == 4
    assert max(count for _, count in live(ran, "b")) == 2


def test_a_refused_job_is_tried_again_after_one_two_four_seconds_whenever_there_is_room(tmp_path: Path) -> None:
    """The first ends after 11 s; the second is tried at 0, 1, 3, 7 and 15 s, and nobody tells it that there is room."""
    fleet = Fleet((queue("red", 1_000),))
    ran = run(trial(*to_the_end(jobs("a", "red", 2, 1_000, 10)), fleet=fleet), tmp_path)
    first, second = sorted(ran.times("pods_created"))
    assert second - first == pytest.approx(15, abs=0.5)


def test_the_backoff_ends_at_a_minute(tmp_path: Path) -> None:
    """Tries at 1, 3, 7, 15, 31, 63, 123, 183, 243 s."""
    fleet = Fleet((queue("red", 1_000),))
    ran = run(trial(*to_the_end(jobs("a", "red", 2, 1_000, 200)), fleet=fleet), tmp_path)
    first, second = sorted(ran.times("pods_created"))
    assert second - first == pytest.approx(243, abs=1)


def test_pods_of_the_same_job_that_end_bring_the_next_try_within_a_second(tmp_path: Path) -> None:
    """A Job of four pods of which the quota lets two in: a pod event syncs it, long before its backoff ends."""
    fleet = Fleet((queue("red", 2_000),))
    ran = run(trial(*to_the_end(jobs("a", "red", 1, 1_000, 100, pods=4)), fleet=fleet), tmp_path)
    created = sorted(ran.times("pods_created"))
    assert created[2] - min(ran.times("finished")) == pytest.approx(1, abs=0.3)


def test_gangs_that_share_a_quota_block_each_other_and_the_diagnosis_quotes_the_refusal(tmp_path: Path) -> None:
    """The Job controller creates pods one by one: two gangs of two in a quota of two pods get one each."""
    fleet = Fleet((queue("red", 2_000),))
    ran = run(trial(*to_the_end(jobs("a", "red", 2, 1_000, 10, pods=2, gang=True)), fleet=fleet), tmp_path)
    assert ran.ending.outcome == "clogged"
    said = "queue red: exceeded quota: queue, requested: requests.cpu=1, used: requests.cpu=2, limited: requests.cpu=2"
    assert said in ran.ending.detail


def test_a_preempted_pod_keeps_its_place_in_the_quota_for_its_replacement(tmp_path: Path) -> None:
    """The eviction frees the quota within milliseconds, the Job creates the next pod a second later."""
    fleet = Fleet((queue("low", 32_000), queue("high", 32_000)))
    steps = ((jobs("a", "low", 1, 32_000, 60, priority=1),), (Pause("until", 10 * SECOND),),
             (jobs("b", "high", 1, 32_000, 10, priority=2),), (Wait("done", "completed"),))  # fmt: skip
    ran = run(trial(*steps, nodes=[fakes(1)], fleet=fleet), tmp_path)
    assert ran.ending.outcome == "completed"
    [lost] = ran.times("lost")
    assert sorted(ran.times("pods_created"))[-1] - lost == pytest.approx(1, abs=0.1)


def test_deleted_workloads_leave_their_quota(tmp_path: Path) -> None:
    from seatrial.scenario.actions.delete_workloads import DeleteWorkloads

    fleet = Fleet((queue("red", 1_000),))
    steps = ((jobs("a", "red", 1, 1_000, 1000),), (Pause("until", 5 * SECOND),), (DeleteWorkloads("go", ("a",)),),
             (jobs("b", "red", 1, 1_000, 10),), (Wait("done", "completed", of=("b",)),))  # fmt: skip
    ran = run(trial(*steps, fleet=fleet), tmp_path)
    assert ran.ending.outcome == "completed"
    assert ran.end_s < 30


# the controller


def quotas_of(count: int, qps: float = 20) -> tuple[Kernel, ResourceQuotas]:
    kernel = Kernel()
    names = [f"q{number}" for number in range(count)]
    workloads = [submit(1, shape=PodShape({"cpu": 1_000}), queue=name).workload(0, 1) for name in names]
    settings = {"qps": qps, "burst": 30}
    made = ResourceQuotas(kernel, ApiServer(kernel, 1), settings, [queue(n, 1_000) for n in names], workloads, {})
    return kernel, made


def test_what_ended_is_free_once_the_controller_has_written_it() -> None:
    kernel, quotas = quotas_of(1)
    assert quotas.admits(0)
    quotas.ended(0)
    assert not quotas.admits(0)
    kernel.run()
    assert 0 < kernel.now < 0.05 * SECOND
    assert quotas.admits(0)


def test_a_hundred_quotas_are_written_twenty_a_second() -> None:
    kernel, quotas = quotas_of(100)
    for number in range(100):
        quotas.admits(number)
        quotas.ended(number)
    kernel.run(until=int(1.5 * SECOND))
    free = sum(not quotas.used(f"q{number}")["cpu"] for number in range(100))
    assert free == pytest.approx(30 + 1.5 * 20, abs=3)
    kernel.run()
    assert kernel.now == pytest.approx((100 - 30) / 20 * SECOND, rel=0.05)


def test_a_write_that_meets_an_admission_is_repeated() -> None:
    kernel = Kernel()
    workloads = [submit(1, shape=PodShape({"cpu": 1_000}), queue="q").workload(0, 1)]
    quotas = ResourceQuotas(kernel, ApiServer(kernel, 1), {"qps": 20, "burst": 30}, [queue("q", 3_000)], workloads, {})
    assert quotas.admits(0)
    assert quotas.admits(0)
    quotas.ended(0)
    assert quotas.admits(0)  # while the write is on its way
    kernel.run()
    assert quotas.used("q") == {"cpu": 2_000}


# what these stacks cannot do


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize(
    ("fleet", "why"),
    [
        (Fleet((Queue("red", (FlavorQuota("", {"cpu": 1}),), "all"),), (Cohort("all"),)), "has no cohorts"),
        (Fleet((Queue("red", (FlavorQuota("a", {"cpu": 1}),)),), flavors=(Flavor("a", "fake"),)), "not one per flavor"),
        (Fleet((queue("red", 1),), preemption=Preemption(fair_sharing=True)), "has no fair sharing"),
    ],
)
def test_what_a_resource_quota_cannot_do_is_refused_by_name(stack: str, fleet: Fleet, why: str) -> None:
    refused = stacks.find(stack).refuses(trial(fleet=fleet, stack=stack))
    assert refused is not None
    assert why in refused


@pytest.mark.parametrize("stack", STACKS)
def test_plain_quotas_and_checkpoints_are_honoured(stack: str) -> None:
    made = trial((replace(jobs("a", "red", 1, 1, 1), checkpoint=SECOND),), fleet=Fleet((queue("red", 1),)), stack=stack)
    assert stacks.find(stack).refuses(made) is None


# what always holds

LOADS = st.lists(
    st.tuples(
        st.sampled_from(["red", "blue"]),
        st.integers(1, 6),  # workloads
        st.integers(1, 5),  # pods
        st.sampled_from([500, 1_000, 3_000]),
        st.integers(0, 2),  # priority
        st.integers(1, 30),  # seconds
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(STACKS), LOADS, st.integers(3_000, 9_000), st.integers(1, 2), st.integers(1, 100))
def test_live_pods_never_exceed_their_quota_and_nobody_is_forgotten(
    stack: str, loads: list[tuple[str, int, int, int, int, int]], limit: int, nodes: int, seed: int
) -> None:
    fleet = Fleet((queue("red", limit), queue("blue", 4_000)))
    phases = tuple(
        jobs(f"load{number}", where, count, cpu, seconds, pods, priority=priority, pace=Pace("rate", per_s=1))
        for number, (where, count, pods, cpu, priority, seconds) in enumerate(loads)
    )
    with tempfile.TemporaryDirectory() as directory:
        made = trial(phases, (Wait("done", "completed"),), nodes=[fakes(nodes, cpu=6_000)], stack=stack, seed=seed,
                     fleet=fleet)  # fmt: skip
        ran = run(made, Path(directory))
    assert ran.ending.outcome == "completed"
    ledger, workloads = ran.cluster.ledger, ran.cluster._sim.workloads
    used = {"red": 0, "blue": 0}
    order = {"finished": 0, "lost": 0, "pods_created": 1}
    rows = ran.seen.filter(pl.col("stage").is_in(list(order))).select("at_ns", "object", "stage").rows()
    for _, pod, stage in sorted(rows, key=lambda row: (row[0], order[row[2]])):
        workload = workloads[ledger.pod_workload[pod]]
        used[workload.queue] += workload.shape.requests["cpu"] * (1 if order[stage] else -1)
        assert used["red"] <= limit
        assert used["blue"] <= 4_000
    assert used == {"red": 0, "blue": 0}
