"""Real MCAD: what it writes becomes stages, and it lets go by what the cluster has in all."""

from __future__ import annotations

import itertools
from pathlib import Path

import polars as pl
import pytest

from tests.runs.conftest import Start, run_on_local

pytestmark = pytest.mark.local

SCENARIO = """
name: queued
nodes: [{name: fake, count: 2, capacity: {cpu: 4, memory: 8Gi}, pods: {start: 200ms}}]
stacks: [mcad]
settings: {mcad: {backoff: 2s}}
steps:
  - submit: {name: short, count: 5, duration: 2s, requests: {cpu: 4}, rate: 5/s}
  - wait: {for: released, timeout: 80s}
  - submit: {name: large, count: 1, duration: 2s, requests: {cpu: 6}}  # the cluster has them, no node has
  - wait: {for: completed, timeout: 80s}
expect: ['outcome == "clogged"', 'clog == "aggregate admission"', "completed == 5", "audit_aggregate == 1"]
"""


def test_every_stage_is_seen_and_no_more_is_let_go_than_the_cluster_has(start: Start, tmp_path: Path) -> None:
    out = run_on_local(start, tmp_path, SCENARIO, 150)
    times = pl.read_csv(out / "times.csv").filter(pl.col("phase") == "short")
    order = [
        "submitted",
        "created",
        "queued",
        "head_of_line",
        "admitted",
        "running",
        "finished",
        "completed",
        "released",
    ]
    stages = [times[f"{stage}_s"] for stage in order]
    for before, after in itertools.pairwise(stages):
        assert (after - before > -0.05).all(), (before.name, after.name)  # two watches may differ by some milliseconds
    # Two nodes' worth: the third is let go only when MCAD has seen that one of the first two is over.
    third = times["admitted_s"].sort()[2]
    assert third > times["finished_s"].min()
