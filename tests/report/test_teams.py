"""Queues and classes on the terminal and on the page."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

from rich.console import Console

from seatrial.analysis.studies import Study
from seatrial.analysis.tables import write_tables
from seatrial.report.exports import openmetrics
from seatrial.report.page import write_page
from seatrial.report.team_lines import team_lines
from seatrial.report.terminal import summary_table
from tests.analysis.making import Made, plain, write_study
from tests.analysis.test_team_figures import fleet, queue, two_teams


def charts(out: Path) -> dict[str, list[Any]]:
    text = write_page(Study.open(out)).read_text(encoding="utf-8")
    found = re.findall(r'data-chart="(\w+)".*?<script type="application/json">(.*?)</script>', text, re.DOTALL)
    by_kind: dict[str, list[Any]] = {}
    for kind, data in found:
        by_kind.setdefault(kind, []).append(json.loads(data))
    return by_kind


def printed(out: Path, width: int | None = None) -> str:
    text = io.StringIO()
    summary_table(Study.open(out), Console(file=text, width=width, force_terminal=width is not None, color_system=None))
    return text.getvalue()


def test_a_run_prints_a_table_per_queue_and_one_per_class(tmp_path: Path) -> None:
    text = printed(write_study(tmp_path / "out", [two_teams()]))
    queues = text.partition("by queue")[2].partition("by class")[0]
    assert re.search(r"\nred +2 of 2 .* 1 +428 .* 840 ", queues), queues
    assert re.search(r"\nurgent +1 of 1 +10.0 ", text.partition("by class")[2])


def test_a_table_of_queues_fits_a_terminal_of_80_columns(tmp_path: Path) -> None:
    text = printed(write_study(tmp_path / "out", [two_teams()]), 80)
    assert "evicted" in text and max(len(line.rstrip()) for line in text.partition("by queue")[2].splitlines()) <= 80


def test_without_queues_and_classes_nothing_is_printed_or_drawn(tmp_path: Path) -> None:
    out = write_study(tmp_path / "out", [Made([plain()])])
    assert "by queue" not in printed(out) and "by class" not in printed(out)
    assert not {"usage", "evictions"} & charts(out).keys()
    assert 'id="teams"' not in (out / "report.html").read_text()


def test_of_many_queues_those_with_the_longest_waits_are_printed_and_the_rest_is_counted(tmp_path: Path) -> None:
    many = [queue(f"q{number}", 1) for number in range(30)]
    text = printed(write_study(tmp_path / "out", [two_teams(**fleet(queue("red", 4), queue("blue", 4), *many))]))
    assert "and 20 more queues, with shorter waits: see queues.csv" in text and "\nblue" in text


def test_the_page_has_what_queues_held_against_their_quota_in_a_panel_per_set_up(tmp_path: Path) -> None:
    other = two_teams()
    other.setup, other.number = "other", 2
    out = write_study(tmp_path / "out", [two_teams(), other])
    usage = charts(out)["usage"][0]
    assert [panel["title"] for panel in usage["panels"]] == ["kwok", "other"]
    panel = usage["panels"][0]
    assert (panel["queues"], panel["quota"], panel["size"], panel["unit"]) == (["red", "blue"], [4, 4], 8, "cores")
    assert panel["used"][0][0] == 8 and panel["evictions"] == [[110, 0]]
    held = sum(panel["used"][0]) * panel["end"] / len(panel["used"][0])
    assert abs(held - (400 * 4 + 210 * 4)) < 0.01 * held


def test_the_page_draws_an_eviction_from_who_lost_its_place_to_who_got_it(tmp_path: Path) -> None:
    panel = charts(write_study(tmp_path / "out", [two_teams()]))["evictions"][0]["panels"][0]
    move = panel["moves"][0]
    assert (panel["rows"][move["from"]]["name"], panel["rows"][move["to"]]["name"]) == ("r1", "b0")
    assert (move["at"], move["reason"]) == (110, "reclaimed")
    assert panel["rows"][move["from"]]["spans"] == [[0, 110], [210, 310]]


def test_the_page_shows_waits_by_class_as_distributions(tmp_path: Path) -> None:
    data = next(
        one for one in charts(write_study(tmp_path / "out", [two_teams()]))["lines"] if "wait" in one["x"]["label"]
    )
    series = {one["name"]: one["points"] for one in data["panels"][0]["series"]}
    assert series["urgent"][-1] == {"x": 10, "y": 100} and series["long"][-1] == {"x": 0, "y": 100}


def test_a_queue_called_like_markup_stays_text(tmp_path: Path) -> None:
    evil = "</script><b>"
    made = two_teams(**fleet(queue(evil, 4), queue("blue", 4)))
    for job in made.jobs:
        job.queue = job.queue.replace("red", evil)
    out = write_study(tmp_path / "out", [made])
    assert charts(out)["usage"][0]["panels"][0]["queues"][0] == evil
    assert evil not in (out / "report.html").read_text()


def test_lines_are_means_over_repeats(tmp_path: Path) -> None:
    second = two_teams()
    second.repeat, second.number = 1, 2
    out = write_study(tmp_path / "out", [two_teams(), second])
    lines = team_lines(Study.open(out), "queue")
    assert [(line.member, line.means["evicted"]) for line in lines] == [("red", 1), ("blue", 0)]
    assert "by queue, means over repeats: a wait ends" in printed(out)
    assert "by queue: a wait ends" in printed(write_study(tmp_path / "one", [two_teams()]))


def test_metrics_of_queues_and_classes_have_names_of_their_own(tmp_path: Path) -> None:
    study = Study.open(write_study(tmp_path / "out", [two_teams()]))
    write_tables(study)
    lines = list(openmetrics.lines(Study.open(study.out)))
    assert [
        line for line in lines if line.startswith("seatrial_queue_borrowed_core_seconds{") and 'queue="red"' in line
    ]
    assert [
        line
        for line in lines
        if line.startswith("seatrial_class_wait_max_seconds{") and line.endswith('class="urgent"} 10.0')
    ]
    assert len([line for line in lines if line.startswith("seatrial_evicted{")]) == 1
