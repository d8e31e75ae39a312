"""A trace replayed on the simulator, from the file to the study."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import Seatrial
from tests.traces import samples

SCENARIO = """
name: again
nodes: [{name: node, count: 16, capacity: {cpu: 1, memory: 8Gi, nvidia.com/gpu: 1}}]
stacks: [default]
steps:
  - submit: {name: replay, trace: t.swf}
  - wait: {for: completed, timeout: 1h}
expect: ["completed == 4"]
"""


def test_a_trace_is_replayed_when_it_says_and_its_study_can_be_run_again(tmp_path: Path, seatrial: Seatrial) -> None:
    samples.swf(tmp_path / "t.swf")
    (tmp_path / "again.yaml").write_text(SCENARIO)
    ran = seatrial("run", "again.yaml", "-o", "out")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    [trial] = (tmp_path / "out" / "trials").iterdir()
    lines = [json.loads(line) for line in (trial / "submitted.jsonl").read_text().splitlines()]
    assert [round(line["at_ns"] / 1e9) for line in lines] == [0, 10, 10, 60]
    assert [(line["pods"], line["duration_s"], line["shape"]) for line in lines] == [
        (4, 60, "replay#0"), (1, 60, "replay#0"), (4, 0, "replay#0"), (4, 60, "replay#0"),
    ]  # fmt: skip
    document = json.loads((trial / "trial.json").read_text())
    assert document["phases"]["replay"]["shapes"]["replay#0"]["requests"] == {"cpu": 1000}
    assert document["audits"], "audits know the shapes of a trace"
    assert all(not audit["count"] for audit in document["audits"])
    used = pl.read_csv(tmp_path / "out" / "summary.csv")["cpu_util"][0]
    total = pl.read_csv(tmp_path / "out" / "summary.csv")["total_s"][0]
    assert used == pytest.approx((4 * 60 + 60 + 4 * 60) / (16 * total), rel=0.05), (
        "the cores of the jobs over those of the nodes"
    )
    again = seatrial("run", "out/study.json", "-o", "out2")
    assert again.returncode == 0, again.stdout + again.stderr
    assert (tmp_path / "out2" / "times.csv").read_bytes() == (tmp_path / "out" / "times.csv").read_bytes()
