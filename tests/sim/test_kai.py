"""KAI's model: its division of resources, its actions, its gangs, and what its scheduler and its binder write."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import cast

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial import stacks
from seatrial.model.fleet import ANY, LOWER, LOWER_OR_NEWER, NEVER, Cohort, FlavorQuota, Fleet, Preemption, Queue
from seatrial.model.plan import NodeGroup, PodShape, Scalar, Span, Step, Trial
from seatrial.model.units import HOUR, SECOND
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from seatrial.sim.nodes import Nodes
from seatrial.stacks.kai.kai_actions import Failures, KaiActions
from seatrial.stacks.kai.kai_cache import KaiCache
from seatrial.stacks.kai.kai_session import ACTIVE, HOLDS, PENDING, KaiJob, KaiNodes, KaiSession, KaiTask
from seatrial.stacks.kai.kai_solver import KaiSolver, all_moved
from seatrial.stacks.kai.model import KaiModel
from seatrial.stacks.kai.queue_shares import QueueShare, ShareTree, divide
from seatrial.stacks.kai.queue_tree import EVERYTHING, RESOURCES, UNLIMITED, KaiQueue, kai_queues
from tests.sim.fleets import queue, to_queue
from tests.sim.making import GI, Ran, fakes, run, submit, trial

NONE = dict.fromkeys(RESOURCES, 0)
MIX = Preemption(LOWER, ANY, fair_sharing=True)


def nodes(count: int, cpu: int) -> NodeGroup:
    return NodeGroup("fake", count, {"cpu": cpu * 1000, "memory": 256 * GI, "pods": 110}, start=Span(SECOND))


def kai(*steps: Step, group: NodeGroup, fleet: Fleet | None = None, **own: Scalar) -> Trial:
    return trial(*steps, nodes=[group], stack="kai", settings={"kai": own}, fleet=fleet)


def done(*names: str) -> Step:
    return (Wait("done", "completed", of=names, timeout=HOUR),)


def share(name: str, quota: int, asks: float, weight: float = 1.0, limit: int = UNLIMITED) -> QueueShare:
    made = QueueShare(KaiQueue(name, "all.parent", {**NONE, "cpu": quota}, {**EVERYTHING, "cpu": limit}, weight))
    made.request[0] = asks
    return made


def reasons(ran: Ran) -> list[str]:
    return ran.evictions.filter(pl.col("event") == "evicted")["reason"].to_list()


# the division among queues


def test_what_nobody_has_a_quota_of_is_shared_by_weight() -> None:
    one, two = share("one", 10, 100, weight=1), share("two", 10, 100, weight=3)
    divide([one, two], [60, 0, 0])
    assert (one.fair[0], two.fair[0]) == (10 + 10, 10 + 30)


def test_what_a_queue_does_not_ask_for_goes_to_the_others() -> None:
    idle, busy = share("idle", 30, 5), share("busy", 30, 100)
    divide([idle, busy], [60, 0, 0])
    assert (idle.fair[0], busy.fair[0]) == (5, 55)


def test_a_limit_ends_a_fair_share() -> None:
    limited, other = share("limited", 10, 100, limit=15), share("other", 10, 100)
    divide([limited, other], [60, 0, 0])
    assert (limited.fair[0], other.fair[0]) == (15, 45)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 90), st.integers(1, 5)), min_size=1, max_size=6),
    st.integers(0, 200),
)
def test_shares_are_never_more_than_asked_for_and_what_is_over_is_wanted_by_nobody(
    queues: list[tuple[int, int, int]], total: int
) -> None:
    made = [share(f"q{n}", quota, asks, weight) for n, (quota, asks, weight) in enumerate(queues)]
    divide(made, [float(total), 0, 0])
    given_out = sum(one.fair[0] for one in made)
    quotas = sum(min(quota, asks) for quota, asks, _ in queues)
    assert all(one.fair[0] <= one.request[0] + 1e-6 for one in made)
    assert all(one.fair[0] >= min(quota, asks) - 1e-6 for one, (quota, asks, _) in zip(made, queues, strict=True))
    wanted = sum(asks for _, asks, _ in queues)
    assert given_out == pytest.approx(max(quotas, min(total, wanted)))


# a statement


@given(
    st.lists(st.tuples(st.sampled_from(["place", "evict", "pipeline"]), st.integers(0, 5)), max_size=12), st.randoms()
)
def test_a_statement_that_is_rolled_back_leaves_nothing(steps: list[tuple[str, int]], random: Random) -> None:
    made = Nodes([], random)
    group = nodes(3, 4)
    for _ in range(3):
        made.add(group)
    tree, shape = ShareTree(kai_queues(Fleet())), PodShape({"cpu": 2000})
    jobs = {n: KaiJob(n, f"w{n}", "queue", 0, False, 0, 2, shape, (2000.0, 0.0, 0.0)) for n in range(6)}
    for number, job in jobs.items():
        for pod in range(2):
            running = number < 2
            job.tasks.append(KaiTask(2 * number + pod, job, ACTIVE if running else PENDING, number if running else -1))
            job.active += running
            if running:
                made.take(number, shape)
    session = KaiSession(KaiNodes(made, ["a", "b", "c"], "binpack"), tree, jobs)

    def state() -> tuple[object, ...]:
        tasks = [(task.status, task.node, task.virtual) for job in jobs.values() for task in job.tasks]
        used = [list(one.allocated) for one in tree.queues.values()]
        return session.idle.tolist(), session.left.tolist(), tasks, used, [job.active for job in jobs.values()]

    before = state()
    for what, number in steps:
        job = jobs[number]
        if what == "evict":
            for task in job.tasks:
                if task.status in HOLDS and not task.virtual:
                    session.evict(task)
        else:
            session.place_job(job, session.everywhere, pipeline_only=what == "pipeline")
        assert (session.left >= 0).all(), "no node over its capacity"
    session.roll_back()
    assert state() == before
    assert not session.evictions


def full_of_pairs(pods: int, spread: bool = False) -> tuple[KaiSession, KaiJob]:
    """Eight nodes that four gangs of two fill, and a gang of `pods` that waits."""
    made = Nodes([], Random(0))
    group = nodes(8, 2)
    for _ in range(8):
        made.add(group)
    shape = PodShape({"cpu": 2000}, spread=spread)
    jobs = {n: KaiJob(n, f"w{n}", "queue", 0, False, 0, 2, shape, (2000.0, 0.0, 0.0), serial=n) for n in range(4)}
    for number, job in jobs.items():
        for pod in (2 * number, 2 * number + 1):
            job.tasks.append(KaiTask(pod, job, ACTIVE, pod))
            job.active += 1
            made.take(pod, shape)
    waits = KaiJob(4, "w4", "queue", 0, False, 0, pods, shape, (2000.0, 0.0, 0.0), serial=4)
    waits.tasks = [KaiTask(10 + n, waits, PENDING) for n in range(pods)]
    tree = ShareTree(kai_queues(Fleet()))
    return KaiSession(KaiNodes(made, [f"n{n}" for n in range(8)], "binpack"), tree, jobs), waits


@pytest.mark.parametrize("pods", [1, 3])
def test_a_search_in_vain_tries_every_node_of_every_victim_for_each_pod_more(pods: int) -> None:
    session, waits = full_of_pairs(pods)
    search = KaiSolver(session, waits, session.placed, all_moved, Random(0))
    assert not search.solve(moves=True)
    assert search.scenarios == 8 * pods
    assert session.looked > 0


def test_a_gang_like_one_that_failed_is_searched_for_if_it_spreads_over_nodes() -> None:
    """The anti-affinity of `spread` names the Job, so that KAI takes each for a kind of its own."""
    for spread in (False, True):
        _, first = full_of_pairs(3, spread)
        other = KaiJob(5, "w5", "queue", 0, False, 0, 3, first.shape, first.amounts)
        other.tasks = [KaiTask(20 + n, other, PENDING) for n in range(3)]
        failures = Failures()
        failures.add(first)
        assert failures.easier(other) is spread


def test_the_start_of_a_group_is_written_after_the_bind_requests_of_the_cycle(tmp_path: Path) -> None:
    """Ten requests per second: in between, PATCHes would make it twice as long."""
    fast = {"qps": 0}
    steps = ((submit(20, 1, seconds=60),), (Wait("s", "scheduled", timeout=HOUR),))
    asked = trial(
        *steps, nodes=[fakes()], stack="kai", settings={"kai": {"qps": 10, "burst": 1}, "kube-controller-manager": fast}
    )
    requested = sorted(run(asked, tmp_path).times("bind_requested"))
    gaps = np.diff(requested)
    assert np.median(gaps) == pytest.approx(0.1, rel=0.1)


def test_of_equal_nodes_the_first_by_name_is_taken() -> None:
    made = Nodes([], Random(1))
    for _ in range(3):
        made.add(nodes(3, 4))
    known = KaiNodes(made, ["node-10", "node-2", "node-1"], "binpack")
    assert [made.groups[node].name for node in known.order] == ["fake"] * 3
    assert known.order == [2, 0, 1]
    assert np.array_equal(known.density(0, known.free()[0], np.ones(3, dtype=bool)), [9.0, 9.0, 9.0])


# the cycle, on a cluster


def test_a_gang_that_does_not_fit_holds_nothing_while_smaller_ones_run(tmp_path: Path) -> None:
    large = submit(1, 5, PodShape({"cpu": 4000}), 5, gang=True)
    small = Submit("small", 1, (3,), False, PodShape({"cpu": 4000}), 5 * SECOND, gang=True)
    steps = ((large,), (Pause("a", 3 * SECOND),), (small,), done("small"))
    ran = run(kai(*steps, group=nodes(4, 4)), tmp_path)
    assert ran.count("completed") == 1
    scheduled = ran.seen.filter((pl.col("stage") == "scheduled") & (pl.col("detail") >= 0))
    assert ran.count("bind_requested") == 1, "nothing was decided for the large one"
    assert scheduled["object"].n_unique() == 3


def test_a_pod_that_waits_for_room_gets_its_condition_once_whoever_is_tried_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: Counter[int] = Counter()
    write = KaiModel._write

    def counted(self: KaiModel, number: int, of_pods: int, of_group: int) -> None:
        writes[number] += bool(of_pods)
        write(self, number, of_pods, of_group)

    monkeypatch.setattr(KaiModel, "_write", counted)
    ran = run(kai((submit(12, 1, PodShape({"cpu": 1000}), 5),), done("load"), group=nodes(1, 2)), tmp_path)
    assert ran.count("completed") == 12
    assert sum(writes.values()) == 10, "two had room at once"
    assert max(writes.values()) == 1


def test_a_bind_request_stands_between_a_pod_and_its_node(tmp_path: Path) -> None:
    ran = run(kai((submit(1),), done("load"), group=fakes()), tmp_path)
    created, requested, bound = (ran.times(stage)[0] for stage in ("pods_created", "bind_requested", "scheduled"))
    assert created < requested < bound
    assert requested - created <= 1.1, "the next cycle is at most a period away"


def test_two_of_the_binders_requests_per_pod_share_a_bucket_and_its_managers_have_their_own(tmp_path: Path) -> None:
    """A burst of 100 requests is 50 pods; then 20 requests per second are 10 pods."""
    steps = ((submit(1, 100, seconds=60),), (Wait("s", "scheduled", timeout=HOUR),))
    ran = run(kai(*steps, group=fakes()), tmp_path)
    bound = sorted(ran.times("scheduled"))
    assert bound[99] - bound[60] == pytest.approx(39 / 10, rel=0.1)


@pytest.mark.parametrize(("placement", "used"), [("binpack", 1), ("spread", 4)])
def test_placement_packs_nodes_or_spreads_over_them(tmp_path: Path, placement: str, used: int) -> None:
    steps = ((submit(4, 1, PodShape({"cpu": 1000}), 60),), (Wait("s", "scheduled", timeout=HOUR),))
    ran = run(kai(*steps, group=nodes(4, 8), placement=placement), tmp_path)
    assert len({node for node in ran.cluster._sim.pods.node if node >= 0}) == used


def test_a_higher_priority_preempts_in_its_queue_and_the_victim_runs_again(tmp_path: Path) -> None:
    fleet = Fleet((queue("red", 4),), preemption=MIX)
    steps = (
        (to_queue("low", "red", cpu=4, seconds=60, priority=10),), (Pause("a", 10 * SECOND),),
        (to_queue("high", "red", cpu=4, seconds=5, priority=50),), done("low", "high"),
    )  # fmt: skip
    ran = run(kai(*steps, group=nodes(1, 4), fleet=fleet), tmp_path)
    assert reasons(ran) == ["preempted"]
    assert "higher priority workload" in ran.evictions["message"][0]
    assert ran.count("completed") == 2


def test_priorities_from_100_on_are_never_evicted(tmp_path: Path) -> None:
    fleet = Fleet((queue("red", 4),), preemption=MIX)
    steps = (
        (to_queue("firm", "red", cpu=4, seconds=60, priority=100),), (Pause("a", 10 * SECOND),),
        (to_queue("higher", "red", cpu=4, seconds=5, priority=200),), done("firm", "higher"),
    )  # fmt: skip
    ran = run(kai(*steps, group=nodes(1, 4), fleet=fleet), tmp_path)
    assert not reasons(ran)
    assert ran.count("completed") == 2


def lent(tmp_path: Path, rules: Preemption) -> Ran:
    """Blue has borrowed all of red's quota when red comes back."""
    queues: tuple[Queue, ...] = (queue("red", 4), queue("blue", 4))
    steps = (
        (to_queue("borrower", "blue", count=8, seconds=120),), (Pause("a", 10 * SECOND),),
        (to_queue("owner", "red", count=4, seconds=5),), done("owner"),
    )  # fmt: skip
    return run(kai(*steps, group=nodes(2, 4), fleet=Fleet(queues, preemption=rules)), tmp_path)


def test_a_queue_below_its_share_reclaims_what_another_borrowed_and_no_more(tmp_path: Path) -> None:
    ran = lent(tmp_path, MIX)
    assert reasons(ran) == ["reclaimed"] * 4
    assert ran.end_s < 60


def test_without_reclaim_the_owner_waits_for_the_borrower(tmp_path: Path) -> None:
    ran = lent(tmp_path, Preemption())
    assert not reasons(ran)
    assert ran.end_s > 120


def test_consolidation_moves_a_pod_so_that_a_larger_one_fits(tmp_path: Path) -> None:
    """Two nodes are half full, because the pods that filled them up have finished."""
    stays = [Submit(f"stay{n}", 1, (1,), False, PodShape({"cpu": 2000}), 600 * SECOND) for n in range(2)]
    goes = [Submit(f"go{n}", 1, (1,), False, PodShape({"cpu": 2000}), 5 * SECOND) for n in range(2)]
    order: list[Step] = [((one,)) for pair in zip(stays, goes, strict=True) for one in pair]
    big = Submit("big", 1, (1,), False, PodShape({"cpu": 4000}), 5 * SECOND)
    spaced = [step for one in order for step in (one, (Pause(f"p{id(one)}", 3 * SECOND),))]
    ran = run(kai(*spaced, (Pause("a", 10 * SECOND),), (big,), done("big"), group=nodes(2, 4)), tmp_path)
    assert reasons(ran) == ["other"]
    assert "resource consolidation" in ran.evictions["message"][0]
    assert ran.end_s < 60


def test_a_pod_is_bound_to_the_node_of_its_bind_request_though_the_same_session_plans_another_for_its_successor() -> (
    None
):
    """With the second node, pods were bound to nodes that were full."""
    made = Nodes([], Random(1))
    for _ in range(2):
        made.add(nodes(2, 4))
    tree, shape = ShareTree(kai_queues(Fleet())), PodShape({"cpu": 2000})
    job = KaiJob(0, "moved", "queue", 0, False, 0, 1, shape, (2000.0, 0.0, 0.0))
    task = KaiTask(7, job, PENDING)
    job.tasks.append(task)
    session = KaiSession(KaiNodes(made, ["a", "b"], "binpack"), tree, {0: job})
    actions = KaiActions(session, cast("KaiCache", None), Random(1), lambda _: False, str)
    session.allocate(task, 0)
    actions._bind(job, True)
    session.evict(task)
    session.pipeline(task, 1)
    assert [pods for _, pods, _ in actions.done.binds] == [[(7, 0)]]


def test_a_gang_that_lost_a_pod_for_good_is_evicted_after_the_staleness_grace(tmp_path: Path) -> None:
    gang = submit(1, 3, PodShape({"cpu": 4000}), 3600, gang=True)
    steps = (
        (gang,), (Wait("r", "running", timeout=HOUR),), (NodeChange("gone", "remove", "fake", 1),),
        (Pause("a", 150 * SECOND),),
    )  # fmt: skip
    ran = run(kai(*steps, group=nodes(3, 4)), tmp_path)
    timed = ran.evictions.filter((pl.col("event") == "evicted") & (pl.col("reason") == "timed-out"))
    assert timed.height <= 1
    lost = ran.evictions.filter(pl.col("reason") == "node-gone")["at_ns"][0]
    gone = ran.seen.filter((pl.col("stage") == "lost") & (pl.col("at_ns") > lost + SECOND))
    assert gone.height == 2, "the two that were left"
    assert gone["at_ns"].min() - lost == pytest.approx(60 * SECOND, rel=0.05)


TWO = (queue("red", 4), queue("blue", 4))
DISK = Queue("red", (FlavorQuota("", {"ephemeral-storage": 5}),), "all")
LENDS = Queue("red", (FlavorQuota("", {"cpu": 4000}, lend={"cpu": 1000}),), "all")


@pytest.mark.parametrize(
    ("fleet", "actions", "says"),
    [
        (Fleet(TWO, (Cohort("all", "top"),)), "allocate", "a cohort has no `parent` (all: top)"),
        (Fleet((DISK,)), "allocate", "not of ephemeral-storage (red)"),
        (Fleet((LENDS,)), "allocate", "`lend` of red has no counterpart"),
        (Fleet(TWO, preemption=Preemption(LOWER_OR_NEWER)), "allocate", "`within-queue` is never or lower-priority"),
        (Fleet(TWO, preemption=Preemption(NEVER, LOWER)), "allocate", "`reclaim` is never or any"),
        (Fleet(TWO, preemption=Preemption(LOWER, ANY, LOWER)), "allocate", "no `while-borrowing`"),
        (Fleet(TWO, preemption=MIX), "allocate, preempt", "`reclaim: any` needs KAI's action reclaim"),
        (Fleet(TWO), "allocate, backfill", "kai has no action 'backfill'"),
    ],
)
def test_what_kai_cannot_honour_is_refused_by_the_name_of_the_part(fleet: Fleet, actions: str, says: str) -> None:
    asked = kai((to_queue("load", "red"),), group=nodes(1, 4), fleet=fleet, actions=actions)
    refused = stacks.find("kai").refuses(asked)
    assert refused and says in refused
