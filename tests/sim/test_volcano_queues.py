"""Volcano's queues as they are modelled: who may borrow, who takes it back, who preempts, and what Volcano cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial import stacks
from seatrial.model.fleet import ANY, LOWER, LOWER_OR_NEWER, NEVER, Cohort, FlavorQuota, Fleet, Preemption, Queue
from seatrial.model.plan import NodeGroup, PodShape, Scalar, Span, Step, Trial, Workload
from seatrial.model.units import HOUR, SECOND
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.wait import Wait
from seatrial.stacks.volcano.deserved_shares import SessionShares
from seatrial.stacks.volcano.pod_groups import GroupState
from seatrial.stacks.volcano.session_configuration import SHIPPED_PLUGINS, actions_of, tiers_of
from seatrial.stacks.volcano.volcano_queues import VolcanoQueue, volcano_queues
from tests.sim.fleets import queue, to_queue
from tests.sim.making import GI, Ran, run, trial

TAKES = Preemption(LOWER, ANY)
FAIR = Preemption(LOWER, ANY, fair_sharing=True)
TWO = (queue("red", 4), queue("blue", 4))


def nodes(count: int, cpu: int) -> NodeGroup:
    return NodeGroup("fake", count, {"cpu": cpu * 1000, "memory": 256 * GI, "pods": 110}, start=Span(SECOND))


def volcano(*steps: Step, fleet: Fleet, **own: Scalar) -> Trial:
    """On two nodes of four cores."""
    return trial(*steps, nodes=[nodes(2, 4)], stack="volcano", settings={"volcano": own}, fleet=fleet)


def done(*names: str) -> Step:
    return (Wait("done", "completed", of=names, timeout=HOUR),)


def reasons(ran: Ran) -> list[str]:
    return ran.evictions.filter(pl.col("event") == "evicted")["reason"].to_list()


def lent(tmp_path: Path, rules: Preemption, queues: tuple[Queue, ...] = TWO, **own: Scalar) -> Ran:
    """Blue has borrowed all of red's quota when red comes back."""
    steps = (
        (to_queue("borrower", "blue", count=8, seconds=120),), (Pause("a", 10 * SECOND),),
        (to_queue("owner", "red", count=4, seconds=5),), done("owner"),
    )  # fmt: skip
    return run(volcano(*steps, fleet=Fleet(queues, preemption=rules), **own), tmp_path)


def test_a_queue_takes_its_quota_back_and_no_more(tmp_path: Path) -> None:
    ran = lent(tmp_path, TAKES)
    assert reasons(ran) == ["reclaimed"] * 4
    assert set(ran.evictions.filter(pl.col("event") == "evicted")["message"]) == {"Pod is evicted, because of reclaim"}
    assert ran.end_s < 60


def test_with_fair_sharing_weights_say_how_much_is_taken_back(tmp_path: Path) -> None:
    """Red's weight is a third of blue's: of eight cores it gets two, whatever its quota is."""
    ran = lent(tmp_path, FAIR, (queue("red", 4, weight=1.0), queue("blue", 4, weight=3.0)))
    first = ran.evictions.filter((pl.col("event") == "evicted") & (pl.col("at_ns") < 18 * SECOND))
    assert first.height == 2


def test_without_reclaim_the_owner_waits_for_the_borrower(tmp_path: Path) -> None:
    ran = lent(tmp_path, Preemption())
    assert not reasons(ran)
    assert ran.end_s > 120


def test_with_overcommit_a_fifth_of_the_nodes_is_taken_back_at_a_time_and_larger_workloads_wait(tmp_path: Path) -> None:
    """Of eight cores that are in use a fifth is 1.6: one of red's jobs is let in per session, and none of two cores."""
    ran = lent(tmp_path / "small", TAKES)
    times = ran.evictions.filter(pl.col("event") == "evicted").sort("at_ns")["at_ns"].to_list()
    assert all(later - earlier > 0.9 * SECOND for earlier, later in pairwise(times))
    steps = (
        (to_queue("borrower", "blue", count=8, seconds=120),), (Pause("a", 10 * SECOND),),
        (to_queue("owner", "red", cpu=2, seconds=5),), (Pause("b", 60 * SECOND),),
    )  # fmt: skip
    fleet = Fleet(TWO, preemption=TAKES)
    assert not reasons(run(volcano(*steps, fleet=fleet), tmp_path / "large"))
    without = SHIPPED_PLUGINS.replace("overcommit, ", "")
    written = volcano(*steps, fleet=fleet, plugins=without, actions="enqueue, allocate, backfill, reclaim, preempt")
    assert reasons(run(written, tmp_path / "without")) == ["reclaimed"] * 2


def test_a_borrowing_limit_is_a_capability_and_what_is_not_lent_a_guarantee(tmp_path: Path) -> None:
    limited = Fleet((queue("red", 4), queue("blue", 4, borrow=1)))
    keeps = Queue("red", (FlavorQuota("", {"cpu": 4000}, lend={"cpu": 1000}),), "all")
    for name, fleet in (("borrow", limited), ("lend", Fleet((keeps, queue("blue", 4))))):
        steps = ((to_queue("borrower", "blue", count=8, seconds=60),), (Pause("a", 10 * SECOND),))
        assert run(volcano(*steps, fleet=fleet), tmp_path / name).count("scheduled") == 5


def test_a_queue_without_a_cohort_neither_borrows_nor_lends(tmp_path: Path) -> None:
    fleet = Fleet((queue("alone", 4, cohort=""), queue("red", 2), queue("blue", 2)))
    steps = ((to_queue("a", "alone", count=8, seconds=60), to_queue("r", "red", count=8, seconds=60)),)
    ran = run(volcano(*steps, (Pause("a", 10 * SECOND),), fleet=fleet), tmp_path)
    assert ran.count("scheduled") == 4 + 4


def crowded(tmp_path: Path, priority: int) -> Ran:
    """Red and blue have four of eight cores each, and red may borrow: so another of red's is let in."""
    steps = (
        (to_queue("low", "red", cpu=4, seconds=60, priority=10), to_queue("other", "blue", cpu=4, seconds=60)),
        (Pause("a", 10 * SECOND),), (to_queue("next", "red", cpu=4, seconds=5, priority=priority),),
        (Pause("b", 10 * SECOND),), done("low", "next"),
    )  # fmt: skip
    own = SHIPPED_PLUGINS.replace("overcommit, ", "")
    trial = volcano(
        *steps, fleet=Fleet(TWO, preemption=Preemption(LOWER)), plugins=own, actions="enqueue, allocate, preempt"
    )
    return run(trial, tmp_path)


def test_a_higher_priority_preempts_in_its_queue_and_the_victim_runs_again(tmp_path: Path) -> None:
    ran = crowded(tmp_path, 50)
    assert reasons(ran) == ["preempted"]
    assert ran.evictions["by"][0] == 2
    assert ran.count("completed") == 3


def test_the_same_priority_preempts_nobody(tmp_path: Path) -> None:
    assert not reasons(crowded(tmp_path, 10))


def test_in_a_queue_that_uses_all_it_may_nobody_preempts(tmp_path: Path) -> None:
    """The group is not let in: `capacity` compares what is in use with the capability first."""
    steps = (
        (to_queue("low", "red", count=2, cpu=4, seconds=60, priority=10),), (Pause("a", 10 * SECOND),),
        (to_queue("high", "red", cpu=4, seconds=5, priority=50),), done("low", "high"),
    )  # fmt: skip
    trial = volcano(*steps, fleet=Fleet((queue("red", 8),), preemption=TAKES))
    assert not reasons(run(trial, tmp_path))
    assert any("admits no group to a full queue" in line for line in stacks.find("volcano").findings(trial))


GANG = replace(to_queue("gang", "red", pods=2, cpu=4, seconds=5, priority=50), gang=True)


def test_a_gang_that_cannot_have_all_it_lacks_evicts_nobody(tmp_path: Path) -> None:
    """Room for one of its three pods could be made; its statement is discarded."""
    steps = (
        (to_queue("firm", "red", cpu=4, seconds=90, priority=99),), (Pause("a", 4 * SECOND),),
        (to_queue("low", "red", cpu=4, seconds=90, priority=10),), (Pause("b", 10 * SECOND),),
        (GANG,), (Pause("c", 30 * SECOND),),
    )  # fmt: skip
    ran = run(
        volcano(*steps, fleet=Fleet((queue("red", 8),), preemption=TAKES), actions="allocate, preempt, reclaim"),
        tmp_path,
    )
    assert not reasons(ran)
    low = (to_queue("firm", "red", cpu=4, seconds=90, priority=9),)
    ran = run(volcano(low, *steps[1:], fleet=Fleet((queue("red", 8),), preemption=TAKES), actions="allocate, preempt, reclaim"),
              tmp_path / "both")  # fmt: skip
    assert reasons(ran) == ["preempted"] * 2


def test_pods_beyond_the_minimum_are_reclaimed_before_quotas_are_asked(tmp_path: Path) -> None:
    """Volcano's tiers: `gang` gives what a group can spare, and decides. Blue is within its quota."""
    steps = (
        (to_queue("wide", "blue", pods=4, seconds=600),), (to_queue("other", "red", count=4, seconds=600),),
        (Pause("a", 10 * SECOND),), (to_queue("more", "red", count=1, seconds=600),), (Pause("b", 10 * SECOND),),
    )  # fmt: skip
    queues = (queue("red", 5), queue("blue", 4))
    ran = run(volcano(*steps, fleet=Fleet(queues, preemption=TAKES)), tmp_path)
    assert reasons(ran) == ["reclaimed"]


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 40)), min_size=1, max_size=5),
    st.integers(1, 60),
)
def test_proportion_gives_nobody_more_than_asked_for_and_leaves_nothing_that_is_wanted(
    queues: list[tuple[int, int]], total: int
) -> None:
    specs = {f"q{n}": VolcanoQueue(f"q{n}", weight=weight) for n, (weight, _) in enumerate(queues)}
    groups, waiting = [], {}
    for n, (_, asks) in enumerate(queues):
        load = Workload(f"w{n}", "load", n, asks or 1, PodShape({"cpu": 1000}), SECOND)
        group = GroupState(n, load, f"q{n}", (1000, 0), 0)
        waiting[group.queue, group.asked] = asks
        groups.append(group)
    shares = SessionShares(("cpu", "memory"), specs, groups, (total * 1000, 0), (0, 0), "proportion", waiting, specs)
    given_out = [shares._queues[f"q{n}"].deserved[0] for n in range(len(queues))]
    assert all(has <= asks * 1000 + 1 for has, (_, asks) in zip(given_out, queues, strict=True))
    assert sum(given_out) == pytest.approx(min(total, sum(asks for _, asks in queues)) * 1000, abs=len(queues))


def test_what_a_user_writes_is_kept_and_the_shipped_configuration_follows_the_rules() -> None:
    fleet = Fleet(TWO, preemption=FAIR)
    assert actions_of(fleet, "enqueue, allocate, backfill") == ["enqueue", "allocate", "backfill", "reclaim", "preempt"]
    assert actions_of(fleet, "allocate, reclaim") == ["allocate", "reclaim"]
    assert tiers_of(fleet, SHIPPED_PLUGINS)[1] == [
        "overcommit",
        "drf",
        "predicates",
        "proportion",
        "nodeorder",
        "binpack",
    ]
    assert tiers_of(fleet, "gang; capacity") == [["gang"], ["capacity"]]
    assert "capacity" in tiers_of(Fleet(TWO), SHIPPED_PLUGINS)[1]


def test_weights_that_are_no_whole_numbers_are_in_thousandths() -> None:
    fleet = Fleet((queue("red", 4, weight=0.5), queue("blue", 4, weight=2.0)))
    assert [one.weight for one in volcano_queues(fleet, {"cpu": 8000})] == [500, 2000]


GPUS = Queue("red", (FlavorQuota("", {"cpu": 4000, "nvidia.com/gpu": 4}),), "all")


@pytest.mark.parametrize(
    ("fleet", "own", "says"),
    [
        (Fleet(TWO, preemption=Preemption(LOWER_OR_NEWER)), {}, "`within-queue` is never or lower-priority"),
        (Fleet(TWO, preemption=Preemption(NEVER, LOWER)), {}, "`reclaim` is never or any"),
        (Fleet(TWO, preemption=Preemption(LOWER, ANY, LOWER)), {}, "no `while-borrowing`"),
        (Fleet(TWO, (Cohort("all", "top"),)), {}, "one level of queues: a cohort has no `parent` (all: top)"),
        (Fleet(TWO, (Cohort("all", quotas=TWO[0].quotas),)), {}, "no `quota` of its own (all)"),
        (Fleet((*TWO, queue("green", 4, "other"))), {}, "one cohort, not all, other"),
        (Fleet(TWO, preemption=TAKES), {"actions": "allocate"}, "needs Volcano's action preempt"),
        (Fleet(TWO), {"actions": "allocate, preempt"}, "`within-queue: never` is broken"),
        (Fleet(TWO, preemption=FAIR), {"plugins": "priority; capacity"}, "needs Volcano's plugin proportion"),
        (Fleet(TWO), {"plugins": "gang; proportion"}, "need Volcano's plugin capacity"),
        (Fleet(TWO, preemption=TAKES), {"plugins": "gang; capacity"}, "needs Volcano's plugin priority"),
    ],
)
def test_what_volcano_cannot_honour_is_refused_by_the_name_of_the_part(
    fleet: Fleet, own: Mapping[str, Scalar], says: str
) -> None:
    refused = stacks.find("volcano").refuses(volcano((to_queue("load", "red"),), fleet=fleet, **own))
    assert refused and says in refused


def test_queues_that_are_guaranteed_more_than_the_nodes_have_are_refused_because_volcano_panics() -> None:
    alone = Fleet((queue("red", 4, ""), queue("blue", 4, "")))
    load = (to_queue("load", "red"),)
    assert stacks.find("volcano").refuses(volcano(load, fleet=alone)) is None, "8 of 8 cores"
    larger = Fleet((queue("red", 4, ""), queue("blue", 5, "")))
    refused = stacks.find("volcano").refuses(volcano(load, fleet=larger))
    assert refused and "panics" in refused and "(cpu 9) than the nodes have (cpu 8)" in refused
    assert stacks.find("volcano").refuses(volcano(load, fleet=Fleet((queue("red", 4), queue("blue", 5))))) is None
    removes = volcano(load, (NodeChange("gone", "remove", "fake", 1),), fleet=alone)
    refused = stacks.find("volcano").refuses(removes)
    assert refused and "(cpu 8) than the nodes have (cpu 4)" in refused
    more = NodeChange("more", "add", "more", add=replace(nodes(1, 4), name="more"))
    assert stacks.find("volcano").refuses(volcano(load, (more,), *removes.steps[1:], fleet=alone)) is None


def test_findings_name_what_volcano_does_otherwise() -> None:
    steps = ((to_queue("wide", "red", pods=4), replace(GANG, name="g2", queue="blue")),)
    found = "\n".join(stacks.find("volcano").findings(volcano(*steps, fleet=Fleet((GPUS, TWO[1]), preemption=TAKES))))
    assert "evicts single pods" in found
    assert "beyond its first are reclaimed" in found
    assert "reclaims from red even within its quota: none of its pods holds nvidia.com/gpu" in found
    fair = stacks.find("volcano").findings(volcano(*steps, fleet=Fleet(TWO, preemption=FAIR)))
    assert "by `weight`, whatever the quotas are" in fair[0]
