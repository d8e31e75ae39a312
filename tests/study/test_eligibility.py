"""Set-ups that cannot run where they are asked to: left out with a line, and no failure unless nothing is left."""

from __future__ import annotations

import dataclasses

import pytest

from seatrial.model.errors import SetupProblem
from seatrial.model.plan import NodeGroup, Target, Trial
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.study.eligibility import check
from tests.sim.making import fakes, submit, to_the_end, trial


def _on(asked: Trial, on: str, name: str = "other") -> Trial:
    return dataclasses.replace(asked, on=on, setup=dataclasses.replace(asked.setup, name=name))


HALF_A_CORE = trial(*to_the_end(submit(1)), nodes=[NodeGroup("w", 1, {"cpu": 500, "memory": 1}, kubelet=True)])
REAL = trial(
    *to_the_end(submit(1)), nodes=[NodeGroup("w", 1, {"cpu": 1000, "memory": 1}, kubelet=True, containers=True)]
)
PLAYED = trial(*to_the_end(submit(1)), nodes=[NodeGroup("w", 1, {"cpu": 1000, "memory": 1}, kubelet=True)])
GANG = trial(*to_the_end(submit(1, pods=2, gang=True)), nodes=[fakes(1)])
PLAIN = trial(*to_the_end(submit(1)), nodes=[fakes(1)])
QUEUED = trial(*to_the_end(submit(1)), nodes=[fakes(1)], stack="mcad", settings={"mcad": {"version": "1.32"}})


@pytest.mark.parametrize(("asked", "word"), [(HALF_A_CORE, "whole ones"), (QUEUED, "1.32")])
def test_what_local_cannot_do_is_left_out_with_a_line(asked: Trial, word: str) -> None:
    checked = check([_on(PLAIN, "local", "plain"), _on(asked, "local")])
    assert [kept.setup.name for kept in checked.trials] == ["plain"]
    [line] = checked.skipped
    assert line.startswith("set-up 'other' is left out: ")
    assert word in line


@pytest.mark.parametrize("asked", [REAL, HALF_A_CORE, GANG, PLAIN, QUEUED])
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
        check([_on(HALF_A_CORE, "local")])


def test_what_a_stack_cannot_do_is_said_with_the_stacks_that_can() -> None:
    declaring = trial(*to_the_end(submit(1, declares={"cpu": 5})), nodes=[fakes(1)])
    with pytest.raises(SetupProblem, match="nothing can be declared; stacks that can: mcad"):
        check([declaring])


def test_kubelets_with_played_containers_run_on_local_but_not_on_a_kept_cluster_nor_with_half_a_core() -> None:
    assert check([_on(PLAYED, "local")]).trials
    half = dataclasses.replace(
        PLAYED, setup=dataclasses.replace(PLAYED.setup, nodes=(NodeGroup("w", 1, {"cpu": 1500}, kubelet=True),))
    )
    for asked, word in (
        (dataclasses.replace(_on(PLAYED, "local"), target=Target(cluster="mine")), "omit --cluster"),
        (_on(half, "local"), "whole ones"),
        (_on(PLAYED, "kubeconfig"), "--on local has kubelets"),
    ):
        with pytest.raises(SetupProblem, match=word):
            check([asked])


def test_what_kubelets_do_is_changed_only_where_there_are_some() -> None:
    stop = NodeChange("stop", "stop", "w")
    asked = trial((submit(1),), (stop,), nodes=PLAYED.setup.nodes)
    assert check([_on(asked, "local")]).trials
    with pytest.raises(SetupProblem, match="only --on local has kubelets"):
        check([asked])
    unready = trial((submit(1),), (NodeChange("not", "unready", "w"),), nodes=PLAYED.setup.nodes)
    assert check([unready]).trials
    with pytest.raises(SetupProblem, match="`stop` and `start` its kubelets"):
        check([_on(unready, "local")])


def test_more_kubelets_than_memory_are_refused_before_anything_starts() -> None:
    fleet = NodeGroup("w", 900_000, {"cpu": 1000, "memory": 1}, kubelet=True)
    asked = trial(*to_the_end(submit(1)), nodes=[fleet])
    with pytest.raises(SetupProblem, match=r"900,000 kubelets and the control plane need about .* use at most"):
        check([_on(asked, "local")])
    assert check([asked]).trials
