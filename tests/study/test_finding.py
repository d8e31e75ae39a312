"""`seatrial find`: the answer of an exhaustive sweep, one study that goes on where it stopped, and wrong questions."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import COMMAND, Seatrial
from tests.study_contents import contents
from tests.waiting import eventually

FLEET = """
name: fleet
nodes: [{name: gpu, count: 4, capacity: {cpu: 8, memory: 64Gi, nvidia.com/gpu: 8}, pods: {start: 1s..3s}}]
stacks: [default, kueue]
steps:
  - submit:
      {name: train, class: all, count: 60, duration: {lognormal: {median: 60s, sigma: 0.8}}, requests: {cpu: 1, nvidia.com/gpu: 2},
       rate: 30/m, arrival: poisson}
  - wait: {for: completed, timeout: 2d}
"""
QUESTION = ("fleet.yaml", "--vary", "nodes.gpu.count=2..40", "--so-that", "wait_p95_s <= 30")


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET)
    return file


def _tried(out: Path) -> pl.DataFrame:
    return pl.read_csv(out / "summary.csv")


@pytest.mark.slow
@pytest.mark.usefixtures("fleet")
def test_the_answer_is_that_of_an_exhaustive_sweep_of_the_same_repeats(seatrial: Seatrial, tmp_path: Path) -> None:
    found = seatrial("find", *QUESTION, "--stack", "default", "--repeat", "3", "-o", "found")
    assert found.returncode == 0, found.stderr
    sweep = ["--vary", "nodes.gpu.count=2..14 13", "--repeat", "3", "--stack", "default"]
    assert seatrial("run", "fleet.yaml", *sweep, "-o", "swept").returncode == 0
    waits = _tried(tmp_path / "swept").group_by("nodes.gpu.count").agg(pl.col("wait_p95_s").mean())
    answer = min(waits.filter(pl.col("wait_p95_s") <= 30)["nodes.gpu.count"].to_list())
    assert f"default: {answer} is the smallest nodes.gpu.count of 2..40 for which wait_p95_s <= 30" in found.stdout
    assert _tried(tmp_path / "found").height <= 30
    assert (tmp_path / "found" / "find.png").stat().st_size > 10_000
    assert f"{answer} is the smallest" in (tmp_path / "found" / "report.html").read_text()
    (tmp_path / "found" / "find.png").unlink()
    again = seatrial("report", "found")
    assert f"{answer} is the smallest" in again.stdout
    assert "found/find.png" in again.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("fleet")
def test_every_set_up_has_an_answer_of_its_own_and_the_study_can_be_compared(
    seatrial: Seatrial, tmp_path: Path
) -> None:
    found = seatrial("find", *QUESTION, "--repeat", "2", "-o", "found")
    assert found.returncode == 0, found.stderr
    assert "default: " in found.stdout
    assert "kueue: " in found.stdout
    compared = seatrial("compare", "found", "--figure", "wait_p95_s")
    assert compared.returncode in (0, 1), compared.stderr
    document = json.loads((tmp_path / "found" / "study.json").read_text())
    assert document["find"]["vary"] == ["nodes.gpu.count=2..40"]
    assert len(document["trials"]) == _tried(tmp_path / "found").height


@pytest.mark.slow
@pytest.mark.usefixtures("fleet")
def test_a_search_that_is_killed_and_resumed_gets_the_bytes_of_one_that_never_was(
    seatrial: Seatrial, tmp_path: Path
) -> None:
    whole = seatrial("find", *QUESTION, "-o", "whole")
    assert whole.returncode == 0, whole.stderr
    process = subprocess.Popen(
        [*COMMAND, "find", *QUESTION, "-o", "killed"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    begun = tmp_path / "killed" / "trials"
    assert eventually(lambda: process.poll() is not None or len(list(begun.glob("*"))) >= 9)
    time.sleep(0.05)
    process.kill()
    process.wait()
    resumed = seatrial("find", "--resume", "killed")
    assert resumed.returncode == 0, resumed.stderr
    assert "have ended before and are not run again" in resumed.stderr
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    refused = seatrial("run", "--resume", "killed")
    assert refused.returncode == 2
    assert "seatrial find --resume killed" in refused.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("fleet")
def test_a_spent_budget_leaves_a_bracket_and_a_larger_one_goes_on(seatrial: Seatrial, tmp_path: Path) -> None:
    question = (*QUESTION, "--stack", "default")
    short = seatrial("find", *question, "--budget", "5", "-o", "short")
    assert short.returncode == 1, short.stderr
    assert "no answer yet" in short.stdout
    assert _tried(tmp_path / "short").height == 5
    longer = seatrial("find", "--resume", "short", "--budget", "40")
    assert longer.returncode == 0, longer.stderr
    whole = seatrial("find", *question, "--budget", "40", "-o", "whole")
    assert longer.stdout.splitlines()[:3] == whole.stdout.splitlines()[:3]


@pytest.mark.slow
@pytest.mark.usefixtures("fleet")
def test_a_condition_that_holds_nowhere_is_said_with_the_nearest_value(seatrial: Seatrial) -> None:
    found = seatrial("find", *QUESTION[:3], "--so-that", "p50_s <= 1", "--stack", "default", "-o", "none")
    assert found.returncode == 1
    assert "default: p50_s <= 1 holds for no nodes.gpu.count of 2..40 that was tried" in found.stdout
    assert "nearest: p50_s is " in found.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("fleet")
def test_two_variables_have_a_front_and_a_cheapest_mix_that_a_resumed_search_has_too(
    seatrial: Seatrial, tmp_path: Path
) -> None:
    text = FLEET.replace(
        "nodes: [", "nodes: [{name: old, count: 2, capacity: {cpu: 8, memory: 64Gi, nvidia.com/gpu: 4}}, "
    )
    (tmp_path / "fleet.yaml").write_text(text)
    priced = ("--vary", "nodes.old.count=1..20", "--price", "nodes.gpu=5", "--price", "nodes.old=2", "--repeat", "2")
    asked = ("fleet.yaml", *priced[:2], *QUESTION[1:], *priced[2:], "--stack", "default")
    found = seatrial("find", *asked, "-o", "mix")
    assert found.returncode == 0, found.stdout + found.stderr
    assert " is the cheapest mix for which wait_p95_s <= 30: " in found.stdout
    assert _tried(tmp_path / "mix").height <= 60
    again = seatrial("find", "--resume", "mix")
    assert again.stdout.splitlines()[0] == found.stdout.splitlines()[0]
    assert "is the cheapest mix" in (tmp_path / "mix" / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("fleet")
def test_the_largest_load_is_found_because_the_ends_say_so(seatrial: Seatrial) -> None:
    asked = ("--vary", "steps.train.count=10..400", "--so-that", "wait_p95_s <= 100", "--stack", "default")
    found = seatrial("find", "fleet.yaml", *asked, "--repeat", "2", "-o", "load")
    assert found.returncode == 0, found.stdout + found.stderr
    assert " is the largest steps.train.count of 10..400 for which wait_p95_s <= 100" in found.stdout


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--vary", "nodes.gpu.count=9..2", "--so-that", "p95_s <= 1"], "an empty range"),
        (["--vary", "nodes.gpus.count=2..9", "--so-that", "p95_s <= 1"], "did you mean 'gpu'?"),
        (["--vary", "nodes.gpu.count=2..9", "--so-that", "wait_p95 <= 1"], "did you mean 'wait_p95_s'?"),
        (["--vary", "nodes.gpu.count=2..9", "--so-that", "p95_s"], "a value instead of a comparison"),
        (["--vary", "nodes.gpu.count=2..9", "--so-that", "p95_s = 1"], "compare with =="),
        (["--vary", "nodes.gpu.count=2..9", "--so-that", "p95_s(kueue) <= 1"], "each set-up has its own search"),
        (["--vary", "nodes.gpu.count=0.5..2", "--so-that", "p95_s <= 1"], "is not a whole number"),
        (["--vary", "nodes.gpu.count=2..9"], "write one like --so-that"),
        (["--so-that", "p95_s <= 1"], "write one like --vary"),
        (
            ["--vary", "nodes.gpu.count=2..9", "--so-that", "p95_s <= 1", "--price", "nodes.gpo=3"],
            "did you mean 'nodes.gpu'?",
        ),
        (["--vary", "nodes.gpu.count=2..9", "--so-that", "p95_s <= 1", "--price", "nodes.gpu=x"], "no price"),
        (["--vary", "a=1..2", "--so-that", "p95_s <= 1", "--smallest", "--largest"], "cannot be combined"),
    ],
)
def test_a_wrong_question_is_refused_with_its_remedy(seatrial: Seatrial, options: list[str], said: str) -> None:
    done = seatrial("find", "fleet.yaml", *options, "-o", "out")
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
