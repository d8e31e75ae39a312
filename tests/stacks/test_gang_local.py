"""Real gangs of Kubernetes 1.36: none is ever placed in part, and the model says what they take."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.conftest import Seatrial

pytestmark = pytest.mark.local

# Eight nodes that take one pod each, forty pods: a scheduler without gangs would clog.
SCENARIO = """
name: gangs
nodes: [{name: fake, count: 8, capacity: {cpu: 3, memory: 32Gi}, pods: {create: 200ms, start: 300ms}}]
stacks: [gang]
steps:
  - submit: {name: gang, gang: true, sizes: [2, 3, 4, 5, 6], each: 2, order: shuffled, duration: 3s, spread: true,
             requests: {cpu: 2, memory: 50M}}
  - submit: {name: single, count: 2, duration: 1s, requests: {cpu: 500m}}
  - wait: {for: completed, timeout: 100s}
  - submit: {name: late, gang: true, count: 1, pods: 8, duration: 1m, requests: {cpu: 2}}
  - wait: {for: running, of: [late], timeout: 30s}
  - delete: {of: [late]}
  - wait: {for: completed, timeout: 30s}
expect: ["completed == 12", "deleted == 1"]
"""


def test_gangs_come_whole_and_in_the_time_the_model_says(seatrial: Seatrial, tmp_path: Path) -> None:
    (tmp_path / "gangs.yaml").write_text(SCENARIO)
    for on in ("sim", "local"):
        done = seatrial("run", "gangs.yaml", "--on", on, "-o", on)
        assert done.returncode == 0, done.stderr
    pods = pl.read_csv(tmp_path / "local" / "pods.csv").filter(pl.col("workload").str.starts_with("gang-"))
    gangs = pods.group_by("workload").agg(
        pl.len(),
        pl.col("node").n_unique().alias("nodes"),
        (pl.col("bound_s").max() - pl.col("bound_s").min()).alias("apart"),
    )
    times = {on: pl.read_csv(tmp_path / on / "times.csv") for on in ("sim", "local")}
    sizes = times["local"].filter(pl.col("phase") == "gang").select("workload", "size")
    assert gangs.join(sizes, on="workload").filter(pl.col("len") != pl.col("size")).is_empty()
    assert (gangs["nodes"] == gangs["len"]).all()
    assert (gangs["apart"] < 1).all(), "all of a gang's pods get their nodes together"
    means = {on: frame.filter(pl.col("phase") == "gang")["turnaround_s"].mean() for on, frame in times.items()}
    assert means["local"] == pytest.approx(means["sim"], rel=0.3)
