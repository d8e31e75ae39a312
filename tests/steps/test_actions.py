"""Every kind of step does the same on the simulator and on a real control plane."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import polars as pl
import pytest

from seatrial.clusters.live.live_cluster import LiveCluster
from seatrial.clusters.sim_cluster import SimCluster
from seatrial.model.errors import SetupProblem
from seatrial.model.plan import Expectation, Pace, Phase, PodShape
from seatrial.model.units import MINUTE, SECOND
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.expect import Expect
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.send_requests import Requests
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait, WaitForObjects
from tests.steps.conftest import Runner, group


def submit(name: str = "load", count: int = 3, cpu: int = 100, seconds: float = 1, **more: Any) -> Submit:
    return Submit(name, count, (1,), False, PodShape({"cpu": cpu}), int(seconds * SECOND), **more)


def wait(stage: str = "completed", *of: str, name: str = "", seconds: float = 60, **more: Any) -> Wait:
    return Wait(name or f"{stage}-{'-'.join(of)}", stage, of, timeout=int(seconds * SECOND), **more)


def expect(text: str) -> Expect:
    return Expect("now", (Expectation(text, "s.yaml:1:1"),))


# A dataclass with slots replaces the class that it was made of: both are subclasses.
PHASES = {kind.__name__: kind for kind in Phase.__subclasses__() if kind.__module__.startswith("seatrial.")}


@pytest.mark.parametrize("kind", PHASES.values(), ids=PHASES.keys())
@pytest.mark.parametrize("cluster", [SimCluster, LiveCluster], ids=lambda cluster: cluster.__name__)
def test_every_cluster_has_what_a_kind_needs(kind: type[Phase], cluster: type) -> None:
    methods = [name for name in vars(kind.needs) if not name.startswith("_")]
    assert [name for name in methods if not hasattr(cluster, name)] == []


class _Impossible(Protocol):
    async def sail(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Sail(Phase):
    needs = runtime_checkable(_Impossible)


def test_a_phase_that_a_cluster_cannot_run_is_refused_before_anything_begins(tmp_path: Path) -> None:
    with pytest.raises(SetupProblem, match="--on sim cannot run phase away: it lacks _Impossible"):
        Runner("sim", tmp_path)((submit(),), (_Sail("away"),))


def test_workloads_are_submitted_at_their_pace_and_waited_for(run: Runner) -> None:
    paced = submit(pace=Pace("burst", size=2, every=SECOND))
    ran = run((paced, wait("running", "load", count=1)), (wait(),))
    assert (ran.ending.outcome, ran.ending.detail, ran.ending.notes) == ("completed", "", [])
    assert (ran.counts["submitted"], ran.counts["completed"]) == (3, 3)
    [tally] = ran.ending.tallies
    assert (tally.phase, tally.count, tally.wanted_ns) == ("load", 3, SECOND)
    assert 0.9 < tally.took_ns / SECOND < 2
    assert ran.took("running-load") < ran.took("load") + ran.took("completed-")


def test_a_pause_lasts_as_long_as_it_says_and_phases_of_a_step_run_side_by_side(run: Runner) -> None:
    ran = run((Pause("short", SECOND), Pause("long", 2 * SECOND)), (Pause("last", SECOND),))
    assert ran.ending.outcome == "completed"
    assert [one.step for one in ran.ending.took] == [0, 0, 1]
    early, late = (0.0, 0.0) if run.on == "sim" else (0.01, 0.5)  # timers of a real loop may be a millisecond early
    for name, seconds in (("short", 1), ("long", 2), ("last", 1)):
        assert seconds - early <= ran.took(name) <= seconds + late


def test_nodes_are_added_closed_opened_and_removed(run: Runner) -> None:
    """Only the nodes that join are large enough: the workloads of a phase run once these take pods."""

    def change(what: str, **more: Any) -> tuple[NodeChange]:
        return (NodeChange(what, what, "big", **more),)

    ran = run(
        (submit("first", 1, cpu=6000),), (Pause("p1", SECOND),), (expect("completed == 0"),),
        change("add", add=group(1, cpu=8000, name="big")), (wait("completed", "first"),),
        change("cordon"), (submit("second", 1, cpu=6000),), (Pause("p2", 3 * SECOND),), (expect("completed == 1"),),
        change("uncordon"), (wait("completed", "second"),),
        change("unready"), (submit("third", 1, cpu=6000),), (Pause("p3", 3 * SECOND),), (expect("completed == 2"),),
        change("ready"), (wait("completed", "third"),),
        change("remove"), (submit("fourth", 1, cpu=6000),), (wait("completed", "fourth", seconds=2, go_on=True),),
        (expect("completed == 3"),),
    )  # fmt: skip
    assert (ran.ending.outcome, ran.ending.detail) == ("completed", "")
    [note] = ran.ending.notes
    assert "after 2s 0 of 1 workloads were completed" in note.text


def test_workloads_are_deleted_finished_or_not_and_once(run: Runner) -> None:
    """Completed, running, pending, and deleted before."""
    long, stuck = submit("long", 1, seconds=600), submit("stuck", 1, cpu=64_000)
    ran = run(
        (submit(), long, stuck), (wait("completed", "load"), wait("running", "long")),
        (DeleteWorkloads("one", ("load", "long")), DeleteWorkloads("two", ("long", "stuck"))),
        (wait("deleted", "long", "stuck"),), (DeleteWorkloads("again", ("stuck",)),),
        (expect("completed == 3 and deleted >= 2"),),
    )  # fmt: skip
    assert (ran.ending.outcome, ran.ending.detail) == ("completed", "")


def test_an_expectation_among_the_steps_knows_params_set_up_and_counts(run: Runner) -> None:
    true = expect('submitted == jobs and pending == 0 and setup == "default" and stack != "mcad"')
    ran = run((submit(),), (wait(),), (true,), params={"jobs": 3})
    assert (ran.ending.outcome, ran.ending.detail) == ("completed", "")


def test_a_false_expectation_fails_the_trial_where_it_stands(run: Runner) -> None:
    ran = run((submit(count=1),), (expect("submitted == 2"),), (Pause("never", MINUTE),))
    assert ran.ending.outcome == "failed"
    assert ran.ending.detail.startswith("s.yaml:1:1: ")
    assert [one.phase for one in ran.ending.took] == ["load", "now"]


SECRET = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m-${i}"}, "data": {"key": "${payload}"}}
DEPLOYMENT = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "app-${i}"},
    "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "app-${i}"}},
        "template": {
            "metadata": {"labels": {"app": "app-${i}"}},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": "none"}]},
        },
    },
}  # fmt: skip


def request(name: str, verb: str, **more: Any) -> Requests:
    """For the ten objects of the phase `mass`, if nothing else is said."""
    fields = {"objects": (SECRET,), "count": 10, "namespaces": 2, "each": 5, "of": "mass", "made": 10, **more}
    return Requests(name, verb, **fields)


def test_requests_of_every_verb_are_answered_and_what_was_created_is_waited_for(run: Runner) -> None:
    whole = {"count": 2, "each": 0, "made": 0}
    apps = Requests("apps", "create", (DEPLOYMENT,), 2)

    def until(state: str, count: int = 0, of: str = "apps") -> tuple[WaitForObjects]:
        return (WaitForObjects(f"{of}-{state}", state, (of,), count, timeout=MINUTE),)

    ran = run(
        (request("mass", "create", of="", made=0, payload=100, workers=2), apps),
        until("available", 2), until("pods-running", 4),
        (request("get", "get", per_s=50.0), request("list", "list", **whole), request("watch", "watch", lasting=SECOND, **whole)),
        (request("patch", "patch", change={"data": {"seen": "yes"}}), ),
        (request("update", "update", change={"data": {"new": "yes"}}),),
        (request("delete", "delete", count=5), Requests("delete-apps", "delete", (DEPLOYMENT,), 2, of="apps", made=2)),
        until("pods-gone"), (request("rest", "deletecollection", **whole),), until("gone", of="mass"), until("gone"),
        namespaces=2,
    )  # fmt: skip
    assert (ran.ending.outcome, ran.ending.detail, ran.ending.notes) == ("completed", "", [])
    made = ran.requests.filter(pl.col("phase").is_not_null())
    assert made["code"].is_between(200, 299).all(), made.filter(~pl.col("code").is_between(200, 299))
    counts = dict(made.group_by("phase").len().iter_rows())
    assert {name: counts[name] for name in ("mass", "get", "list", "patch", "update", "delete", "rest")} == {
        "mass": 10, "get": 10, "list": 2, "patch": 10, "update": 10, "delete": 5, "rest": 2,
    }  # fmt: skip
    assert 0.15 <= ran.took("get") < 1.5, "ten at 50/s"


def test_a_wait_for_objects_whose_time_is_up_ends_the_trial_or_is_noted(run: Runner) -> None:
    apps = Requests("apps", "create", (DEPLOYMENT,), 1)
    until = WaitForObjects("apps-gone", "gone", ("apps",), 0, timeout=SECOND, go_on=True)
    ran = run((apps,), (until,), (WaitForObjects("end", "pods-running", ("apps",), 9, timeout=2 * SECOND),))
    assert (ran.ending.outcome, ran.ending.detail) == ("timeout", "end: after 2s 2 of 9 were pods-running")
    [note] = ran.ending.notes
    assert note.text == "apps-gone: after 1s 1 were not gone; the run continued"
