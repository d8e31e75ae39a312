"""Workloads by size: what is counted, what is averaged, and over what."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from seatrial.analysis.sizes import Moments
from seatrial.analysis.studies import Study
from seatrial.analysis.tables import size_table, write_tables
from seatrial.report.pictures import write_pictures
from seatrial.report.size_picture import sizes_figure
from tests.analysis.making import Job, Made, plain, write_study

STUCK = Job({"submitted": 0, "created": 1}, [], size=4)
BOTH = [plain(0, 1000, 2), plain(0, 3000, 2), plain(0, 5000, 4), STUCK]


def rows(out: Path) -> list[dict[str, str]]:
    write_tables(Study.open(out))
    with (out / "sizes.csv").open() as file:
        return list(csv.DictReader(file))


def test_every_setup_and_size_has_a_row_with_count_mean_and_deviation(tmp_path: Path) -> None:
    small, large = rows(write_study(tmp_path, [Made(BOTH, setup="queue", stack="kueue", outcome="clogged")]))
    assert (small["setup"], small["stack"], small["size"], large["size"]) == ("queue", "kueue", "2", "4")
    assert (small["submitted"], small["completed"], large["submitted"], large["completed"]) == ("2", "2", "2", "1")
    assert float(small["turnaround_mean_s"]) == pytest.approx(4.03)
    assert float(small["turnaround_std_s"]) == pytest.approx(2**0.5)
    assert float(small["run_mean_s"]) == pytest.approx(2.0)
    assert (small["run_count"], large["turnaround_count"]) == ("2", "1")
    assert large["turnaround_std_s"] == "", "one workload has no spread"


def test_repeats_are_pooled_and_params_that_vary_are_kept_apart(tmp_path: Path) -> None:
    trials = [
        Made(BOTH, setup=setup, repeat=repeat, params={"jobs": jobs, "same": 1, "asks": setup})
        for repeat in range(2)
        for jobs in (1, 5)
        for setup in ("a", "b")
    ]
    found = rows(write_study(tmp_path, trials))
    assert [(row["setup"], row["jobs"], row["size"], row["submitted"]) for row in found] == [
        (setup, jobs, size, "4") for setup in "ab" for jobs in "15" for size in "24"
    ]
    assert "same" not in found[0]
    assert "asks" not in found[0], "a param that only set-ups differ in says nothing new"


def test_a_study_of_one_size_has_no_table_and_an_old_one_goes(tmp_path: Path) -> None:
    out = write_study(tmp_path, [Made([plain(), plain()])])
    (out / "sizes.csv").write_text("old")
    assert "sizes.csv" not in [path.name for path in write_tables(Study.open(out))]
    assert not (out / "sizes.csv").exists()
    assert size_table(Study.open(out)).is_empty()


def test_a_trial_that_is_not_to_be_trusted_is_left_out(tmp_path: Path) -> None:
    late = {"validity": {"valid": False, "reasons": ["late"]}}
    small, _ = rows(write_study(tmp_path, [Made(BOTH), Made(BOTH, repeat=1, also=late)]))
    assert small["submitted"] == "2"


def test_the_table_is_the_same_read_back_and_worked_out(tmp_path: Path) -> None:
    out = write_study(tmp_path, [Made(BOTH, setup="1", params={"x": 0.5}), Made(BOTH, setup="1", params={"x": 2})])
    worked_out = size_table(Study.open(out))
    write_tables(Study.open(out))
    assert_frame_equal(size_table(Study.open(out)), worked_out, abs_tol=1e-6)
    assert worked_out["setup"].to_list() == ["1"] * 4


@given(st.lists(st.lists(st.floats(0, 1e6), max_size=8), max_size=6))
def test_moments_joined_are_those_of_all_values(parts: list[list[float]]) -> None:
    moments = Moments()
    for part in parts:
        moments.add(np.asarray(part, dtype=np.float64))
    together = [value for part in parts for value in part]
    assert moments.count == len(together)
    if together:
        assert moments.mean == pytest.approx(np.mean(together), abs=1e-6)
    if len(together) > 1:
        assert moments.deviation == pytest.approx(np.std(together, ddof=1), abs=1e-3)


def test_the_picture_is_there_where_sizes_differ_and_the_same_to_the_byte(tmp_path: Path) -> None:
    trials = [Made(BOTH, setup=f"set-up-{n}", number=n, outcome="clogged") for n in range(9)]
    first = next(
        path for path in write_pictures(Study.open(write_study(tmp_path / "a", trials))) if path.name == "sizes.png"
    )
    again = next(
        path for path in write_pictures(Study.open(write_study(tmp_path / "b", trials))) if path.name == "sizes.png"
    )
    assert first.read_bytes() == again.read_bytes()
    alike = write_pictures(Study.open(write_study(tmp_path / "c", [Made([plain()])])))
    assert "sizes.png" not in [path.name for path in alike]


def test_many_sizes_and_a_setup_in_which_nothing_completed_are_drawn_too(tmp_path: Path) -> None:
    many = [plain(0, 1000, size) for size in range(1, 31)]
    nothing = [Job({"submitted": 0}, [], size=size) for size in range(1, 31)]
    study = Study.open(write_study(tmp_path, [Made(many), Made(nothing, setup="none", outcome="clogged")]))
    figure = sizes_figure(study)
    assert figure is not None
    assert len(figure.axes) == 2 * 24
    assert "the smallest 24 of 30 sizes" in " ".join(text.get_text() for text in figure.texts)
