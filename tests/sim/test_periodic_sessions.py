"""Sessions of a scheduler: one period after the end of the last, and none while nothing changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seatrial.sim.kernel import Kernel
from seatrial.sim.periodic_sessions import PeriodicSessions


class _Sessions:
    def __init__(self, period: int, lasting: int, first: int = 0, idle: int = 0) -> None:
        self.kernel = Kernel()
        self.began: list[int] = []
        self._lasting = lasting
        self.sessions = PeriodicSessions(self.kernel, period, self._hold, idle, first)

    def _hold(self) -> None:
        self.began.append(self.kernel.now)
        self.kernel.at(self.kernel.now + self._lasting, self.sessions.ended)


def test_nothing_new_is_no_event() -> None:
    one = _Sessions(period=10, lasting=3)
    one.sessions.stir()
    one.kernel.run()
    assert one.began == [0]
    assert one.kernel.now == 3


def test_a_change_during_a_session_is_seen_a_period_after_its_end() -> None:
    one = _Sessions(period=10, lasting=3)
    one.sessions.stir()
    one.kernel.at(1, one.sessions.stir)
    one.kernel.run()
    assert one.began == [0, 13]


def test_the_beat_goes_on_while_nothing_changes() -> None:
    one = _Sessions(period=10, lasting=3, first=5, idle=1)
    one.kernel.at(0, one.sessions.stir)
    one.kernel.at(1000, one.sessions.stir)
    one.kernel.run()
    assert one.began == [5, 18 + 90 * 11]


def test_a_session_without_news_takes_what_the_last_one_said() -> None:
    one = _Sessions(period=10, lasting=3, first=5, idle=1)
    one.kernel.at(0, one.sessions.stir)
    one.kernel.at(8, lambda _: one.sessions.ended(idle=6))
    one.kernel.at(1000, one.sessions.stir)
    one.kernel.run()
    assert one.began == [5, 18 + 62 * 16]


@given(st.integers(1, 50), st.integers(0, 60), st.lists(st.integers(0, 2000), min_size=1, max_size=20))
def test_sessions_never_overlap_and_every_change_is_seen(period: int, lasting: int, changes: list[int]) -> None:
    one = _Sessions(period, lasting)
    for change in changes:
        one.kernel.at(change, one.sessions.stir)
    one.kernel.run()
    assert all(later - earlier >= period + lasting for earlier, later in zip(one.began, one.began[1:], strict=False))
    assert max(changes) <= one.began[-1]
    assert len(one.began) <= len(changes) + 1
