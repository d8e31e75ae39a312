"""Volcano as it is modelled: sessions, whole gangs, who is let in and who comes first, and what is written when."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seatrial import stacks
from seatrial.model.plan import Pace, PodShape, Scalar, Toleration, Trial
from seatrial.model.units import SECOND
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.wait import Wait
from tests.sim.making import Ran, fakes, run, submit, to_the_end, trial

WHOLE = PodShape({"cpu": 1000}, tolerations=(Toleration(),))  # a node takes one
NOTHING = PodShape({}, tolerations=(Toleration(),))


def with_volcano(*steps: object, nodes: int, seed: int = 1, qps: str | float = "as shipped", **own: Scalar) -> Trial:
    settings = {"volcano": own}
    return trial(*steps, nodes=[fakes(nodes, cpu=1000)], stack="volcano", seed=seed, qps=qps, settings=settings)  # type: ignore[arg-type]


def bound_together(ran: Ran) -> pl.DataFrame:
    """Per workload: how many pods were bound, and how far apart in ns."""
    owner = dict(enumerate(ran.cluster.ledger.pod_workload))
    bound = ran.seen.filter(pl.col("stage") == "scheduled").with_columns(gang=pl.col("object").replace_strict(owner))
    return bound.group_by("gang").agg(
        pl.len(), apart=pl.col("at_ns").max() - pl.col("at_ns").min(), at=pl.col("at_ns").min()
    )


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_no_gang_ever_holds_a_part_of_its_nodes(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], seed: int
) -> None:
    gangs = replace(submit(2 * len(sizes), shape=WHOLE, seconds=3, gang=True), sizes=tuple(sizes), shuffled=True)
    ran = run(with_volcano(*to_the_end(gangs), nodes=6, seed=seed), tmp_path_factory.mktemp("gangs"))
    assert ran.ending.outcome == "completed"
    found = bound_together(ran)
    assert sorted(found["len"].to_list()) == sorted(sizes * 2)
    assert found["apart"].max() < SECOND // 5  # type: ignore[operator]


def test_a_session_begins_a_period_after_the_last_one_ended(tmp_path: Path) -> None:
    """Pods that come between two sessions wait for the next, so binding happens in bursts."""
    ran = run(with_volcano(*to_the_end(submit(40, shape=WHOLE, seconds=1, pace=Pace("rate", 10))), nodes=40,
                           period=3 * SECOND), tmp_path)  # fmt: skip
    times = sorted(ran.times("scheduled"))
    bursts = 1 + sum(later - earlier > 2.5 for earlier, later in pairwise(times))
    assert bursts in (2, 3)
    assert all(later - earlier < 0.5 or later - earlier > 2.5 for earlier, later in pairwise(times))


def test_a_shorter_period_places_pods_sooner(tmp_path: Path) -> None:
    load = to_the_end(submit(20, shape=WHOLE, seconds=1, pace=Pace("rate", 1)))
    ends = [
        run(with_volcano(*load, nodes=20, period=period), tmp_path / str(period))
        for period in (SECOND // 10, 5 * SECOND)
    ]
    waits = [sum(ran.times("scheduled")) - sum(ran.times("pods_created")) for ran in ends]
    assert waits[0] < waits[1] / 5


def test_no_more_groups_are_let_in_than_a_fifth_beyond_what_the_nodes_have(tmp_path: Path) -> None:
    """overcommit: ten nodes take ten, and two more may be in. The queue alone (capacity) lets in what the nodes have."""
    plugins = "priority, gang; overcommit, predicates"
    ran = run(
        with_volcano(
            (submit(30, shape=WHOLE, seconds=60),), (Pause("a while", 10 * SECOND),), nodes=10, plugins=plugins
        ),
        tmp_path,
    )
    assert ran.count("scheduled") == 10
    assert ran.count("inqueue") == 12


def test_a_queue_lets_in_what_its_capability_allows(tmp_path: Path) -> None:
    plugins = "priority, gang, conformance; drf, predicates, capacity, nodeorder"
    steps = ((submit(30, shape=WHOLE, seconds=60),), (Pause("a while", 10 * SECOND),))
    ran = run(with_volcano(*steps, nodes=10, plugins=plugins), tmp_path)
    assert ran.count("inqueue") == ran.count("scheduled") == 10


def test_the_higher_priority_comes_first_then_the_older_then_the_name(tmp_path: Path) -> None:
    low = replace(submit(12, shape=WHOLE, seconds=2), name="low")
    high = replace(submit(3, shape=replace(WHOLE, priority=9), seconds=2), name="high")
    wait = Wait("all", "completed")
    ran = run(with_volcano((low,), (high,), (wait,), nodes=1, actions="allocate", period=2 * SECOND), tmp_path)
    found = bound_together(ran).sort("at")["gang"].to_list()
    assert found[:3] == [12, 13, 14] or found[1:4] == [12, 13, 14], "one may be placed before they come"
    names = [f"load-{number}" for number in found if number < 12]
    assert names[1:] == sorted(names[1:]), "of the same second: by name, not by number"


def test_a_gang_that_does_not_fit_lets_smaller_ones_pass(tmp_path: Path) -> None:
    large = replace(submit(1, pods=5, shape=WHOLE, gang=True), name="large")
    small = replace(submit(4, pods=2, shape=WHOLE, seconds=2, gang=True), name="small")
    steps = ((large,), (Pause("a while", 2 * SECOND),), (small,), (Wait("small", "completed", ("small",)),))
    ran = run(with_volcano(*steps, nodes=4, plugins="gang; predicates, nodeorder"), tmp_path)
    assert ran.ending.outcome == "completed"
    assert ran.count("scheduled") == 8


def test_pods_without_requests_are_placed_by_backfill(tmp_path: Path) -> None:
    steps = to_the_end(submit(3, pods=2, shape=NOTHING, seconds=1))
    assert run(with_volcano(*steps, nodes=1), tmp_path / "with").ending.outcome == "completed"
    without = run(with_volcano(*steps, nodes=1, actions="enqueue, allocate"), tmp_path / "without")
    assert without.ending.outcome == "clogged"


def test_a_gang_that_waits_for_room_says_so_in_the_words_of_its_pod_group(tmp_path: Path) -> None:
    blocker = replace(submit(1, shape=WHOLE, seconds=500), name="blocker")
    gang = replace(submit(1, pods=4, shape=WHOLE, gang=True), name="gang")
    steps = ((blocker,), (Pause("a while", 3 * SECOND),), (gang,), (Wait("all", "completed", timeout=20 * SECOND),))
    ran = run(with_volcano(*steps, nodes=4, plugins="gang; predicates"), tmp_path)
    assert ran.ending.timed_out is not None
    [said] = ran.ending.timed_out.diagnosis.words
    assert said.startswith(
        "NotEnoughResources: 1/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable"
    )
    assert "Pending: 1 Unschedulable, 3 Schedulable" in said
    assert "0/4 nodes are unavailable: 4 Insufficient cpu." in said


def test_its_client_limits_how_fast_pods_are_bound(tmp_path: Path) -> None:
    load = to_the_end(submit(1, pods=60, shape=WHOLE, seconds=1, gang=True))
    fast, slow = (run(with_volcano(*load, nodes=60, qps=q, burst=1), tmp_path / str(q)) for q in (2000, 10))
    assert slow.times("scheduled")[-1] - slow.times("scheduled")[0] > 5
    assert fast.times("scheduled")[-1] - fast.times("scheduled")[0] < 1


def test_a_group_has_its_stage_when_the_session_is_over_and_pods_may_be_bound_before(tmp_path: Path) -> None:
    ran = run(with_volcano(*to_the_end(submit(5, shape=WHOLE, seconds=1)), nodes=5), tmp_path)
    assert ran.count("inqueue") == 5
    assert abs(max(ran.times("inqueue")) - max(ran.times("scheduled"))) < 1.5


def test_a_node_that_comes_and_a_gang_that_goes_make_room(tmp_path: Path) -> None:
    gang = replace(submit(1, pods=4, shape=WHOLE, seconds=100, gang=True), name="gang")
    next_one = replace(submit(1, pods=4, shape=WHOLE, seconds=1, gang=True), name="next")
    steps = ((gang,), (Pause("a while", 4 * SECOND),), (next_one,), (Pause("a while", 4 * SECOND),))
    gone = run(with_volcano(*steps, (DeleteWorkloads("away", ("gang",)),), (Wait("n", "completed", ("next",)),), nodes=4),
               tmp_path / "gone")  # fmt: skip
    more = run(with_volcano(*steps, (NodeChange("more", "add", "fake", None, fakes(4, cpu=1000)),),
                            (Wait("n", "completed", ("next",)),), nodes=4), tmp_path / "more")  # fmt: skip
    assert gone.ending.outcome == more.ending.outcome == "completed"
    assert gone.end_s < 20 and more.end_s < 20


def test_the_same_seed_gives_the_same_times(tmp_path: Path) -> None:
    load = to_the_end(replace(submit(12, shape=WHOLE, seconds=3, gang=True), sizes=(2, 3, 4), shuffled=True))
    first, second = (run(with_volcano(*load, nodes=6, seed=7), tmp_path / name) for name in ("a", "b"))
    assert first.seen.equals(second.seen)


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({"actions": "enqueue, alocate"}, "no action 'alocate'"),
        ({"plugins": "gang; fairness"}, "no plugin 'fairness'"),
        ({"plugins": ""}, "no plugin ''"),
        ({"plugins": "capacity, proportion"}, "take one of them"),
        ({"plugins": "gang, tdm"}, "the model of volcano does not have 'tdm'"),
        ({"actions": "allocate, shuffle"}, "the model of volcano does not have 'shuffle'"),
    ],
)
def test_what_volcano_or_its_model_does_not_have_is_refused(own: dict[str, Scalar], says: str) -> None:
    refused = stacks.find("volcano").refuses(trial(nodes=[fakes(1)], stack="volcano", settings={"volcano": own}))
    assert refused and says in refused
