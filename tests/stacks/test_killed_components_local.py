"""The programs of stacks, killed in mid-run: they are started again, the run completes, and its trial says what died."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import polars as pl
import pytest

from seatrial import stacks
from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.stacks.kai.kai_kinds import SCHEDULER_NAME
from seatrial.stacks.kai.real import BINDER_NAME
from seatrial.stacks.volcano.real import NAME
from tests.runs.conftest import Start, component_pid
from tests.waiting import eventually

pytestmark = pytest.mark.local


@pytest.mark.parametrize(
    ("stack", "component"),
    [("appwrapper", "appwrapper"), ("kai", SCHEDULER_NAME), ("kai", BINDER_NAME), ("volcano", NAME)],
)
def test_a_killed_program_is_started_again_and_every_workload_completes(
    stack: str, component: str, start: Start, tmp_path: Path
) -> None:
    ensure_binaries(stacks.find(stack).real.programs())
    process = start("run", "small.yaml", "--on", "local", "--stack", stack, "-o", "out", "--set", "jobs=30")
    before = component_pid(component)
    jobs = tmp_path / "out" / "trials" / f"001-{stack}-r1" / "submitted.jsonl"
    assert eventually(lambda: jobs.is_file() and jobs.stat().st_size > 0)
    os.kill(before, signal.SIGKILL)
    _, words = process.communicate(timeout=150)
    assert process.returncode == 0, words
    row = pl.read_csv(tmp_path / "out" / "summary.csv").row(0, named=True)
    assert (row["submitted"], row["completed"], row["outcome"]) == (30, 30, "completed")
    trial = json.loads(next(tmp_path.glob("out/trials/*/trial.json")).read_text())
    assert any(component in death for death in trial["validity"]["deaths"])
