"""Coscheduling as it is modelled: who holds nodes for how long, who is turned down, and who comes back when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from msgspec import structs

from seatrial import stacks
from seatrial.model.plan import PodShape, Scalar, Toleration, Trial, Workload
from seatrial.model.units import MINUTE, SECOND
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.wait import Wait
from seatrial.stacks.coscheduling.model import CoschedulingPlugin
from tests.sim.making import fakes, run, submit, to_the_end, trial

WHOLE = PodShape({"cpu": 1000}, tolerations=(Toleration(),))  # a node takes one


def coscheduled(*steps: object, nodes: int, seed: int = 1, qps: str = "as shipped", **own: Scalar) -> Trial:
    settings = {"coscheduling": {name.replace("_", "-"): value for name, value in own.items()}}
    return trial(*steps, nodes=[fakes(nodes, cpu=1000)], stack="coscheduling", seed=seed, qps=qps, settings=settings)  # type: ignore[arg-type]


def test_gangs_are_bound_whole(tmp_path: Path) -> None:
    gangs = replace(submit(12, shape=WHOLE, seconds=3, gang=True), sizes=(2, 3, 4, 5), shuffled=True)
    ran = run(coscheduled(*to_the_end(gangs), nodes=7), tmp_path)
    assert ran.ending.outcome == "completed"
    assert ran.count("scheduled") == ran.count("pods_created"), "nobody is bound twice"
    owner = dict(enumerate(ran.cluster.ledger.pod_workload))
    bound = ran.seen.filter(pl.col("stage") == "scheduled").with_columns(gang=pl.col("object").replace_strict(owner))
    gangs_bound = bound.group_by("gang").agg(pl.len(), apart=pl.col("at_ns").max() - pl.col("at_ns").min())
    assert sorted(gangs_bound["len"].to_list()) == sorted([2, 3, 4, 5] * 3)
    assert gangs_bound["apart"].max() < SECOND  # type: ignore[operator]


def test_what_is_no_gang_needs_no_group(tmp_path: Path) -> None:
    ran = run(coscheduled(*to_the_end(submit(6, pods=2, shape=WHOLE, seconds=1)), nodes=3), tmp_path)
    assert ran.ending.outcome == "completed"


def test_a_gang_that_never_fits_does_not_keep_smaller_ones_from_running(tmp_path: Path) -> None:
    large = replace(submit(1, pods=5, shape=WHOLE, gang=True), name="large")
    small = replace(submit(4, pods=2, shape=WHOLE, seconds=2, gang=True), name="small")
    steps = ((large,), (Pause("a while", 2 * SECOND),), (small,), (Wait("small", "completed", ("small",)),))
    ran = run(coscheduled(*steps, nodes=4), tmp_path)
    assert ran.ending.outcome == "completed"
    assert ran.count("scheduled") == 8
    assert ran.end_s < 30


@pytest.mark.parametrize(("pods", "holds"), [(20, True), (8, False)])
def test_only_a_gang_that_lacks_a_tenth_or_less_holds_its_nodes_until_the_time_is_up(
    tmp_path: Path, pods: int, holds: bool
) -> None:
    """One node is missing: 5 % of twenty, 13 % of eight. A lone pod that comes later gets a node when they let go."""
    gang = replace(submit(1, pods=pods, shape=WHOLE, gang=True), name="gang")
    lone = replace(submit(1, shape=WHOLE, seconds=1), name="lone")
    steps = ((gang,), (Pause("a while", 3 * SECOND),), (lone,), (Wait("lone", "completed", ("lone",)),))
    ran = run(coscheduled(*steps, nodes=pods - 1, permit_wait=10 * SECOND), tmp_path)
    waited = ran.times("scheduled")[0] - 3
    assert waited > 6 if holds else waited < 2


def test_half_placed_gangs_are_resolved_by_the_time_out_alone_where_nobody_is_turned_down(tmp_path: Path) -> None:
    """Four of six pods on eight nodes: the first runs, then the others take what it leaves, a part each."""
    steps = to_the_end(submit(4, pods=6, shape=WHOLE, seconds=1, gang=True))
    patient = run(coscheduled(*steps, nodes=8, permit_wait=5 * SECOND, reject_percentage=100), tmp_path / "patient")
    strict = run(coscheduled(*steps, nodes=8, permit_wait=5 * SECOND), tmp_path / "strict")
    assert patient.ending.outcome == strict.ending.outcome == "completed"
    assert patient.end_s > 4 * 2 + 5
    assert strict.end_s < patient.end_s


def test_the_permit_wait_makes_no_difference_where_failures_turn_the_gang_down(tmp_path: Path) -> None:
    steps = to_the_end(submit(6, pods=4, shape=WHOLE, seconds=2, gang=True))
    short = run(coscheduled(*steps, nodes=6, permit_wait=10 * SECOND), tmp_path / "10")
    long = run(coscheduled(*steps, nodes=6, permit_wait=60 * SECOND), tmp_path / "60")
    assert short.times("completed") == long.times("completed")


def test_a_group_in_its_back_off_misses_the_node_that_would_help_it(tmp_path: Path) -> None:
    """A new node wakes the pod that found no room, which the plugin turns down now; no node will wake it again, and kube-scheduler
    tries what it could not place only after five minutes."""
    gang = submit(1, pods=4, shape=WHOLE, seconds=1, gang=True)
    steps = ((gang,), (Pause("a while", 2 * SECOND),), (NodeChange("more", "add", "fake", None, fakes(2, cpu=1000)),),
             (Wait("all", "completed"),))  # fmt: skip
    at_once = run(coscheduled(*steps, nodes=2), tmp_path / "0")
    backing_off = run(coscheduled(*steps, nodes=2, backoff=20 * SECOND), tmp_path / "20")
    assert at_once.end_s < 10
    assert backing_off.ending.outcome == "completed"
    [stall] = backing_off.ending.stalls
    assert 5 * MINUTE < stall.until_ns - stall.from_ns < 6 * MINUTE
    assert "failed recently" in stall.summary


def test_conditions_that_change_over_and_over_hold_the_scheduler_up(tmp_path: Path) -> None:
    """Gangs that almost fit are turned down thousands of times; each new reason is a write, and 50 a second are allowed."""
    gangs = replace(submit(30, shape=WHOLE, seconds=5, gang=True), sizes=(2, 3, 4, 5, 6), shuffled=True)
    limited = run(coscheduled(*to_the_end(gangs), nodes=8), tmp_path / "50")
    free = run(coscheduled(*to_the_end(gangs), nodes=8, qps="unlimited"), tmp_path / "unlimited")
    assert free.ending.outcome == "completed"
    assert free.end_s < limited.end_s


def test_a_deleted_gang_gives_back_what_it_holds(tmp_path: Path) -> None:
    gang = replace(submit(1, pods=20, shape=WHOLE, gang=True), name="gang")
    lone = replace(submit(1, shape=WHOLE, seconds=1), name="lone")
    steps = ((gang,), (Pause("a while", 3 * SECOND),), (DeleteWorkloads("away", ("gang",)),), (lone,),
             (Wait("lone", "completed", ("lone",)),))  # fmt: skip
    ran = run(coscheduled(*steps, nodes=19, permit_wait=100 * SECOND), tmp_path)
    assert ran.ending.outcome == "completed"
    assert ran.end_s < 10


def test_a_lost_pod_of_a_running_gang_is_let_through_alone(tmp_path: Path) -> None:
    """Enough of the group is assigned already."""
    gang = submit(1, pods=3, shape=WHOLE, seconds=10, gang=True)
    steps = (
        (gang,),
        (Wait("run", "running"),),
        (NodeChange("lose", "remove", "fake", 1),),
        (Wait("all", "completed"),),
    )
    ran = run(coscheduled(*steps, nodes=4, permit_wait=60 * SECOND), tmp_path)
    assert ran.ending.outcome == "completed"
    assert ran.end_s < 40


def test_a_place_in_the_queue_is_by_the_groups_failure_then_its_second_then_the_pods_name(tmp_path: Path) -> None:
    sim = run(coscheduled(*to_the_end(submit(1, shape=WHOLE)), nodes=1), tmp_path).cluster._sim
    plugin, later = CoschedulingPlugin(sim, sim.settings["coscheduling"]), sim.kernel.now + 9 * SECOND
    sim.scheduler.use(plugin)

    def place(name: str, at: int) -> tuple[object, ...]:
        sim.kernel.run(at)
        group = sim.ledger.workload(0, 1)
        sim.workloads.append(Workload(name, "load", group, 1, WHOLE, SECOND, gang=True))
        plugin.made(group)
        sim._create_pod(group)
        return plugin.sort_key(len(sim.pods.job) - 1, 0)

    third, second, first = place("z", later), place("b", later + 2 * SECOND), place("a", later + 2 * SECOND)
    assert third < first < second
    plugin.post_filter(len(sim.pods.job) - 1)
    sim.kernel.run(sim.kernel.now + SECOND)
    plugin.post_filter(len(sim.pods.job) - 1)
    assert third < second < first, "also for one that is in the heap already"


@pytest.mark.parametrize(("own", "said"), [
    ({"permit-wait": SECOND // 2}, "whole seconds"),
    ({"backoff": 1}, "whole seconds"),
    ({"reject-percentage": 101}, "between 0 and 100"),
])  # fmt: skip
def test_settings_that_the_plugin_has_no_notion_of_are_refused(own: dict[str, Scalar], said: str) -> None:
    stack = stacks.find("coscheduling")
    assert stack.refuses(coscheduled(*to_the_end(submit(1)), nodes=1)) is None
    refused = trial(*to_the_end(submit(1)), stack="coscheduling", settings={"coscheduling": own})
    assert said in str(stack.refuses(refused))


def test_its_time_outs_are_declared() -> None:
    stack = stacks.find("coscheduling")
    settings = coscheduled(*to_the_end(submit(1)), nodes=1, permit_wait=10 * SECOND).setup.settings
    assert stack.releases(settings) == [10 * SECOND]
    assert CoschedulingPlugin.helped_by, "and it is never woken by room alone"


def test_a_gang_becomes_a_pod_group_and_a_job_whose_pods_name_it() -> None:
    stack = stacks.find("coscheduling")
    gang = Workload("g-0", "g", 0, 3, WHOLE, SECOND, gang=True)
    kinds = {manifest.body["kind"]: manifest.body for manifest in stack.real.render(gang, {"study": "x"})}
    assert list(kinds) == ["PodGroup", "Service", "Job"]
    assert kinds["PodGroup"]["spec"] == {"minMember": 3}
    assert kinds["Job"]["spec"]["template"]["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "g-0"
    alone = stack.real.render(structs.replace(gang, gang=False), {})
    assert [manifest.body["kind"] for manifest in alone] == ["Job"]
