"""Trials side by side (`-j 2`): the same outcome as one after the other, and workers that end with the run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import COMMAND, Seatrial
from tests.waiting import eventually

REFUSED = """
name: refused
nodes: [{name: n, count: 1, capacity: {cpu: 4, memory: 8Gi}}]
setups:
  good: {stack: default}
  bad:
    stack: default
    flow-schemas:
      - name: nowhere
        matchingPrecedence: 100
        priorityLevelConfiguration: {name: not-there}
        rules:
          - subjects: [{kind: Group, group: {name: "system:authenticated"}}]
            resourceRules: [{verbs: ["*"], apiGroups: ["*"], resources: ["*"], namespaces: ["*"]}]
  better: {stack: default}
steps:
  - create: {name: maps, count: 3, objects: {apiVersion: v1, kind: ConfigMap, metadata: {name: "m-${i}"}}}
"""
LONG = """
name: long
nodes: [{name: n, count: 200, capacity: {cpu: 64, memory: 256Gi, pods: 500}, pods: {start: 1s}}]
stacks: [default]
settings: {qps: unlimited}
steps:
  - submit: {name: load, count: 90000, duration: 30s, requests: {cpu: 10m}}
  - wait: {for: completed, timeout: 24h}
"""


def test_a_set_up_that_the_simulator_refuses_is_a_failed_row_with_and_without_a_pool(
    seatrial: Seatrial, tmp_path: Path
) -> None:
    (tmp_path / "s.yaml").write_text(REFUSED)
    rows = []
    for jobs in ("1", "2"):
        done = seatrial("run", "s.yaml", "-o", f"out{jobs}", "-j", jobs)
        assert done.returncode == 3, done.stderr
        assert "Traceback" not in done.stderr
        assert "'not-there', which does not exist" in done.stderr
        rows.append((tmp_path / f"out{jobs}" / "summary.csv").read_text())
        states = [
            json.loads(path.read_text())["outcome"] for path in sorted(tmp_path.glob(f"out{jobs}/trials/*/trial.json"))
        ]
        assert states == ["completed", "failed", "completed"]
    assert rows[0] == rows[1]


def _begin(folder: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """A run with two workers at work, and their process ids."""
    (folder / "s.yaml").write_text(LONG)
    process = subprocess.Popen(
        [*COMMAND, "run", "s.yaml", "-o", "out", "-j", "2", "--repeat", "4"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert eventually(lambda: len(list(folder.glob("out/trials/*/observed-*.seg"))) == 2)
    writers = {int(path.name.split("-")[1]) for path in folder.glob("out/trials/*/observed-*.seg")}
    assert len(writers) == 2
    return process, sorted(writers)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    process, workers = _begin(tmp_path)
    process.kill()
    _, words = process.communicate(timeout=30)  # until the last of its processes has ended
    assert "leaked" not in words
    assert eventually(lambda: not any(map(_alive, workers)), within_s=5)
    report = subprocess.run([*COMMAND, "report", "out"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "killed: 2 of 4 trials begun" in report.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_that_is_ended_ends_the_run_with_a_line(tmp_path: Path, number: signal.Signals) -> None:
    process, workers = _begin(tmp_path)
    os.kill(workers[0], number)
    output, words = process.communicate(timeout=60)
    assert "Traceback" not in words
    if number == signal.SIGTERM:
        assert process.returncode == 130, words
        assert "interrupted: 2 of 4 trials begun" in output
    else:
        assert process.returncode == 3, words
        assert "a worker process died" in words
    assert eventually(lambda: not any(map(_alive, workers)), within_s=5)


def _children(pid: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_workers_still_start_ends_the_run_without_a_traceback(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "s.yaml").write_text(LONG)
    process = subprocess.Popen(
        [*COMMAND, "run", "s.yaml", "-o", "out", "-j", "2", "--repeat", "4"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert eventually(lambda: (tmp_path / "out" / "trials").exists() and len(_children(process.pid)) == 3)
    workers = _children(process.pid)  # and the resource tracker of multiprocessing, which ignores signals
    assert eventually(lambda: all("lib-dynload" in Path(f"/proc/{pid}/maps").read_text() for pid in workers)), (
        "importing"
    )
    for pid in (*workers, process.pid):
        os.kill(pid, number)  # as a terminal does
    _, words = process.communicate(timeout=60)
    assert "Traceback" not in words
    assert process.returncode == 130, words
    assert eventually(
        lambda: not any(map(_alive, workers)), within_s=5
    )  # the resource tracker sees the end of the others
