"""The parts of being a guest that need no cluster to be shown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.clusters.attached.attached_cluster import refuse_foreign_holder
from seatrial.clusters.attached.preflight import foreign_kwok
from seatrial.kube.kubeconfig import read_kubeconfig
from seatrial.kube.resources import DEPLOYMENTS
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import PodShape, Workload
from seatrial.model.selectors import Term, parse_selector
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.stacks.job_objects import job

SELECTORS = {
    "pool=batch": [Term("pool", "In", ("batch",))],
    "pool==batch , !spot": [Term("pool", "In", ("batch",)), Term("spot", "DoesNotExist")],
    "a.b/pool!=x": [Term("a.b/pool", "NotIn", ("x",))],
    "pool in (a, b),zone notin (c)": [Term("pool", "In", ("a", "b")), Term("zone", "NotIn", ("c",))],
    "gpu": [Term("gpu", "Exists")],
    "empty=": [Term("empty", "In", ("",))],
}


@pytest.mark.parametrize(("text", "terms"), SELECTORS.items(), ids=SELECTORS.keys())
def test_a_selector_means_what_kubernetes_means(text: str, terms: list[Term]) -> None:
    assert list(parse_selector(text)) == terms


@pytest.mark.parametrize(
    "text", ["", " ", ",", "a=b,", "a b", "pool in ()", "pool in (a,)", "-a=b", "a=b=c", "a=(b)", "!"]
)
def test_what_is_no_selector_says_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="; write "):
        parse_selector(text)


@given(st.text())
def test_any_text_is_a_selector_or_a_value_error(text: str) -> None:
    try:
        assert parse_selector(text)
    except ValueError as error:
        assert "write" in str(error)


def test_real_containers_sleep_as_long_as_the_workload_runs_and_have_no_tight_limits() -> None:
    shape = PodShape(
        {"cpu": 5, "nvidia.com/gpu": 1}, terms=(Term("pool", "In", ("a",)), Term("x", "Exists")), image="box"
    )
    spec = job(Workload("w", "p", 0, 1, shape, 1500 * MILLISECOND), {})["spec"]["template"]["spec"]
    container = spec["containers"][0]
    assert (container["image"], container["command"]) == ("box", ["sleep", "1.5"])
    assert container["resources"] == {
        "requests": {"cpu": "5m", "nvidia.com/gpu": "1"},
        "limits": {"nvidia.com/gpu": "1"},
    }
    [term] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "pool", "operator": "In", "values": ["a"]}, {"key": "x", "operator": "Exists"}
    ]  # fmt: skip
    fake = job(Workload("w", "p", 0, 1, PodShape({"cpu": 5}), SECOND), {})["spec"]["template"]["spec"]
    assert "command" not in fake["containers"][0] and "affinity" not in fake


def test_one_context_of_a_kubeconfig_stands_alone_wherever_it_is_put(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        "clusters: [{name: a, cluster: {server: 'https://a', certificate-authority: ca.crt}}, {name: b, cluster: {server: b}}]\n"
        "users:\n- name: me\n  user: {token: 0123, exec: {command: ./plugin, args: [x], provideClusterInfo: true}}\n"
        "contexts: [{name: one, context: {cluster: a, user: me, namespace: n}}, {name: two, context: {cluster: b, user: me}}]\n"
    )
    alone = read_kubeconfig(tmp_path / "config").alone("one")
    assert alone["clusters"] == [
        {"name": "a", "cluster": {"server": "https://a", "certificate-authority": str(tmp_path / "ca.crt")}}
    ]
    user = alone["users"][0]["user"]
    assert user["token"] == "0123", "a token of digits is no number"
    assert user["exec"] == {"command": str(tmp_path / "plugin"), "args": ["x"], "provideClusterInfo": True}
    assert alone["contexts"] == [{"name": "one", "context": {"cluster": "a", "user": "me", "namespace": "n"}}]


class _Answers:
    """A client that has one deployment, and the configuration beside it."""

    def __init__(self, args: list[str], config: str) -> None:
        self._spec = {"template": {"spec": {"containers": [{"args": args}]}}}
        self._config = config

    async def find(self, resource: Any, _name: str, _namespace: str, *, shape: Any) -> Any:
        import msgspec

        body = {"spec": self._spec} if resource == DEPLOYMENTS else {"data": {"kwok.yaml": self._config}}
        return msgspec.convert(body, shape)


KWOKS = {
    "as shipped": (
        [],
        "options: {manageAllNodes: false, manageNodesWithAnnotationSelector: kwok.x-k8s.io/node=fake}",
        False,
    ),
    "all nodes by flag": (["--manage-all-nodes=true"], "", True),
    "all nodes by file": ([], "options: {manageAllNodes: true}", True),
    "one node": (["--manage-single-node=x"], "", False),
    "nobody knows": ([], "", True),
    "no yaml": ([], "{", True),
}


@pytest.mark.parametrize(("args", "config", "ours_too"), KWOKS.values(), ids=KWOKS.keys())
def test_a_foreign_kwok_is_a_danger_if_it_takes_our_nodes_too(args: list[str], config: str, ours_too: bool) -> None:
    client: Any = _Answers(args, config)
    found = asyncio.run(foreign_kwok(client))
    assert found is not None and found.ours_too is ours_too


def test_leases_of_our_nodes_that_another_holds_end_the_trial() -> None:
    refuse_foreign_holder("", {"host_2"})
    refuse_foreign_holder("host_1", {"host_1"})
    with pytest.raises(SetupProblem, match="another KWOK \\(host_2\\) took our nodes"):
        refuse_foreign_holder("host_1", {"host_1", "host_2"})
