"""Request phases: what they become, and what is wrong with them, with the place."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

import pytest

from seatrial.model.errors import ScenarioProblem
from seatrial.model.plan import Delay, FlowObject, Trial
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.send_requests import Requester, Requests
from seatrial.scenario.actions.wait import WaitForObjects
from seatrial.scenario.document import from_text
from seatrial.scenario.expansion import expand
from tests.scenario.support import SMALL, STACKS

SECRET = '{apiVersion: v1, kind: Secret, metadata: {name: "s-${i}"}}'
APP = '{apiVersion: apps/v1, kind: Deployment, metadata: {name: "d-${i}"}, spec: {replicas: 3}}'


def trial_of(steps: str, before: str = "namespaces: 10\n") -> Trial:
    text = SMALL[: SMALL.index("steps:")] + before + "steps:\n" + steps
    return expand(from_text(text, "s.yaml"), on="local", stacks=STACKS)[0]


def only(steps: str, before: str = "namespaces: 10\n") -> Any:
    return trial_of(steps, before).steps[-1][-1]


def mistakes(steps: str, before: str = "namespaces: 10\n") -> list[str]:
    with pytest.raises(ScenarioProblem) as caught:
        trial_of(steps, before)
    return [str(mistake) for mistake in caught.value.mistakes]


def test_a_create_phase_with_everything() -> None:
    phase = only(
        f"  - create: {{name: a, each: 5, namespaces: 4, workers: 7, for: 1m, payload: 2k, retry: false, objects: {SECRET},"
        " as: {user: u, groups: [g], user-agent: x}}\n"
    )
    assert phase == Requests(
        "a", "create", ({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s-${i}"}},), 20, 4, 5, 7, 0.0,
        60_000_000_000, Requester("u", "u", ("g",), "x"), False, 2000,
    )  # fmt: skip


def test_what_names_a_create_phase_asks_for_its_objects_once_each() -> None:
    made = f"  - create: {{name: a, each: 5, objects: [{SECRET}, {APP}]}}\n"
    phase = only(made + "  - delete: {of: a, kinds: Deployment, workers: 2, as: {service-account: sa}}\n")
    assert (phase.verb, phase.count, phase.made, phase.each, phase.of) == ("delete", 50, 50, 5, "a")
    assert [manifest["kind"] for manifest in phase.objects] == ["Deployment"]
    assert phase.identity == Requester("sa", user_agent="seatrial-load", service_account="sa")
    assert only(made + "  - get: {of: a, count: 500, rate: 9/s}\n").count == 500
    assert only(made + "  - get: {of: a, for: 9s}\n").count is None
    listing = only(made + "  - list: {of: a, from: cache, limit: 7}\n")
    assert (listing.count, listing.namespaces, listing.cached, listing.limit) == (10, 10, True, 7)
    across = only(made + "  - list: {of: a, across: true}\n")
    assert (across.count, across.namespaces) == (1, 0)
    assert only(made + "  - delete-collection: {of: a}\n").verb == "deletecollection"


def test_waits_for_what_was_created_know_how_many_there_will_be() -> None:
    made = f"  - create: {{name: a, count: 6, objects: [{SECRET}, {APP}]}}\n"
    assert only(made + "  - wait: {for: pods-running}\n") == WaitForObjects("wait-2", "pods-running", ("a",), 18)
    assert only(made + "  - wait: {for: available, of: a}\n").count == 6
    assert only(made + "  - wait: {for: gone, kinds: Secret, timeout: 1m, otherwise: go-on}\n") == WaitForObjects(
        "wait-2", "gone", ("a",), 0, ("Secret",), 60_000_000_000, True
    )


def test_deleting_workloads_is_what_it_was() -> None:
    assert isinstance(only("  - submit: {name: s, count: 1, duration: 1s}\n  - delete: {of: s}\n"), DeleteWorkloads)


def test_a_set_up_brings_flow_objects_and_a_delay() -> None:
    setups = (
        "setups:\n  a:\n    stack: default\n    delay: {for: 1s, of: m, webhook: mutating}\n"
        "    priority-levels: [{name: l, type: Limited}]\n    flow-schemas: [{name: f, matchingPrecedence: 5}]\n"
    )
    text = SMALL[: SMALL.index("stacks:")] + setups + f"steps:\n  - create: {{name: m, count: 1, objects: {SECRET}}}\n"
    [trial] = expand(from_text(text, "s.yaml"), on="local", stacks=STACKS)
    assert trial.setup.priority_levels == (FlowObject("l", {"type": "Limited"}),)
    assert trial.setup.flow_schemas == (FlowObject("f", {"matchingPrecedence": 5}),)
    assert trial.setup.delay == Delay(1_000_000_000, ("m",), "mutating")


WRONG = {
    "masters": (f"  - create: {{count: 1, objects: {SECRET}, as: {{user: u, groups: [system:masters]}}}}", "a load never runs as system:masters"),
    "groups of nobody": (f"  - create: {{count: 1, objects: {SECRET}, as: {{groups: [g]}}}}", "'groups' goes with 'user'"),
    "nothing asked for": ("  - get: {}", "get needs 'of' or 'objects'"),
    "no count": (f"  - create: {{objects: {SECRET}}}", "create needs 'count' or 'each' or 'for'"),
    "no kind": ("  - create: {count: 1, objects: {apiVersion: v1, metadata: {name: a}}}", "a manifest without kind"),
    "no name": ("  - create: {count: 1, objects: {apiVersion: v1, kind: Secret}}", "an object without metadata.name"),
    "one name for many": ("  - create: {each: 2, objects: {apiVersion: v1, kind: Secret, metadata: {name: a}}}", "all objects of a namespace would be called 'a'"),
    "a namespace of its own": ("  - create: {count: 1, objects: {apiVersion: v1, kind: Secret, metadata: {name: a, namespace: b}}}", "a manifest cannot name its namespace"),
    "too many namespaces": (f"  - create: {{each: 1, namespaces: 11, objects: {SECRET}}}", "11 namespaces, and the scenario makes 10"),
    "two paces": (f"  - create: {{count: 1, workers: 2, rate: 1/s, objects: {SECRET}}}", "'rate' and 'workers' contradict each other"),
    "a key of another action": (f"  - create: {{count: 1, limit: 2, objects: {SECRET}}}", "'limit' cannot be combined with create"),
    "a watch without an end": (f"  - watch: {{objects: {SECRET}}}", "watch needs 'for'"),
    "a patch of nothing": (f"  - patch: {{objects: {SECRET}}}", "patch needs 'change'"),
    "an unknown phase": (f"  - create: {{name: a, count: 1, objects: {SECRET}}}\n  - get: {{of: b}}", "unknown submit or create phase 'b'"),
    "a later phase": (f"  - get: {{of: a}}\n  - create: {{name: a, count: 1, objects: {SECRET}}}", "'a' creates nothing before this"),
    "a kind it does not make": (f"  - create: {{name: a, count: 1, objects: {SECRET}}}\n  - get: {{of: a, kinds: Pod}}", "'a' makes no Pod"),
    "stages of objects": (f"  - create: {{name: a, count: 1, objects: {SECRET}}}\n  - wait: {{for: completed, of: a}}", "'a' creates objects, which have no stages"),
    "pods of Secrets": (f"  - create: {{name: a, count: 1, objects: {SECRET}}}\n  - wait: {{for: pods-running}}", "there will be no pods to wait for"),
    "nothing created": ("  - wait: {for: gone}", "nothing is created before this wait"),
    "a payload of nothing": (f"  - create: {{count: 1, payload: 0, objects: {SECRET}}}", "'0' is not the size of a payload"),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "expected"), WRONG.values(), ids=WRONG)
def test_a_wrong_request_is_said_with_its_place(steps: str, expected: str) -> None:
    found = mistakes(steps + "\n")
    assert any(expected in line for line in found), found
    assert all(line.startswith("s.yaml:") for line in found)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("settings: {kube-apiserver: {max-requests-inflight: 0}}\n", "'0' is not a number of 1 or more"),
        ("settings: {kube-apiserver: {fairness: maybe}}\n", "kube-apiserver has no fairness 'maybe'"),
        ("params: {i: 3}\n", "${i} has its own meaning in manifests"),
        ("namespaces: 0\n", "0 is less than 1"),
    ],
)
def test_a_wrong_setting_of_the_server_is_said(before: str, expected: str) -> None:
    assert any(expected in line for line in mistakes(f"  - create: {{count: 1, objects: {SECRET}}}\n", before))


def test_a_delay_that_no_server_waits_for_is_refused() -> None:
    text = SMALL[: SMALL.index("stacks:")] + "setups: {a: {stack: default, delay: 31s}}\n"
    text += f"steps:\n  - create: {{count: 1, objects: {SECRET}}}\n"
    with pytest.raises(ScenarioProblem, match="waits 30 s for a webhook at most"):
        expand(from_text(text, "s.yaml"), on="local", stacks=STACKS)
