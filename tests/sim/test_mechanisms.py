"""The simulated cluster as a whole: what its controllers and its scheduler do to workloads."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from seatrial import stacks
from seatrial.model.interfaces import Stack
from seatrial.model.plan import NodeGroup, Pace, PodShape, Span, Toleration
from seatrial.model.units import MILLISECOND, MINUTE, SECOND
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.wait import Wait
from seatrial.sim.framework import ALLOW, SchedulerPlugin
from seatrial.sim.world import Sim
from tests.sim.making import GI, SMALL, fakes, run, submit, to_the_end, trial

ANY = (Toleration(),)


def test_one_job_takes_its_stages_and_a_second_for_the_job_controller(tmp_path: Path) -> None:
    nodes = [NodeGroup("fake", 1, {"cpu": 4000, "memory": GI, "pods": 10}, create=Span(SECOND), start=Span(2 * SECOND))]
    ran = run(trial(*to_the_end(submit(1, seconds=5)), nodes=nodes), tmp_path)
    assert ran.ending.outcome == "completed"
    assert ran.end_s == pytest.approx(1 + 2 + 5 + 1, abs=0.2)


@pytest.mark.parametrize(("qps", "calls"), [(20, (3, 4)), (0, (0, 0))])
def test_jobs_that_end_together_wait_for_the_job_controllers_bucket(
    tmp_path: Path, qps: int, calls: tuple[int, int]
) -> None:
    """Three calls and an event at the end of each Job, 20 a second after a burst of 30: the growth in the published table.

    Events are sent one after another beside five workers, so some are still to come when the last Job is complete.
    """
    controller = {"kube-controller-manager": {"qps": qps, "burst": 30}}
    ran = run(trial(*to_the_end(submit(100, seconds=100)), settings=controller), tmp_path)
    first_end = min(ran.times("finished"))
    least, most = (max(call * 100 - 30, 0) / 20 for call in calls)
    assert 1 + least <= ran.end_s - first_end <= 1 + most + 0.5


def test_pods_of_one_job_are_created_in_batches_that_double(tmp_path: Path) -> None:
    ran = run(trial(*to_the_end(submit(1, pods=15)), qps="unlimited"), tmp_path)
    created = ran.times("pods_created")
    assert len(created) == 15
    # 1, 2, 4, 8: within a batch only latency differs, between batches a whole request lies.
    firsts = [created[0], created[1], created[3], created[7]]
    lasts = [created[0], max(created[1:3]), max(created[3:7])]
    assert all(first > last for first, last in zip(firsts[1:], lasts, strict=True))


def test_the_scheduler_binds_no_faster_than_its_qps(tmp_path: Path) -> None:
    settings = {"kube-scheduler": {"qps": 10, "burst": 10}, "kube-controller-manager": {"qps": 0}}
    ran = run(trial(*to_the_end(submit(110, seconds=1)), settings=settings), tmp_path)
    bound = ran.times("scheduled")
    assert max(bound) - min(bound) == pytest.approx((110 - 10) / 10, abs=0.5)


def test_five_thousand_nodes_are_scheduled_at_the_rate_kubernetes_gates(tmp_path: Path) -> None:
    """scheduler_perf SchedulingBasic: 680 to 810 pods a second."""
    steps = to_the_end(submit(3000, seconds=1))
    settings = {"kube-controller-manager": {"qps": 0, "job-syncs": 500}}
    ran = run(trial(*steps, nodes=[fakes(5000)], qps="unlimited", settings=settings), tmp_path)
    bound = sorted(ran.times("scheduled"))
    rate = (len(bound) - 200) / (bound[-1] - bound[199])
    assert 600 <= rate <= 850


@pytest.mark.parametrize("stack", ["default", "coscheduling", "gang", "fluence"])
def test_the_last_pod_of_a_gang_of_twenty_is_bound_after_twenty_cycles_whoever_holds_the_others(
    tmp_path: Path, stack: str
) -> None:
    """The scheduling cycle is serial and comes before permit, as in the real kube-scheduler."""
    gang = submit(1, pods=20, shape=PodShape({"cpu": 1000}, tolerations=ANY), gang=True)
    cycle = {"kube-scheduler": {"cycle": 100 * MILLISECOND}}
    ran = run(trial(*to_the_end(gang), stack=stack, settings=cycle, nodes=[fakes(30, cpu=1000)]), tmp_path)
    assert max(ran.times("scheduled")) == pytest.approx(2.0, abs=0.2)


def test_pods_wait_for_room_and_take_it_when_it_comes(tmp_path: Path) -> None:
    shape = PodShape({"cpu": 1000}, tolerations=ANY)
    ran = run(trial(*to_the_end(submit(6, shape=shape, seconds=10)), nodes=[fakes(1, cpu=2000)]), tmp_path)
    started = sorted(ran.times("running"))
    assert ran.ending.outcome == "completed"
    assert [round(t / 11) for t in started] == [0, 0, 1, 1, 2, 2]


def test_the_scheduler_waits_until_it_has_written_why_a_pod_finds_no_node(tmp_path: Path) -> None:
    large, small = (PodShape({"cpu": cpu}, tolerations=ANY) for cpu in (9000, 1000))
    settings = {"kube-scheduler": {"qps": 5, "burst": 5}, "kube-controller-manager": {"qps": 0, "job-syncs": 100}}
    steps = ((submit(25, shape=large),), (replace(submit(1, shape=small, seconds=1), name="small"),),
             (Wait("small", "completed", ("small",)),))  # fmt: skip
    ran = run(trial(*steps, nodes=[fakes(1, cpu=2000)], settings=settings), tmp_path)
    assert ran.times("scheduled")[0] == pytest.approx((25 - 5) / 5, abs=1)


def test_gpus_are_counted_like_any_resource(tmp_path: Path) -> None:
    shape = PodShape({"cpu": 1, "nvidia.com/gpu": 4}, tolerations=ANY)
    nodes = [fakes(2, **{"nvidia.com/gpu": 8})]
    ran = run(trial(*to_the_end(submit(6, shape=shape, seconds=10)), nodes=nodes), tmp_path)
    assert sorted(round(t / 11) for t in ran.times("running")) == [0, 0, 0, 0, 1, 1]


def test_a_timeout_passes_in_virtual_time(tmp_path: Path) -> None:
    steps = ((submit(2, seconds=3600),), (Wait("all", "completed", timeout=45 * MINUTE),))
    ran = run(trial(*steps), tmp_path)
    assert ran.ending.outcome == "timeout"
    said = "all: after 45m 0 of 2 workloads were completed: still running: load-0 and load-1 run, until 3601 s."
    assert ran.ending.detail == said
    assert ran.end_s == pytest.approx(45 * 60, abs=0.1)


def test_phases_of_a_step_run_side_by_side_and_steps_one_after_another(tmp_path: Path) -> None:
    steps = (
        (Pause("a", 10 * SECOND), Pause("b", 4 * SECOND)),
        (submit(1, seconds=3),),
        (Wait("run", "running"),),
    )
    ran = run(trial(*steps), tmp_path)
    assert ran.times("submitted") == [pytest.approx(10, abs=0.01)]


def test_a_wait_for_one_phase_does_not_wait_for_another(tmp_path: Path) -> None:
    slow = replace(submit(3, seconds=500), name="slow")
    quick = replace(submit(3, seconds=1), name="quick")
    ran = run(trial((slow, quick), (Wait("quick", "completed", ("quick",)),)), tmp_path)
    assert ran.end_s < 10
    ran = run(trial((slow, quick), (Wait("some", "completed", count=4),)), tmp_path / "some")
    assert ran.end_s == pytest.approx(501 + 2, abs=1)


def test_a_node_added_later_takes_what_waits(tmp_path: Path) -> None:
    shape = PodShape({"cpu": 8000}, tolerations=ANY)
    big = NodeGroup("big", 1, {"cpu": 16_000, "memory": 256 * GI, "pods": 10})
    steps = (
        (submit(1, shape=shape, seconds=1),),
        (Pause("look", 30 * SECOND),),
        (NodeChange("grow", "add", "big", None, big),),
        (Wait("all", "completed"),),
    )
    ran = run(trial(*steps, nodes=[fakes(2, cpu=4000)]), tmp_path)
    assert ran.ending.outcome == "completed"
    assert 30 < ran.times("scheduled")[0] < 45


def test_a_cordoned_node_takes_no_further_pod(tmp_path: Path) -> None:
    intolerant = replace(SMALL, tolerations=(Toleration("node.kubernetes.io/unschedulable", effect="NoExecute"),))
    load = submit(8, seconds=1, shape=intolerant)
    steps = ((NodeChange("close", "cordon", "fake", 3),), (load,), (Wait("all", "completed"),))
    ran = run(trial(*steps, nodes=[fakes(4)]), tmp_path)
    assert ran.seen.filter(pl.col("stage") == "scheduled")["node"].unique().to_list() == [3]


@pytest.mark.parametrize("stack", ["default", "gang", "fluence"])
@pytest.mark.parametrize("key", ["", "node.kubernetes.io/unschedulable"])
def test_a_cordoned_node_takes_pods_that_tolerate_it(tmp_path: Path, key: str, stack: str) -> None:
    load = submit(8, seconds=1, shape=replace(SMALL, tolerations=(Toleration(key),)))
    steps = ((NodeChange("close", "cordon", "fake"),), (load,), (Wait("all", "completed"),))
    assert run(trial(*steps, nodes=[fakes(1)], stack=stack), tmp_path).ending.outcome == "completed"


@pytest.mark.parametrize("first", ["cordon", "uncordon"])
def test_a_node_that_is_not_ready_stays_closed_to_all_when_it_is_cordoned_or_uncordoned(
    tmp_path: Path, first: str
) -> None:
    steps = ((NodeChange("off", "unready", "fake"),), (NodeChange("close", first, "fake"),), (submit(2, seconds=1),),
             (Pause("look", 20 * SECOND),), (NodeChange("on", "ready", "fake"),), (Wait("all", "completed"),))  # fmt: skip
    ran = run(trial(*steps, nodes=[fakes(1)]), tmp_path)
    assert ran.ending.outcome == "completed"
    assert min(ran.times("scheduled")) >= 20


def test_a_node_that_is_not_ready_takes_no_pod_until_it_is(tmp_path: Path) -> None:
    steps = ((NodeChange("off", "unready", "fake"),), (submit(2, seconds=1),), (Pause("look", 20 * SECOND),),
             (NodeChange("on", "ready", "fake"),), (Wait("all", "completed"),))  # fmt: skip
    ran = run(trial(*steps, nodes=[fakes(1)]), tmp_path)
    assert ran.ending.outcome == "completed"
    assert min(ran.times("scheduled")) >= 20


def test_pods_on_a_node_that_stays_unready_are_evicted_after_five_minutes(tmp_path: Path) -> None:
    steps = ((submit(1, seconds=1000),), (Wait("run", "running"),), (NodeChange("off", "unready", "fake"),),
             (NodeChange("more", "add", "more", None, NodeGroup("more", 1, {"cpu": 4000, "memory": GI, "pods": 9})),),
             (Wait("all", "completed"),))  # fmt: skip
    ran = run(trial(*steps, nodes=[fakes(1)]), tmp_path)
    assert ran.ending.outcome == "completed"
    assert ran.count("lost") == 1
    assert ran.times("scheduled")[1] == pytest.approx(302, abs=3)


def test_pods_of_a_removed_node_are_made_again(tmp_path: Path) -> None:
    steps = (
        (submit(8, seconds=60),),
        (Wait("run", "running"),),
        (NodeChange("lose", "remove", "fake", 1),),
        (Wait("all", "completed"),),
    )
    ran = run(trial(*steps, nodes=[fakes(2)]), tmp_path)
    lost = ran.count("lost")
    assert ran.ending.outcome == "completed"
    assert lost > 0
    assert ran.count("pods_created") == 8 + lost
    assert ran.count("finished") == 8


def test_a_gang_runs_only_once_all_its_pods_run_and_begins_again_without_one(tmp_path: Path) -> None:
    shape = PodShape({"cpu": 1000}, tolerations=ANY, spread=True)
    gang = submit(1, pods=3, shape=shape, seconds=20, gang=True)
    steps = ((gang,), (Wait("run", "running"),), (Pause("a while", 10 * SECOND),),
             (NodeChange("lose", "remove", "fake", 1),), (Wait("all", "completed"),))  # fmt: skip
    ran = run(trial(*steps, nodes=[fakes(4)]), tmp_path)
    seen = ran.seen
    assert seen.filter(pl.col("stage") == "scheduled")["node"].n_unique() >= 3
    again = max(ran.times("running"))
    assert min(ran.times("finished")) >= again + 20
    assert ran.end_s == pytest.approx(again + 21, abs=0.5)


def test_a_deleted_workload_frees_its_nodes_and_holds_up_no_wait(tmp_path: Path) -> None:
    shape = PodShape({"cpu": 2000}, tolerations=ANY)
    first = replace(submit(1, shape=shape, seconds=10_000), name="first")
    second = replace(submit(1, shape=shape, seconds=1), name="second")
    steps = ((first,), (Wait("run", "running"),), (second,), (Pause("look", 5 * SECOND),),
             (DeleteWorkloads("away", ("first",)),), (Wait("all", "completed"),))  # fmt: skip
    ran = run(trial(*steps, nodes=[fakes(1, cpu=2000)]), tmp_path)
    assert ran.ending.outcome == "completed"
    assert (ran.count("deleted"), ran.count("completed")) == (1, 1)
    assert ran.end_s < 30


@pytest.mark.parametrize(("pace", "gaps"), [
    (Pace("rate", 4.0), {0.25}),
    (Pace("burst", size=3, every=5 * SECOND), {0.0, 5.0}),
])  # fmt: skip
def test_items_are_sent_when_their_pace_says(tmp_path: Path, pace: Pace, gaps: set[float]) -> None:
    ran = run(trial(*to_the_end(submit(9, seconds=1, pace=pace))), tmp_path)
    sent = ran.times("submitted")
    assert {round(b - a, 2) for a, b in pairwise(sent)} == gaps


def test_a_round_starts_after_its_delay_and_not_before_the_last_was_answered(tmp_path: Path) -> None:
    pace = Pace("rounds", size=3, every=2 * SECOND)
    ran = run(trial(*to_the_end(submit(7, seconds=1, pace=pace))), tmp_path)
    assert [round(t, 1) for t in ran.times("submitted")] == [0, 0, 0, 2, 2, 2, 4]
    hurried = run(trial(*to_the_end(submit(7, seconds=1, pace=Pace("rounds", size=3, every=0)))), tmp_path / "hurried")
    sent, created = hurried.times("submitted"), hurried.times("created")
    assert sent[3] >= max(created[:3])


def test_poisson_arrivals_have_the_mean_asked_for_and_differ_by_seed(tmp_path: Path) -> None:
    steps = to_the_end(submit(2000, seconds=1, pace=Pace("poisson", 50.0)))
    one = run(trial(*steps, qps="unlimited"), tmp_path / "1")
    two = run(trial(*steps, qps="unlimited", seed=2), tmp_path / "2")
    assert one.times("submitted")[-1] == pytest.approx(2000 / 50, rel=0.15)
    assert one.times("submitted") != two.times("submitted")


@pytest.mark.parametrize("pace", [
    Pace(), Pace("rate", 100.0), Pace("poisson", 100.0), Pace("burst", size=7, every=SECOND),
    Pace("rounds", size=7, every=0),
])  # fmt: skip
def test_the_clients_own_rate_caps_every_pace(tmp_path: Path, pace: Pace) -> None:
    ran = run(trial(*to_the_end(submit(20, seconds=1, pace=pace)), rate=5.0), tmp_path)
    sent = ran.times("submitted")
    assert all(later - earlier >= 0.2 - 1e-9 for earlier, later in pairwise(sent))
    assert sent[-1] - sent[0] == pytest.approx(19 / 5, abs=0.1)


class _AllOrNothing(SchedulerPlugin):
    """A toy gang scheduler: pods hold their nodes in permit until their whole workload does."""

    def __init__(self, sim: Sim, patience: int) -> None:
        self._sim, self._patience = sim, patience
        self._held: dict[int, set[int]] = {}

    def permit(self, pod: int) -> int:
        job = self._sim.pods.job[pod]
        held = self._held.setdefault(job, set())
        held.add(pod)
        if len(held) < self._sim.workloads[job].pods:
            return self._patience
        for other in held - {pod}:
            self._sim.scheduler.allow(other)
        return ALLOW

    def unreserve(self, pod: int) -> None:
        self._held[self._sim.pods.job[pod]].discard(pod)


def test_a_gang_scheduler_is_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = stacks.find("default")

    def model(sim: Sim, _settings: object) -> object:
        sim.scheduler.use(_AllOrNothing(sim, 5 * SECOND))
        return sim.jobs.add

    monkeypatch.setattr(type(plain), "model", lambda _self, sim, settings: model(sim, settings))
    shape = PodShape({"cpu": 1000}, tolerations=ANY)
    ran = run(trial(*to_the_end(submit(2, pods=3, shape=shape, seconds=5)), nodes=[fakes(1, cpu=4000)]), tmp_path)
    bound = sorted(ran.times("scheduled"))
    assert ran.ending.outcome == "completed"
    assert bound[2] - bound[0] < 0.1, "the first gang is bound as a whole"
    assert bound[3] > bound[2] + 5, "and the second only when the first has gone"


def test_permit_gives_a_node_back_after_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[float] = []

    class Impatient(_AllOrNothing):
        def unreserve(self, pod: int) -> None:
            given_back.append(self._sim.kernel.now / SECOND)
            super().unreserve(pod)

    def model(_self: Stack, sim: Sim, _settings: object) -> object:
        sim.scheduler.use(Impatient(sim, 5 * SECOND))
        return sim.jobs.add

    monkeypatch.setattr(type(stacks.find("default")), "model", model)
    shape = PodShape({"cpu": 1000}, tolerations=ANY)
    steps = ((submit(1, pods=3, shape=shape),), (Pause("wait", 8 * SECOND),))
    ran = run(trial(*steps, nodes=[fakes(1, cpu=2000)]), tmp_path)
    assert ran.count("scheduled") == 0
    assert given_back == [pytest.approx(5, abs=0.1), pytest.approx(5, abs=0.1)]


def test_kwok_plays_only_so_many_stages_at_a_time(tmp_path: Path) -> None:
    steps = to_the_end(submit(400, seconds=1))
    one = run(trial(*steps, qps="unlimited", settings={"kwok": {"parallelism": 1}}), tmp_path / "1")
    many = run(trial(*steps, qps="unlimited", settings={"kwok": {"parallelism": 100}}), tmp_path / "100")
    assert max(one.times("running")) > 400 * 4 * MILLISECOND / SECOND
    assert max(many.times("running")) < max(one.times("running")) - 0.5


def test_every_workload_is_one_line_of_submitted_jsonl(tmp_path: Path) -> None:
    run(trial(*to_the_end(submit(7, pods=2, seconds=3, shape=SMALL))), tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "submitted.jsonl").read_text().splitlines()]
    assert [line["workload"] for line in lines] == [f"load-{i}" for i in range(7)]
    assert {(line["pods"], line["duration_s"], line["phase"]) for line in lines} == {(2, 3.0, "load")}
