"""Set-ups that cannot run where they are asked to: left out with a line, and no failure unless nothing is left."""

from __future__ import annotations

import dataclasses

import pytest

from seatrial.model.errors import SetupProblem
from seatrial.model.plan import NodeGroup, Target, Trial
from seatrial.study.eligibility import check
from tests.sim.making import fakes, submit, to_the_end, trial


def _on(asked: Trial, on: str, name: str = "other") -> Trial:
    return dataclasses.replace(asked, on=on, setup=dataclasses.replace(asked.setup, name=name))


KUBELETS = trial(*to_the_end(submit(1)), nodes=[NodeGroup("w", 1, {"cpu": 1, "memory": 1}, kubelet=True)])
GANG = trial(*to_the_end(submit(1, pods=2, gang=True)), nodes=[fakes(1)])
PLAIN = trial(*to_the_end(submit(1)), nodes=[fakes(1)])
QUEUED = trial(*to_the_end(submit(1)), nodes=[fakes(1)], stack="mcad", settings={"mcad": {"version": "1.32"}})


@pytest.mark.parametrize(("asked", "word"), [(KUBELETS, "kubelets"), (QUEUED, "1.32")])
def test_what_local_cannot_do_is_left_out_with_a_line(asked: Trial, word: str) -> None:
    checked = check([_on(PLAIN, "local", "plain"), _on(asked, "local")])
    assert [kept.setup.name for kept in checked.trials] == ["plain"]
    [line] = checked.skipped
    assert line.startswith("set-up 'other' is left out: ")
    assert word in line


@pytest.mark.parametrize("asked", [KUBELETS, GANG, PLAIN, QUEUED])
def test_the_simulator_can_do_all_of_it(asked: Trial) -> None:
    assert check([asked]).trials == [asked]


def test_nobody_plays_the_application_on_nodes_of_others() -> None:
    gang = trial(*to_the_end(submit(1, pods=2, gang=True)), nodes=[NodeGroup("theirs", 1, {}, existing="a=b")])
    with pytest.raises(SetupProblem, match="application"):
        check([_on(gang, "kubeconfig")])


def test_a_kept_cluster_runs_plain_kubernetes() -> None:
    asked = dataclasses.replace(_on(QUEUED, "local"), target=Target(cluster="mine"))
    with pytest.raises(SetupProblem):
        check([asked])


def test_nothing_left_is_an_error() -> None:
    with pytest.raises(SetupProblem, match="kubelets"):
        check([_on(KUBELETS, "local")])


def test_what_a_stack_cannot_do_is_said_with_the_stacks_that_can() -> None:
    declaring = trial(*to_the_end(submit(1, declares={"cpu": 5})), nodes=[fakes(1)])
    with pytest.raises(SetupProblem, match="nothing can be declared; stacks that can: mcad"):
        check([declaring])
