"""Same seed, same bytes: everything but dates and durations of the run itself. Another seed, other bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial import stacks
from seatrial.model.plan import NodeGroup
from seatrial.study.trial_document import description
from tests.conftest import Seatrial
from tests.sim.making import submit, trial
from tests.study_contents import contents

ARGUMENTS = ("run", "many-small-jobs", "--set", "jobs=5,12", "--repeat", "2")


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_in_one_process_and_in_a_pool(seatrial: Seatrial, tmp_path: Path) -> None:
    for name, more in {"a": ["--jobs", "1"], "b": ["--jobs", "1"], "c": ["--jobs", "2"], "d": ["--seed", "99"]}.items():
        assert seatrial(*ARGUMENTS, "-o", name, *more).returncode == 0
    one, again, pooled, other = (contents(tmp_path / name) for name in "abcd")
    assert {name.split(".")[-1] for name in one} >= {"csv", "json", "jsonl", "parquet", "png", "html"}
    assert one == again
    assert one == pooled
    same = {name for name in one if one[name] == other.get(name)}
    assert not same & {"times.csv", "pods.csv", "summary.csv", "study.json", "general.png"}


@pytest.mark.slow
def test_a_subset_of_the_set_ups_sees_the_same_load(seatrial: Seatrial, tmp_path: Path) -> None:
    scenario = tmp_path / "poisson.yaml"
    scenario.write_text(
        "name: poisson\nparams: {jobs: [20]}\n"
        "nodes: [{name: n, count: 2, capacity: {cpu: 4, memory: 8Gi}}]\nstacks: [default, mcad]\n"
        "steps:\n  - submit: {name: load, count: '${jobs}', rate: 5/s, arrival: poisson, sizes: [1, 2, 3], order: shuffled,"
        " duration: 1s, requests: {cpu: 10m}}\n  - wait: {for: completed}\n"
    )
    assert seatrial("run", scenario, "-o", "both").returncode == 0
    assert seatrial("run", scenario, "-o", "one", "--setup", "mcad").returncode == 0

    def submitted(out: str, setup: str) -> bytes:
        (path,) = (tmp_path / out / "trials").glob(f"*-{setup}-*/submitted.jsonl")
        return path.read_bytes()

    assert submitted("both", "mcad") == submitted("one", "mcad") == submitted("both", "default")


def test_the_quota_of_a_trial_has_the_order_of_the_scenario() -> None:
    names = ["memory", "cpu", *(f"example.com/device-{number}" for number in range(8))]
    nodes = [NodeGroup("fake", 2, dict.fromkeys(names, 1000))]
    made = trial((submit(),), nodes=nodes, stack="kueue")
    assert list(description(made, stacks.find("kueue"))["quota"]) == names
