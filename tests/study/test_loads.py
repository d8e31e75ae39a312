"""What is said of a load before it begins."""

from __future__ import annotations

import dataclasses

import pytest

from seatrial.model.errors import SetupProblem
from seatrial.model.plan import Delay, FlowObject, Setup, Target, Trial
from seatrial.scenario.actions.send_requests import Requests
from seatrial.study import eligibility
from seatrial.study.eligibility import check

SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s-${i}"}}
CREATE = Requests("mass", "create", (SECRET,), 200_000)
PLAIN = Trial(1, "s", "local", Setup("a", "default", ()), {}, 1, 1, ((CREATE,),))


def test_more_objects_than_memory_are_warned_about_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eligibility, "free_bytes", lambda: 2_000_000_000)
    [warning] = eligibility.memory_findings(PLAIN)
    assert warning.startswith("200,000 objects need about 5.0 GB of memory, and 2.0 GB are free")
    monkeypatch.setattr(eligibility, "free_bytes", lambda: 20_000_000_000)
    assert not eligibility.memory_findings(PLAIN)
    assert not eligibility.memory_findings(dataclasses.replace(PLAIN, on="kubeconfig"))


@pytest.mark.parametrize(
    ("setup", "why"),
    [
        (Setup("a", "default", (), delay=Delay(1)), "it brings a delay"),
        (Setup("a", "default", (), flow_schemas=(FlowObject("f", {}),)), "it brings flow schemas"),
    ],
)
def test_a_cluster_of_others_is_measured_as_it_is(setup: Setup, why: str) -> None:
    with pytest.raises(SetupProblem, match=why):
        check([dataclasses.replace(PLAIN, on="kubeconfig", setup=setup, target=Target(context="c"))])


def test_on_a_cluster_of_others_only_what_was_created_is_changed() -> None:
    theirs = Requests("away", "delete", ({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}},), 1)
    with pytest.raises(SetupProblem, match="its phase away may change objects of others"):
        check([dataclasses.replace(PLAIN, on="kubeconfig", steps=((CREATE,), (theirs,)))])
    ours = dataclasses.replace(theirs, of="mass", made=200_000)
    assert check([dataclasses.replace(PLAIN, on="kubeconfig", steps=((CREATE,), (ours,)))]).trials
