"""What a sweep shows in report.html: a curve per figure over one value, a heat map per set-up over two."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from seatrial.analysis.studies import Study
from seatrial.report.page import write_page
from tests.analysis.making import Job, Made, plain, write_study
from tests.page.conftest import Opened
from tests.page.test_in_chromium import OVERLAPPING, overflow


def swept(out: Path, params: Sequence[dict[str, int]]) -> Path:
    """A study of two set-ups with these params; the more nodes, the faster, and with one node it does not complete."""
    made: list[Made] = []
    for one in params:
        for setup in ("fast", "slow"):
            stuck = setup == "slow" and one["machines"] == 1
            job = Job({"submitted": 0, "created": 10}, []) if stuck else plain(took=60_000 // one["machines"])
            outcome = "clogged" if stuck else "completed"
            made.append(Made([job] * 3, setup=setup, number=len(made) + 1, params=one, outcome=outcome))
    write_study(out, made)
    study = json.loads((out / "study.json").read_text())
    (out / "study.json").write_text(json.dumps({**study, "answer": ["p95_s", "total_s"]}))
    write_page(Study.open(out))
    return out


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_two_values_make_a_heat_map_for_each_set_up_and_figure(
    width: int, theme: str, tmp_path: Path, opened: Opened
) -> None:
    out = swept(tmp_path / "out", [{"machines": nodes, "jobs": jobs} for nodes in (1, 2, 4) for jobs in (10, 20)])
    page = opened(out, width, theme)
    figure = page.locator("figure.heat")
    assert figure.locator("h4").all_inner_texts() == ["fast", "slow"]
    assert figure.locator(".cell").count() == 12
    assert overflow(page) == 0
    assert figure.locator(".cell rect.empty").count() == 2, "where nothing completed, in both columns of jobs"
    figure.get_by_role("button", name="total_s, s").click()
    cell = figure.locator(".cell").nth(2)
    cell.scroll_into_view_if_needed()
    cell.hover()
    said = page.locator("#tip").inner_text()
    assert said.startswith("fast\nmachines = 2, jobs = 10\ntotal_s: ")
    assert said.endswith("1 of 1 repeat completed")


def test_one_value_makes_a_curve_for_each_figure(tmp_path: Path, opened: Opened) -> None:
    page = opened(swept(tmp_path / "out", [{"machines": nodes} for nodes in (1, 2, 4, 100)]))
    section = page.locator("#sensitivity")
    assert section.locator("h4").all_inner_texts() == ["p95_s, s", "total_s, s"]
    assert section.locator("polyline").count() == 4
    assert "machines (logarithmic)" in section.locator("svg[role=img]").first.inner_html()
    assert not page.evaluate(OVERLAPPING)
