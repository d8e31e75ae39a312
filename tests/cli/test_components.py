"""A set-up that brings its own programs: a green build must mean that they ran."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Seatrial

SCENARIO = """\
name: patched
nodes: [{name: n, count: 1, capacity: {cpu: 8, memory: 16Gi}}]
setups:
  before: {stack: default}
  after: {stack: default, components: {kube-scheduler: {binary: build/kube-scheduler}}}
steps:
  - submit: {name: short, count: 2, duration: 1s, requests: {cpu: 1}}
  - wait: {for: completed, timeout: 1m}
"""
NOT_RUN = "after: the set-up replaces kube-scheduler, and the simulator ran a model instead"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    program = tmp_path / "build" / "kube-scheduler"
    program.parent.mkdir()
    program.touch(0o755)
    return program


@pytest.mark.parametrize("on", ["sim", "local", "kubeconfig"])
def test_a_program_that_is_not_there_ends_the_command_on_every_kind_of_cluster(
    program: Path, on: str, seatrial: Seatrial
) -> None:
    program.unlink()
    done = seatrial("run", "s.yaml", "--on", on, "-o", "out")
    assert done.returncode == 3
    place = "s.yaml:5:56: set-up 'after', kube-scheduler"
    assert f"{place}: there is no program build/kube-scheduler\n  build it, or correct its path" in done.stderr
    assert not (program.parents[1] / "out").exists()


def test_set_ups_whose_files_are_there_run_without_the_others(program: Path, seatrial: Seatrial) -> None:
    program.chmod(0o644)
    done = seatrial("run", "s.yaml", "-o", "out")
    assert (done.returncode, "build/kube-scheduler is not executable" in done.stderr) == (3, True)
    assert seatrial("run", "s.yaml", "-o", "out", "--setup", "before", "--junit", "j.xml").returncode == 0


def test_what_the_simulator_does_not_run_is_a_finding_and_fails_whatever_somebody_acts_on(
    program: Path, seatrial: Seatrial
) -> None:
    folder = program.parents[1]
    plain = seatrial("run", "s.yaml", "-o", "out")
    assert plain.returncode == 0, plain.stderr
    assert "finding: set-up 'after' replaces kube-scheduler, which the simulator does not run" in plain.stderr
    assert NOT_RUN not in plain.stderr
    [before, after] = [json.loads(file.read_text()) for file in sorted(folder.glob("out/trials/*/trial.json"))]
    assert (before["findings"], len(after["findings"])) == ([], 1)
    assert "which the simulator does not run" in (folder / "out" / "report.html").read_text()
    for options in (["--junit", "j.xml"], ["--summary", "s.md"]):
        done = seatrial("report", "out", *options)
        assert (done.returncode, NOT_RUN in done.stderr) == (1, True)
    assert 'failures="1"' in (folder / "j.xml").read_text()
    (folder / "s.yaml").write_text(SCENARIO + "expect: [completed == submitted]\n")
    gated = seatrial("run", "s.yaml", "-o", "gated")
    assert (gated.returncode, NOT_RUN in gated.stderr, "--on local" in gated.stderr) == (1, True, True)
