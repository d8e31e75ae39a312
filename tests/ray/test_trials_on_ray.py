"""`seatrial run --ray ADDRESS`: trials on many machines give the bytes of one process, whatever dies meanwhile."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import COMMAND, Seatrial
from tests.ray_nodes import RayNodes, kill, ray_of
from tests.study_contents import contents
from tests.waiting import eventually

SWEEP = """
name: sweep
params: {jobs: [1, 2, 3, 4, 5, 6]}
nodes: [{name: n, count: 2, capacity: {cpu: 4, memory: 8Gi}, pods: {start: 1s}}]
stacks: [default, kueue]
steps:
  - submit: {name: load, count: "${jobs}", rate: 5/s, arrival: poisson, duration: 1s, requests: {cpu: 1}}
  - wait: {for: completed, timeout: 1h}
expect: ["completed == submitted"]
"""
# A trial of some seconds: long enough to be killed in the middle, and for Ray to notice that a machine is gone.
LONG = (
    SWEEP.replace("[1, 2, 3, 4, 5, 6]", "[8001, 8002, 8003, 8004]")
    .replace("rate: 5/s", "rate: 3/s")
    .replace("[default, kueue]", "[default]")
)


@pytest.fixture(scope="module")
def ray() -> Iterator[RayNodes]:
    """A head without cores and two nodes of one core."""
    with ray_of({"num_cpus": 0}, {"num_cpus": 1}, {"num_cpus": 1}) as nodes:
        yield nodes


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    file = tmp_path / "sweep.yaml"
    file.write_text(SWEEP)
    return file


def test_a_study_on_two_nodes_has_the_bytes_of_one_process(
    seatrial: Seatrial, tmp_path: Path, sweep: Path, ray: RayNodes
) -> None:
    far = seatrial("run", sweep, "--ray", ray.address, "-o", "far")
    assert far.returncode == 0, far.stderr
    assert "on a Ray of 2 machines with 2 cores" in far.stderr
    assert "[12/12]" in far.stderr
    assert seatrial("run", sweep, "-o", "near", "-j", "1").returncode == 0
    assert contents(tmp_path / "far") == contents(tmp_path / "near")
    ran_on = {json.loads(file.read_text())["run"]["machine"] for file in tmp_path.glob("far/trials/*/trial.json")}
    assert ran_on == {socket.gethostname()}


def test_a_ray_of_ones_own_leaves_nothing_behind(seatrial: Seatrial, sweep: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # its sockets have paths of at most 107 bytes
        home = Path(short) / "home"
        home.mkdir()
        done = seatrial("run", sweep, "--set", "jobs=2", "--ray", "local", "-o", "out", TMPDIR=short, HOME=str(home))
        assert done.returncode == 0, done.stderr
        assert [one.name for one in Path(short).iterdir()] == ["home"]
        assert not (home / ".ray").exists(), "a token there would be asked for by every `ray start` from then on"


def test_auto_is_the_ray_that_the_environment_names(seatrial: Seatrial, sweep: Path, ray: RayNodes) -> None:
    done = seatrial("run", sweep, "--set", "jobs=2", "--ray", "auto", "-o", "out", RAY_ADDRESS=ray.address)
    assert done.returncode == 0, done.stderr
    assert "on a Ray of 2 machines with 2 cores" in done.stderr


def test_workers_and_a_machine_that_are_killed_cost_nothing_but_time(seatrial: Seatrial, tmp_path: Path) -> None:
    file = tmp_path / "long.yaml"
    file.write_text(LONG)
    with ray_of({"num_cpus": 0}, {"num_cpus": 1}, {"num_cpus": 1}) as nodes:
        command = [*COMMAND, "run", file.name, "--ray", nodes.address, "-o", "far"]
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        with process:
            assert eventually(lambda: bool(nodes.busy(1)) and bool(nodes.busy(2)))
            kill(nodes.busy(1)[0])
            kill(nodes.raylets[2])
            assert process.stderr is not None
            said = process.stderr.read()
    assert process.returncode == 0, said
    assert said.count("its worker was lost") >= 2
    assert "has left the Ray" in said
    assert seatrial("run", file.name, "-o", "near").returncode == 0
    far, near = contents(tmp_path / "far"), contents(tmp_path / "near")
    assert len([name for name in far if name.endswith("trial.json")]) == 4
    assert far == near


def test_ctrl_c_keeps_what_was_observed_and_resume_runs_the_rest(
    seatrial: Seatrial, tmp_path: Path, ray: RayNodes
) -> None:
    file = tmp_path / "long.yaml"
    file.write_text(LONG.replace("[8001, 8002, 8003, 8004]", "[40001, 40002, 40003, 40004]"))
    command = [*COMMAND, "run", file.name, "--ray", ray.address, "-o", "far"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    with process:
        assert eventually(lambda: len(ray.trials()) == 2)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read()
    assert process.returncode == 130, said
    assert "seatrial run --resume far" in said
    assert _outcomes(tmp_path / "far") == ["interrupted", "interrupted"]
    assert eventually(lambda: not ray.trials()), "workers have cleaned up"
    resumed = seatrial("run", "--resume", "far", "--ray", ray.address)
    assert resumed.returncode == 0, resumed.stderr
    assert _outcomes(tmp_path / "far") == ["completed"] * 4


def _outcomes(out: Path) -> list[str]:
    return [json.loads(path.read_text())["outcome"] for path in sorted(out.glob("trials/*/trial.json"))]
