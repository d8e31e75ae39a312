"""Fluence: Fluxion's matches, what the plugin makes of them, and the faults behind the switch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial import stacks
from seatrial.model.plan import NodeGroup, PodShape, Scalar, Span, Taint, Toleration, Workload
from seatrial.model.units import MINUTE, SECOND
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from seatrial.stacks.fluence.fluxion import GPU, Fluxion, slot_of
from tests.sim.making import GI, Ran, fakes, run, submit, to_the_end, trial

ANY = (Toleration(),)
ONE_CORE = PodShape({"cpu": 1000}, tolerations=ANY)
TWO_CORES = PodShape({"cpu": 2000}, tolerations=ANY)


def nodes_of(ran: Ran) -> set[int]:
    return set(ran.seen.filter(pl.col("stage") == "scheduled")["node"].to_list())


def graph(count: int, cpu: int = 4000, memory: int = 8) -> Fluxion:
    return Fluxion([f"n-{i}" for i in range(count)], [{"cpu": cpu, "memory": memory * GI, GPU: 2}] * count)


def ran_with(faults: str, directory: Path, *steps: Any, **more: Any) -> Ran:
    return run(trial(*steps, stack="fluence", settings={"fluence": {"faults": faults}}, **more), directory)


class TestFluxion:
    def test_the_lowest_nodes_come_first_and_are_filled(self) -> None:
        fluxion = graph(4)
        assert fluxion.match(1, slot_of({"cpu": 2000}), 3) == [0, 0, 1]
        assert fluxion.match(2, slot_of({"cpu": 3000}), 2) == [2, 3]
        assert fluxion.match(3, slot_of({"cpu": 1000}), 4) == [1, 1, 2, 3]

    def test_ids_go_by_name_as_the_api_server_lists_them(self) -> None:
        fluxion = graph(12)
        assert fluxion.match(1, slot_of({"cpu": 4000}), 4) == [0, 1, 10, 11]

    def test_cores_are_whole_and_memory_comes_in_pieces(self) -> None:
        assert slot_of({"cpu": 1100, "memory": GI + 1}) == (2, 2, 0)
        assert slot_of({GPU: 1}) == (1, 0, 1), "a pod that asks for no core gets one"
        assert Fluxion(["n"], [{"cpu": 3900, "memory": 8 * GI}]).match(1, slot_of({"cpu": 100}), 4) == []

    def test_all_or_nothing_and_nothing_is_taken_for_nothing(self) -> None:
        fluxion = graph(2)
        assert fluxion.match(1, slot_of({"cpu": 1000}), 9) == []
        assert fluxion.match(2, slot_of({"cpu": 1000}), 8) == [0] * 4 + [1] * 4

    def test_a_group_that_asks_again_gives_back_what_it_had(self) -> None:
        fluxion = graph(1)
        assert fluxion.match(1, slot_of({"cpu": 4000}), 1) == fluxion.match(1, slot_of({"cpu": 4000}), 1) == [0]
        fluxion.cancel(1)
        assert fluxion.match(2, slot_of({"cpu": 4000}), 1) == [0]

    @given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9), st.integers(1, 5000), st.booleans()), max_size=40))
    def test_no_core_is_given_twice(self, calls: list[tuple[int, int, int, bool]]) -> None:
        fluxion = graph(5)
        have: dict[int, list[int]] = {}
        cores: dict[int, int] = {}
        for group, count, cpu, gives_back in calls:
            if gives_back:
                fluxion.cancel(group)
                have.pop(group, None)
            else:
                have[group], cores[group] = fluxion.match(group, slot_of({"cpu": cpu}), count), slot_of({"cpu": cpu})[0]
                assert len(have[group]) in (0, count)
            for node in range(5):
                assert sum(given.count(node) * cores[group] for group, given in have.items()) <= 4


def test_gangs_of_which_few_fit_at_a_time_all_complete(tmp_path: Path) -> None:
    gangs = replace(submit(15, shape=TWO_CORES, gang=True), sizes=(2, 3, 4, 5, 6), shuffled=True)
    ran = ran_with("none", tmp_path, *to_the_end(gangs), nodes=[fakes(8, cpu=3000)])
    assert ran.ending.outcome == "completed"
    assert ran.count("scheduled") == 60


def test_the_lowest_nodes_are_used_although_others_are_emptier(tmp_path: Path) -> None:
    ran = ran_with("none", tmp_path, *to_the_end(submit(3, pods=2, shape=ONE_CORE)), nodes=[fakes(8, cpu=4000)])
    assert nodes_of(ran) == {0, 1}


def test_small_pods_take_a_core_each(tmp_path: Path) -> None:
    small = PodShape({"cpu": 100}, tolerations=ANY)
    ran = ran_with("none", tmp_path, *to_the_end(submit(8, shape=small, seconds=10)), nodes=[fakes(1, cpu=4000)])
    assert sorted(round(at / 11) for at in ran.times("running")) == [0] * 4 + [1] * 4


def test_a_group_waits_until_all_its_pods_exist(tmp_path: Path) -> None:
    gang = submit(1, pods=4, shape=ONE_CORE, gang=True)
    slow = {"kube-controller-manager": {"qps": 2, "burst": 1}}
    ran = run(trial(*to_the_end(gang), stack="fluence", settings=slow), tmp_path)
    assert min(ran.times("scheduled")) > max(ran.times("pods_created"))


def test_nodes_that_come_later_are_not_in_the_graph(tmp_path: Path) -> None:
    more = NodeGroup("more", 4, {"cpu": 4000, "memory": 8 * GI, "pods": 9})
    steps = ((submit(4, shape=TWO_CORES, seconds=10),), (Pause("look", 2 * SECOND),),
             (NodeChange("grow", "add", "more", None, more),), (Wait("all", "completed"),))  # fmt: skip
    ran = ran_with("none", tmp_path, *steps, nodes=[fakes(1, cpu=2000)])
    assert ran.ending.outcome == "completed"
    assert nodes_of(ran) == {0}


@pytest.mark.parametrize(("faults", "at"), [("none", 27), ("early-free", 7)])
def test_the_first_pod_to_end_frees_its_whole_group_only_with_early_free(tmp_path: Path, faults: str, at: int) -> None:
    quick = NodeGroup("a", 1, {"cpu": 1000, "memory": 8 * GI, "pods": 9}, start=Span(SECOND))
    slow = NodeGroup("b", 1, {"cpu": 1000, "memory": 8 * GI, "pods": 9}, start=Span(21 * SECOND))
    first, second = submit(1, pods=2, shape=ONE_CORE, seconds=5), replace(submit(1, shape=ONE_CORE), name="second")
    ran = ran_with(faults, tmp_path, (first,), (Wait("run", "scheduled"),), (second,), (Wait("all", "completed"),),
                   nodes=[quick, slow])  # fmt: skip
    assert ran.times("scheduled")[2] == pytest.approx(at, abs=2)


@pytest.mark.parametrize(("faults", "outcome"), [("none", "completed"), ("leak", "timeout")])
def test_what_a_deleted_group_had_is_lost_only_with_leak(tmp_path: Path, faults: str, outcome: str) -> None:
    first = replace(submit(1, pods=2, shape=TWO_CORES, seconds=1000, gang=True), name="first")
    second = replace(submit(1, pods=2, shape=TWO_CORES, seconds=1, gang=True), name="second")
    steps = ((first,), (Wait("run", "running"),), (DeleteWorkloads("away", ("first",)),), (second,),
             (Wait("all", "completed", timeout=20 * SECOND),))  # fmt: skip
    ran = ran_with(faults, tmp_path, *steps, nodes=[fakes(2, cpu=3000)])
    assert ran.ending.outcome == outcome


@pytest.mark.parametrize(("faults", "outcome"), [("none", "completed"), ("shared-node", "timeout")])
def test_pods_of_a_group_cannot_share_a_node_only_with_shared_node(tmp_path: Path, faults: str, outcome: str) -> None:
    steps = ((submit(1, pods=2, shape=ONE_CORE, gang=True),), (Wait("all", "completed", timeout=20 * SECOND),))
    ran = ran_with(faults, tmp_path, *steps, nodes=[fakes(2, cpu=4000)])
    assert ran.ending.outcome == outcome
    assert ("wrong number" in ran.cluster._sim.said.get(0, "")) == (faults == "shared-node")


def test_comparisons_that_ask_the_api_server_slow_everything_down(tmp_path: Path) -> None:
    def took(faults: str) -> float:
        load: Submit = submit(200, shape=ONE_CORE, seconds=1)
        fast: dict[str, dict[str, Scalar]] = {"kube-controller-manager": {"qps": 0}, "fluence": {"faults": faults}}
        return run(trial(*to_the_end(load), stack="fluence", settings=fast), tmp_path / faults).end_s

    assert took("slow-sort") > 2 * took("none")


def test_where_it_runs_what_it_refuses_and_what_may_still_free_something() -> None:
    fluence = stacks.find("fluence")
    asked = trial(*to_the_end(submit(1)), stack="fluence")
    assert fluence.refuses(asked) is None
    assert "not a Go module" in (fluence.refuses(replace(asked, on="local")) or "")
    labelled = submit(1, shape=PodShape({"cpu": 1}, {"zone": "a"}))
    assert "nodes by label" in (fluence.refuses(trial(*to_the_end(labelled), stack="fluence")) or "")
    assert list(fluence.releases(asked.setup.settings)) == [5 * MINUTE]


def test_pods_that_do_not_tolerate_a_taint_are_refused_because_fluence_would_place_them_there() -> None:
    fluence = stacks.find("fluence")
    free = replace(fakes(1), name="free")
    tainted = replace(fakes(2), name="gpu", taints=(Taint("dedicated", "gpu"),))
    strict = submit(1, shape=PodShape({"cpu": 1000}, tolerations=(Toleration("dedicated", "Equal", "cpu"),)))
    why = fluence.refuses(trial(*to_the_end(strict), stack="fluence", nodes=[free, tainted])) or ""
    assert "load does not tolerate the taints of gpu (dedicated=gpu:NoSchedule)" in why
    assert fluence.refuses(trial(*to_the_end(submit(1)), stack="fluence", nodes=[free, tainted])) is None
    soft = replace(tainted, taints=(Taint("dedicated", "gpu", "PreferNoSchedule"),))
    assert fluence.refuses(trial(*to_the_end(strict), stack="fluence", nodes=[free, soft])) is None


def test_its_pods_carry_the_labels_that_its_webhook_would_add() -> None:
    gang = Workload("w-0", "w", 0, 3, ONE_CORE, SECOND, gang=True)
    [job] = [m.body for m in stacks.find("fluence").real.render(gang, {"a": "b"}) if m.resource.kind == "Job"]
    template = job["spec"]["template"]
    assert template["spec"]["schedulerName"] == "fluence"
    assert template["metadata"]["labels"].items() >= {
        "a": "b", "scheduling.x-k8s.io/pod-group": "w-0", "fluence.group-size": "3"
    }.items()  # fmt: skip
