"""Kubelets with real containers: containerd and runc of this machine. Loudly skipped where they cannot run."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

from seatrial.clusters.containers.requirements import lacks
from seatrial.clusters.supervision.containers_left import is_left
from seatrial.clusters.supervision.directories import clusters_root
from tests.conftest import Seatrial
from tests.runs.conftest import Start, processes_of
from tests.waiting import eventually

LACKS = lacks()
pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(
        bool(LACKS), reason="NO REAL CONTAINERS here: " + "; ".join(f"{one.what} ({one.remedy})" for one in LACKS)
    ),
]

SCENARIO = """
name: real
nodes: [{name: real, count: 2, kubelet: containers, capacity: {cpu: 4, memory: 8Gi, nvidia.com/gpu: 4}}]
stacks: [default]
params: {duration: 2s}
steps:
  - - submit: {name: plain, count: 4, duration: "${duration}", requests: {cpu: 10m, memory: 5M}}
    - submit: {name: gang, count: 1, pods: 2, gang: true, duration: "${duration}", requests: {cpu: 10m, nvidia.com/gpu: 3}}
  - wait: {for: completed, timeout: 2m}
expect: ["completed == submitted"]
"""


def _left(directories: list[Path]) -> list[str]:
    return [one for directory in directories for one in is_left(directory)]


def test_jobs_and_gangs_run_in_real_containers_and_a_killed_run_leaves_nothing(
    start: Start, seatrial: Seatrial, tmp_path: Path, own_state: Path
) -> None:
    """One run to its end, one killed while containers run: the next command removes what it left."""
    (tmp_path / "real.yaml").write_text(SCENARIO)
    done = seatrial("run", "real.yaml", "--on", "local", "-o", "out")
    assert done.returncode == 0, done.stderr
    times = pl.read_csv(tmp_path / "out" / "times.csv")
    assert times["container_created_s"].is_not_null().all() and times["sandbox_s"].is_not_null().all()
    pods = pl.read_csv(tmp_path / "out" / "pods.csv")
    assert pods.height == 6
    assert (
        pods.select(pl.col("finished_s") - pl.col("started_s")).to_series() > 0.9
    ).all()  # the API has whole seconds
    gang = pods.filter(pl.col("workload").str.starts_with("gang"))
    assert gang["finished_s"].min() - gang["started_s"].max() > 0.9  # type: ignore[operator]
    assert not processes_of(own_state) and not list(clusters_root().glob("*/"))

    run = start("run", "real.yaml", "--on", "local", "-o", "killed", "--set", "duration=10m")
    assert eventually(lambda: any(one.startswith("process") for one in _running_containers()))
    directories = list(clusters_root().glob("*/"))
    run.kill()
    run.communicate()
    assert seatrial("cluster", "status").returncode == 0
    assert _left(directories) == [] and not processes_of(own_state) and not list(clusters_root().glob("*/"))
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert os.environ["XDG_STATE_HOME"] == str(own_state)


def _running_containers() -> list[str]:
    """Processes of clusters in which a container of a pod runs: more bundles than those of sandboxes."""
    found = []
    for directory in clusters_root().glob("*/"):
        if list(directory.glob("kubelets/*/logs/*/main/*.log")):
            found += is_left(directory)
    return found
