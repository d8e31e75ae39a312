"""Same seed, same bytes: everything but dates and durations of the run itself. Another seed, other bytes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Seatrial

ARGUMENTS = ("run", "many-small-jobs", "--set", "jobs=5,12", "--repeat", "2")


def _contents(out: Path) -> dict[str, Any]:
    """Every file of a study; of the JSON ones and the page all but `run`, where dates and durations stand."""
    found: dict[str, Any] = {}
    for path in sorted(out.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(out))
            if path.suffix == ".json":
                document = json.loads(path.read_text())
                assert document.pop("run"), f"{name} says when it ran"
                found[name] = document
            elif path.suffix == ".html":
                found[name], left_out = re.subn(r"<!--run-->.*?<!--/run-->", "", path.read_text(), flags=re.DOTALL)
                assert left_out, f"{name} says when it ran"
            else:
                found[name] = path.read_bytes()
    return found


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_in_one_process_and_in_a_pool(seatrial: Seatrial, tmp_path: Path) -> None:
    for name, more in {"a": ["--jobs", "1"], "b": ["--jobs", "1"], "c": ["--jobs", "2"], "d": ["--seed", "99"]}.items():
        assert seatrial(*ARGUMENTS, "-o", name, *more).returncode == 0
    one, again, pooled, other = (_contents(tmp_path / name) for name in "abcd")
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
