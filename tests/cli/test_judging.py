"""Comparing, judging, exporting, serving and running again, from the command line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.conftest import COMMAND, Seatrial

SCENARIO = """
name: gated
nodes: [{name: fake, count: 4, capacity: {cpu: 8, memory: 16Gi}, pods: {start: 500ms..1500ms}}]
params: {jobs: 6}
stacks: [default, kueue]
steps:
  - submit: {name: short, count: "${jobs}", duration: 2s, requests: {cpu: 1}, rate: 10/s, arrival: poisson}
  - wait: {for: completed, timeout: 10m}
repeat: 5
expect:
  - completed == submitted
  - p99_s(kueue) <= 1.5 * p99_s(default)
  - p99_s <= 1.5 * baseline
"""


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judging")
    (folder / "s.yaml").write_text(SCENARIO)
    run = [*COMMAND, "run", "s.yaml", "--set", "jobs=4", "--seed", "7", "-o", "first"]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "s.yaml:13:5: `p99_s <= 1.5 * baseline` is not judged: no --baseline was given" in done.stderr
    return folder / "first"


@pytest.fixture
def ran(first: Path, tmp_path: Path) -> Path:
    shutil.copytree(first, tmp_path / "first")
    return tmp_path


def test_a_study_is_run_again_judged_against_itself_compared_and_exported(ran: Path, seatrial: Seatrial) -> None:
    again = seatrial(
        "run", "first/study.json", "-o", "again", "--baseline", "first", "--junit", "j.xml", "--summary", "s.md"
    )
    assert again.returncode == 0, again.stderr
    for table in ("times.csv", "summary.csv"):
        assert (ran / "first" / table).read_bytes() == (ran / "again" / table).read_bytes()
    first, second = (json.loads((ran / name / "study.json").read_text()) for name in ("first", "again"))
    assert {key for key in first if first[key] != second[key]} <= {"asked", "expect", "run"}
    assert 'failures="0"' in (ran / "j.xml").read_text()
    assert "holds" in (ran / "s.md").read_text()
    alike = seatrial("compare", "first", "again", "--json")
    assert alike.returncode == 0
    assert [one["different"] for one in json.loads(alike.stdout)] == [False, False]
    within = seatrial(
        "compare", "first", "--setup", "default,kueue", "--markdown", "c.md", "--html", "c.html", "--png", "c.png"
    )
    assert within.returncode == 0, within.stderr
    assert within.stdout.startswith("kueue against default")
    assert all((ran / name).stat().st_size > 100 for name in ("c.md", "c.html", "c.png"))
    trace = seatrial("export", "first", "--to", "perfetto", "--trial", "001-default-r1", "-o", "t.json")
    assert trace.stdout == "t.json\n"
    assert len(json.loads((ran / "t.json").read_text())["traceEvents"]) > 20
    wrong = seatrial("export", "first", "--to", "perfeto")
    assert wrong.returncode == 2 and "did you mean 'perfetto'?" in wrong.stderr


def test_a_gate_that_fails_ends_with_status_1_and_its_line(ran: Path, seatrial: Seatrial) -> None:
    study = json.loads((ran / "first" / "study.json").read_text())
    study["expect"].append({"text": "p50_s(kueue) * 2 <= p50_s(default)", "place": "s.yaml:14:5"})
    (ran / "first" / "study.json").write_text(json.dumps(study))
    done = seatrial("report", "first", "--junit", "j.xml")
    assert done.returncode == 1
    assert "gated: s.yaml:14:5: `p50_s(kueue) * 2 <= p50_s(default)` does not hold: p50_s(kueue) is" in done.stderr
    assert 'failures="1"' in (ran / "j.xml").read_text()


def test_one_invalid_repeat_of_five_does_not_fail_a_comparison_and_is_named(ran: Path, seatrial: Seatrial) -> None:
    [kueue] = (ran / "first" / "trials").glob("*-kueue-r2")
    trial = json.loads((kueue / "trial.json").read_text())
    trial["validity"] = {"valid": False, "reasons": ["the event loop was late"], "counted": True}
    (kueue / "trial.json").write_text(json.dumps(trial))
    done = seatrial("report", "first", "--junit", "j.xml", "--summary", "s.md")
    assert done.returncode == 0, done.stderr
    said = f"left out 1 of 5 repeats: {kueue.name} is not to be trusted: the event loop was late"
    assert "holds: gated: s.yaml:12:5: " in done.stderr and said in done.stderr
    assert said in (ran / "j.xml").read_text() and said in (ran / "s.md").read_text()
    assert "completed == submitted" not in done.stderr, "what is counted is judged in all five"


def test_serve_prints_its_address_and_ends_cleanly_with_ctrl_c(tmp_path: Path) -> None:
    serving = subprocess.Popen(
        [*COMMAND, "serve", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ.copy(),
    )
    assert serving.stdout is not None
    url = serving.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert "No study exists below this directory yet" in answer.read().decode()
    serving.send_signal(signal.SIGINT)
    _, words = serving.communicate(timeout=60)
    assert (serving.returncode, words) == (0, "ended\n")
