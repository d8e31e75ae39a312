"""examples/turnstile: a stack of another package, installed into a fresh environment, is found, listed, run and compared."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Seatrial
from tests.examples.conftest import EXAMPLES
from tests.runs.conftest import component_pid

SCENARIO = EXAMPLES / "turnstile" / "turnstile.yaml"


def test_the_installed_stack_is_listed_and_ours_are_still_there(fresh: Seatrial) -> None:
    done = fresh("stacks")
    assert done.returncode == 0, done.stderr
    listed = {line.split()[0] for line in done.stdout.splitlines() if not line.startswith(" ")}
    assert {"turnstile", "default", "kueue"} <= listed
    assert "turnstile.places=10" in done.stdout


def test_without_the_package_the_stack_is_unknown_and_the_others_are_named(seatrial: Seatrial) -> None:
    done = seatrial("run", SCENARIO)
    assert done.returncode == 2
    assert "turnstile" in done.stderr
    assert "kueue" in done.stderr


def test_the_example_scenario_runs_on_the_simulator_and_fewer_places_take_longer(
    fresh: Seatrial, tmp_path: Path
) -> None:
    done = fresh("run", SCENARIO, "-o", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    with (tmp_path / "out" / "times.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["setup"] == "two"]
    spans = [(float(row["admitted_s"]), float(row["completed_s"])) for row in rows]
    assert len(spans) == 12
    for begin, _ in spans:
        assert sum(other <= begin < end for other, end in spans) <= 2, "two places"


def test_it_is_compared_with_ours_on_a_shipped_scenario(fresh: Seatrial, tmp_path: Path) -> None:
    done = fresh(
        "run", "many-small-jobs", "--stack", "default,turnstile", "--set", "jobs=5", "--repeat", "1", "-o", "out"
    )
    assert done.returncode == 0, done.stderr
    with (tmp_path / "out" / "summary.csv").open() as file:
        assert {row["stack"]: row["completed"] for row in csv.DictReader(file)} == {"default": "5", "turnstile": "5"}


REAL = """
name: killed
nodes: [{name: fake, count: 2, capacity: {cpu: 8, memory: 32Gi}}]
setups:
  two: {stack: turnstile, settings: {turnstile: {places: 2}}}
steps:
  - submit: {name: job, count: 6, duration: 1s, requests: {cpu: 1}}
  - wait: {for: completed, timeout: 3m}
expect: ["completed == submitted"]
"""


@pytest.mark.local
def test_its_own_controller_runs_on_local_and_is_started_again_when_it_is_killed(
    turnstile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "killed.yaml").write_text(REAL)
    command = [str(turnstile), "-m", "seatrial", "run", "killed.yaml", "--on", "local", "-o", "out"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        os.kill(component_pid("turnstile", 200), signal.SIGKILL)
        words, _ = process.communicate(timeout=250)
    assert process.returncode == 0, words
    [trial] = (tmp_path / "out" / "trials").glob("*/trial.json")
    deaths = json.loads(trial.read_text())["validity"]["deaths"]
    assert any("turnstile" in str(death) for death in deaths)
