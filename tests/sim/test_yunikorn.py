"""YuniKorn as it is modelled: looks at applications, placeholders and their replacement, reservations, and the order of cycles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seatrial import stacks
from seatrial.model.plan import PodShape, Scalar, Step, Toleration, Trial
from seatrial.model.units import MINUTE, SECOND
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from tests.sim.making import Ran, fakes, run, submit, to_the_end, trial

WHOLE = PodShape({"cpu": 1000}, tolerations=(Toleration(),))  # a node takes one


def with_yunikorn(
    *steps: Step, nodes: int, cpu: int = 1000, seed: int = 1, qps: str | float = "as shipped", **own: Scalar
) -> Trial:
    given = {"yunikorn": {name.replace("_", "-"): value for name, value in own.items()}}
    return trial(*steps, nodes=[fakes(nodes, cpu=cpu)], stack="yunikorn", seed=seed, qps=qps, settings=given)


def named(name: str, count: int, cores: int, seconds: float) -> Submit:
    shape = PodShape({"cpu": cores * 1000}, tolerations=(Toleration(),))
    return replace(submit(count, shape=shape, seconds=seconds), name=name)


def of(ran: Ran, stage: str) -> pl.DataFrame:
    """When the pods reached the stage, with the name of their workload and their node."""
    owner = dict(enumerate(ran.cluster.ledger.pod_workload))
    names = {number: workload.name for number, workload in enumerate(ran.cluster._sim.workloads)}
    found = ran.seen.filter(pl.col("stage") == stage)
    return found.with_columns(
        workload=pl.col("object").replace_strict(owner).replace_strict(names, return_dtype=pl.String),
        s=pl.col("at_ns") / 1e9,
    ).sort("at_ns")


# the shim


def test_a_pod_is_placed_at_the_third_look_at_its_application_and_a_gang_at_the_fourth(tmp_path: Path) -> None:
    """Submitted, accepted, handed over; a gang's placeholders are handed over in between."""
    period = 4
    waits = {}
    for name in ("single", "gang"):
        load = submit(3, pods=2, shape=WHOLE, seconds=1, gang=name == "gang")
        ran = run(with_yunikorn(*to_the_end(load), nodes=10, interval=period * SECOND), tmp_path / name)
        waits[name] = [
            bound - made for bound, made in zip(ran.times("scheduled"), ran.times("pods_created"), strict=True)
        ]
    assert all(2 * period <= wait < 3 * period + 0.5 for wait in waits["single"])
    assert all(3 * period <= wait < 4 * period + 0.5 for wait in waits["gang"])


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_pods_of_a_gang_get_nodes_only_once_placeholders_hold_one_for_each_of_them(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], seed: int
) -> None:
    gangs = replace(submit(2 * len(sizes), shape=WHOLE, seconds=3, gang=True), sizes=tuple(sizes), shuffled=True)
    nodes = 2 * sum(sizes)
    ran = run(with_yunikorn(*to_the_end(gangs), nodes=nodes, seed=seed), tmp_path_factory.mktemp("gangs"))
    assert ran.ending.outcome == "completed"
    reserved = dict(zip(*ran.seen.filter(pl.col("stage") == "reserved").select("object", "at_ns"), strict=True))
    owner = dict(enumerate(ran.cluster.ledger.pod_workload))
    bound = ran.seen.filter(pl.col("stage") == "scheduled")
    assert bound.height == 2 * sum(sizes)
    for pod, at in zip(bound["object"], bound["at_ns"], strict=True):
        assert at > reserved[owner[pod]]
    assert ran.cluster._sim.view.stand_ins == {}, "no placeholder is left"
    assert ran.cluster._sim.nodes.free[0] == [1000] * nodes, "every node is free again"


def test_gangs_that_come_one_by_one_are_served_in_the_order_of_their_submission(tmp_path: Path) -> None:
    """Gangs that need more than half of the nodes: the second holds what the first leaves, and gets the rest when that is free."""
    steps: list[Step] = []
    for number in range(4):
        gang = replace(submit(1, pods=5, shape=WHOLE, seconds=3, gang=True), name=f"gang{number}")
        steps += [(gang,), (Pause(f"after {number}", 3 * SECOND),)]
    ran = run(with_yunikorn(*steps, (Wait("done", "completed"),), nodes=8), tmp_path)
    assert ran.ending.outcome == "completed"
    assert not ran.ending.stalls
    order = [name.split("-")[0] for name in of(ran, "scheduled")["workload"]]
    assert order == sorted(order)


def test_gangs_of_one_look_hold_parts_of_their_nodes_and_each_other_up_until_the_placeholder_timeout(
    tmp_path: Path,
) -> None:
    """Their placeholders come to the core one after another, and it places the first while others are on their way."""
    together = submit(6, pods=5, shape=WHOLE, seconds=3, gang=True)
    kinds = set()
    for seed in range(6):
        ran = run(with_yunikorn(*to_the_end(together), nodes=8, seed=seed), tmp_path / str(seed))
        kinds |= {stall.kind for stall in ran.ending.stalls} | (
            {ran.ending.clog.diagnosis.kind} if ran.ending.clog else set()
        )
        assert ran.end_s > 15 * 60 or not ran.ending.stalls
    assert "gang deadlock" in kinds


def test_placeholders_hold_nodes_until_their_timeout_and_then_the_gang_goes_on_as_single_pods(tmp_path: Path) -> None:
    blocker, gang = (
        named("blocker", 4, 1, 60),
        replace(submit(1, pods=8, shape=WHOLE, seconds=1, gang=True), name="gang"),
    )
    steps = ((blocker,), (Pause("a while", 5 * SECOND),), (gang,), (Pause("half", 20 * SECOND),))
    ran = run(with_yunikorn(*steps, nodes=8, placeholder_timeout=MINUTE), tmp_path / "holds")
    [waiting] = [workload for workload in ran.cluster.state().workloads if workload.name.startswith("gang")]
    assert (len(waiting.nodes), waiting.held, waiting.waiting) == (4, 4, 8)
    assert "waiting for cluster resources" in waiting.said

    ran = run(
        with_yunikorn(*steps, (Wait("done", "completed"),), nodes=8, placeholder_timeout=30 * SECOND),
        tmp_path / "goes on",
    )
    assert ran.ending.outcome == "completed"
    assert ran.count("reserved") == 0, "only half of its placeholders ever had a node"
    first = of(ran, "scheduled").filter(pl.col("workload").str.starts_with("gang"))["s"][0]
    assert 35 < first < 40, "30 s after the first placeholder got its node, at the look that follows"


def test_a_gang_behind_placeholders_of_one_that_can_never_run_is_a_stall_that_says_so(tmp_path: Path) -> None:
    large, small = (
        replace(submit(1, pods=pods, shape=WHOLE, seconds=1, gang=True), name=name)
        for pods, name in ((10, "large"), (3, "small"))
    )
    steps = ((large,), (Pause("it holds all", 10 * SECOND),), (small,), (Wait("done", "completed", of=("small",)),))
    ran = run(with_yunikorn(*steps, nodes=8, placeholder_timeout=2 * MINUTE), tmp_path)
    assert ran.ending.outcome == "completed", "it had its turn after the timeout"
    [stall] = ran.ending.stalls
    assert stall.resolved
    assert stall.kind == "never fits"
    assert "small-0 waits behind it, for 8 nodes that it keeps" in stall.summary


def test_a_wait_that_ends_early_names_who_holds_nodes_meanwhile(tmp_path: Path) -> None:
    large, small = (
        replace(submit(1, pods=pods, shape=WHOLE, seconds=1, gang=True), name=name)
        for pods, name in ((8, "large"), (3, "small"))
    )
    steps = ((named("blocker", 4, 1, 3600),), (Pause("it runs", 5 * SECOND),), (large,), (Pause("half", 10 * SECOND),), (small,),
             (Wait("done", "completed", of=("small",), timeout=5 * MINUTE),))  # fmt: skip
    ran = run(with_yunikorn(*steps, nodes=8), tmp_path)
    assert ran.ending.outcome == "timeout"
    assert "Meanwhile large-0 holds 4 nodes" in ran.ending.detail


def test_two_gangs_that_go_on_as_single_pods_may_hold_each_other_up_for_ever(tmp_path: Path) -> None:
    """Soft is no way out for applications that run only as a whole: after the timeout any pod takes any node."""
    blocker = named("blocker", 4, 1, 40)
    gangs = submit(2, pods=8, shape=WHOLE, seconds=1, gang=True)
    steps = ((blocker,), (Pause("a while", 5 * SECOND),), (gangs,), (Wait("done", "completed"),))
    kinds = set()
    for seed in range(4):
        ran = run(with_yunikorn(*steps, nodes=8, placeholder_timeout=10 * SECOND, seed=seed), tmp_path / str(seed))
        kinds.add(ran.ending.clog.diagnosis.kind if ran.ending.clog else ran.ending.outcome)
    assert "gang deadlock" in kinds


def test_a_gang_that_is_deleted_takes_its_placeholders_along(tmp_path: Path) -> None:
    gang = replace(submit(1, pods=8, shape=WHOLE, seconds=1, gang=True), name="gang")
    steps = ((named("blocker", 4, 1, 60),), (gang,), (Pause("half", 10 * SECOND),),
             (DeleteWorkloads("away", ("gang",)),), (Pause("a while", 5 * SECOND),))  # fmt: skip
    ran = run(with_yunikorn(*steps, nodes=8), tmp_path)
    assert ran.cluster._sim.view.stand_ins == {}
    assert sorted(ran.cluster._sim.nodes.free[0]) == [0] * 4 + [1000] * 4


def test_bindings_have_a_bucket_that_events_do_not_use(tmp_path: Path) -> None:
    """Ten at once and ten a second: 40 bindings of one Job take 3 s, as on `local`; with three events beside each it is 15."""
    limits: dict[str, Scalar] = {"qps": 10, "burst": 10}
    steps = to_the_end(submit(1, pods=40, shape=WHOLE, seconds=30))
    ran = run(trial(*steps, nodes=[fakes(40, cpu=1000)], stack="yunikorn", settings={"yunikorn": limits}), tmp_path)
    times = ran.times("scheduled")
    assert times[-1] - times[0] == pytest.approx(3, abs=0.2)


# the core


def test_an_old_pod_reserves_a_node_that_no_other_pod_then_gets(tmp_path: Path) -> None:
    """Four nodes with a core each left: a pod of four cores reserves one of them, and three of four small pods are placed."""
    steps = ((named("base", 4, 3, 30),), (Pause("a while", 5 * SECOND),), (named("large", 1, 4, 5),), (Pause("old", 8 * SECOND),),
             (named("small", 4, 1, 60),), (Pause("then", 10 * SECOND),))  # fmt: skip
    ran = run(with_yunikorn(*steps, nodes=4, cpu=4000), tmp_path)
    bound = of(ran, "scheduled")
    assert bound.filter(pl.col("workload").str.starts_with("small")).height == 3
    assert bound.filter(pl.col("workload").str.starts_with("large")).height == 0


def test_a_pod_that_would_not_fit_into_what_all_nodes_have_left_reserves_nothing(tmp_path: Path) -> None:
    """The same with less room: headroom is looked at first, so small pods pass the large one."""
    steps = ((named("base", 4, 3, 30),), (Pause("a while", 5 * SECOND),),
             (named("first", 1, 1, 60),), (Pause("a look", 5 * SECOND),), (named("large", 1, 4, 5),),
             (Pause("old", 8 * SECOND),), (named("small", 3, 1, 60),), (Pause("then", 10 * SECOND),))  # fmt: skip
    ran = run(with_yunikorn(*steps, nodes=4, cpu=4000), tmp_path)
    assert of(ran, "scheduled").filter(pl.col("workload").str.starts_with("small")).height == 3


def test_applications_of_an_earlier_second_come_first(tmp_path: Path) -> None:
    steps: list[Step] = []
    for batch in range(3):
        steps += [(named(f"batch{batch}", 3, 1, 2),), (Pause(f"after {batch}", 2 * SECOND),)]
    ran = run(with_yunikorn(*steps, (Wait("done", "completed"),), nodes=1), tmp_path)
    order = [name.split("-")[0] for name in of(ran, "scheduled")["workload"]]
    assert order == sorted(order)


@pytest.mark.parametrize(("policy", "used"), [("fair", 8), ("binpacking", 2)])
def test_nodes_are_tried_emptiest_first_or_fullest_first(tmp_path: Path, policy: str, used: int) -> None:
    shape = PodShape({"cpu": 1000, "memory": 1 << 30}, tolerations=(Toleration(),))
    ran = run(with_yunikorn(*to_the_end(submit(8, shape=shape)), nodes=8, cpu=4000, node_sort=policy), tmp_path)
    assert of(ran, "scheduled")["node"].n_unique() == used


def test_a_lost_node_costs_its_pods_and_the_job_gets_others(tmp_path: Path) -> None:
    steps = ((submit(4, shape=WHOLE, seconds=20),), (Pause("a while", 8 * SECOND),), (NodeChange("gone", "remove", "fake", 2),),
             (Wait("done", "completed"),))  # fmt: skip
    ran = run(with_yunikorn(*steps, nodes=6), tmp_path)
    assert ran.ending.outcome == "completed"


def test_the_same_seed_gives_the_same_times(tmp_path: Path) -> None:
    load = to_the_end(submit(12, pods=3, shape=WHOLE, seconds=3, gang=True))
    first, again = (run(with_yunikorn(*load, nodes=7, seed=5), tmp_path / name).seen for name in ("a", "b"))
    assert first.equals(again)


# what it refuses


def test_gangs_need_a_queue_in_order_of_submission_and_the_model_has_no_hard_style() -> None:
    gang, refuses = submit(1, pods=2, shape=WHOLE, gang=True), stacks.find("yunikorn").refuses
    assert "rejects gangs" in (refuses(with_yunikorn(*to_the_end(gang), nodes=2, application_sort="fair")) or "")
    assert "gang-style: Hard" in (refuses(with_yunikorn(*to_the_end(gang), nodes=2, gang_style="Hard")) or "")
    assert refuses(with_yunikorn(*to_the_end(submit(2)), nodes=2, application_sort="fair", gang_style="Hard")) is None
    assert refuses(with_yunikorn(*to_the_end(gang), nodes=2)) is None
