"""Kubelets with real containers: containerd and runc of this machine. Loudly skipped where they cannot run."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from seatrial.clusters.containers.requirements import lacks
from seatrial.clusters.supervision.directories import clusters_root
from tests.conftest import Seatrial
from tests.runs.conftest import processes_of

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
steps:
  - - submit: {name: plain, count: 4, duration: 2s, requests: {cpu: 10m, memory: 5M}}
    - submit: {name: gang, count: 1, pods: 2, gang: true, duration: 2s, requests: {cpu: 10m, nvidia.com/gpu: 3}}
  - wait: {for: completed, timeout: 2m}
expect: ["completed == submitted"]
"""


def test_jobs_and_gangs_run_in_real_containers_and_leave_nothing(
    seatrial: Seatrial, tmp_path: Path, own_state: Path
) -> None:
    (tmp_path / "real.yaml").write_text(SCENARIO)
    done = seatrial("run", "real.yaml", "--on", "local", "-o", "out")
    assert done.returncode == 0, done.stderr
    times = pl.read_csv(tmp_path / "out" / "times.csv")
    assert times["sandbox_s"].is_not_null().all() and times["pulled_s"].is_not_null().all()
    assert (times["finished_s"] - times["container_created_s"] > 1.9).all(), "a container ended before its time"
    [document] = tmp_path.glob("out/trials/*/trial.json")
    counts = json.loads(document.read_text())["validity"]["runtime"]
    assert counts["sandbox"] >= 6 and counts["started"] >= 6 and counts["crashed"] == 0
    pods = pl.read_csv(tmp_path / "out" / "pods.csv")
    gang = pods.filter(pl.col("workload").str.starts_with("gang"))
    assert gang["finished_s"].min() - gang["started_s"].max() > 0.9  # type: ignore[operator]
    assert not processes_of(own_state) and not list(clusters_root().glob("*/"))
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
