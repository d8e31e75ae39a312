"""When nobody watched, from what each process said of itself."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path

from seatrial.model.units import SECOND
from seatrial.record import gaps
from seatrial.record.gaps import GapLine, Gaps


def beats(directory: Path, writer: str, first: int, last: int, *more: GapLine) -> None:
    file = Gaps(directory, writer)
    for second in range(first, last + 1):
        file.add(GapLine(well_ns=second * SECOND))
    file.add(*more)


def seconds(spans: list[tuple[int, int]]) -> list[tuple[float, float]]:
    return [(first / SECOND, last / SECOND) for first, last in spans]


def test_what_lies_between_two_followers_is_a_gap_though_neither_says_so(tmp_path: Path) -> None:
    beats(tmp_path, "killed", 1, 5)
    beats(tmp_path, "after", 9, 20)
    watched = gaps.read(tmp_path)
    assert seconds(watched.unwatched(0, 22 * SECOND)) == [(0, 1), (5, 9), (20, 22)]


def test_who_watches_beside_another_fills_its_gaps(tmp_path: Path) -> None:
    broke = GapLine(None, 0, 4 * SECOND, 7 * SECOND, "pods", "the server closed the connection")
    beats(tmp_path, "one", 0, 3)
    beats(tmp_path, "two", 0, 20, broke)
    assert seconds(gaps.read(tmp_path).unwatched(0, 20 * SECOND)) == [(4, 7)]
    beats(tmp_path, "three", 2, 9)
    watched = gaps.read(tmp_path)
    assert watched.unwatched(0, 20 * SECOND) == []
    assert [line.reason for line in watched.told] == [broke.reason]


def test_a_torn_line_is_left_out_and_a_single_look_leaves_no_file(tmp_path: Path) -> None:
    Gaps(tmp_path, "looked").add()
    assert not list(tmp_path.iterdir())
    beats(tmp_path, "torn", 0, 3, GapLine(to_ns=3 * SECOND, gone="load-1"))
    with (tmp_path / "gaps-torn.jsonl").open("ab") as file:
        file.write(b'{"well_ns":99')
    watched = gaps.read(tmp_path)
    assert seconds(list(watched.spans)) == [(0, 3)]
    assert watched.gone == {"load-1"}


def test_what_a_full_disk_did_not_take_is_said_when_there_is_room(tmp_path: Path) -> None:
    """The follower watched all the time: it must not look as if it had not."""
    file = Gaps(tmp_path, "full")
    for second in range(30):
        full = 5 <= second < 20
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        if full:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        try:
            with contextlib.suppress(OSError):
                file.add(GapLine(well_ns=second * SECOND))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert seconds(gaps.read(tmp_path).unwatched(0, 29 * SECOND)) == []
    assert len((tmp_path / "gaps-full.jsonl").read_text().splitlines()) == 30
