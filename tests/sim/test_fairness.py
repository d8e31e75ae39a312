"""Priority & Fairness as a library: against what the Go package did, and what must always hold."""

from __future__ import annotations

import json
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.sim.apf_borrowing import SeatBorrowing, allocate
from seatrial.sim.fair_queuing import CONCURRENCY_LIMIT, QUEUE_FULL, QueuedRequest, Seats, Width
from seatrial.sim.flow_schemas import (
    DEFAULT_LEVELS,
    DEFAULT_SCHEMAS,
    NODES,
    Level,
    RequestInfo,
    UserInfo,
    classify,
    deal,
    dealable,
    flow_hash,
    in_order,
    level_of,
    schema_of,
    service_account,
)

MS = 1_000_000
REAL: dict[str, Any] = json.loads((Path(__file__).parent / "fairness-go.json").read_text())


class Run:
    """Requests (at, service, hand, width) through one level, on a clock of its own."""

    def __init__(self, level: Level, limit: int, requests: Sequence[tuple[int, int, tuple[int, ...], Width]]) -> None:
        self.seats = seats = Seats(level, limit)
        self.started: list[int] = [-1] * len(requests)
        self.refused: dict[int, str] = {}
        self.most = self.now = 0
        order = count()
        heap: list[Any] = [(at, next(order), "arrive", i) for i, (at, *_) in enumerate(requests)]
        heap.sort()

        def executes(request: QueuedRequest) -> None:
            self.started[request.arg] = self.now
            heappush(heap, (self.now + requests[request.arg][1], next(order), "finish", request))

        while heap:
            self.now, _, what, arg = heappop(heap)
            if what == "arrive":
                why = seats.arrive(self.now, QueuedRequest(requests[arg][2], requests[arg][3], executes, arg))
                if why:
                    self.refused[arg] = why
            elif what == "finish":
                linger = seats.finish(self.now, arg)
                if linger:
                    heappush(heap, (self.now + linger, next(order), "release", arg))
            else:
                seats.release(self.now, arg)
            self.most = max(self.most, seats.in_use)


@pytest.mark.parametrize("case", REAL["cases"], ids=lambda c: f"{c['queues']}-queues")
def test_it_starts_and_refuses_each_request_when_the_real_server_does(case: dict[str, Any]) -> None:
    level = Level("level", 1, queues=case["queues"], hand=case["hand"], length=case["length"])
    queues, hand = case["queues"], case["hand"]
    requests = [
        (at, service, deal(value, queues, hand) if queues else (), Width(seats, final, linger))
        for at, service, value, seats, final, linger, _ in case["requests"]
    ]
    assert Run(level, case["limit"], requests).started == [started for *_, started in case["requests"]]


@pytest.mark.parametrize(("value", "queues", "hand", "cards"), REAL["deals"])
def test_it_deals_the_hands_that_the_real_server_deals(value: int, queues: int, hand: int, cards: list[int]) -> None:
    assert deal(value, queues, hand) == tuple(cards)


LEVEL = Level("level", 1, queues=8, hand=3, length=5)
_requests = st.lists(
    st.tuples(
        st.integers(0, 60 * MS),
        st.integers(MS // 10, 20 * MS),
        st.sampled_from([deal(flow_hash("schema", user), 8, 3) for user in "abcd"]),
        st.builds(Width, st.integers(1, 4), st.integers(0, 6), st.integers(0, 5 * MS)),
    ),
    max_size=60,
)


@given(_requests, st.integers(1, 8))
def test_every_request_is_executed_or_refused_and_nothing_is_left_over(requests: list[Any], limit: int) -> None:
    run = Run(LEVEL, limit, requests)
    assert all((started >= 0) != (number in run.refused) for number, started in enumerate(run.started))
    assert run.seats.dispatched + run.seats.rejected == len(requests)
    assert (run.seats.executing, run.seats.in_use, run.seats.waiting, run.seats.seats_waiting) == (0, 0, 0, 0)
    assert set(run.refused.values()) <= {QUEUE_FULL}


@given(_requests, st.integers(4, 8))
def test_no_level_executes_more_seats_than_its_limit(requests: list[Any], limit: int) -> None:
    """Requests that fit into the level at all, that is: a wider one runs alone, beside those that linger."""
    narrow = [(at, service, hand, Width(w.seats, min(w.final, limit), w.linger)) for at, service, hand, w in requests]
    assert Run(LEVEL, limit, narrow).most <= limit


def test_equal_flows_get_equal_shares_whatever_they_ask_for() -> None:
    """One flow sends ten times as much as the other; while both wait, they are served in turn."""
    level = Level("level", 1, queues=64, hand=1, length=1000)
    greedy, modest = (3,), (40,)
    requests = [(1, 10 * MS, greedy, Width()) for _ in range(500)] + [(2, 10 * MS, modest, Width()) for _ in range(50)]
    run = Run(level, 4, requests)
    last_modest = max(run.started[500:])
    served_meanwhile = sum(started <= last_modest for started in run.started[:500])
    assert 45 <= served_meanwhile <= 60


def test_a_request_that_waited_too_long_leaves_its_queue() -> None:
    seats = Seats(LEVEL, 1)
    ran: list[str] = []
    first, second, third = (QueuedRequest((0, 1, 2), Width(), lambda r: ran.append(r.arg), tag) for tag in "abc")
    for request in (first, second, third):
        assert seats.arrive(0, request) == ""
    assert seats.cancel(5 * MS, second)
    assert not seats.cancel(5 * MS, first), "it executes already"
    seats.finish(6 * MS, first)
    seats.finish(7 * MS, third)
    assert (ran, seats.waiting, seats.in_use, seats.rejected) == (["a", "c"], 0, 0, 1)


def test_a_level_without_queues_refuses_what_exceeds_its_limit() -> None:
    run = Run(Level("catch-all", 5), 2, [(at, 10 * MS, (), Width()) for at in range(3)])
    assert run.refused == {2: CONCURRENCY_LIMIT}


def test_the_exempt_level_knows_no_limit() -> None:
    run = Run(Level("exempt", 0, exempt=True), 0, [(at, 10 * MS, (), Width()) for at in range(300)])
    assert (run.most, run.refused) == (300, {})


# flows

ORDERED = in_order(DEFAULT_SCHEMAS)
LEASE = RequestInfo("update", "leases", "coordination.k8s.io", "kube-node-lease")
POD = RequestInfo("create", "pods", "", "default")


@pytest.mark.parametrize(
    ("who", "ask", "schema", "level"),
    [
        (UserInfo("admin", ("system:masters", "system:authenticated")), POD, "exempt", "exempt"),
        (UserInfo("system:node:a", (NODES, "system:authenticated")), LEASE, "system-node-high", "node-high"),
        (UserInfo("system:node:a", (NODES, "system:authenticated")), POD, "system-nodes", "system"),
        (UserInfo("system:kube-controller-manager"), LEASE, "system-leader-election", "leader-election"),
        (UserInfo("system:kube-controller-manager"), POD, "kube-controller-manager", "workload-high"),
        (service_account("kube-system", "coredns"), POD, "kube-system-service-accounts", "workload-high"),
        (service_account("kube-systems", "x"), POD, "service-accounts", "workload-low"),
        (UserInfo("seatrial"), POD, "global-default", "global-default"),
        (UserInfo("nobody", ()), POD, "catch-all", "catch-all"),
    ],
)
def test_kubernetes_own_flow_schemas_lead_to_its_levels(
    who: UserInfo, ask: RequestInfo, schema: str, level: str
) -> None:
    found = classify(ORDERED, who, ask)
    assert (found.name, found.level) == (schema, level)


def test_objects_as_kubernetes_writes_them_are_understood() -> None:
    spec = {
        "priorityLevelConfiguration": {"name": "bulk"},
        "matchingPrecedence": 700,
        "distinguisherMethod": {"type": "ByNamespace"},
        "rules": [
            {
                "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "batch"}}],
                "resourceRules": [{"verbs": ["create"], "apiGroups": [""], "resources": ["*"], "namespaces": ["*"]}],
            }
        ],
    }
    schema = schema_of("bulk", spec)
    assert schema.matches(service_account("batch", "a"), POD)
    assert not schema.matches(service_account("batch", "a"), RequestInfo("create", "nodes")), (
        "no clusterScope was given"
    )
    assert not schema.matches(service_account("other", "a"), POD)
    assert schema.distinguisher(UserInfo("x"), POD) == "default"
    assert in_order([*DEFAULT_SCHEMAS, schema])[4].name == "bulk"
    limited = {
        "nominalConcurrencyShares": 7,
        "limitResponse": {"type": "Queue", "queuing": {"queues": 16, "handSize": 4}},
    }
    assert level_of("bulk", {"type": "Limited", "limited": limited}) == Level("bulk", 7, 0, None, 16, 4, 50)
    assert level_of("none", {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}).queues == 0


def test_a_hand_that_a_hash_cannot_deal_is_known() -> None:
    assert dealable(128, 6)
    assert not dealable(1024, 8), "80 bits"
    assert not dealable(4, 5)


# levels share one server


def test_the_default_levels_share_the_default_server() -> None:
    """ceil(600 * shares / 245), as apiserver_flowcontrol_nominal_limit_seats says of a real one."""
    borrowing = SeatBorrowing(DEFAULT_LEVELS, 600)
    nominal = {level.name: borrowing.nominal(level.name) for level in DEFAULT_LEVELS}
    assert nominal == {
        "exempt": 0, "catch-all": 13, "system": 74, "node-high": 98, "leader-election": 25, "workload-high": 98,
        "workload-low": 245, "global-default": 49,
    }  # fmt: skip
    assert borrowing.max_seats("global-default") == 8


def test_a_busy_level_borrows_what_idle_ones_may_lend() -> None:
    borrowing = SeatBorrowing(DEFAULT_LEVELS, 600)
    busy = borrowing.seats["global-default"]
    before = busy.limit
    hand = deal(flow_hash("global-default", "seatrial"), 128, 6)
    for _ in range(300):
        busy.arrive(1, QueuedRequest(hand, Width(), lambda _: None))
    borrowing.adjust(10_000 * MS)
    assert busy.limit > 2 * before
    assert borrowing.seats["leader-election"].limit >= 25, "it lends nothing"
    assert busy.limit <= 49 + 600


_items = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 100), st.floats(0, 200)).map(
        lambda t: (float(t[0]), float(t[0] + t[1]), max(t[2], float(t[0])))
    ),
    min_size=1,
    max_size=8,
)


@given(_items, st.integers(0, 1000))
def test_what_is_shared_out_adds_up_and_keeps_within_the_bounds(items: list[Any], total: int) -> None:
    given_ = allocate(total, items)
    low, high = sum(item[0] for item in items), sum(item[1] for item in items)
    assert all(item[0] - 1e-6 <= one <= item[1] + 1e-6 for one, item in zip(given_, items, strict=True))
    assert sum(given_) == pytest.approx(min(max(total, low), high), abs=1e-5)
    free = sorted((one / max(i[2], 0.001), one) for one, i in zip(given_, items, strict=True) if i[0] < one < i[1])
    assert all(a[0] == pytest.approx(b[0]) for a, b in pairwise(free)), "one proportion for all that are not bounded"
