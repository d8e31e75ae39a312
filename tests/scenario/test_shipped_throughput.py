"""scheduler-throughput: the same pods in three shapes, for every scheduler, and figures of how fast they were bound."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from seatrial import stacks
from seatrial.model.plan import Trial
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.document import read
from seatrial.scenario.expansion import expand
from tests.conftest import Seatrial


def trials(**sets: float) -> list[Trial]:
    given = {param: [value] for param, value in sets.items()}
    known = {name: stacks.find(name).settings for name in stacks.names()}
    return expand(read("scheduler-throughput"), on="sim", stacks=known, pick_stacks=["default"], sets=given, repeat=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("percent", "expected"),
    [
        (100, [(1, 10_000, False), (500, 20, True), (10_000, 1, False)]),
        (10, [(1, 1_000, False), (50, 20, True), (1_000, 1, False)]),
        (1, [(1, 100, False), (5, 20, True), (100, 1, False)]),
    ],
)
def test_the_three_cases_are_as_many_pods_in_one_job_in_gangs_of_20_and_in_jobs_of_one_pod(
    percent: int, expected: list[tuple[int, int, bool]]
) -> None:
    submits = [trial.phases(Submit)[0] for trial in trials(percent=percent)]
    assert [(submit.count, submit.pods // submit.count, submit.gang) for submit in submits] == expected


def test_every_client_has_the_same_qps_and_all_pods_fit_at_once() -> None:
    for trial in trials(qps=70):
        limits = {component: own["qps"] for component, own in trial.setup.settings.items() if "qps" in own}
        assert {"kube-scheduler", "kube-controller-manager"} <= limits.keys()
        assert set(limits.values()) == {70}
        [nodes] = trial.setup.nodes
        [submit] = trial.phases(Submit)
        assert nodes.count * nodes.capacity["cpu"] >= submit.pods * submit.shape.requests["cpu"]


def test_rate_and_latency_of_scheduling_are_in_the_summary_and_can_be_gated_on(
    seatrial: Seatrial, tmp_path: Path
) -> None:
    sets = ("--set", "percent=1,fleet=20,qps=20", "--repeat", "1")
    done = seatrial("run", "scheduler-throughput", "--stack", "default,gang", *sets, "-o", "out")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "out" / "summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    for row in rows:
        assert float(row["bound_per_s"]) > 0
        assert 0 < float(row["schedule_p50_s"]) <= float(row["schedule_p99_s"])
    compared = seatrial(
        "compare", "out", "--setup", "default,gang", "--figure", "bound_per_s", "--figure", "schedule_p99_s"
    )
    assert compared.returncode == 0, compared.stderr
    assert "bound_per_s" in compared.stdout
    assert "schedule_p99_s" in compared.stdout
