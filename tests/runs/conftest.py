"""Scenarios on a real control plane, through the command line, with state of their own."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from seatrial.clusters import programs
from seatrial.clusters.access import kept_clusters
from seatrial.clusters.programs.binaries import ensure_binaries
from tests.conftest import COMMAND

Start = Callable[..., "subprocess.Popen[str]"]

SCENARIO = """
name: small
params: {jobs: 12}
nodes:
  - {name: fake, count: 3, capacity: {cpu: 8, memory: 32Gi, nvidia.com/gpu: 4}, labels: {type: kwok},
     taints: ["kwok.x-k8s.io/node=fake:NoSchedule"], pods: {create: 200ms, start: 500ms}}
stacks: [default]
settings: {qps: {equal: 500}}
steps:
  - submit: {name: short, count: "${jobs}", rate: 10/s, duration: 2s, requests: {cpu: 100m, memory: 50M}}
  - wait: {for: completed, timeout: 2m}
expect: ["completed == submitted"]
"""


@pytest.fixture(scope="session", autouse=True)
def built() -> None:
    ensure_binaries(programs.CONTROL_PLANE)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    state = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    return state


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start("run", …)` in the background."""
    begun: list[subprocess.Popen[str]] = []
    (tmp_path / "small.yaml").write_text(SCENARIO)

    def go(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=tmp_path,
            env={**os.environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        return process

    yield go
    for process in begun:
        with process:  # closes its pipes
            if process.poll() is None:
                process.kill()


def component_pid(name: str, within: float = 60.0) -> int:
    """The pid of a component of the trial that runs now."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        for cluster in kept_clusters.all_clusters():
            if cluster.state.up and name in cluster.pids:
                return cluster.pids[name]
        time.sleep(0.05)
    raise AssertionError(f"no {name} came up within {within:.0f} s")


def processes_of(state: Path) -> list[str]:
    """Command lines of everything that runs in a cluster directory below `state`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                where = (entry / "cwd").readlink()
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if where.is_relative_to(state):
                found.append(command[:120])
    return found


def run_on_local(start: Start, directory: Path, scenario: str, timeout: float = 280) -> Path:
    """Runs the scenario to its end, which must be a good one; returns the study."""
    (directory / "mine.yaml").write_text(scenario)
    process = start("run", "mine.yaml", "--on", "local", "-o", "out")
    _, words = process.communicate(timeout=timeout)
    assert process.returncode == 0, words
    return directory / "out"
