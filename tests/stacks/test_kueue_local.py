"""Real Kueue: its conditions become stages, its certificate matters, and gangs run whole where it waits for them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.runs.conftest import Start, run_on_local

pytestmark = pytest.mark.local

QUEUED = """
name: queued
nodes: [{name: fake, count: 2, capacity: {cpu: 4, memory: 8Gi}, pods: {start: 200ms}}]
stacks: [kueue]
steps:
  - submit: {name: short, count: 5, duration: 2s, requests: {cpu: 4}, rate: 5/s}
  - wait: {for: quota_reserved, timeout: 80s}
  - wait: {for: released, timeout: 80s}
expect: ["completed == submitted"]
"""

# Two gangs would fit the quota of nine cores, one the nodes.
GANGS = """
name: gangs
nodes: [{name: fake, count: 3, capacity: {cpu: 3, memory: 8Gi}, pods: {start: 200ms}}]
stacks: [kueue]
settings: {kueue: {wait-for-pods-ready: true, topology: true}}
steps:
  - submit: {name: gang, count: 3, pods: 2, duration: 2s, requests: {cpu: 2}, gang: true}
  - wait: {for: completed, timeout: 80s}
expect: ["completed == submitted"]
"""

REFUSED = QUEUED.replace("expect", "settings: {kueue: {webhook-ca: wrong}, clog: {patience: 30s}}\nexpect").replace(
    '"completed == submitted"', "'outcome == \"clogged\"'"
)


def run(start: Start, directory: Path, scenario: str) -> pl.DataFrame:
    out = run_on_local(start, directory, scenario, 150)
    return pl.read_csv(out / "times.csv", infer_schema_length=None)


def test_every_stage_is_seen_and_no_more_is_admitted_than_the_quota(start: Start, tmp_path: Path) -> None:
    times = run(start, tmp_path, QUEUED)
    order = ["submitted", "created", "queued", "quota_reserved", "admitted", "pods_created", "scheduled", "running",
             "finished", "completed", "released"]  # fmt: skip
    for before, after in itertools.pairwise(order):
        # Two watches may differ by some milliseconds.
        assert (times[f"{after}_s"] - times[f"{before}_s"] > -0.05).all(), (before, after)
    third = times["admitted_s"].sort()[2]
    assert third > times["completed_s"].min()


def test_gangs_are_admitted_one_after_another_and_each_to_nodes_that_take_it(start: Start, tmp_path: Path) -> None:
    times = run(start, tmp_path, GANGS).sort("admitted_s")
    assert (times["admitted_s"][1:] > times["running_s"][:-1]).all()
    pods = pl.read_csv(tmp_path / "out" / "pods.csv")
    assert (pods.group_by("workload").agg(pl.col("node").n_unique())["node"] == 2).all()


def diagnosed(directory: Path) -> dict[str, Any]:
    (trial,) = (directory / "out" / "trials").glob("*/trial.json")
    said: dict[str, Any] = json.loads(trial.read_text())
    assert said["outcome"] == "clogged"
    assert said["clog"]["kind"] == "not acting"
    return said


def test_a_certificate_that_is_refused_is_quoted_in_the_diagnosis(start: Start, tmp_path: Path) -> None:
    run(start, tmp_path, REFUSED)
    said = diagnosed(tmp_path)
    assert "mjob.kb.io" in said["detail"]
    assert "x509: certificate signed by unknown authority" in said["detail"]
