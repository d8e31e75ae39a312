"""A stack of another package loads through the same entry point as ours."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.conftest import Seatrial

CODE = '''
from seatrial.model.lifecycle import PLAIN, Stage
from seatrial.model.settings import Setting
from seatrial.model.units import SECOND
from seatrial.stacks.plain import Plain


class Drydock(Plain):
    """Looks at every workload for a while before it lets it go."""

    name = "drydock"
    about = "holds every workload back for an inspection"
    needs = "a dock"
    verified = "by nobody"
    runs_on = ("sim",)
    stages = (*PLAIN[:2], Stage("inspected", "workload", "it was looked at"), *PLAIN[2:])
    settings = (Setting("drydock", "inspection", 5 * SECOND, "how long that takes", kind="duration"),)

    def model(self, sim, settings):
        takes = int(settings["drydock"]["inspection"])

        def inspected(number):
            sim.ledger.move(sim.kernel.now, number, sim.ledger.number["inspected"])
            sim.jobs.add(number, sim.workloads[number])

        return lambda number, workload: sim.kernel.at(sim.kernel.now + takes, inspected, number)

    def releases(self, settings):
        return [int(settings["drydock"]["inspection"])]  # or a long one would be taken for a clog


stack = Drydock()
'''
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
    """A package as an installer leaves it: its code, and beside it what it says of itself."""
    site = tmp_path / "site"
    (site / "drydock").mkdir(parents=True)
    (site / "drydock" / "__init__.py").write_text(CODE)
    about = site / "drydock_seatrial-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: drydock-seatrial\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[seatrial.stacks]\ndrydock = drydock:stack\n")
    return site


def test_a_stack_of_another_package_is_listed_with_ours(seatrial: Seatrial, installed: Path) -> None:
    done = seatrial("stacks", PYTHONPATH=str(installed))
    assert done.returncode == 0, done.stderr
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    place = lines.index(["drydock", "holds every workload back for an inspection"])
    assert lines[place + 1 : place + 7] == [
        ["runs", "on     sim"],
        ["needs", "a dock"],
        ["verified", "by nobody"],
        ["model", "never held against the real stack: reports mark it and do not rank it"],
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
    assert (
        "the stack 'drydock' does not run on local, only on sim; stacks that can: coscheduling, default" in done.stderr
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
    assert found["drydock"]["runs_on"] == ["sim"]
    assert found["drydock"]["settings"] == [
        {"component": "drydock", "name": "inspection", "default": "5s", "about": "how long that takes"}
    ]
    assert all(found[name]["verified"] and found[name]["needs"] for name in ("default", "mcad"))
