"""Times as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.report.durations import HOUR, clock, lasting, roughly


@pytest.mark.parametrize(
    ("seconds", "deviation", "shown"),
    [
        (0.0264, None, "26.4 ms"),
        (0.5, 0.25, "500 ± 250 ms"),
        (0.0, None, "0.00 s"),
        (12.34, None, "12.3 s"),
        (12.34, 0.41, "12.3 ± 0.4 s"),
        (3599.4, None, "3,599 s"),
        (3600, None, "1 h 00 m"),
        (43384, None, "12 h 03 m"),
        (43384, 130.0, "12 h 03 m ± 2 m"),
        (43384, 4.0, "12 h 03 m ± 4 s"),
        (-43384, None, "-12 h 03 m"),
        (400 * 86400, None, "9600 h 00 m"),
    ],
)
def test_from_an_hour_on_times_are_hours(seconds: float, deviation: float | None, shown: str) -> None:
    assert lasting(seconds, deviation) == shown


def test_a_column_of_seconds_gives_a_unit_only_to_hours() -> None:
    assert [clock(value, 1) for value in (12.34, 3599.0, 43384.0)] == ["12.3", "3,599.0", "12 h 03 m"]
    assert clock(43384.0, 1, 61.0, "+-") == "12 h 03 m +- 1 m"


def test_an_estimate_is_rough() -> None:
    assert [roughly(value) for value in (4.4, 89.0, 95.0, 700.0, 7500.0)] == ["4 s", "89 s", "2 m", "12 m", "2 h 05 m"]


@given(st.floats(HOUR, 1e9))
def test_hours_are_right_to_half_a_minute(seconds: float) -> None:
    hours, _, rest = lasting(seconds).partition(" h ")
    assert abs(int(hours) * 3600 + int(rest.removesuffix(" m")) * 60 - seconds) <= 30.001
