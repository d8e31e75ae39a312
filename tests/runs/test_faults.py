"""`kill -9` in the middle of a run: it ends with the right counts or says what died, and nothing stays behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path

import polars as pl
import pytest

from seatrial.clusters.access import kept_clusters
from tests.runs.conftest import Start, component_pid, processes_of

pytestmark = pytest.mark.local


@pytest.mark.parametrize("component", ["kube-scheduler", "kube-controller-manager", "kwok", "kube-apiserver", "etcd"])
def test_a_component_that_is_killed_is_started_again_and_nothing_is_lost(
    start: Start, tmp_path: Path, own_state: Path, component: str
) -> None:
    process = start("run", "small.yaml", "--on", "local", "-o", "out", "--set", "jobs=30")
    pid = component_pid(component)
    time.sleep(2.5)  # in the middle of 3 s of submissions and 3 s of life per Job
    os.kill(pid, signal.SIGKILL)
    _, words = process.communicate(timeout=150)
    trial = json.loads(next(tmp_path.glob("out/trials/*/trial.json")).read_text())
    died = " ".join(trial["validity"]["deaths"])
    assert component in died
    assert not trial["validity"]["valid"]
    [doubt] = [one for one in trial["validity"]["reasons"] if component in one["reason"]]
    assert doubt["touches"] == ["times", "rates"], "counts hold"
    if process.returncode == 0:
        row = pl.read_csv(tmp_path / "out" / "summary.csv").row(0, named=True)
        assert (row["submitted"], row["completed"], row["outcome"]) == (30, 30, "completed")
        assert pl.read_csv(tmp_path / "out" / "times.csv")["workload"].n_unique() == 30
    else:
        assert process.returncode == 1, words
        assert trial["outcome"] in ("failed", "clogged")
        assert component in trial["detail"]
    assert "Traceback" not in words
    assert not processes_of(own_state)


def test_a_component_that_dies_again_and_again_is_given_up_and_that_is_the_clog(
    start: Start, tmp_path: Path, own_state: Path
) -> None:
    process = start("run", "small.yaml", "--on", "local", "-o", "out", "--set", "jobs=100")
    component_pid("kube-controller-manager")
    jobs = tmp_path / "out" / "trials" / "001-default-r1" / "submitted.jsonl"
    while process.poll() is None and not (jobs.is_file() and jobs.stat().st_size):
        time.sleep(0.05)
    while process.poll() is None:  # however often it comes back
        for cluster in kept_clusters.all_clusters():
            if pid := cluster.pids.get("kube-controller-manager"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    _, words = process.communicate(timeout=60)
    assert process.returncode == 1, words
    assert "Traceback" not in words
    trial = json.loads(next(tmp_path.glob("out/trials/*/trial.json")).read_text())
    assert (trial["outcome"], trial["clog"]["kind"]) == ("clogged", "controller dead")
    assert "kube-controller-manager" in trial["detail"]
    assert "its last words:" in trial["detail"]
    assert trial["clog"]["workloads_in_all"] > 0
    assert (next(tmp_path.glob("out/trials/*")) / "logs" / "kube-controller-manager.log").is_file()
    assert not processes_of(own_state)


def test_a_killed_tool_leaves_nothing_that_survives_the_next_command(
    start: Start, tmp_path: Path, own_state: Path
) -> None:
    process = start("run", "small.yaml", "--on", "local", "-o", "first", "--set", "jobs=30")
    component_pid("kube-scheduler")
    time.sleep(2)
    process.kill()
    process.communicate()
    again = start("run", "small.yaml", "--on", "local", "-o", "second")
    _, words = again.communicate(timeout=120)
    assert again.returncode == 0, words
    assert not processes_of(own_state)
    assert pl.read_csv(tmp_path / "second" / "summary.csv")["completed"].to_list() == [12]
    cut = start("report", "first")
    shown, words = cut.communicate(timeout=60)
    assert cut.returncode == 0, words
    assert "cut off" in shown + words


def test_ctrl_c_takes_the_control_plane_down(start: Start, tmp_path: Path, own_state: Path) -> None:
    process = start("run", "small.yaml", "--on", "local", "-o", "out", "--set", "jobs=100")
    component_pid("kube-scheduler")
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=60)
    assert process.returncode == 130, words
    assert "Traceback" not in words
    assert not processes_of(own_state)
    assert pl.read_csv(tmp_path / "out" / "summary.csv")["outcome"].to_list() == ["interrupted"]
