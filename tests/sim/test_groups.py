"""Groups in the simulated kube-scheduler: whole or not at all, and in turn without a pause while they wait."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from seatrial import stacks
from seatrial.model.control_plane import Component, ControlPlane
from seatrial.model.plan import NodeGroup, PodShape, Setup, Toleration, Workload
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.wait import Wait
from seatrial.sim.group_queue import GroupQueue
from seatrial.sim.kernel import Kernel
from seatrial.sim.queue import LONGEST
from tests.sim.making import GI, Ran, fakes, run, submit, to_the_end, trial

ANY = (Toleration(),)
TWO_CORES = PodShape({"cpu": 2000}, tolerations=ANY, spread=True)


def mixed(each: int = 3, seconds: float = 5) -> object:
    gangs = submit(5 * each, shape=TWO_CORES, seconds=seconds, gang=True)
    return replace(gangs, sizes=(2, 3, 4, 5, 6), shuffled=True)


def by_gang(ran: Ran, stage: str) -> pl.DataFrame:
    """First and last time of a pod stage, and how many pods reached it, per workload."""
    jobs = ran.cluster._sim.pods.job
    seen = ran.seen.filter(pl.col("stage") == stage)
    return (
        seen.with_columns(pl.col("object").map_elements(lambda pod: jobs[pod], return_dtype=pl.Int64).alias("gang"))
        .group_by("gang")
        .agg((pl.col("at_ns").min() / 1e9).alias("first"), (pl.col("at_ns").max() / 1e9).alias("last"), pl.len())
        .sort("gang")
    )


def test_gangs_of_which_few_fit_at_a_time_are_placed_whole_and_all_complete(tmp_path: Path) -> None:
    ran = run(trial(*to_the_end(mixed()), nodes=[fakes(8, cpu=3000)], stack="gang"), tmp_path)  # type: ignore[arg-type]
    assert ran.ending.outcome == "completed"
    placed = by_gang(ran, "scheduled")
    sizes = [workload.pods for workload in ran.cluster._sim.workloads]
    assert placed["len"].to_list() == sizes
    assert ((placed["last"] - placed["first"]) < 0.2).all(), "bindings of one cycle, not of several"
    assert ran.count("group_scheduled") == len(sizes)


def test_no_pod_of_a_gang_is_scheduled_before_all_of_them_exist(tmp_path: Path) -> None:
    slow = {"kube-controller-manager": {"qps": 2, "burst": 1}}
    gangs = submit(2, pods=4, shape=TWO_CORES, seconds=1, gang=True)
    ran = run(trial(*to_the_end(gangs), stack="gang", settings=slow), tmp_path)
    assert (by_gang(ran, "scheduled")["first"] >= by_gang(ran, "pods_created")["last"]).all()


def test_room_is_taken_within_milliseconds_although_groups_back_off(tmp_path: Path) -> None:
    """As many attempts as cycles fit into the wait: the back-off would be 10 s long by then."""
    gangs = submit(4, pods=4, shape=TWO_CORES, seconds=30, gang=True)
    ran = run(trial(*to_the_end(gangs), nodes=[fakes(4, cpu=3000)], stack="gang"), tmp_path)
    placed, freed = by_gang(ran, "scheduled").sort("first"), by_gang(ran, "finished").sort("last")
    waits = (placed["first"][1:] - freed["last"][:-1]).to_list()
    assert all(0 < wait < 0.1 for wait in waits)


def test_small_gangs_overtake_large_ones_as_nothing_is_kept_free_for_these(tmp_path: Path) -> None:
    ran = run(trial(*to_the_end(mixed(6)), nodes=[fakes(8, cpu=3000)], stack="gang"), tmp_path)  # type: ignore[arg-type]
    started = by_gang(ran, "running")["last"].to_list()
    sizes = [workload.pods for workload in ran.cluster._sim.workloads]
    small, large = ([at for at, size in zip(started, sizes, strict=True) if size == which] for which in (2, 6))
    assert sum(small) / len(small) < sum(large) / len(large) / 2


def test_the_scheduler_writes_a_condition_only_when_its_words_change(tmp_path: Path) -> None:
    """Hundreds of cycles in vain, and no requests for them: at one per second this would take minutes."""
    gangs = submit(2, pods=4, shape=TWO_CORES, seconds=20, gang=True)
    slow = {"kube-scheduler": {"qps": 1, "burst": 30}}
    ran = run(trial(*to_the_end(gangs), nodes=[fakes(4, cpu=3000)], stack="gang", settings=slow), tmp_path)
    assert ran.end_s == pytest.approx(2 * (20 + 1) + 1, abs=3)


def test_pods_without_a_group_are_scheduled_while_gangs_wait(tmp_path: Path) -> None:
    gangs = submit(3, pods=4, shape=TWO_CORES, seconds=20, gang=True)
    single = replace(submit(5, seconds=1), name="single")
    steps = ((gangs,), (Pause("look", 5 * SECOND),), (single,), (Wait("all", "completed"),))
    ran = run(trial(*steps, nodes=[fakes(4, cpu=3000)], stack="gang"), tmp_path)
    sim = ran.cluster._sim
    singles = {number for number, workload in enumerate(sim.workloads) if workload.phase == "single"}
    last = by_gang(ran, "scheduled").filter(pl.col("gang").is_in(singles))["last"]
    assert ran.ending.outcome == "completed"
    assert (last < 6).all()


def test_a_lost_pods_successor_joins_its_gang_alone(tmp_path: Path) -> None:
    gang = submit(1, pods=3, shape=TWO_CORES, seconds=20, gang=True)
    steps = ((gang,), (Wait("run", "running"),), (NodeChange("lose", "remove", "fake", 1),),
             (NodeChange("more", "add", "more", None, NodeGroup("more", 1, {"cpu": 4000, "memory": GI, "pods": 9})),),
             (Wait("all", "completed"),))  # fmt: skip
    ran = run(trial(*steps, nodes=[fakes(3, cpu=3000)], stack="gang"), tmp_path)
    assert ran.ending.outcome == "completed"
    assert (ran.count("lost"), ran.count("scheduled"), ran.count("group_scheduled")) == (1, 4, 1)


def test_a_gang_deleted_while_it_waits_holds_up_nobody(tmp_path: Path) -> None:
    small = replace(submit(1, pods=2, shape=TWO_CORES, seconds=5, gang=True), name="small")
    large = replace(submit(1, pods=9, shape=TWO_CORES, seconds=5, gang=True), name="large")
    steps = (
        (large,),
        (Pause("look", 5 * SECOND),),
        (DeleteWorkloads("away", ("large",)),),
        (small,),
        (Wait("all", "completed"),),
    )
    ran = run(trial(*steps, nodes=[fakes(8, cpu=3000)], stack="gang"), tmp_path)
    assert (ran.ending.outcome, ran.count("completed"), ran.count("deleted")) == ("completed", 1, 1)


def test_a_gang_larger_than_the_cluster_is_waited_for_without_work(tmp_path: Path) -> None:
    gang = submit(3, pods=9, shape=TWO_CORES, seconds=5, gang=True)
    ran = run(trial((gang,), (Pause("long", 3600 * SECOND),), nodes=[fakes(8, cpu=3000)], stack="gang"), tmp_path)
    assert ran.count("scheduled") == 0
    assert ran.cluster._kernel.order < 20_000, "an hour of turns in vain would be millions of events"
    assert "8 of its 9 pods fit" in ran.cluster._sim.said[0]


class TestTurns:
    COSTS = (10, 20, 30)  # ms of each group's cycle

    @pytest.fixture
    def turns(self) -> tuple[Kernel, GroupQueue]:
        """Three groups that have failed so often that they only take turns."""
        kernel = Kernel()
        turns = GroupQueue(kernel, lambda: None)
        for group in range(3):
            turns.add(group, 0, 0)
        for _ in range(3 * LONGEST):
            group = turns.pop()
            kernel.run(kernel.now + self.COSTS[group] * MILLISECOND)
            turns.failed(group, self.COSTS[group] * MILLISECOND, unchanged=True)
        return kernel, turns

    def test_they_rest_once_all_have_failed_at_their_slowest(self, turns: tuple[Kernel, GroupQueue]) -> None:
        kernel, waiting = turns
        assert waiting.pop() == -1
        kernel.run(kernel.now + 100 * SECOND)
        assert waiting.pop() == -1
        assert kernel.idle

    @pytest.mark.parametrize(
        ("after", "left", "order"), [(5, 5, [1, 2, 0]), (15, 15, [2, 0, 1]), (60 * 7 + 31, 29, [0, 1, 2])]
    )
    def test_a_change_finds_them_where_they_would_be(
        self, turns: tuple[Kernel, GroupQueue], after: int, left: int, order: list[int]
    ) -> None:
        kernel, waiting = turns
        assert waiting.pop() == -1
        kernel.run(kernel.now + after * MILLISECOND)
        assert waiting.changed() == left * MILLISECOND
        assert [waiting.pop() for _ in range(3)] == order
        assert waiting.pop() == -1

    def test_a_new_group_is_tried_at_once_and_then_takes_turns_too(self, turns: tuple[Kernel, GroupQueue]) -> None:
        _, waiting = turns
        assert waiting.pop() == -1
        waiting.add(7, 0, 0)
        assert waiting.pop() == 7
        waiting.failed(7, 10, unchanged=False)
        assert waiting.pop() == 7, "its back-off is shorter"

    def test_a_higher_priority_comes_first_although_it_failed_last(self) -> None:
        kernel = Kernel()
        waiting = GroupQueue(kernel, lambda: None)
        waiting.add(1, 0, 0)
        waiting.add(2, 5, 0)
        assert [waiting.pop(), waiting.pop()] == [2, 1]
        waiting.failed(1, 10, unchanged=True)
        kernel.run(MILLISECOND)
        waiting.failed(2, 10, unchanged=True)
        assert waiting.pop() == 2


def test_a_gang_becomes_a_pod_group_and_a_job_that_names_it() -> None:
    render = stacks.find("gang").real.render
    gang = render(Workload("w-0", "w", 0, 3, TWO_CORES, SECOND, gang=True), {"a": "b"})
    bodies = {manifest.resource.kind: manifest.body for manifest in gang}
    assert gang[0].resource.kind == "PodGroup"
    assert bodies["PodGroup"]["spec"] == {"schedulingPolicy": {"gang": {"minCount": 3}}}
    assert bodies["PodGroup"]["metadata"]["labels"]["a"] == "b"
    assert bodies["Job"]["spec"]["template"]["spec"]["schedulingGroup"] == {"podGroupName": "w-0"}
    [single] = render(Workload("w-1", "w", 1, 3, TWO_CORES, SECOND), {})
    assert "schedulingGroup" not in single.body["spec"]["template"]["spec"]


def test_the_control_plane_serves_pod_groups_and_schedules_them() -> None:
    named = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    plane = ControlPlane("", tuple(Component(name, Path("x")) for name in named), ())
    amended = stacks.find("gang").real.amend(plane, Setup("gang", "gang", ()))
    gates = {name: amended.component(name).value("--feature-gates") for name in named}
    assert amended.component("kube-apiserver").value("--runtime-config") == "scheduling.k8s.io/v1alpha2=true"
    assert all("GenericWorkload=true" in (value or "") for value in gates.values())
    assert "GangScheduling=true" in (gates["kube-scheduler"] or "")


def test_a_group_that_lost_its_only_pod_was_scheduled_once(tmp_path: Path) -> None:
    """The PodGroup outlives its pods, and its condition is true already: nothing to write the second time."""
    one_pod_each = [fakes(2, pods=1)]
    steps = ((submit(2, seconds=5, gang=True),), (Pause("p", 3 * SECOND),), (NodeChange("n", "remove", "fake", 1),))
    ran = run(trial(*steps, (Wait("done", "completed"),), nodes=one_pod_each, stack="gang"), tmp_path)
    assert (ran.count("lost"), ran.count("completed")) == (1, 2)
    assert ran.count("scheduled") == 3
    assert ran.count("group_scheduled") == 2
