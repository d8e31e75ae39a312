"""YuniKorn's queues as they are modelled and configured: who borrows, who takes back what it is guaranteed, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from seatrial import stacks
from seatrial.model.fleet import ANY, LOWER, NEVER, Cohort, FlavorQuota, Fleet, Preemption, Queue
from seatrial.model.plan import Scalar, Step, Trial
from seatrial.model.units import SECOND
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.wait import Wait
from seatrial.stacks.yunikorn.real import configuration
from tests.sim.fleets import queue, to_queue
from tests.sim.making import Ran, fakes, run, submit, trial

RED_AND_BLUE = (queue("red", 4), queue("blue", 4))
DELAY = 5


def with_teams(*steps: Step, fleet: Fleet, nodes: int = 8, seed: int = 1, **own: Scalar) -> Trial:
    """A core per node."""
    given: dict[str, Scalar] = {"preemption-delay": DELAY * SECOND, **own}
    return trial(
        *steps, nodes=[fakes(nodes, cpu=1000)], stack="yunikorn", seed=seed, settings={"yunikorn": given}, fleet=fleet
    )


def contended(rules: Preemption, blue: int = 4, priority: int = 0) -> tuple[Fleet, tuple[Step, ...]]:
    """Red has all eight nodes for two minutes; blue comes ten seconds later."""
    reds = to_queue("red", "red", count=8, seconds=120, priority=priority)
    blues = to_queue("blue", "blue", count=blue, seconds=30)
    steps: tuple[Step, ...] = ((reds,), (Pause("a while", 10 * SECOND),), (blues,), (Wait("done", "completed"),))
    return Fleet(RED_AND_BLUE, preemption=rules), steps


def bound(ran: Ran, phase: str) -> list[float]:
    owner = dict(enumerate(ran.cluster.ledger.pod_workload))
    names = {number: workload.name for number, workload in enumerate(ran.cluster._sim.workloads)}
    found = ran.seen.filter(pl.col("stage") == "scheduled")
    return [
        at / 1e9
        for pod, at in sorted(zip(found["object"], found["at_ns"], strict=True), key=lambda row: row[1])
        if names[owner[pod]].startswith(phase)
    ]


def test_a_queue_takes_back_what_it_is_guaranteed_after_the_delay(tmp_path: Path) -> None:
    fleet, steps = contended(Preemption(reclaim=ANY))
    ran = run(with_teams(*steps, fleet=fleet), tmp_path)
    assert ran.ending.outcome == "completed"
    evicted = ran.evictions.filter(pl.col("event") == "evicted")
    assert (evicted.height, set(evicted["reason"])) == (4, {"reclaimed"})
    assert all(10 + DELAY < at < 10 + DELAY + 4 for at in bound(ran, "blue"))
    assert evicted["at_ns"].min() >= (10 + DELAY - 1) * SECOND  # type: ignore[operator]


def test_without_reclaim_it_waits_until_the_others_are_done(tmp_path: Path) -> None:
    fleet, steps = contended(Preemption(reclaim=NEVER))
    ran = run(with_teams(*steps, fleet=fleet), tmp_path)
    assert ran.evictions.height == 0
    assert bound(ran, "blue")[0] > 100


def test_no_queue_takes_more_than_it_is_guaranteed(tmp_path: Path) -> None:
    fleet, steps = contended(Preemption(reclaim=ANY), blue=7)
    ran = run(with_teams(*steps, fleet=fleet), tmp_path)
    assert ran.evictions.filter(pl.col("event") == "evicted").height == 4
    assert sum(at < 30 for at in bound(ran, "blue")) == 4


def test_workloads_of_a_higher_priority_are_evicted_too(tmp_path: Path) -> None:
    """`reclaim: any`: priorities end at the queue (priority.policy: fence), or YuniKorn would spare them."""
    fleet, steps = contended(Preemption(reclaim=ANY), priority=100)
    ran = run(with_teams(*steps, fleet=fleet), tmp_path)
    assert ran.evictions.filter(pl.col("event") == "evicted").height == 4


def test_a_queue_borrows_up_to_its_limit_and_one_without_a_cohort_nothing(tmp_path: Path) -> None:
    queues = (queue("red", 2, borrow=1), queue("blue", 4), queue("lone", 2, cohort=""))
    steps = (
        (to_queue("red", "red", count=8, seconds=20), to_queue("lone", "lone", count=8, seconds=20)),
        (Pause("then", 10 * SECOND),),
    )
    ran = run(with_teams(*steps, fleet=Fleet(queues)), tmp_path)
    assert (len(bound(ran, "red")), len(bound(ran, "lone"))) == (3, 2)


def test_queues_share_what_is_left_in_proportion_to_what_they_are_guaranteed(tmp_path: Path) -> None:
    queues = (queue("red", 1), queue("blue", 3))
    before = to_queue("before", "idle", count=12, seconds=15)
    loads = (to_queue("red", "red", count=40, seconds=60), to_queue("blue", "blue", count=40, seconds=60))
    fleet = Fleet((*queues, queue("idle", 8)), preemption=Preemption(fair_sharing=True))
    steps = ((before,), (Pause("all are taken", 5 * SECOND),), loads, (Pause("then", 20 * SECOND),))
    ran = run(with_teams(*steps, fleet=fleet, nodes=12), tmp_path)
    assert (len(bound(ran, "red")), len(bound(ran, "blue"))) == (3, 9)


def test_cohorts_of_cohorts_lend_within_their_own_first_limit(tmp_path: Path) -> None:
    """`inner` has two cores of its queues and one of its own; `outer` four more that it may borrow."""
    core = (FlavorQuota("", {"cpu": 1000}),)
    cohorts = (Cohort("inner", parent="outer", quotas=core), Cohort("outer"))
    queues = (queue("a", 2, cohort="inner"), queue("b", 4, cohort="outer"))
    fleet = Fleet(queues, cohorts)
    ran = run(
        with_teams((to_queue("a", "a", count=8, seconds=20),), (Pause("then", 10 * SECOND),), fleet=fleet), tmp_path
    )
    assert len(bound(ran, "a")) == 3, "what `inner` has in all: its maximum"


def test_a_gang_evicts_for_its_placeholders(tmp_path: Path) -> None:
    fleet, steps = contended(Preemption(reclaim=ANY), blue=1)
    gang = replace(to_queue("blue", "blue", pods=4, seconds=10), gang=True)
    ran = run(with_teams(steps[0], steps[1], (gang,), steps[3], fleet=fleet), tmp_path)
    assert ran.ending.outcome == "completed"
    assert ran.evictions.filter(pl.col("event") == "evicted").height == 4


# the configuration


def test_the_tree_in_the_configmap_has_quotas_as_guaranteed_amounts_and_cohorts_as_parents() -> None:
    queues = (queue("red", 4, borrow=2), queue("lone", 2, cohort=""))
    fleet = Fleet(queues, (Cohort("all", parent="top"), Cohort("top")), preemption=Preemption(reclaim=ANY))
    setup = with_teams((submit(1),), fleet=fleet).setup
    [partition] = json.loads(configuration(setup)[1]["data"]["queues.yaml"])["partitions"]
    [root] = partition["queues"]
    assert partition["placementrules"] == [{"name": "provided", "create": False}]
    assert partition["preemption"] == {"enabled": True}
    assert root["properties"]["preemption.delay"] == f"{DELAY * 1000}ms"
    top, lone = root["queues"]
    [inner] = top["queues"]
    [red] = inner["queues"]
    fence = {"priority.policy": "fence"}
    assert red == {
        "name": "red",
        "parent": False,
        "resources": {"guaranteed": {"vcore": "4"}, "max": {"vcore": "6"}},
        "properties": fence,
    }
    assert (inner["name"], inner["resources"]) == ("cohort_all", {"max": {"vcore": "4"}})
    assert lone["resources"] == {"guaranteed": {"vcore": "2"}, "max": {"vcore": "2"}}


@pytest.mark.parametrize(
    ("fleet", "said"),
    [
        (Fleet((replace(queue("red", 4), weight=2.0),)), "`weight` of red"),
        (Fleet((Queue("red", (FlavorQuota("", {"cpu": 4000}, lend={"cpu": 1000}),), "all"),)), "`lend` of red"),
        (Fleet((queue("red", 0, cohort=""),)), "a quota of 0"),
        (Fleet(RED_AND_BLUE, preemption=Preemption(reclaim=LOWER)), "same priority"),
        (Fleet(RED_AND_BLUE, preemption=Preemption(while_borrowing=LOWER)), "`while-borrowing`"),
        (Fleet((queue("r" * 40, 4, cohort="c" * 40),)), "63 characters"),
    ],
)  # fmt: skip
def test_what_its_queues_cannot_have_is_refused_with_the_part_that_it_is(fleet: Fleet, said: str) -> None:
    asked = with_teams((to_queue("load", fleet.queues[0].name),), fleet=fleet)
    assert said in (stacks.find("yunikorn").refuses(asked) or "")


def test_preemption_within_a_queue_is_refused_where_priorities_differ_and_a_finding_where_they_do_not() -> None:
    yunikorn, fleet = stacks.find("yunikorn"), Fleet(RED_AND_BLUE, preemption=Preemption(within_queue=LOWER))
    alike = with_teams((to_queue("a", "red"),), fleet=fleet)
    differ = with_teams((to_queue("a", "red"), to_queue("b", "red", priority=5)), fleet=fleet)
    assert yunikorn.refuses(alike) is None
    assert any("only between queues" in finding for finding in yunikorn.findings(alike))
    assert "within-queue" in (yunikorn.refuses(differ) or "")


def test_a_gang_that_its_queue_would_reject_is_refused_before_anything_starts() -> None:
    gang = replace(to_queue("large", "red", pods=9), gang=True)
    refused = stacks.find("yunikorn").refuses(with_teams((gang,), fleet=Fleet(RED_AND_BLUE)))
    assert refused is not None
    assert "one of large requests 9 cpu, and root.cohort_all has 8" in refused
