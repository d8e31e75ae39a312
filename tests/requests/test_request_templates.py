"""What goes over the wire is what the scenario says, for any manifest."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from seatrial.clusters.requests.request_templates import filling, template_of
from seatrial.kube.resources import CONFIGMAPS, DEPLOYMENTS, NAMESPACES
from seatrial.model.labels import PHASE_LABEL, STUDY_LABEL
from seatrial.scenario.actions.send_requests import Requests

LABELS = {STUDY_LABEL: "s"}
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)


def sent(phase: Requests, manifest: dict[str, Any], resource: Any = CONFIGMAPS) -> tuple[str, Any]:
    request = template_of(phase, manifest, resource, LABELS).request(7, "ns-3", 1.0)
    assert (request.verb, request.resource) == (phase.verb, resource.plural)
    return str(request), json.loads(request.body) if request.body else None


@given(st.dictionaries(st.sampled_from(["data", "spec", "binaryData"]), values))
def test_any_manifest_arrives_as_written_with_our_labels(more: dict[str, Any]) -> None:
    texts = json.dumps(more)
    if "${" in texts:
        return
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c-${i}", "labels": {"a": "b"}}, **more}
    first, body = sent(Requests("load", "create", (manifest,), 10), manifest)
    assert first == "POST /api/v1/namespaces/ns-3/configmaps"
    assert body.pop("metadata") == {"name": "c-7", "labels": {"a": "b", STUDY_LABEL: "s", PHASE_LABEL: "load"}}
    template = (body.get("spec") or {}).get("template") if isinstance(body.get("spec"), dict) else None
    if isinstance(template, dict):
        template.get("metadata", {}).pop("labels", None)
        return  # our labels stand there too, whatever else it was
    assert body == {"apiVersion": "v1", "kind": "ConfigMap", **more}


@given(st.integers(1, 5000))
def test_a_payload_has_the_length_that_was_asked_for(length: int) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c-${i}"}, "data": {"k": "${payload}%s"}}
    _, body = sent(Requests("load", "create", (manifest,), 1, payload=length), manifest)
    assert body["data"]["k"] == filling(length).decode() + "%s"
    assert len(filling(length)) == length


def test_pods_of_what_is_created_carry_our_labels() -> None:
    manifest = {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d-${i}"},
        "spec": {"template": {"metadata": {"labels": {"app": "d-${i}"}}, "spec": {"where": "${namespace}"}}},
    }  # fmt: skip
    _, body = sent(Requests("apps", "create", (manifest,), 10), manifest, DEPLOYMENTS)
    template = body["spec"]["template"]
    assert template["metadata"]["labels"] == {"app": "d-7", STUDY_LABEL: "s", PHASE_LABEL: "apps"}
    assert template["spec"] == {"where": "ns-3"}


def test_every_verb_has_its_request_line() -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c-${i}"}}
    ours = f"labelSelector={STUDY_LABEL.replace('/', '%2F')}%3Ds%2C{PHASE_LABEL.replace('/', '%2F')}%3Dmade"
    lines = {
        verb: sent(Requests("p", verb, (manifest,), 1, of="made", limit=5, cached=True, change={"data": {}}), manifest)[
            0
        ]
        for verb in ("get", "update", "patch", "delete", "list", "watch", "deletecollection")
    }
    one, all_of = "/api/v1/namespaces/ns-3/configmaps/c-7", "/api/v1/namespaces/ns-3/configmaps?"
    assert lines == {
        "get": f"GET {one}", "update": f"PUT {one}", "patch": f"PATCH {one}", "delete": f"DELETE {one}",
        "list": f"GET {all_of}{ours}&resourceVersion=0&limit=5",
        "watch": f"GET {all_of}{ours}&watch=true",
        "deletecollection": f"DELETE {all_of}{ours}",
    }  # fmt: skip


def test_what_has_no_namespace_and_what_asks_across_all_names_none() -> None:
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n-${i}"}}
    assert sent(Requests("p", "get", (manifest,), 1), manifest, NAMESPACES)[0] == "GET /api/v1/namespaces/n-7"
    across = Requests("p", "list", (manifest,), 1, namespaces=0)
    assert sent(across, manifest, CONFIGMAPS)[0] == "GET /api/v1/configmaps"


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 6))
def test_items_are_spread_as_the_scenario_says(count: int, namespaces: int, each: int) -> None:
    """With `each` every namespace gets so many, else they take turns; no two objects of a namespace have one name."""
    total = each * namespaces if each else count
    phase = Requests("p", "create", ({},), total, namespaces, each)
    places = [phase.place(item) for item in range(total)]
    assert len(set(places)) == total
    per = [sum(1 for _, where in places if where == space) for space in range(namespaces)]
    assert per == [each] * namespaces if each else max(per) - min(per) <= 1
    again = Requests("q", "delete", ({},), 2 * total, namespaces, each, made=total)
    assert [again.place(item) for item in range(2 * total)] == places * 2
