"""Kueue's queues on the simulator: who gets quota, who loses it to whom, and what must hold in every fleet."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial import stacks
from seatrial.model.fleet import (
    ANY,
    LOWER,
    LOWER_OR_NEWER,
    NEVER,
    Cohort,
    Flavor,
    FlavorQuota,
    Fleet,
    Preemption,
    Queue,
)
from seatrial.model.plan import NodeGroup, Pace, Scalar, Span, Step
from seatrial.model.units import HOUR, SECOND
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from seatrial.stacks.kueue import admission_cycle
from seatrial.stacks.kueue.admission_cycle import Head
from seatrial.stacks.kueue.flavor_assignment import Assignment, assign
from seatrial.stacks.kueue.pending import Entry
from seatrial.stacks.kueue.quota_scheduler import QuotaScheduler
from seatrial.stacks.kueue.quota_tree import QuotaNode, QuotaTree
from tests.sim.fleets import livelock, queue, shared, to_queue
from tests.sim.making import GI, Ran, run

DONE = (Wait("done", "released", timeout=HOUR),)
TEAMS = (queue("red", 4), queue("blue", 4))


def first(ran: Ran, phase: str, stage: str = "admitted") -> list[float]:
    """When the workloads of a phase first reached a stage, in seconds and in the order of their numbers."""
    ledger = ran.cluster.ledger
    numbers = [n for n, which in enumerate(ledger.workload_phase) if which == ledger.phase(phase)]
    seen = ran.seen.filter((pl.col("stage") == stage) & pl.col("object").is_in(numbers))
    return (seen.group_by("object").agg(pl.col("at_ns").min()).sort("object")["at_ns"] / 1e9).to_list()


def reasons(ran: Ran) -> list[tuple[int, str, int]]:
    """(workload, reason, by) of every eviction."""
    rows = ran.evictions.filter(pl.col("event") == "evicted")
    return list(zip(rows["workload"], rows["reason"], rows["by"], strict=True))


def two_teams(rules: Preemption, tmp_path: Path) -> Ran:
    """Blue's eight workloads of a core take all eight cores; then red comes back for its half."""
    steps: tuple[Step, ...] = (
        (to_queue("blue", "blue", 8, seconds=60),), (Pause("idle", 10 * SECOND),), (to_queue("red", "red", 4, seconds=20),), DONE,
    )  # fmt: skip
    return run(shared(*steps, queues=TEAMS, rules=rules, cpu=8), tmp_path)


def test_a_queue_borrows_what_others_of_its_cohort_do_not_use(tmp_path: Path) -> None:
    ran = two_teams(Preemption(), tmp_path)
    assert max(first(ran, "blue")) < 5


def test_without_reclaiming_the_lender_waits_until_the_borrower_is_done(tmp_path: Path) -> None:
    ran = two_teams(Preemption(), tmp_path)
    assert ran.ending.outcome == "completed"
    assert reasons(ran) == []
    assert min(first(ran, "red")) > 60


def test_a_lender_reclaims_its_quota_from_those_admitted_last(tmp_path: Path) -> None:
    ran = two_teams(Preemption(reclaim=ANY), tmp_path)
    lost = reasons(ran)
    assert {reason for _, reason, _ in lost} == {"reclaimed"}
    assert sorted(by for _, _, by in lost) == [8, 9, 10, 11]  # one of blue's for each of red's
    assert max(first(ran, "red")) < 10 + 5
    assert ran.ending.outcome == "completed"


def test_every_eviction_is_followed_by_a_readmission_and_the_pods_are_lost_and_made_again(tmp_path: Path) -> None:
    ran = two_teams(Preemption(reclaim=ANY), tmp_path)
    assert ran.evictions.filter(pl.col("event") == "readmitted").height == len(reasons(ran)) == 4
    assert ran.cluster.ledger.evicted == set()
    assert ran.count("lost") == 4
    assert ran.count("pods_created") == 12 + 4


def test_priority_evicts_in_the_own_queue_the_lowest_and_the_newest_first(tmp_path: Path) -> None:
    steps: tuple[Step, ...] = (
        (to_queue("low", "red", 2, priority=1, seconds=100),), (Pause("later", 5 * SECOND),),
        (to_queue("lowest", "red", 2, priority=0, seconds=100),), (Pause("later", 5 * SECOND),),
        (to_queue("high", "red", 1, cpu=3, priority=5, seconds=10),), DONE,
    )  # fmt: skip
    ran = run(shared(*steps, queues=(queue("red", 4, ""),), rules=Preemption(LOWER)), tmp_path)
    assert [(n, reason, by) for n, reason, by in sorted(reasons(ran))][1:] == [(2, "preempted", 4), (3, "preempted", 4)]
    assert sorted(reasons(ran))[0][0] in (0, 1)  # and one of those before them


def test_a_queue_with_the_smaller_share_gets_room_by_fair_sharing(tmp_path: Path) -> None:
    queues = (queue("red", 0), queue("blue", 0), queue("pool", 8))
    steps: tuple[Step, ...] = (
        (to_queue("blue", "blue", 8, seconds=200),), (Pause("a while", 10 * SECOND),), (to_queue("red", "red", 8, seconds=200),),
        (Pause("meanwhile", 30 * SECOND),), DONE,
    )  # fmt: skip
    ran = run(shared(*steps, queues=queues, rules=Preemption(reclaim=ANY, fair_sharing=True)), tmp_path)
    early = ran.evictions.filter((pl.col("event") == "evicted") & (pl.col("at_ns") < 100 * SECOND))
    assert set(early["reason"]) == {"fair-sharing"}
    assert early.height == 4  # half of it


def test_an_evicted_workload_keeps_its_place_by_creation(tmp_path: Path) -> None:
    steps: tuple[Step, ...] = (
        (to_queue("old", "red", cpu=4, seconds=100),), (Pause("later", 3 * SECOND),), (to_queue("new", "red", cpu=4, seconds=5),),
        (Pause("later", 3 * SECOND),), (to_queue("high", "red", cpu=4, priority=1, seconds=5),), DONE,
    )  # fmt: skip
    ran = run(shared(*steps, queues=(queue("red", 4, ""),), rules=Preemption(LOWER)), tmp_path)
    again = ran.evictions.filter(pl.col("event") == "readmitted")["at_ns"][0] / 1e9
    assert again < first(ran, "new")[0]


def test_quota_is_free_only_once_the_pods_of_the_evicted_are_gone(tmp_path: Path) -> None:
    ran = two_teams(Preemption(reclaim=ANY), tmp_path)
    lost = sorted((ran.seen.filter(pl.col("stage") == "lost")["at_ns"] / 1e9).to_list())
    assert min(first(ran, "red")) > lost[0] > ran.evictions["at_ns"][0] / 1e9


def test_an_eviction_costs_thirteen_requests_two_per_try_to_restore_the_job_and_an_event_for_each_cycle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: Counter[str]
) -> None:
    """A PATCH and two events; the Job suspended in three writes, with an event; the admission cleared; and the second time around
    the admission with two events, and the Job started with an event. Until the Job controller has written that no pod is active,
    the server refuses to restore the Job (422): seven tries in the second that its conflict takes. Events about one object end at
    25."""
    monkeypatch.setattr("seatrial.stacks.kueue.api_writes.QueueStatus.changed", lambda *_: None)
    steps: tuple[Step, ...] = (
        (to_queue("low", "red", cpu=4, seconds=20),), (Pause("later", 5 * SECOND),), (to_queue("high", "red", cpu=4, priority=1),),
        DONE, (Pause("events", 30 * SECOND),),
    )  # fmt: skip
    rules = (Preemption(LOWER), Preemption(NEVER))
    counts = []
    for number, rule in enumerate(rules):
        sent.clear()
        run(shared(*steps, queues=(queue("red", 4, ""),), rules=rule), tmp_path / str(number))
        counts.append(sent["kueue"])
    assert 13 + 2 * 7 <= counts[0] - counts[1] <= 13 + 2 * 7 + 4 + 25


def test_pods_go_to_the_nodes_of_their_flavor_and_the_first_flavor_comes_first(tmp_path: Path) -> None:
    groups = tuple(
        NodeGroup(name, 1, {"cpu": 8000, "memory": 64 * GI, "pods": 110}, start=Span(SECOND)) for name in ("old", "new")
    )
    quotas = (FlavorQuota("a100", {"cpu": 3000}), FlavorQuota("h100", {"cpu": 2000}))
    fleet = Fleet((Queue("red", quotas),), (), (Flavor("a100", "old"), Flavor("h100", "new")))
    steps: tuple[Step, ...] = ((to_queue("jobs", "red", 7, seconds=20, pace=Pace("rate", per_s=1)),), DONE)
    ran = run(shared(*steps, queues=(), rules=Preemption(), fleet=fleet, nodes=groups), tmp_path)
    bound = ran.seen.filter(pl.col("stage") == "scheduled").sort("at_ns")["node"].to_list()
    assert bound[:5] == [0, 0, 0, 1, 1]
    assert max(first(ran, "jobs")[:5]) < 10
    assert min(first(ran, "jobs")[5:]) > 20


def test_a_timeout_is_recorded_as_an_eviction(tmp_path: Path) -> None:
    nodes = (NodeGroup("fake", 2, {"cpu": 3000, "memory": 64 * GI, "pods": 110}, start=Span(SECOND)),)
    steps: tuple[Step, ...] = (
        (to_queue("long", "red", cpu=2, seconds=30),), (Pause("later", 3 * SECOND),),
        (to_queue("gang", "red", cpu=2, pods=2, gang=True),), DONE,
    )  # fmt: skip
    own: dict[str, Scalar] = {"wait-for-pods-ready": True, "pods-ready-timeout": 20 * SECOND}
    ran = run(shared(*steps, queues=(queue("red", 6, ""),), rules=Preemption(), nodes=nodes, settings=own), tmp_path)
    assert reasons(ran) == [(1, "timed-out", -1)]
    assert ran.evictions["event"].to_list() == ["evicted", "readmitted"]


@pytest.mark.parametrize("fair_sharing", [False, True])
def test_workloads_that_evict_each_other_do_so_for_ever(tmp_path: Path, fair_sharing: bool) -> None:
    """Kueue's issues 7101 and 14543 are of this kind. Nothing completes, and each is evicted again and again."""
    ran = run(livelock(fair_sharing), tmp_path)
    lost = [number for number, _, _ in reasons(ran)]
    assert ran.count("completed") == 0
    assert len(lost) > 50  # each takes about 1.2 s: the quota is free a second after the pods are gone
    assert sorted(lost.count(number) > 20 for number in range(3)) == [False, True, True]


def test_topology_with_queues_is_refused_on_sim() -> None:
    trial = shared(DONE, queues=TEAMS, rules=Preemption(), settings={"topology": True})
    assert "topology is not modelled together with queues" in (stacks.find("kueue").refuses(trial) or "")
    assert stacks.find("kueue").refuses(shared(DONE, queues=TEAMS, rules=Preemption())) is None


# what must always hold

amounts = st.integers(0, 6)
limits = st.none() | st.integers(0, 4)


@st.composite
def fleets(draw: st.DrawFn, preempts: bool = True) -> Fleet:
    """Queues in cohorts of up to three levels, with and without limits."""

    def quotas(nominal: int) -> tuple[FlavorQuota, ...]:
        borrow, lend = draw(limits), draw(limits)
        return (
            FlavorQuota(
                "",
                {"cpu": nominal * 1000},
                {} if borrow is None else {"cpu": borrow * 1000},
                {} if lend is None else {"cpu": min(lend, nominal) * 1000},
            ),
        )

    names = ["all", "left", "right"]
    parents = {"left": "all", "right": draw(st.sampled_from(["all", "left"]))}
    cohorts = [
        Cohort(name, parents.get(name, ""), quotas(draw(amounts)), draw(st.sampled_from([1.0, 2.0]))) for name in names
    ]
    cohorts[0] = Cohort("all", "", (FlavorQuota("", {"cpu": draw(amounts) * 1000}),))
    queues = [
        Queue(f"q{n}", quotas(draw(amounts) + 1), draw(st.sampled_from(names)), draw(st.sampled_from([1.0, 3.0])))
        for n in range(draw(st.integers(2, 4)))
    ]
    rules = Preemption()
    if preempts:
        fair = draw(st.booleans())
        within, reclaim = (
            draw(st.sampled_from([NEVER, LOWER, LOWER_OR_NEWER])),
            draw(st.sampled_from([NEVER, LOWER, ANY])),
        )
        borrowing = draw(st.sampled_from([NEVER, LOWER])) if reclaim != NEVER and not fair else NEVER
        rules = Preemption(within, reclaim, borrowing, draw(limits) if borrowing != NEVER else None, fair)
    return Fleet(tuple(queues), tuple(cohorts), preemption=rules)


def broken_rules(tree: QuotaTree) -> list[str]:
    """Sums that do not add up, limits that are exceeded, quota that is borrowed and lent by nobody.

    What evicted workloads still hold until their pods are gone does not count: Kueue gives it to others of the same cycle.
    """
    found = [
        f"{one.name} uses {one.usage[cell]}, and its workloads something else"
        for cell in range(len(tree.cells))
        for one in tree.queues.values()
        if one.usage[cell] != sum(claim.usage.get(cell, 0) for claim in one.workloads.values())
    ]
    going = [claim for one in tree.queues.values() for claim in one.workloads.values() if claim.evicted]
    for claim in going:
        claim.queue.drop(claim)
    for cell in range(len(tree.cells)):
        for cohort in tree.cohorts.values():
            children: list[QuotaNode] = [*cohort.cohorts, *cohort.queues]
            if cohort.usage[cell] != sum(max(0, child.usage[cell] - child.local[cell]) for child in children):
                found.append(f"{cohort.name} uses {cohort.usage[cell]}, and its children something else")
            if cohort.parent is None and cohort.usage[cell] > cohort.subtree[cell]:
                found.append(f"{cohort.name} lends {cohort.usage[cell]} of {cohort.subtree[cell]}")
        for node in (*tree.queues.values(), *tree.cohorts.values()):
            limit = node.borrow[cell]
            if limit is not None and node.usage[cell] > node.subtree[cell] + limit:
                found.append(f"{node.name} uses {node.usage[cell]} of {node.subtree[cell]} and {limit} at most")
    for claim in going:
        claim.queue.hold(claim)
    return found


def loads(fleet: Fleet, sizes: list[int], seconds: list[int]) -> Step:
    """Two submits per queue, of other sizes, priorities and durations."""
    made: list[Submit] = []
    for number, one in enumerate(fleet.queues):
        for part in (0, 1):
            size, last = sizes[(2 * number + part) % len(sizes)], seconds[(number + part) % len(seconds)]
            made.append(
                to_queue(f"{one.name}-{part}", one.name, 5, size, last, part, pace=Pace("rate", per_s=0.5 + number))
            )
    return tuple(made)


@settings(max_examples=30, deadline=None)
@given(
    fleets(), st.lists(st.integers(1, 4), min_size=1, max_size=8), st.lists(st.integers(2, 20), min_size=1, max_size=4)
)
def test_usage_never_exceeds_what_the_rules_allow_and_nothing_is_lost_from_the_books(
    fleet: Fleet, sizes: list[int], seconds: list[int]
) -> None:
    assume, release = QuotaScheduler._assume, QuotaScheduler.release
    assumed: list[int] = []
    broken: list[str] = []

    def watched_assume(self: QuotaScheduler, head: Head) -> None:
        assume(self, head)
        assumed.append(head.claim.number)
        broken.extend(broken_rules(self.tree))

    def watched_release(self: QuotaScheduler, entry: Entry) -> None:
        if not (entry.finished or entry.number in self._sim.ledger.evicted):
            broken.append(f"{entry.workload.name} gives back its quota, and is neither over nor evicted")
        release(self, entry)
        broken.extend(broken_rules(self.tree))

    steps = (loads(fleet, sizes, seconds), (Pause("meanwhile", 60 * SECOND),))
    with (
        patch.object(QuotaScheduler, "_assume", watched_assume),
        patch.object(QuotaScheduler, "release", watched_release),
    ):
        ran = run(shared(*steps, queues=(), rules=fleet.preemption, fleet=fleet), Path(mkdtemp()))
    assert broken == []
    lost, again = (ran.evictions.filter(pl.col("event") == event).height for event in ("evicted", "readmitted"))
    assert (
        len(assumed) >= ran.count("admitted") + again
    )  # some are over, or the trial is, before their admission is written
    assert lost - again == len(ran.cluster.ledger.evicted)
    assert ran.count("released") <= ran.count("completed") <= ran.count("admitted") <= 10 * len(fleet.queues)


@settings(max_examples=25, deadline=None)
@given(fleets(preempts=False), st.integers(1, 3), st.integers(2, 10))
def test_of_equal_workloads_of_a_queue_the_older_ones_are_admitted_first(fleet: Fleet, size: int, seconds: int) -> None:
    step = tuple(to_queue(one.name, one.name, 8, size, seconds, pace=Pace("rate", per_s=1)) for one in fleet.queues)
    ran = run(
        shared(step, (Pause("meanwhile", 90 * SECOND),), queues=(), rules=fleet.preemption, fleet=fleet),
        Path(mkdtemp()),
    )
    for one in fleet.queues:
        admitted = first(ran, one.name)
        assert admitted == sorted(admitted)


def refused_again_and_again(
    tmp_path: Path, jobs: int, monkeypatch: pytest.MonkeyPatch, remembers: bool = True
) -> tuple[Ran, int]:
    """Queues that evict nobody, with two flavors and three sizes, and how often flavors were searched for a workload."""
    searches = 0

    def counted(*given: Any) -> Assignment:
        nonlocal searches
        searches += 1
        return assign(*given)

    monkeypatch.setattr(admission_cycle, "assign", counted)
    if not remembers:
        monkeypatch.setattr(admission_cycle, "_refusal_key", lambda *_: None)
    quotas = (FlavorQuota("left", {"cpu": 4000}), FlavorQuota("right", {"cpu": 6000}))
    queues = tuple(Queue(name, quotas, "all") for name in ("red", "blue"))
    fleet = Fleet(queues, flavors=(Flavor("left", "left"), Flavor("right", "right")), preemption=Preemption())
    nodes = tuple(
        NodeGroup(name, 1, {"cpu": cpu, "memory": 256 * GI, "pods": 1000}, start=Span(SECOND))
        for name, cpu in (("left", 8000), ("right", 12_000))
    )
    phases = tuple(
        to_queue(f"{name}-{cpu}", name, jobs, cpu, pods=pods)
        for name in ("red", "blue")
        for cpu, pods in ((1, 1), (2, 1), (1, 3))
    )
    asked = shared(phases, DONE, queues=(), rules=fleet.preemption, fleet=fleet, nodes=nodes)
    return run(asked, tmp_path), searches


def test_workloads_that_ask_for_the_same_are_searched_flavors_for_once_until_quota_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that wait are tried again whenever a pod ends; each try of thousands cost as much as the first."""
    ran, searches = refused_again_and_again(tmp_path / "remembers", 40, monkeypatch)
    other, all_searches = refused_again_and_again(tmp_path / "forgets", 40, monkeypatch, remembers=False)
    assert ran.count("released") == 6 * 40
    assert ran.seen.equals(other.seen)
    assert searches < all_searches / 2, (searches, all_searches)
