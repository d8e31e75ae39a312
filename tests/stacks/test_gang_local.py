"""Schedulers that place gangs whole (Kubernetes 1.36's own, Volcano, KAI): none is ever placed in part."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.conftest import Seatrial

pytestmark = pytest.mark.local

# Eight nodes that take one pod each, twenty pods: a scheduler without gangs would clog.
SCENARIO = """
name: gangs
nodes: [{name: fake, count: 8, capacity: {cpu: 3, memory: 32Gi}, pods: {create: 200ms, start: 300ms}}]
stacks: [STACK]
steps:
  - submit: {name: gang, gang: true, sizes: [2, 3, 4, 5, 6], each: 1, order: shuffled, duration: 2s, spread: true,
             requests: {cpu: 2, memory: 50M}}
  - submit: {name: single, count: 2, duration: 1s, requests: {cpu: 500m}}
  - wait: {for: completed, timeout: 100s}
  - submit: {name: late, gang: true, count: 1, pods: 8, duration: 1m, requests: {cpu: 2}}
  - wait: {for: running, of: [late], timeout: 30s}
  - delete: {of: [late]}
  - wait: {for: completed, timeout: 30s}
expect: ["completed == 7", "deleted == 1"]
"""


@pytest.mark.parametrize("stack", ["gang", "volcano", "kai"])
def test_gangs_come_whole(stack: str, seatrial: Seatrial, tmp_path: Path) -> None:
    (tmp_path / "gangs.yaml").write_text(SCENARIO.replace("STACK", stack))
    done = seatrial("run", "gangs.yaml", "--on", "local", "-o", "out")
    assert done.returncode == 0, done.stderr
    pods = pl.read_csv(tmp_path / "out" / "pods.csv").filter(pl.col("workload").str.starts_with("gang-"))
    gangs = pods.group_by("workload").agg(
        pl.len(),
        pl.col("node").n_unique().alias("nodes"),
        (pl.col("bound_s").max() - pl.col("bound_s").min()).alias("apart"),
    )
    sizes = pl.read_csv(tmp_path / "out" / "times.csv").filter(pl.col("phase") == "gang").select("workload", "size")
    assert gangs.join(sizes, on="workload").filter(pl.col("len") != pl.col("size")).is_empty()
    assert (gangs["nodes"] == gangs["len"]).all()
    assert (gangs["apart"] < 1).all(), "all of a gang's pods get their nodes together"
