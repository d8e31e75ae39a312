"""Diagnoses where queues have quotas: whose is used up, and who borrows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from seatrial.clog import diagnose, unfinished
from seatrial.clog.queue_quotas import QueueQuotas
from seatrial.model.fleet import Cohort, FlavorQuota, Fleet, Queue
from seatrial.model.state import State, WorkloadState
from tests.clog.making import CORE, cores, gang, state

QUIET = 60 * 10**9


def queue(name: str, cpu: int, cohort: str = "fleet", **limits: dict[str, int]) -> Queue:
    return Queue(name, (FlavorQuota("", {"cpu": cpu * CORE}, **limits),), cohort)


def of(team: str, number: int, size: int, **more: Any) -> WorkloadState:
    return replace(gang(number, size, **more), queue=team, name=f"{team}-{number}")


def shared(workloads: list[WorkloadState], *queues: Queue, nodes: int = 20) -> State:
    return replace(state(cores(nodes), workloads, queued=True), fleet=Fleet(queues))


def test_a_timeout_says_whose_quota_is_used_up_and_who_borrows_it() -> None:
    runs = of("red", 0, 10, nodes=range(10), running=10)
    waits = of("blue", 1, 2, admitted=False, waiting=0)
    found = unfinished(shared([runs, waits], queue("red", 10), queue("blue", 10)), QUIET)
    assert found.kind == "still running"
    assert "it waits for the quota of queue blue: it requests cpu 4, cpu 0 of cpu 10 is used" in found.summary
    assert "and cpu 20 of cpu 20 in its cohort; red borrows cpu 10" in found.summary


def test_a_clog_says_who_holds_the_quota_and_cannot_finish() -> None:
    holds = of("red", 0, 10, nodes=range(8))
    waits = of("blue", 1, 2, admitted=False, waiting=0)
    found = diagnose(shared([holds, waits], queue("red", 10), queue("blue", 10), nodes=12), QUIET)
    assert found.kind == "quota exhausted"
    assert (
        "blue-1 waits for the quota of queue blue" in found.summary
        and "red-0 holds quota and cannot finish" in found.summary
    )
    assert found.workloads == ("red-0",) and found.waiters == ("blue-1",)


def test_a_queue_with_quota_left_that_does_not_admit_is_not_acting() -> None:
    holds = of("red", 0, 5, nodes=range(5), running=5)
    waits = of("blue", 1, 2, admitted=False, waiting=0)
    found = diagnose(shared([holds, waits], queue("red", 10, ""), queue("blue", 10, "")), QUIET)
    assert found.kind == "not acting" and "blue-1" in found.workloads


def test_a_workload_larger_than_its_queue_may_borrow_never_fits() -> None:
    large = of("red", 0, 10, admitted=False, waiting=0)
    limited = shared([large], queue("red", 10, borrow={"cpu": 4 * CORE}), queue("blue", 10))
    found = diagnose(limited, QUIET)
    assert found.kind == "never fits"
    assert (
        "requests cpu 20 in all and queue red admits at most cpu 14: its quota of cpu 10 and what it may borrow"
        in found.summary
    )
    free = diagnose(shared([large], queue("red", 10), queue("blue", 10)), QUIET)
    assert free.kind == "not acting", free.summary


def test_where_queues_admit_a_resource_without_quota_never_fits_and_a_scheduler_does_not_limit_it() -> None:
    waits = of("red", 0, 1, admitted=False, waiting=0)
    memory = Queue("red", (FlavorQuota("", {"memory": 2**30}),), "")
    found = diagnose(shared([waits], memory), QUIET)
    assert found.kind == "never fits"
    assert "it requests cpu 2 and queue red has no quota of cpu: add cpu to its quota" in found.summary
    pods = replace(waits, admitted=True, waiting=1)
    assert diagnose(of_scheduler([pods], memory), QUIET).kind == "not acting"


def test_the_head_of_one_queue_does_not_block_another() -> None:
    runs = of("red", 0, 5, nodes=range(5), running=5)
    head, other = of("red", 1, 2, admitted=False, waiting=0), of("blue", 2, 1, admitted=False, waiting=0)
    alone = [queue("red", 10, ""), queue("blue", 10, "")]
    assert diagnose(shared([runs, head, other], *alone), QUIET).kind == "not acting"
    behind = replace(of("red", 3, 1, admitted=False, waiting=0))
    wide = [queue("red", 13, ""), queue("blue", 10, "")]
    assert diagnose(shared([runs, head, behind], *wide), QUIET).kind == "head of line"


Cores = st.integers(0, 20)


@given(
    st.lists(st.tuples(Cores, Cores, st.one_of(st.none(), Cores), st.one_of(st.none(), Cores)), min_size=1, max_size=4),
    Cores,
)
def test_what_is_left_is_within_the_rules(rows: list[tuple[int, int, int | None, int | None]], extra: int) -> None:
    """Never beyond the queue's own limit, never beyond what the cohort has, never what others keep for themselves."""
    queues = []
    for number, (quota, _, borrow, lend) in enumerate(rows):
        limits = {name: {"cpu": amount} for name, amount in (("borrow", borrow), ("lend", lend)) if amount is not None}
        queues.append(Queue(f"q{number}", (FlavorQuota("", {"cpu": quota}, **limits),), "fleet"))
    cohort = Cohort("fleet", quotas=(FlavorQuota("", {"cpu": extra}),))
    quotas = QueueQuotas(
        Fleet(tuple(queues), (cohort,)), [(f"q{n}", {"cpu": used}) for n, (_, used, _, _) in enumerate(rows)]
    )
    for number, (quota, used, borrow, _) in enumerate(rows):
        left = quotas.left(f"q{number}")["cpu"]
        assert 0 <= left <= quotas.most(f"q{number}")["cpu"]
        assert borrow is None or left <= max(quota + borrow - used, 0)
        assert left <= max(sum(q for q, _, _, _ in rows) + extra - sum(u for _, u, _, _ in rows), 0)
        assert not quotas.lacking(f"q{number}", {"cpu": left}) and quotas.lacking(f"q{number}", {"cpu": left + 1}) == [
            "cpu"
        ]


def of_scheduler(workloads: list[WorkloadState], *queues: Queue, nodes: int = 20) -> State:
    """Queues of a scheduler: nothing is admitted, pods count once they have a node."""
    return replace(shared(workloads, *queues, nodes=nodes), queued=False, counts_bound=True)


def test_a_scheduler_does_not_place_what_its_queue_may_never_have() -> None:
    large = of("red", 0, 10, waiting=10)
    found = diagnose(of_scheduler([large], queue("red", 10, ""), queue("blue", 30, "")), QUIET)
    assert found.kind == "never fits"
    assert "requests cpu 20 in all and queue red admits at most cpu 10" in found.summary
    wide = replace(large, gang=False)
    other = diagnose(of_scheduler([wide], queue("red", 10, ""), queue("blue", 30, "")), QUIET)
    assert other.kind == "not acting", "its pods are placed one by one"


def test_a_timeout_says_that_the_schedulers_queue_is_used_up_by_pods_that_have_nodes() -> None:
    runs, waits = of("red", 0, 5, nodes=range(5), running=5), of("red", 1, 1, waiting=1)
    found = unfinished(of_scheduler([runs, waits], queue("red", 10, ""), queue("blue", 30, "")), QUIET)
    assert "waits for the quota of queue red: it requests cpu 2, cpu 10 of cpu 10 is used" in found.summary
    assert found.kind == "still running"
