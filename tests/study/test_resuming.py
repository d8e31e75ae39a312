"""`seatrial run --resume OUT`: a study that was stopped at any moment gets the bytes of one that never was."""

from __future__ import annotations

import json
import random
import subprocess
import time
from pathlib import Path

import pytest

from seatrial.record.trial_record import RUNNING
from tests.conftest import COMMAND, Seatrial
from tests.study_contents import contents
from tests.waiting import eventually

SWEEP = """
name: sweep
params: {jobs: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}
nodes: [{name: n, count: 2, capacity: {cpu: 4, memory: 8Gi}, pods: {start: 1s}}]
stacks: [default, kueue]
repeat: 3
steps:
  - submit: {name: load, count: "${jobs}", rate: 5/s, arrival: poisson, duration: 1s, requests: {cpu: 1}}
  - wait: {for: completed, timeout: 1h}
expect: ["completed == submitted"]
"""


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    file = tmp_path / "sweep.yaml"
    file.write_text(SWEEP)
    return file


def _killed_after(trials: int, command: list[str], folder: Path, draw: random.Random) -> None:
    """Runs the command until so many trials were begun, at least one of them by it, a moment longer, and kills it."""
    begun = folder / "out" / "trials"
    trials = max(trials, len(list(begun.glob("*"))) + 1)
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert eventually(lambda: process.poll() is not None or len(list(begun.glob("*"))) >= trials)
    time.sleep(draw.uniform(0, 0.15))
    process.kill()
    process.wait()


@pytest.mark.slow
def test_a_sweep_of_60_trials_that_is_killed_three_times_gets_the_bytes_of_one_that_never_was(
    seatrial: Seatrial, tmp_path: Path, sweep: Path
) -> None:
    draw = random.Random(60)
    command = [*COMMAND, "run", sweep.name, "-o", "out", "-j", "2"]
    again = [*COMMAND, "run", "--resume", "out", "-j", "2"]
    for trials, once in ((5, command), (25, again), (45, again)):
        _killed_after(trials, once, tmp_path, draw)
    done = seatrial(*again[len(COMMAND) :])
    assert done.returncode == 0, done.stderr
    assert "of 60 trials have ended before" in done.stderr
    assert seatrial("run", sweep.name, "-o", "never").returncode == 0
    killed, never = contents(tmp_path / "out"), contents(tmp_path / "never")
    assert len([name for name in never if name.endswith("trial.json")]) == 60
    assert killed == never
    assert json.loads((tmp_path / "out" / "study.json").read_text())["run"]["resumed"] == 3


@pytest.mark.slow
def test_ended_trials_stay_and_cut_off_or_damaged_ones_run_again(
    seatrial: Seatrial, tmp_path: Path, sweep: Path
) -> None:
    assert seatrial("run", sweep, "--set", "jobs=2,3", "--repeat", "1", "-o", "out").returncode == 0
    before = contents(tmp_path / "out")
    whole, cut, torn, missing = sorted((tmp_path / "out" / "trials").iterdir())
    kept = (whole / "trial.json").stat().st_mtime_ns
    trial = json.loads((cut / "trial.json").read_text())
    (cut / "trial.json").write_text(json.dumps({**trial, "outcome": RUNNING}))
    (torn / "observed.parquet").write_bytes(b"PAR1")
    for file in missing.iterdir():
        file.unlink()
    missing.rmdir()
    (tmp_path / "out" / "pods.csv.part").write_text("half of it")
    done = seatrial("run", "--resume", "out")
    assert done.returncode == 0, done.stderr
    assert "1 of 4 trials have ended before" in done.stderr
    assert [whole.name in line for line in done.stderr.splitlines()].count(True) == 0
    assert (whole / "trial.json").stat().st_mtime_ns == kept
    assert contents(tmp_path / "out") == before


@pytest.mark.slow
def test_a_study_of_something_else_is_refused_with_what_differs(
    seatrial: Seatrial, tmp_path: Path, sweep: Path
) -> None:
    assert seatrial("run", sweep, "--set", "jobs=2", "--repeat", "1", "-o", "out").returncode == 0
    before = contents(tmp_path / "out")

    def refused(*arguments: str, says: str) -> None:
        done = seatrial("run", *arguments)
        assert done.returncode == 2, done.stderr
        assert says in done.stderr
        assert "Traceback" not in done.stderr
        assert contents(tmp_path / "out") == before, "nothing of it is touched"

    refused("--resume", "out", "--seed", "5", says="--seed was 1 and is 5")
    refused("--resume", "out", "--set", "jobs=3", says='--set was {"jobs": [2]} and is {"jobs": [3]}')
    refused("--resume", "out", "--repeat", "2", says="--repeat was 1 and is 2")
    refused("--resume", "out", "--stack", "kueue", says="--stack was absent")
    refused("many-small-jobs", "--resume", "out", says="the scenario was sweep and is many-small-jobs")
    refused("--resume", "out", "-o", "out", says="--resume cannot be combined with -o")
    sweep.write_text(SWEEP.replace("cpu: 1}", "cpu: 2}"))
    refused("--resume", "out", says="steps[0].submit.requests.cpu was 1 and is 2")
    sweep.write_text(f"{SWEEP}\nseed: 5\n")
    refused("--resume", "out", says="not the same study: seed was absent and is 5\n")
    sweep.unlink()
    assert seatrial("run", "--resume", "out").returncode == 0, "study.json has the scenario"
    study = tmp_path / "out" / "study.json"
    document = json.loads(study.read_text())
    document["run"]["program"] |= {"code": "0123456789abcdef", "numpy": "1.0"}
    study.write_text(json.dumps(document))
    refused("--resume", "out", says="the code of seatrial is another; numpy was 1.0")


def test_what_is_no_study_cannot_be_resumed(seatrial: Seatrial, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / "study.json").write_text('{"format": 1, "name": "submit", "scenario": {}}')
    for out, says in (
        ("nowhere", "it is no directory"),
        ("empty", "it holds no study"),
        ("sent", "seatrial submit -o OUT"),
    ):
        done = seatrial("run", "--resume", out)
        assert done.returncode == 2, done.stderr
        assert says in done.stderr
    assert not list((tmp_path / "empty").iterdir())
