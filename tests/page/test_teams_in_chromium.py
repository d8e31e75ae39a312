"""Queues and classes as a person sees them: areas against quota, arrows of evictions, at a desk and on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.analysis.studies import Study
from seatrial.report.page import write_page
from tests.analysis.making import Made, write_study
from tests.analysis.test_team_figures import fleet, queue, two_teams
from tests.page.conftest import Opened
from tests.page.test_in_chromium import overflow


def other() -> Made:
    made = two_teams(**fleet(queue("red", 4), queue("blue", 4), *(queue(f"team-{n}", 1) for n in range(12))))
    made.setup, made.number = "no-reclaim", 2
    return made


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_a_panel_per_set_up_has_an_area_per_queue_and_lines_of_quota(
    width: int, theme: str, tmp_path: Path, opened: Opened
) -> None:
    out = write_study(tmp_path / "out", [two_teams(), other()])
    write_page(Study.open(out))
    page = opened(out, width, theme)
    assert page.locator("figure.usage h4").all_inner_texts() == ["kwok", "no-reclaim"]
    assert page.locator("figure.usage .plot > div:last-child > div:first-child polygon").count() == 2
    assert page.locator("figure.usage .legend span").last.inner_text() == "others"
    assert overflow(page) == 0
    boxes = [picture.bounding_box() for picture in page.locator("figure.usage svg[role=img]").all()]
    assert all(box and box["width"] <= width for box in boxes)
    assert boxes[0]["width"] == boxes[1]["width"]
    assert (boxes[0]["y"] == boxes[1]["y"]) == (width == 1280), "side by side at a desk, one below the other on a phone"


def test_an_arrow_says_who_was_evicted_for_whom(tmp_path: Path, opened: Opened) -> None:
    out = write_study(tmp_path / "out", [two_teams()])
    write_page(Study.open(out))
    page = opened(out)
    arrow = page.locator("figure.evictions svg[role=img] > g").first
    arrow.scroll_into_view_if_needed()
    arrow.locator("rect").hover()
    assert page.locator("#tip").inner_text() == "at 110 s: r1 was evicted (reclaimed)\nfor b0"
