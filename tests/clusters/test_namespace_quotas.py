"""A queue as a namespace with a ResourceQuota."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.clusters.live.watches import refusal
from seatrial.model.fleet import FlavorQuota, Fleet, Queue
from seatrial.model.plan import Setup
from seatrial.stacks import find
from seatrial.stacks.namespace_quotas import namespace_of, objects

NAMES = st.text(string.ascii_letters + string.digits + "-._", min_size=1, max_size=80)


def test_a_queue_is_a_namespace_beside_that_of_the_trial() -> None:
    assert namespace_of("red", "seatrial-1a2b3c4d") == "seatrial-1a2b3c4d-red"


@given(one=NAMES, other=NAMES)
def test_every_queue_gets_a_namespace_of_its_own_that_kubernetes_takes(one: str, other: str) -> None:
    places = [namespace_of(name, "seatrial-1a2b3c4d") for name in (one, other)]
    assert (places[0] == places[1]) == (one == other)
    for place in places:
        assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", place)
        assert len(place) <= 63
        assert not re.fullmatch(r"seatrial-1a2b3c4d-\d+", place), "those are the namespaces of a load"


def test_the_quota_limits_requests_and_pods_that_are_silent_about_them_request_nothing() -> None:
    queue = Queue("red", (FlavorQuota("", {"cpu": 4000, "nvidia.com/gpu": 2}),))
    silent, quota = objects(queue, {"study": "x"}, "seatrial-x-red")
    assert quota.body["spec"] == {"hard": {"requests.cpu": "4", "requests.nvidia.com/gpu": "2"}}
    assert silent.body["spec"] == {"limits": [{"type": "Container", "defaultRequest": {"cpu": "0"}}]}
    assert {made.namespace for made in (silent, quota)} == {"seatrial-x-red"}
    assert all(made.body["metadata"]["labels"] == {"study": "x"} for made in (silent, quota)), "cleanup goes by them"


@pytest.mark.parametrize(("stack", "kinds"), [("default", 2), ("coscheduling", 2), ("gang", 2), ("kueue", 0)])
def test_permissions_for_quotas_are_asked_only_where_a_queue_is_a_namespace(stack: str, kinds: int) -> None:
    real = find(stack).real
    shared = Setup("a", stack, (), settings={}, fleet=Fleet((Queue("red", (FlavorQuota("", {"cpu": 1}),)),)))
    asked = {permission.resource.plural for permission in real.permissions(shared)}
    assert len(asked & {"resourcequotas", "limitranges"}) == kinds
    alone = {permission.resource.plural for permission in real.permissions(Setup("a", stack, (), settings={}))}
    assert not alone & {"resourcequotas", "limitranges"}


REFUSED = (
    'Error creating: pods "work-3-x7abc" is forbidden: exceeded quota: queue, requested: requests.cpu=1, '
    "used: requests.cpu=4, limited: requests.cpu=4"
)


def test_a_workload_over_its_queues_quota_waits_for_it() -> None:
    waits = "waits for the quota of queue red: requested: requests.cpu=1, used: requests.cpu=4, limited: requests.cpu=4"
    assert refusal(REFUSED, "red") == waits


def test_what_else_keeps_pods_from_being_created_is_quoted() -> None:
    webhook = 'Error creating: pods "work-3-x7abc" is forbidden: no'
    assert refusal(webhook, "red") == "FailedCreate: Error creating: pods is forbidden: no"
    assert refusal(REFUSED, "").startswith("FailedCreate: "), "a quota of somebody else's"
