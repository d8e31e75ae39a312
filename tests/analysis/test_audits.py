"""What the audits find in trials made by hand, where every time is known, and in trials of the simulator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.analysis.admission_audits import Audit
from seatrial.analysis.audits import audits
from seatrial.analysis.occupancy import Occupancy
from seatrial.analysis.stage_times import lifecycle
from seatrial.model.figures import FIGURES
from seatrial.model.lifecycle import ADMITTED, PLAIN, QUEUED
from seatrial.model.plan import NodeGroup, PodShape, Span, Step, Taint
from seatrial.model.units import MINUTE, SECOND
from seatrial.record.trial_record import TrialRecord
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from seatrial.study.trials import run_trial
from tests.analysis.making import Job, Made, plain, write_trial
from tests.effort import LINEAR, costs_at_most
from tests.sim.making import GI, trial

S = 1000  # milliseconds
QUEUEING = (*PLAIN[:2], QUEUED, ADMITTED, *PLAIN[2:])


def found(directory: Path) -> dict[str, Audit]:
    """All audits by name; every one says a sentence and can be written as JSON."""
    result = audits(directory)
    json.dumps(result, allow_nan=False)
    assert [audit["audit"] for audit in result] == [
        figure.audit for figure in FIGURES.values() if figure.audit and not figure.shared
    ]
    assert all(audit["finding"].endswith(".") and isinstance(audit["count"], int) for audit in result)
    assert all(bool(audit["examples"]) == bool(audit["count"]) for audit in result)
    return {audit["audit"]: audit for audit in result}


def of(directory: Path, *jobs: Job, **also: Any) -> dict[str, Audit]:
    return found(write_trial(directory, Made(jobs, **also)))


def nodes(count: int, cpu: int, **more: Any) -> list[Mapping[str, Any]]:
    capacity = {"cpu": cpu, "memory": 2**38, "pods": 110}
    return [{"group": "fake", "count": count, "capacity": capacity, "from_ns": 0, "until_ns": None, **more}]


def job(submitted: int, *bound: int, took: int = 10 * S, **more: Any) -> Job:
    """Pods bound at these moments, on the nodes named; they run a second later."""
    pods = [
        {"pods_created": submitted + 20, "scheduled": at, "running": at + S, "finished": at + S + took} for at in bound
    ]
    end = max((at + 2 * S + took for at in bound), default=0)
    stages = {"submitted": submitted, "created": submitted + 10, **more.pop("at", {})}
    return Job({**stages, "completed": end} if more.pop("completes", True) else stages, pods, **more)


def admitted(submitted: int, at: int, *bound: int, **more: Any) -> Job:
    return job(submitted, *bound, at={"queued": submitted + 10, "admitted": at}, **more)


# a pod on a node that it does not fit


def test_a_pod_on_a_node_without_room_is_found_with_what_was_left(tmp_path: Path) -> None:
    audit = of(tmp_path, job(0, 30), job(0, 1000), job(0, 2000), nodes=nodes(2, 2500))["misfit"]
    assert audit["count"] == 1
    assert audit["examples"] == [
        {"pod": "short-2-0", "node": "fake-0", "at_s": 2.0, "why": "it requests cpu 1 and cpu 500m was left"}
    ]
    assert audit["finding"] == (
        "1 pod was bound to a node that it does not fit: short-2-0 to fake-0 at 2.0 s, "
        "where it requests cpu 1 and cpu 500m was left."
    )


def test_room_is_free_at_the_moment_at_which_a_pod_finishes_or_is_lost(tmp_path: Path) -> None:
    jobs = [job(0, 30), job(0, 30 + 11 * S)]
    assert of(tmp_path / "a", *jobs, nodes=nodes(1, 1000))["misfit"]["count"] == 0
    jobs[1] = job(0, 29 + 11 * S)
    assert of(tmp_path / "b", *jobs, nodes=nodes(1, 1000))["misfit"]["count"] == 1
    gone = Job({"submitted": 0, "created": 10}, [{"pods_created": 20, "scheduled": 30, "lost": 500}], size=1)
    assert of(tmp_path / "c", gone, job(0, 600), nodes=nodes(1, 1000))["misfit"]["count"] == 0
    deleted = Job({"submitted": 0, "created": 10, "deleted": 500}, [{"pods_created": 20, "scheduled": 30}], size=1)
    assert of(tmp_path / "d", deleted, job(0, 600), nodes=nodes(1, 1000))["misfit"]["count"] == 0


def test_two_clocks_that_differ_make_no_finding(tmp_path: Path) -> None:
    jobs = [job(0, 30), job(0, 11 * S)]  # bound 30 ms before the end of the other was seen
    also = {"sources": [{"name": "watch", "error_ns": 50 * 10**6}]}
    assert of(tmp_path / "a", *jobs, nodes=nodes(1, 1000), also=also)["misfit"]["count"] == 0
    assert of(tmp_path / "b", *jobs, nodes=nodes(1, 1000))["misfit"]["count"] == 1


def test_pods_and_every_resource_count_and_nodes_that_are_not_known_do_not(tmp_path: Path) -> None:
    few = [{**nodes(1, 64000)[0], "capacity": {"cpu": 64000, "pods": 1}}]
    assert of(tmp_path / "a", job(0, 30), job(0, 40), nodes=few)["misfit"]["examples"][0]["why"] == (
        "it requests pods 1 and pods 0 was left"
    )
    others = [{**nodes(1, 0)[0], "group": "another"}]
    assert of(tmp_path / "b", job(0, 30), nodes=others)["misfit"]["count"] == 0
    existing = [{**nodes(1, 500)[0], "group": "existing"}]
    assert of(tmp_path / "c", job(0, 30), nodes=existing)["misfit"]["count"] == 1


def test_names_with_the_id_of_a_study_belong_to_their_group(tmp_path: Path) -> None:
    directory = write_trial(tmp_path, Made([job(0, 30)], nodes=nodes(1, 500), also={"target": {"study": "1a2b3c4d"}}))
    (directory / "nodes.txt").write_text("fake-1a2b3c4d-0\nfake-1a2b3c4d-1\n")
    assert found(directory)["misfit"]["count"] == 1


def test_a_pod_that_labels_or_taints_keep_off_is_found(tmp_path: Path) -> None:
    phase = {"pods": [1], "requests": {"cpu": 1000}, "gang": False, "duration_ns": 1}
    groups = {"fake": {"labels": {"pool": "a"}, "taints": [{"key": "x", "value": "", "effect": "NoSchedule"}]}}
    tolerates = {"tolerations": [{"key": "x", "operator": "Exists", "value": "", "effect": ""}]}
    also = {"groups": groups, "phases": {"short": {**phase, **tolerates, "selector": {"pool": "a"}}}}
    assert of(tmp_path / "a", job(0, 30), also=also)["misfit"]["count"] == 0
    also = {"groups": groups, "phases": {"short": {**phase, **tolerates, "selector": {"pool": "b"}}}}
    assert of(tmp_path / "b", job(0, 30), also=also)["misfit"]["examples"][0]["why"] == "labels or taints keep it off"
    also = {"groups": groups, "phases": {"short": phase}}
    assert of(tmp_path / "c", job(0, 30), also=also)["misfit"]["count"] == 1


# admission


def test_what_no_node_could_ever_take_is_admission_by_the_aggregate(tmp_path: Path) -> None:
    stuck = Job({"submitted": 0, "created": 10, "queued": 20, "admitted": 500}, [{"pods_created": 600}], size=1)
    audit = of(tmp_path, stuck, stages=QUEUEING, requests={"cpu": 5000}, nodes=nodes(4, 3000))["aggregate admission"]
    assert (audit["count"], audit["never"], audit["crowded"]) == (1, 1, 0)
    assert audit["examples"][0] == {
        "workload": "short-0", "at_s": 0.5, "pods": 1, "room": 0, "room_when_empty": 0, "asks": "cpu 5",
    }  # fmt: skip
    assert (
        "short-0, admitted at 0.5 s, needs room for 1 pod of cpu 5; even empty nodes have room for 0"
        in audit["finding"]
    )


def test_a_gang_admitted_when_the_nodes_had_no_room_for_all_of_it_at_that_moment(tmp_path: Path) -> None:
    """Two nodes of 3 cores, pods of 2: with one of them taken there is room for one more pod, not for two."""
    jobs = [admitted(0, 20, 50), admitted(100, 200, 13 * S, 13 * S, nodes=[0, 1])]
    asked = {"stages": QUEUEING, "requests": {"cpu": 2000}, "nodes": nodes(2, 3000)}
    audit = of(tmp_path / "a", *jobs, gang=True, **asked)["aggregate admission"]
    assert (audit["count"], audit["never"], audit["crowded"]) == (1, 0, 1)
    assert (audit["examples"][0]["room"], audit["examples"][0]["room_when_empty"]) == (1, 2)
    assert "the nodes had at that moment room for 1" in audit["finding"]
    assert of(tmp_path / "b", *jobs, **asked)["aggregate admission"]["count"] == 0  # no gang: one pod fits at once


def test_nodes_that_come_and_go_are_counted_while_they_are_there(tmp_path: Path) -> None:
    late = [*nodes(1, 3000), *nodes(1, 3000, from_ns=10 * SECOND, until_ns=20 * SECOND)]
    jobs = [admitted(0, at * S, size=2) for at in (5, 15, 25)]
    for one in jobs:
        one.at = {key: value for key, value in one.at.items() if key != "completed"}
    audit = of(tmp_path, *jobs, stages=QUEUEING, gang=True, requests={"cpu": 2000}, nodes=late)["aggregate admission"]
    assert [example["workload"] for example in audit["examples"]] == ["short-0", "short-2"]


def test_more_admitted_than_can_stand_at_once_is_counted_in_pods(tmp_path: Path) -> None:
    """24 cores are 12 pods on paper, 8 in truth."""
    jobs = [admitted(0, 15, *[50] * 4, nodes=[0] * 4), admitted(0, 15, *[50] * 4, nodes=[1] * 4)]
    jobs.append(admitted(0, 15, *[13 * S] * 4, nodes=[0] * 4))
    asked = {"stages": QUEUEING, "requests": {"cpu": 2000}, "nodes": nodes(8, 3000)}
    audit = of(tmp_path / "a", *jobs, gang=True, **asked)["over-admission"]
    assert (audit["count"], audit["pods"], audit["room"], audit["at_s"]) == (4, 12, 8, 0.02)
    assert audit["lasted_s"] == pytest.approx(11.03)
    assert audit["examples"][0] == {"workload": "short-0", "pods_without_a_place": 4}
    assert (
        "At 0.02 s 12 admitted pods were not over, and the nodes can hold 8 of them at the same time"
        in audit["finding"]
    )
    assert of(tmp_path / "b", *jobs[:2], gang=True, **asked)["over-admission"]["count"] == 0


def test_a_mixture_of_phases_is_held_against_what_the_smallest_pods_would_leave(tmp_path: Path) -> None:
    shape = {"pods": [2, 5], "gang": False, "duration_ns": 1}
    phases = {"small": {**shape, "requests": {"cpu": 1000}}, "large": {**shape, "requests": {"cpu": 2000}}}
    jobs = [admitted(0, 15, *[50] * 5, phase="small"), admitted(0, 15, *[50] * 2, phase="large")]
    room = nodes(1, 5000)
    audit = of(tmp_path, *jobs, stages=QUEUEING, nodes=room, also={"phases": phases})["over-admission"]
    assert (audit["count"], audit["pods"], audit["room"]) == (2, 7, 5)


def test_without_a_queue_nothing_is_admitted(tmp_path: Path) -> None:
    result = of(tmp_path, *(plain() for _ in range(50)), nodes=nodes(1, 1000))
    for name in ("aggregate admission", "over-admission", "declared otherwise"):
        assert (result[name]["count"], result[name]["finding"]) == (0, "No queue admits workloads here.")


def test_requests_declared_to_the_queue_that_are_not_the_pods(tmp_path: Path) -> None:
    phase = {"pods": [1], "requests": {"cpu": 1000}, "gang": False, "duration_ns": 1}
    also = {"phases": {"short": {**phase, "declares": {"cpu": 1000, "nvidia.com/gpu": 8}}}}
    audit = of(tmp_path / "a", plain(), plain(), stages=QUEUEING, also=also)["declared otherwise"]
    assert audit["count"] == 2
    assert audit["examples"] == [
        {"phase": "short", "workloads": 2, "differ": {"nvidia.com/gpu": {"declared": 8, "asked": 0}}}
    ]
    assert "short declares nvidia.com/gpu 8, and its pods request nvidia.com/gpu 0" in audit["finding"]
    also = {"phases": {"short": {**phase, "declares": {"cpu": 1000}}}}
    assert of(tmp_path / "b", plain(), stages=QUEUEING, also=also)["declared otherwise"]["count"] == 0


# gangs in part


def test_a_gang_that_waits_for_its_last_pod_started_in_part(tmp_path: Path) -> None:
    audit = of(tmp_path, job(0, 30, 40, 9030), job(0, 30, 40, 900), gang=True)["gang in part"]
    assert (audit["count"], audit["at_end"]) == (1, 0)
    assert audit["examples"] == [{"workload": "short-0", "placed": 2, "of": 3, "for_s": 9.0, "at_end": False}]
    assert "short-0 held room for 2 of its 3 pods for 9.0 s; 0 still did at the end" in audit["finding"]


def test_a_gang_that_never_got_its_last_pod_is_in_part_to_the_end(tmp_path: Path) -> None:
    half = job(0, 30, 40, completes=False, size=3)
    audit = of(tmp_path / "a", half, gang=True, outcome="timeout")["gang in part"]
    assert (audit["count"], audit["at_end"]) == (1, 1)
    assert audit["examples"][0]["for_s"] == pytest.approx(99.97)
    assert of(tmp_path / "b", half, gang=True, outcome="clogged", end_ms=200)["gang in part"]["count"] == 1
    assert of(tmp_path / "c", half, gang=True, outcome="interrupted", end_ms=200)["gang in part"]["count"] == 0
    assert of(tmp_path / "d", half, outcome="clogged")["gang in part"]["count"] == 0  # it is no gang


def test_room_that_was_lost_again_was_held_in_part_too(tmp_path: Path) -> None:
    """As when a queue takes back what could not start: bound for 20 s, lost, and placed as a whole later."""
    lost = {"pods_created": 20, "scheduled": 30, "lost": 20_030}
    again = [{"pods_created": 30 * S, "scheduled": 31 * S, "running": 32 * S, "finished": 42 * S}] * 2
    gang = Job({"submitted": 0, "created": 10, "completed": 43 * S}, [lost, *again], size=2)
    audit = of(tmp_path, gang, gang=True)["gang in part"]
    assert audit["examples"] == [{"workload": "short-0", "placed": 1, "of": 2, "for_s": 20.0, "at_end": False}]


# overtaking


def test_one_that_waits_while_later_ones_start_is_overtaken_and_the_worst_comes_first(tmp_path: Path) -> None:
    jobs = [job(0, 60 * S), job(10, 50 * S), job(20, 30), job(30, 40)]
    audit = of(tmp_path, *jobs)["overtaken"]
    assert audit["count"] == 2
    worst = audit["examples"][0]
    assert (worst["workload"], worst["by"], worst["first"], worst["started"]) == ("short-0", 3, "short-2", True)
    assert worst["behind_s"] == pytest.approx(59.97)
    assert "short-0 by 3; it started 59.97 s after short-2 did" in audit["finding"]


def test_to_be_overtaken_by_smaller_ones_or_within_a_second_is_nothing(tmp_path: Path) -> None:
    assert of(tmp_path / "a", job(0, 60 * S, 60 * S), job(10, 30))["overtaken"]["count"] == 0
    assert of(tmp_path / "b", job(0, 1000), job(10, 30))["overtaken"]["count"] == 0
    assert of(tmp_path / "c", job(0, 60 * S), job(10, 30, 30))["overtaken"]["count"] == 1


def test_one_that_never_starts_is_overtaken_until_it_is_over(tmp_path: Path) -> None:
    never = Job({"submitted": 0, "created": 10, "deleted": 5 * S}, [{"pods_created": 20}], size=1)
    audit = of(tmp_path, never, job(10, 2 * S))["overtaken"]
    assert audit["examples"][0]["behind_s"] == pytest.approx(3.0)
    assert not audit["examples"][0]["started"]
    assert "it still had not started 3.0 s after short-1 did" in audit["finding"]


def test_a_higher_priority_has_the_right_to_go_first(tmp_path: Path) -> None:
    shape = {"pods": [1], "requests": {"cpu": 1000}, "gang": False, "duration_ns": 1}
    jobs = [job(0, 60 * S, phase="low"), job(10, 30, phase="high")]
    for priority, count in ((10, 0), (0, 1)):
        also = {"phases": {"low": shape, "high": {**shape, "priority": priority}}}
        assert of(tmp_path / str(priority), *jobs, also=also)["overtaken"]["count"] == count


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 60), st.integers(1, 3)), min_size=1, max_size=12))
def test_overtaking_is_what_comparing_all_pairs_gives(tmp_path_factory: pytest.TempPathFactory, jobs: Any) -> None:
    made = [job(s * S, (s + w) * S, *[(s + w) * S] * (n - 1)) for s, w, n in jobs]
    audit = of(tmp_path_factory.mktemp("pairs"), *made, end_ms=200 * S)["overtaken"]
    starts = [s + w for s, w, _ in jobs]
    overtaken = [
        i
        for i, (s, _, n) in enumerate(jobs)
        if any(t > s and m >= n and starts[j] < starts[i] - 1 for j, (t, _, m) in enumerate(jobs))
    ]
    assert audit["count"] == len(overtaken)


# replay


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 1)), max_size=12), st.integers(1000, 5000)
)
def test_room_is_what_counting_at_each_moment_gives(
    tmp_path_factory: pytest.TempPathFactory, pods: Any, cpu: int
) -> None:
    jobs = [job(0, at * S, took=took * S, nodes=[node]) for at, took, node in pods]
    directory = write_trial(tmp_path_factory.mktemp("room"), Made(jobs, nodes=nodes(2, cpu)))
    if not pods:
        return
    room = Occupancy(lifecycle(TrialRecord.open(directory))).room(0)
    for moment in range(70):
        stands = [sum(n == node and at <= moment < at + 1 + took for at, took, n in pods) for node in (0, 1)]
        wanted = sum(max((cpu - 1000 * count) // 1000, 0) for count in stands)
        assert room.when(np.array([moment * SECOND]))[0] == wanted


def test_a_trial_without_anything_has_nothing_to_find(tmp_path: Path) -> None:
    assert not any(audit["count"] for audit in of(tmp_path / "a").values())
    cut = write_trial(tmp_path / "b", Made([plain()], outcome="running", nodes=[], sealed=False))
    assert not any(audit["count"] for audit in found(cut).values())
    jobs = [admitted(0, 15, 50)]
    queued = write_trial(tmp_path / "c", Made(jobs, outcome="running", nodes=[], sealed=False, stages=QUEUEING))
    assert found(queued)["over-admission"]["finding"] == "The nodes of this trial are not known."


def test_every_audit_and_its_count_are_described() -> None:
    page = (Path(__file__).parents[2] / "docs" / "clogs.md").read_text(encoding="utf-8")
    audits = [figure for figure in FIGURES.values() if figure.audit]
    assert not [one.name for one in audits if f"| `{one.audit}` | `{one.name}` |" not in page]


def test_the_cost_of_a_hundred_thousand_pods_is_in_proportion(tmp_path: Path) -> None:
    def of_four(count: int) -> Path:
        jobs = [
            admitted(n * 2, n * 2 + 15, *[n * 2 + 30] * 4, took=5 * S + n % 997, nodes=[0, 1, 0, 1])
            for n in range(count)
        ]
        made = Made(jobs, stages=QUEUEING, gang=True, nodes=nodes(2, 10**9), end_ms=100 * S)
        return write_trial(tmp_path / str(count), made)

    few, many = of_four(2_500), of_four(25_000)
    costs_at_most(LINEAR, lambda: audits(few), lambda: audits(many))


# trials of the simulator


def simulated(directory: Path, *steps: Step, **more: Any) -> dict[str, Audit]:
    run_trial(trial(*steps, **more), directory / "trial", lambda *_: None)
    return found(directory / "trial")


def cluster(count: int, cpu: int, **more: Any) -> NodeGroup:
    capacity = {"cpu": cpu, "memory": 256 * GI, "pods": 110, **more.pop("also", {})}
    return NodeGroup("fake", count, capacity, start=Span(SECOND), **more)


def ensemble(pods: tuple[int, ...], count: int, **more: Any) -> Submit:
    return Submit("gang", count, pods, True, PodShape({"cpu": 2000}, spread=True), 10 * SECOND, gang=True, **more)


def until(timeout: int, stage: str = "completed") -> Step:
    return (Wait("done", stage, timeout=timeout),)


def test_the_simulator_puts_no_pod_where_it_does_not_fit(tmp_path: Path) -> None:
    load = Submit("load", 300, (1, 2, 3), True, PodShape({"cpu": 900, "memory": 3 * GI}), 5 * SECOND)
    mixed = [
        cluster(3, 4000),
        NodeGroup("tainted", 2, {"cpu": 8000, "memory": 8 * GI, "pods": 3}, taints=(Taint("a"),)),
    ]
    add = NodeChange("more", "add", "late", add=NodeGroup("late", 2, {"cpu": 2000, "memory": 64 * GI, "pods": 10}))
    result = simulated(tmp_path, (load,), (Pause("p", 3 * SECOND),), (add,), until(30 * MINUTE), nodes=mixed)
    assert result["misfit"]["count"] == 0


def test_the_default_scheduler_starts_gangs_in_part_and_never_finishes_them(tmp_path: Path) -> None:
    audit = simulated(tmp_path, (ensemble((2, 3, 4, 5, 6), 100),), until(10 * MINUTE), nodes=[cluster(8, 3000)])[
        "gang in part"
    ]
    assert audit["count"] >= 2
    assert audit["at_end"] >= 2
    assert audit["examples"][0]["at_end"]


def test_mcad_admits_by_the_aggregate_and_the_audit_says_so(tmp_path: Path) -> None:
    """The experiment's finding: one pod with 16 GPUs is dispatched to two nodes with 8 each, and stays pending."""
    gpus = [cluster(2, 32000, also={"nvidia.com/gpu": 8})]
    large = Submit("large", 1, (1,), False, PodShape({"cpu": 100, "nvidia.com/gpu": 16}), SECOND)
    result = simulated(tmp_path, (large,), until(5 * MINUTE), nodes=gpus, stack="mcad")
    audit = result["aggregate admission"]
    assert (audit["count"], audit["never"]) == (1, 1)
    assert "needs room for 1 pod of cpu 100m, nvidia.com/gpu 16; even empty nodes have room for 0" in audit["finding"]
    assert (result["declared otherwise"]["count"], result["over-admission"]["count"]) == (0, 0)


def test_what_is_only_declared_is_found(tmp_path: Path) -> None:
    gpus = [cluster(2, 32000, also={"nvidia.com/gpu": 8})]
    load = Submit("load", 2, (1,), False, PodShape({"cpu": 100}), SECOND, declares={"cpu": 100, "nvidia.com/gpu": 8})
    result = simulated(tmp_path, (load,), until(5 * MINUTE), nodes=gpus, stack="mcad")
    assert result["declared otherwise"]["count"] == 2


def test_a_dispatcher_that_counts_cores_admits_more_pods_than_can_stand(tmp_path: Path) -> None:
    """MCAD sees cores and memory; that a node takes one pod only, it does not."""
    narrow = [cluster(8, 8000, also={"pods": 1})]
    audit = simulated(tmp_path, (ensemble((2,), 20),), until(10 * MINUTE), nodes=narrow, stack="mcad")["over-admission"]
    assert audit["count"] > 0
    assert audit["room"] == 8
