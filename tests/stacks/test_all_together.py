"""All stacks that run here, one after another by one command; one that cannot start does not keep the others from it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.runs.conftest import Start, processes_of

pytestmark = pytest.mark.local

STACKS = ["default", "coscheduling", "kueue", "mcad", "gang"]
SCENARIO = """
name: together
nodes: [{name: fake, count: 4, capacity: {cpu: 4, memory: 8Gi}, pods: {start: 200ms}}]
setups:
  default: {stack: default}
  coscheduling: {stack: coscheduling}
  broken: {stack: default, components: {kube-scheduler: {binary: /bin/false}}}
  kueue: {stack: kueue}
  mcad: {stack: mcad}
  gang: {stack: gang}
steps:
  - submit: {name: pair, count: 2, pods: 2, gang: true, duration: 1s, requests: {cpu: 1}, rate: 2/s}
  - wait: {for: completed, timeout: 60s}
expect: ["completed == submitted"]
"""


def test_all_stacks_run_in_turn_and_one_that_does_not_start_is_reported(
    start: Start, tmp_path: Path, own_state: Path
) -> None:
    (tmp_path / "together.yaml").write_text(SCENARIO)
    process = start("run", "together.yaml", "--on", "local", "-o", "out")
    _, words = process.communicate(timeout=240)
    assert process.returncode == 3, words
    assert "Traceback" not in words
    outcomes = dict(pl.read_csv(tmp_path / "out" / "summary.csv").select("setup", "outcome").iter_rows())
    assert outcomes == {"broken": "failed", **dict.fromkeys(STACKS, "completed")}
    [broken] = (tmp_path / "out" / "trials").glob("*-broken-*/trial.json")
    assert "kube-scheduler ended with status 1 while it was started" in json.loads(broken.read_text())["detail"]
    assert "kube-scheduler ended with status 1" in words
    assert not processes_of(own_state)
