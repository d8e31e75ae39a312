"""Verdicts and intervals over runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.analysis.resampling import holm, of_pairs, of_runs

SIDE = st.lists(st.floats(0.1, 1000, allow_nan=False), min_size=5, max_size=5)


def test_five_runs_that_all_lie_above_five_others_have_the_smallest_p_there_is() -> None:
    effect = of_runs([([10, 11, 9, 10.5, 9.8], [12, 12.5, 11.9, 12.2, 12.1])])
    assert effect.p == effect.smallest_p == pytest.approx(2 / 252)
    assert effect.low is not None and effect.high is not None
    assert 0 < effect.low < effect.estimate < effect.high


def test_runs_that_do_not_vary_differ_by_exactly_what_they_differ() -> None:
    effect = of_runs([([10.0] * 5, [12.0] * 5)])
    assert [effect.p, effect.low, effect.high] == pytest.approx([2 / 252, 2, 2])
    same = of_runs([([10.0] * 5, [10.0] * 5)])
    assert [same.p, same.estimate] == pytest.approx([1, 0])


def test_too_few_runs_give_no_interval_or_one_that_says_what_it_is_worth() -> None:
    assert of_runs([([1.0], [2.0])]).low is None
    assert of_runs([([1.0, 1.1], [2.0, 2.1])]).low is None
    three = of_runs([([1.0, 1.1, 1.2], [2.0, 2.1, 2.2])])
    assert three.smallest_p == pytest.approx(0.1)
    assert three.level == pytest.approx(0.9)
    assert of_pairs([[1.0] * 5]).smallest_p == pytest.approx(2 / 32)


def test_three_repeats_of_six_cells_are_enough_together() -> None:
    cells = [
        ([base, base * 1.01, base * 0.99], [base * 1.1, base * 1.12, base * 1.09])
        for base in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    ]
    assert of_runs(cells).p < 0.001


@given(SIDE, SIDE)
def test_the_interval_and_the_test_never_contradict_each_other(a: list[float], b: list[float]) -> None:
    effect, turned = of_runs([(a, b)]), of_runs([(b, a)])
    assert effect.low is not None and effect.high is not None
    slack = 1e-4 * (max(*a, *b) - min(*a, *b)) + 1e-9
    assert effect.low - slack <= effect.estimate <= effect.high + slack
    if effect.p > 0.05:
        assert effect.low - slack <= 0 <= effect.high + slack
    else:
        assert effect.low > -slack or effect.high < slack
    assert turned.p == pytest.approx(effect.p)
    assert turned.estimate == pytest.approx(-effect.estimate, abs=slack)


def test_of_sides_that_are_alike_one_in_twenty_is_called_different() -> None:
    draw = np.random.default_rng(5)
    pairs = [of_runs([(draw.lognormal(0, 0.3, 5).tolist(), draw.lognormal(0, 0.3, 5).tolist())]) for _ in range(400)]
    assert sum(effect.p <= 0.05 for effect in pairs) <= 30  # 20 expected; 30 is beyond the 98th percentile
    assert (
        sum(effect.low <= 0 <= effect.high for effect in pairs if effect.low is not None and effect.high is not None)
        >= 370
    )


def test_holm_corrects_for_how_many_there_are() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([2 / 252] * 6)[0] < 0.05 < holm([2 / 252] * 7)[0]
    assert holm([]) == []
