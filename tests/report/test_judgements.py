"""Comparisons and gates as others read them."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import xmlschema
from rich.console import Console

from seatrial.analysis.comparing import compare
from seatrial.analysis.gates import judge
from seatrial.analysis.studies import Study
from seatrial.report import comparisons, gate_results
from seatrial.report.page.comparison import comparison_page
from tests.analysis.test_comparing import FAST, SLOW, study, trials
from tests.analysis.test_gates import both

NASTY = "<script>alert(1)</script>|`*_[x](y)\x1b[31m\x00"


def test_junit_validates_and_says_what_failed(tmp_path: Path) -> None:
    texts = (
        "p99_s(mcad) <= 1.1 * p99_s(kwok)",
        "completed == submitted",
        "p99_s <= baseline",
        "p99_s(mcad) <= 1.166 * p99_s(kwok)",
    )
    out = both(tmp_path / "out", *texts, name=NASTY, run={"wall_s": 1.5})
    path = gate_results.write_junit(judge(Study.open(out)), Study.open(out), tmp_path / "junit.xml")
    xmlschema.XMLSchema(Path(__file__).with_name("junit.xsd")).validate(str(path))
    [suite] = ElementTree.parse(path).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("15", "1", "1")
    [failure] = suite.iter("failure")
    assert "s.yaml:10:5: `p99_s(mcad) <= 1.1 * p99_s(kwok)` does not hold" in (failure.text or "")
    assert any("not beyond noise" in (output.text or "") for output in suite.iter("system-out"))


def test_the_summary_is_short_and_adds_to_what_is_there(tmp_path: Path) -> None:
    out = both(tmp_path / "out", "p99_s(mcad) <= 1.1 * p99_s(kwok)", "p50_s > 0", name=NASTY)
    path = tmp_path / "summary.md"
    path.write_text("before\n")
    gate_results.add_summary(judge(Study.open(out)), Study.open(out), path)
    lines = path.read_text().splitlines()
    assert lines[0] == "before"
    assert "12 holds, 1 fails" in lines[1]
    assert "<script>" not in path.read_text()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 3, "what holds is only counted"
    assert "s.yaml:10:5" in rows[2]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 5 for row in rows), "a name cannot end a cell"


def test_a_comparison_is_told_on_a_terminal_in_markdown_in_json_on_a_page_and_drawn(tmp_path: Path) -> None:
    a = study(tmp_path / "a", trials(*FAST, setup=NASTY), on="sim")
    b = study(tmp_path / "b", trials(*SLOW, setup=NASTY), on="local")
    found = compare([Study.open(a), Study.open(b)], anyway=True)
    text = StringIO()
    comparisons.print_comparisons(found, Console(file=text), everything=True)
    told = text.getvalue()
    assert told.startswith("! not comparable, compared anyway: a ran on sim, b on local"), "on top"
    assert "more than noise: total_s slower (× 1.1" in told
    assert "\x1b" not in told and "mean_s" in told
    markdown = comparisons.markdown(found)
    assert "**Not comparable, compared anyway:**" in markdown.splitlines()[2]
    assert "<script>" not in markdown
    page = comparison_page(found)
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    assert page.index("Not comparable") < page.index("more than noise")
    [document] = json.loads(comparisons.as_json(found))
    assert document["different"] is True
    assert {one["figure"]: one["verdict"] for one in document["figures"]}["p99_s"] == "slower"
    picture = comparisons.write_picture(found, tmp_path / "c.png")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_one_run_each_is_told_without_an_interval(tmp_path: Path) -> None:
    found = compare(
        [Study.open(study(tmp_path / "a", trials(10_000))), Study.open(study(tmp_path / "b", trials(20_000), seed=2))]
    )
    text = StringIO()
    comparisons.print_comparisons(found, Console(file=text))
    assert "too few runs to tell" in text.getvalue()
    assert "…" not in text.getvalue()
    comparisons.write_picture(found, tmp_path / "c.png")
