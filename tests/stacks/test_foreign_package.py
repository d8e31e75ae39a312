"""A stack of another package loads through the same entry point as ours."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from seatrial import stacks
from tests.conftest import Seatrial
from tests.drydock import install

SCENARIO = """\
name: dock
nodes: [{name: fake, count: 2, capacity: {cpu: 4, memory: 8Gi}}]
setups:
  shipped: {stack: drydock}
  slow: {stack: drydock, settings: {drydock: {inspection: 1m}}}
steps: [{submit: {count: 3, duration: 10s}}, {wait: {for: completed}}]
expect: ["completed == submitted"]
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    return install(tmp_path / "site")


def test_a_stack_of_another_package_is_listed_with_ours(seatrial: Seatrial, installed: Path) -> None:
    done = seatrial("stacks", PYTHONPATH=str(installed))
    assert done.returncode == 0, done.stderr
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    place = lines.index(["drydock", "holds every workload back for an inspection"])
    assert lines[place + 1 : place + 7] == [
        ["runs", "on        sim, kubeconfig"],
        ["needs", "a dock"],
        ["verified", "by nobody"],
        ["model", "not checked enough against the real stack: reports mark it and do not rank it"],
        ["stages", "inspected"],
        ["settings", "drydock.inspection=5s"],
    ]
    assert "default" in [line[0] for line in lines]


def test_it_runs_on_the_simulator_with_its_own_stage_and_settings(
    seatrial: Seatrial, installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "dock.yaml").write_text(SCENARIO)
    done = seatrial("run", "dock.yaml", "-o", "out", PYTHONPATH=str(installed))
    assert done.returncode == 0, done.stderr
    with (tmp_path / "out" / "times.csv").open() as file:
        took = {row["setup"]: float(row["inspected_delta_s"]) for row in csv.DictReader(file)}
    assert took == {"shipped": 5.0, "slow": 60.0}


def test_it_is_compared_with_ours_on_any_scenario(seatrial: Seatrial, installed: Path, tmp_path: Path) -> None:
    asked = ("run", "many-small-jobs", "--stack", "default,drydock", "--set", "jobs=3", "--repeat", "1", "-o", "out")
    done = seatrial(*asked, PYTHONPATH=str(installed))
    assert done.returncode == 0, done.stderr
    with (tmp_path / "out" / "summary.csv").open() as file:
        totals = {row["stack"]: float(row["total_s"]) for row in csv.DictReader(file)}
    assert totals["drydock"] == pytest.approx(totals["default"] + 5, abs=0.5)


def test_where_it_cannot_run_is_said_with_the_stacks_that_can(seatrial: Seatrial, installed: Path) -> None:
    done = seatrial("run", "many-small-jobs", "--stack", "drydock", "--on", "local", PYTHONPATH=str(installed))
    assert done.returncode == 3
    able = ", ".join(name for name in stacks.names() if "local" in stacks.find(name).runs_on)
    assert (
        f"the stack 'drydock' does not run on local, only on sim and kubeconfig; stacks that can: {able}" in done.stderr
    )


def test_a_broken_package_hides_no_other_stack(seatrial: Seatrial, installed: Path) -> None:
    (installed / "drydock" / "__init__.py").write_text("import nothing_of_that_name")
    listed = seatrial("stacks", PYTHONPATH=str(installed))
    assert listed.returncode == 0
    assert "cannot be loaded: ModuleNotFoundError" in listed.stdout
    others = seatrial("run", "many-small-jobs", "--stack", "default", "--set", "jobs=1", PYTHONPATH=str(installed))
    assert others.returncode == 0, others.stderr
    itself = seatrial("run", "many-small-jobs", "--stack", "drydock", "--set", "jobs=1", PYTHONPATH=str(installed))
    assert itself.returncode == 3
    assert "the stack 'drydock' (drydock:stack) cannot be loaded" in itself.stderr
    assert "Traceback" not in itself.stderr


def test_stacks_are_listed_as_json_too(seatrial: Seatrial, installed: Path) -> None:
    found = {
        stack["name"]: stack for stack in json.loads(seatrial("stacks", "--json", PYTHONPATH=str(installed)).stdout)
    }
    assert found["drydock"]["runs_on"] == ["sim", "kubeconfig"]
    assert found["drydock"]["settings"] == [
        {"component": "drydock", "name": "inspection", "default": "5s", "about": "how long that takes"}
    ]
    assert all(found[name]["verified"] and found[name]["needs"] for name in ("default", "mcad"))


WAITING = """\
name: dock
nodes: [{name: fake, count: 2, capacity: {cpu: 4, memory: 8Gi}}]
stacks: [%s]
steps: [{submit: {count: 3, duration: 10s}}, {wait: {for: inspected}}]
"""


def test_its_stage_can_be_waited_for_and_another_stack_is_refused(
    seatrial: Seatrial, installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "own.yaml").write_text(WAITING % "drydock")
    own = seatrial("run", "own.yaml", "-o", "own", PYTHONPATH=str(installed))
    assert own.returncode == 0, own.stderr
    (tmp_path / "other.yaml").write_text(WAITING % "default")
    other = seatrial("run", "other.yaml", "-o", "other", PYTHONPATH=str(installed))
    assert other.returncode == 2
    assert "'inspected', which set-up 'default' does not have (stacks that have it: drydock)" in other.stderr


def test_its_stage_and_what_the_time_was_spent_on_are_in_the_record(
    seatrial: Seatrial, installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "dock.yaml").write_text(SCENARIO)
    assert seatrial("run", "dock.yaml", "-o", "out", PYTHONPATH=str(installed)).returncode == 0
    [record] = (tmp_path / "out" / "trials").glob("*shipped*/trial.json")
    stages = json.loads(record.read_text())["stages"]
    assert [stage["name"] for stage in stages][:4] == ["submitted", "created", "inspected", "pods_created"]
    assert [stage["spent_on"] for stage in stages][2] == "inspection"
