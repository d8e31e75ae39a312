"""The scenarios about Priority & Fairness on the simulator, small: what each of them expects holds there in seconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import polars as pl
import pytest

Seatrial = Callable[..., CompletedProcess[str]]


@pytest.mark.parametrize(
    ("scenario", "smaller"),
    [
        ("priority-and-fairness-starved", "fakes=60,workers=100,lasting=10s"),
        ("priority-and-fairness-tuned", "lasting=5s"),
        ("priority-and-fairness-delayed", "lasting=6s"),
    ],
)
def test_what_the_scenario_expects_holds_on_the_simulator(
    scenario: str, smaller: str, seatrial: Seatrial, tmp_path: Path
) -> None:
    given = [option for part in smaller.split(",") for option in ("--set", part)]
    done = seatrial("run", scenario, "--on", "sim", "--repeat", "1", *given, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_small_choreography_leaves_nothing_behind_and_counts_every_request(
    seatrial: Seatrial, tmp_path: Path
) -> None:
    given = [option for part in ("spaces=10", "apps=5", "each=4", "workers=5") for option in ("--set", part)]
    done = seatrial("run", "priority-and-fairness", "--on", "sim", "--repeat", "1", *given, "-o", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    for trial in (tmp_path / "out" / "trials").iterdir():
        rows = pl.read_parquet(trial / "requests.parquet", glob=False).filter(pl.col("seen_by") == "client")
        counts = {
            (phase, verb, resource): number
            for phase, verb, resource, number in rows.group_by("phase", "verb", "resource").len().iter_rows()
        }
        assert set(rows["code"].unique()) == {200, 201}
        assert counts["mass", "create", "secrets"] == counts["mass", "create", "configmaps"] == 40
        assert counts["delete-mass", "delete", "secrets"] == 40
        assert counts["apps", "create", "deployments"] == counts["delete-apps", "delete", "deployments"] == 5
        assert counts["accounts", "create", "serviceaccounts"] == 10
        assert json.loads((trial / "trial.json").read_text())["outcome"] == "completed"
        starts = pl.read_parquet(trial / "starts.parquet", glob=False)
        assert starts.height == 5
        assert starts["gone_ns"].null_count() == 0
