"""Ctrl-C: a run ends at once with what was observed so far, marked as such."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from seatrial.study.interruption import TOGETHER_S
from tests.conftest import COMMAND
from tests.waiting import eventually

SCENARIO = """
name: large
nodes: [{name: n, count: 200, capacity: {cpu: 64, memory: 256Gi, pods: 500}, pods: {start: 1s}}]
stacks: [default%s]
settings: {qps: unlimited}
steps:
  - submit: {name: load, count: 90000, duration: 30s, requests: {cpu: 10m}}
  - wait: {for: completed, timeout: 24h}
"""


def _begin(folder: Path, more: str = "") -> subprocess.Popen[str]:
    """A large simulation, once it is well under way."""
    (folder / "large.yaml").write_text(SCENARIO % more)
    process = subprocess.Popen(
        [*COMMAND, "run", "large.yaml", "-o", "out"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        segments = list(folder.glob("out/trials/*/observed-*.seg"))
        if segments and any(segment.stat().st_size > 3_000_000 for segment in segments):
            return process
        time.sleep(0.02)
    process.kill()
    raise AssertionError(f"the simulation did not get under way: {process.communicate()}")


@pytest.mark.parametrize("module", ["typer", "seatrial.cli.run", "seatrial.cli.main"])
def test_ctrl_c_while_the_command_starts_ends_it_with_a_line(tmp_path: Path, module: str) -> None:
    (tmp_path / "large.yaml").write_text(SCENARIO % "")
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", *COMMAND[1:], "run", "large.yaml", "-o", "out"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert any(line.rpartition("|")[2].strip() == module for line in process.stderr), "it is imported"
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=30)
    assert process.returncode == 130, words
    assert "interrupted" in words
    assert "Traceback" not in words


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_gone_at_once_and_keeps_what_it_saw(tmp_path: Path, number: int) -> None:
    starting = time.monotonic()
    process = _begin(tmp_path)
    began = time.monotonic()
    for _ in range(2):  # as `timeout` does: one for the process, one for its group
        os.kill(process.pid, number)
    output, words = process.communicate(timeout=30)
    took = time.monotonic() - began
    assert process.returncode == 130, words
    assert "Traceback" not in words
    assert "interrupted" in words
    trial = json.loads(next(tmp_path.glob("out/trials/*/trial.json")).read_text())
    assert trial["outcome"] == "interrupted"
    row = pl.read_csv(tmp_path / "out" / "summary.csv").row(0, named=True)
    assert row["outcome"] == "interrupted"
    assert row["total_s"] is None
    times = pl.read_csv(tmp_path / "out" / "times.csv")
    assert 0 < row["submitted"] == times.height
    assert "out/times.csv" in output
    assert took < max(1.0, began - starting), "gone within a second, or sooner than it began where the machine is busy"


STUBBORN = """
import asyncio
from seatrial.study.interruption import interruption

async def main():
    interruption.cancels(asyncio.current_task())
    print("up", flush=True)
    try:
        await asyncio.sleep(100)
    finally:
        print("down", flush=True)
        await asyncio.sleep(100)

interruption.listen()
asyncio.run(main())
"""


def test_a_second_signal_ends_what_takes_long_to_clear_up_at_once() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    time.sleep(0.3)  # until its loop sleeps, for 100 s unless it is woken
    for _ in range(2):
        process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    assert process.stdout.readline() == "down\n"
    assert time.monotonic() - begun < 10
    time.sleep(TOGETHER_S + 0.1)
    assert process.poll() is None, "signals that come together are one"
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "seatrial clean -o OUT" in words


@pytest.mark.slow
def test_an_interrupted_pool_stops_all_its_workers(tmp_path: Path) -> None:
    process = _begin(tmp_path, ", mcad")
    os.kill(process.pid, signal.SIGINT)
    _, words = process.communicate(timeout=30)
    assert process.returncode == 130, words
    assert "Traceback" not in words
    outcomes = [json.loads(path.read_text())["outcome"] for path in tmp_path.glob("out/trials/*/trial.json")]
    assert outcomes
    assert set(outcomes) == {"interrupted"}
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False).stdout
    assert not left


def test_a_killed_run_is_reported_as_cut_off(tmp_path: Path) -> None:
    process = _begin(tmp_path)
    process.kill()
    process.communicate(timeout=30)
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", "report", "out"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "cut off" in done.stdout + done.stderr
    assert pl.read_csv(tmp_path / "out" / "times.csv").height > 1000


def test_an_interrupted_study_says_how_many_trials_were_planned(tmp_path: Path) -> None:
    (tmp_path / "large.yaml").write_text(SCENARIO.replace("90000", "20000") % ", kueue")
    process = subprocess.Popen(
        [*COMMAND, "run", "large.yaml", "-o", "out", "-j", "1", "--repeat", "3", "--junit", "gates.xml"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert eventually(lambda: any(tmp_path.glob("out/trials/001-*/observed-*.seg")))
    process.send_signal(signal.SIGTERM)
    output, words = process.communicate(timeout=30)
    assert process.returncode == 130, words
    said = "interrupted: 1 of 6 trials begun; stack kueue never ran"
    assert said in output
    assert said in (tmp_path / "gates.xml").read_text(), "a build server must not see an empty suite"
    assert len(json.loads((tmp_path / "out" / "study.json").read_text())["trials"]) == 6
