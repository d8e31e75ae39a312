"""The study directory: one writer at a time, and `--force` removes what a study owns and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seatrial.analysis.studies import Study
from seatrial.model.errors import SetupProblem
from seatrial.record.layout import FORMATS, REMOVABLE
from seatrial.record.segments import Segment
from seatrial.study import study_directory
from tests.conftest import Seatrial

HOLDING = """
import sys, time
from pathlib import Path
from seatrial.study import study_directory

with study_directory.new_study(Path(sys.argv[1]), force=False):
    study_directory.write_study(Path(sys.argv[1]), {"format": 1, "trials": [], "run": {"state": "running"}})
    print("held", flush=True)
    time.sleep(100)
"""

REQUESTS = """
name: asks
nodes: [{name: n, count: 1, capacity: {cpu: 4, memory: 8Gi}}]
setups: {plain: {stack: default}, again: {stack: default}}
steps:
  - create: {name: maps, objects: {apiVersion: v1, kind: ConfigMap, metadata: {name: "m-${i}"}}, count: 5, rate: 5/s}
  - submit: {name: jobs, count: 2, duration: 1s, requests: {cpu: 10m}}
  - submit: {name: pairs, count: 2, pods: 2, duration: 1s, requests: {cpu: 10m}}
  - wait: {for: completed, timeout: 24h}
"""


def test_a_study_that_is_written_is_refused_with_the_process_until_that_is_gone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    holding = [sys.executable, "-c", HOLDING, str(out)]
    with subprocess.Popen(holding, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None and writer.stdout.readline() == "held\n"
            assert Study.open(out).state == "running", "readers need no lock"
            for _ in range(2):
                said = f"process {writer.pid} is writing"
                with pytest.raises(SetupProblem, match=said) as refused, study_directory.new_study(out, force=True):
                    pass
                assert f"kill {writer.pid}" in refused.value.remedy
            os.kill(writer.pid, signal.SIGKILL)
            writer.wait(timeout=10)
            assert Study.open(out).state == "killed"
            with study_directory.new_study(out, force=True):
                assert not list(out.iterdir())
        finally:
            writer.kill()


def test_a_second_run_onto_a_study_that_is_written_ends_with_a_line_and_the_first_is_whole(
    seatrial: Seatrial, tmp_path: Path
) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text(REQUESTS.replace("count: 2", "count: 8000"))
    command = [sys.executable, "-m", "seatrial", "run", str(scenario), "-o", "out", "--setup", "plain"]
    first = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    while not (tmp_path / "out" / "study.json").exists() and time.monotonic() < end:
        time.sleep(0.02)
    second = seatrial("run", scenario, "-o", "out", "--force", "--setup", "plain")
    running = first.poll() is None
    assert first.wait(timeout=110) == 0
    assert running, "the first was still at work: otherwise this shows nothing"
    assert second.returncode == 3, second.stderr
    assert "Traceback" not in second.stderr
    assert f"process {first.pid} is writing the study in out" in second.stderr
    assert [trial.outcome for trial in Study.open(tmp_path / "out").trials] == ["completed"]


def test_a_study_that_somebody_samples_is_not_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "trials" / "001").mkdir(parents=True)
    (out / "study.json").write_text("{}")
    segment = Segment(out / "trials" / "001")
    with pytest.raises(SetupProblem, match="seatrial sample"):
        study_directory.make_empty(out, force=True)
    segment.close()
    study_directory.make_empty(out, force=True)
    assert not list(out.iterdir())


def test_force_leaves_nothing_of_a_study_that_had_every_file(seatrial: Seatrial, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(REQUESTS)
    assert seatrial("run", "s.yaml", "-o", "out", "--repeat", "2").returncode == 0
    for kind in FORMATS:
        assert seatrial("plot", "-o", "out", "--format", kind).returncode == 0
    out = tmp_path / "out"
    there = {path.name for path in out.iterdir()}
    assert {"api.csv", "api-differences.csv", "api.png", "sizes.csv", "sizes.png", "general.pdf"} <= there
    assert there <= set(REMOVABLE)
    (out / "mine.txt").write_text("kept")
    study_directory.make_empty(out, force=True)
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
