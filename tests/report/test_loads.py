"""Studies of loads as people see them: nothing that was asked for is missing, and nothing says more than its runs hold."""

from __future__ import annotations

import csv
import json
import re
from io import StringIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from seatrial.analysis.api_load import _from_requests
from seatrial.analysis.api_tables import api_table, by_identity, differences
from seatrial.analysis.comparing import compare
from seatrial.analysis.gates import judge
from seatrial.analysis.studies import Study
from seatrial.model.errors import UsageProblem
from seatrial.report.comparisons import as_json, table
from seatrial.report.page.html_page import page
from seatrial.report.page.view import view_of
from seatrial.report.study_report import write_report
from seatrial.report.terminal import summary_table
from seatrial.report.text_tables import signed_percent
from tests.report.loads import LATE, Sent, write_load_study


def printed(out: Path) -> str:
    text = StringIO()
    summary_table(Study.open(out), Console(file=text, width=80))
    return text.getvalue()


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def one_of_two_is_late(out: Path) -> Path:
    return write_load_study(out, [Sent("off", rejected=312, validity=LATE), Sent("on", took_ms=40)])


def test_a_trial_that_is_not_to_be_trusted_stays_in_the_table_and_only_its_times_are_marked(tmp_path: Path) -> None:
    text = printed(one_of_two_is_late(tmp_path / "out"))
    off = next(line for line in text.splitlines() if line.startswith("! off "))
    on = next(line for line in text.splitlines() if line.startswith("on "))
    assert off.split() == ["!", "off", "nodes", "332", "312", "0", "0", "!", "26.0", "!", "26.0"]
    assert "!" not in on
    assert "affects times by about 3.0 ms, not rates and counts" in text


def test_the_page_shows_it_too_and_says_which_figures_the_fault_affects(tmp_path: Path) -> None:
    text = words(page(view_of(Study.open(one_of_two_is_late(tmp_path / "out")))))
    assert "! off nodes 332 312 0 0 ! 26.0 ! 26.0 ! 26.0" in text
    assert "In part" in text
    assert "affects times by about 3.0 ms, not rates and counts" in text


def test_api_tables_hold_it_number_by_number(tmp_path: Path) -> None:
    out = one_of_two_is_late(tmp_path / "out")
    write_report(Study.open(out))
    rows = list(csv.DictReader((out / "api.csv").read_text().splitlines()))
    valid = {row["statistic"]: row["valid"] for row in rows if row["setup"] == "off" and row["about"] == "requests"}
    assert valid["rejected"] == "true" and valid["api_p99_s"] == "false"
    of = {row["measurement"]: row for row in csv.DictReader((out / "api-differences.csv").read_text().splitlines())}
    assert of["request duration"]["valid"] == "false" and of["rejected"]["valid"] == "true"
    assert (out / "api.png").stat().st_size > 10_000


def test_a_comparison_judges_its_counts_and_not_its_times(tmp_path: Path) -> None:
    runs = [Sent("off", rejected=312 + n, repeat=n, validity=LATE) for n in range(6)]
    [comparison] = compare(
        [Study.open(write_load_study(tmp_path / "out", runs + [Sent("on", repeat=n) for n in range(6)]))]
    )
    found = {one.name: one for one in comparison.found}
    assert found["rejected"].verdict == "fewer"
    assert found["api_p99_s"].verdict == "" and found["api_p99_s"].doubtful == (True, False)
    assert "not to be trusted: times of off" in found["api_p99_s"].why
    _, rows = table(comparison)
    assert next(cells for cells, _ in rows if cells[0] == "api_p99_s")[1] == "! 0.026"
    assert any("affects times" in note for note in comparison.notes)
    assert json.loads(as_json([comparison]))[0]["figures"][0]["doubtful"] == [True, False]


def test_a_gate_on_rejections_is_judged_and_one_on_latencies_is_not(tmp_path: Path) -> None:
    expect = [{"text": text, "place": "s.yaml:1:1"} for text in ("rejected(nodes) == 312", "api_p99_s < 1")]
    out = write_load_study(tmp_path / "out", [Sent("off", rejected=312, validity=LATE)], expect=expect)
    counted, measured, _ = judge(Study.open(out))
    assert counted.state == "holds"
    assert measured.state == "fails" and "not to be trusted" in measured.explanation


def sweep(out: Path) -> Path:
    """Two params whose cells differ much and whose runs do not."""
    return write_load_study(
        out,
        [
            Sent(setup, took_ms=took + extra + n, repeat=n, params={"clients": clients})
            for clients, took in ((5, 20), (50, 400))
            for setup, extra in (("off", 0), ("on", 12))
            for n in range(4)
        ],
        on="sim",
    )


def test_the_cells_of_a_sweep_are_kept_apart(tmp_path: Path) -> None:
    out = sweep(tmp_path / "out")
    lines = [(line.setup, line.params, line.means["api_p50_s"]) for line in by_identity(Study.open(out).trials)]
    assert lines == [
        ("off", "clients=5", 0.0215), ("on", "clients=5", 0.0335),
        ("off", "clients=50", 0.4015), ("on", "clients=50", 0.4135),
    ]  # fmt: skip
    assert re.search(r"^on +clients=50 +nodes +20", printed(out), re.MULTILINE)
    text = words(page(view_of(Study.open(out))))
    assert "off clients=5 nodes 20" in text and "off clients=50 nodes 20" in text


def test_the_spread_between_cells_is_not_called_noise(tmp_path: Path) -> None:
    trials = Study.open(sweep(tmp_path / "out")).trials
    found = [one for one in differences(api_table(trials)) if one.measurement == "request duration"]
    means = {one.params: one for one in found if one.statistic == "mean"}
    assert list(means) == ["clients=5", "clients=50"]
    assert all(one.larger_than_noise for one in means.values())
    assert {one.runs for one in means.values()} == {"4 and 4"}
    assert api_table(trials)["params"].unique(maintain_order=True).to_list() == ["clients=5", "clients=50"]


def asked(out: Path) -> Path:
    """The load waits with fairness on, where it is rejected with fairness off: its p99 is 16 times as long."""
    trials = [Sent("off", rejected=312, took_ms=20), Sent("on", took_ms=320)]
    return write_load_study(out, trials, answer=["rejected(nodes)"], scenario={"about": "Do nodes starve?"})


def test_the_page_begins_with_the_figure_that_the_scenario_calls_its_answer(tmp_path: Path) -> None:
    text = words(page(view_of(Study.open(asked(tmp_path / "out")))))
    top = text[: text.index("Can the figures be trusted")]
    assert "rejected(nodes): 312 with off, 0 with on." in top
    assert "p99 of successful requests" not in top, "a figure of the load as a whole is not the answer"


def test_the_terminal_begins_with_it_too(tmp_path: Path) -> None:
    lines = printed(asked(tmp_path / "out")).splitlines()
    assert lines[1:5] == [
        "Do nodes starve?",
        "set-up  rejected(nodes)",
        "off                 312",
        "on                    0",
    ]


def test_a_comparison_tests_the_answer_first(tmp_path: Path) -> None:
    [comparison] = compare([Study.open(asked(tmp_path / "out"))])
    assert [one.name for one in comparison.tested] == [
        "rejected(nodes)",
        "api_p99_s",
        "requests_per_s",
        "rejected",
    ]
    [named] = compare([Study.open(tmp_path / "out")], figures=["api_p99_s(nodes)"])
    assert [one.name for one in named.tested] == ["api_p99_s(nodes)"]


def test_a_figure_of_somebody_unknown_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem) as refused:
        compare([Study.open(asked(tmp_path / "out"))], figures=["rejected(node)"])
    assert (refused.value.message, refused.value.remedy) == (
        "these studies have no identity 'node'", "did you mean 'nodes'?",
    )  # fmt: skip


def test_an_error_bound_of_a_second_is_not_a_power_of_ten(tmp_path: Path) -> None:
    bound = {"sources": [{"name": "watch", "error_ns": 10**9}]}
    text = words(page(view_of(Study.open(write_load_study(tmp_path / "out", [Sent("off", also=bound)])))))
    assert "e+0" not in text
    assert "off by at most 1.00 s" in text


def test_a_difference_that_rounds_to_nothing_has_one_sign() -> None:
    assert [signed_percent(value) for value in (-0.4, -0.0, 1e-12, -3.2, 1234.5)] == ["+0", "+0", "+0", "-3", "+1,234"]


def test_the_mean_duration_does_not_depend_on_the_order_of_requests() -> None:
    random = np.random.default_rng(1)
    took = random.integers(1, 10**9, 50_000) * 1_000 + 7
    at = random.integers(0, 5 * 10**9, 50_000)
    rows = pl.DataFrame({"verb": "get", "at_ns": at, "sent_ns": at, "took_ns": took, "code": 200})
    seconds = [
        _from_requests(rows.sample(fraction=1, shuffle=True, seed=seed), 0, int((at + took).max()))["request duration"]
        for seed in range(3)
    ]
    assert seconds[0].equals(seconds[1])
    assert seconds[0].equals(seconds[2])
