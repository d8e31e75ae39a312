"""Killed at any moment, a submission goes on where it stopped: every workload is there once, and has one line."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from seatrial.kube.resources import JOBS
from tests.conftest import COMMAND
from tests.submit.conftest import CLUSTER, Cluster, lines_of, python_env, study_of

pytestmark = pytest.mark.local

WORKLOADS, KILLS = 500, 20


def _lines(out: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in out.glob("trials/*/submitted.jsonl"))


def test_killed_at_20_random_moments_each_of_500_workloads_is_there_once(cluster: Cluster, tmp_path: Path) -> None:
    """The moments are drawn over the workloads: when so many lines are there, and up to a round (50 ms) later. The last is a
    second before the end at least, so that no stall of this machine makes one come too late."""
    drawn = random.Random(6)
    moments = sorted(drawn.sample(range(WORKLOADS - 100), KILLS))
    out = tmp_path / "out"
    rounds = ["-n", str(WORKLOADS), "-p", "5", "--delay", "0.05"]
    command = [*COMMAND, "submit", "-o", str(out), *rounds, "--cluster", CLUSTER]
    killed = 0
    for moment in moments:
        with subprocess.Popen(command, env=python_env(), stderr=subprocess.PIPE, text=True) as process:
            while process.poll() is None and _lines(out) < moment:
                time.sleep(0.002)
            time.sleep(drawn.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
            if (out / "study.json").exists():
                command = [*COMMAND, "submit", "-o", str(out), "--resume"]
    assert killed == KILLS, "it was over before it could be killed: nothing was shown"
    left = WORKLOADS - _lines(out)
    assert left > 0
    done = subprocess.run(command, env=python_env(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split(" after")[0]) == (0, f"{WORKLOADS} of {WORKLOADS} workloads submitted")
    study = study_of(out)
    expected = Counter(f"training-{study}-{index}" for index in range(WORKLOADS))
    assert Counter(job.metadata.name for job in cluster.there(JOBS, study)) == expected
    lines = lines_of(out)
    assert Counter(line["workload"] for line in lines) == expected
    assert Counter(line["index"] for line in lines) == Counter(range(WORKLOADS))
    assert not [line for line in lines if "refused" in line]
