from pathlib import Path

import pytest

from seatrial.analysis.studies import Study
from seatrial.report.grouping import grouped
from tests.analysis.making import Job, Made, plain, write_study


def test_repeats_are_one_group_per_set_up_and_varying_parameter(tmp_path: Path) -> None:
    trials = [
        Made([plain(took=1000 * (repeat + 1))] * jobs, setup=setup, repeat=repeat, params={"jobs": jobs, "same": 1})
        for repeat in range(3)
        for jobs in (1, 2)
        for setup in ("kind", "kwok")
    ]
    groups = grouped(Study.open(write_study(tmp_path, trials)).rows)
    assert [(group.setup, group.params) for group in groups] == [
        ("kind", {"jobs": "1"}), ("kind", {"jobs": "2"}), ("kwok", {"jobs": "1"}), ("kwok", {"jobs": "2"}),
    ]  # fmt: skip
    total = groups[0].of("total_s")
    assert total is not None
    assert total.mean == pytest.approx(4.03)
    assert total.deviation == pytest.approx(1.0)


def test_one_repeat_has_no_spread(tmp_path: Path) -> None:
    (group,) = grouped(Study.open(write_study(tmp_path, [Made([plain()])])).rows)
    total = group.of("total_s")
    assert total is not None
    assert total.deviation is None


def test_a_set_up_of_which_a_repeat_clogged_has_neither_total_nor_percentiles(tmp_path: Path) -> None:
    stuck = Job({"submitted": 0, "created": 1}, [], size=1)
    trials = [Made([plain(), plain()]), Made([plain(), stuck], repeat=1, outcome="clogged")]
    (group,) = grouped(Study.open(write_study(tmp_path, trials)).rows)
    assert (group.completed, len(group.rows)) == (1, 2)
    assert group.of("total_s") is None
    assert group.of("p50_s") is None


def test_a_trial_that_is_not_to_be_trusted_is_not_averaged_in(tmp_path: Path) -> None:
    late = {"validity": {"valid": False, "reasons": ["the client was late"]}}
    trials = [Made([plain(took=1000)]), Made([plain(took=9000)], repeat=1, also=late)]
    (group,) = grouped(Study.open(write_study(tmp_path, trials)).rows)
    total = group.of("total_s")
    assert total is not None
    assert total.mean == pytest.approx(3.03)
    assert group.doubtful
