"""What report.html says, and that nothing of a cluster can be more than text in it; `tests/page` has the browser's view."""

from __future__ import annotations

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seatrial.analysis.studies import Study
from seatrial.record.request_log import RequestLog
from seatrial.report.page import write_page
from seatrial.report.page.markup import Cell, Heading, json_block, table, tag
from seatrial.report.page.packing import pack
from tests.analysis.making import MS, Job, Made, plain, write_study

STUCK = Job({"submitted": 0, "created": 1}, [], size=1)


class Seen(HTMLParser):
    """The elements of some markup, its text, and what stands in its scripts."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.names: list[str] = []
        self.text = ""
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def words(out: Path) -> str:
    text = write_page(Study.open(out)).read_text(encoding="utf-8")
    return re.sub(r"\s+", " ", Seen(text.partition("<header")[2].partition("</header>")[0]).text)


ANY = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"))


@given(ANY)
@example("</script><script>alert(1)</script>")
@example('"><img src=x onerror=alert(1)>')
@example("&lt;b&gt; &amp;")
def test_text_stays_text_wherever_it_is_put(text: str) -> None:
    seen = Seen(tag("p", tag("b", text, title=text), text))
    assert seen.names == ["p", "b"]
    assert seen.text == text + text
    assert seen.attributes == [("title", text)]
    cells = Seen(table([Heading(text, about=text)], [[Cell(text, text)]], text))
    assert set(cells.names) == {"div", "table", "caption", "thead", "tbody", "tr", "th", "button", "span"}


@given(st.recursive(ANY | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(ANY, inner)))
@example("</script>")
@example("<!--<script>")
@example("\u2028\u2029")
def test_data_for_scripts_cannot_end_its_element_and_comes_back_whole(data: Any) -> None:
    block = json_block(data)
    inside = block.removeprefix('<script type="application/json">').removesuffix("</script>")
    assert not set(inside) & {"<", ">", "&", "\u2028", "\u2029"}
    assert json.loads(inside) == data
    assert Seen(block).names == ["script"]


@pytest.mark.parametrize("bad", ["\x00", "\x1b[31m", "\ud800"])
def test_what_no_page_can_show_is_replaced(bad: str, tmp_path: Path) -> None:
    out = write_study(tmp_path, [Made([plain(name=f"a{bad}b")], setup=f"x{bad}y")])
    assert bad not in write_page(Study.open(out)).read_text(encoding="utf-8")


@given(st.lists(st.integers(-(2**30), 2**30)), st.lists(st.integers(0, 2**31 - 1)))
def test_packed_columns_come_back_as_they_were(one: list[int], two: list[int]) -> None:
    packed = pack({"one": np.array(one, dtype=np.int32), "two": np.array(two, dtype=np.int32)}, {"names": ["ä", "<"]})
    data = gzip.decompress(base64.b64decode(packed["gz"]))
    assert json.loads(data[: packed["texts"]]) == {"names": ["ä", "<"]}
    at = packed["texts"]
    for (name, length), values in zip(packed["columns"], (one, two), strict=True):
        planes = np.frombuffer(data[at : at + 4 * length], dtype=np.uint8).reshape(4, length).astype(np.uint32)
        zigzag = planes[0] | planes[1] << 8 | planes[2] << 16 | planes[3] << 24
        differences = (zigzag >> 1).astype(np.int64) ^ -(zigzag & 1).astype(np.int64)
        assert np.cumsum(differences).tolist() == values, name
        at += 4 * length


def test_the_fastest_is_named_with_its_spread_and_the_others_in_multiples(tmp_path: Path) -> None:
    trials = [
        Made([plain(took=took + 10 * repeat)], setup=setup, repeat=repeat, number=number)
        for number, (setup, took, repeat) in enumerate(
            (setup, took, repeat) for setup, took in (("slow", 28_000), ("quick", 8_000)) for repeat in (1, 2, 3)
        )
    ]
    said = words(write_study(tmp_path, trials))
    assert "Every workload of every trial completed." in said
    assert "quick was the fastest: 10.0 ± 0.0 s" in said
    assert "as multiples of that: slow 2.99." in said
    assert said.index("quickchecked model10.0") < said.index("slowchecked model30."), (
        "the ranking begins with the fastest"
    )


def guessed(setup: str, took: int, number: int) -> Made:
    """By a model not checked against the real stack."""
    return Made([plain(took=took)], setup=setup, number=number, also={"model": {"verified": False, "how": ""}})


def test_the_top_says_why_a_trial_timed_out_or_failed(tmp_path: Path) -> None:
    cause = {"kind": "head of line", "summary": "head-0 is first in the queue and does not fit", "at_ns": None}
    trials = [
        Made([STUCK], setup="strict", outcome="timeout", also={"timed_out": cause, "detail": "wait: after 10m"}),
        Made([STUCK], setup="bare", number=2, outcome="timeout", also={"detail": "after 10m 0 of 1 were running"}),
        Made([STUCK], setup="broken", number=3, outcome="failed", also={"detail": "the API server refused the Job"}),
    ]
    said = words(write_study(tmp_path, trials))
    assert "strict timed out: head of line" in said and "head-0 is first in the queue and does not fit" in said
    assert "bare timed out" in said and "after 10m 0 of 1 were running" in said
    assert "broken failed" in said and "the API server refused the Job" in said


def test_a_model_that_was_never_held_against_the_real_stack_is_not_the_winner(tmp_path: Path) -> None:
    trials = [Made([plain(took=8_000)], setup="kueue", number=1), guessed("fluence", 2_000, 2)]
    said = words(write_study(tmp_path, trials))
    assert "kueue took 10.0 s" in said
    assert "fluence was" not in said
    assert "Not ranked: fluence (4.0 s) is simulated by a model not checked against the real stack yet." in said
    assert said.index("kueuechecked model10.0") < said.index("fluencemodel not checked yet4.0"), (
        "it comes behind those that are"
    )
    assert "Can the figures be trusted? In part: fluence is simulated by a model" in said
    assert "Yes" not in said


def test_where_all_models_are_unverified_nobody_is_ranked(tmp_path: Path) -> None:
    said = words(write_study(tmp_path, [guessed("a", 8_000, 1), guessed("b", 2_000, 2)]))
    assert "ahead" not in said and "took" not in said
    assert "Not verified: a and b are simulated by a model" in said


def test_real_runs_and_models_are_told_apart_by_the_trust_line(tmp_path: Path) -> None:
    models = words(write_study(tmp_path / "a", [Made([plain()])]))
    assert "Yes, within the accuracy of models checked against the real stacks" in models
    real = write_study(tmp_path / "b", [Made([plain()], also={"on": "local", "model": None})])
    study = json.loads((real / "study.json").read_text())
    (real / "study.json").write_text(json.dumps({**study, "on": "local"}))
    said = words(real)
    assert "kwokreal12.0 s" in said
    assert "Yes, figures of real components that passed all validity checks" in said


def test_nobody_is_the_fastest_within_the_spread(tmp_path: Path) -> None:
    took = {"a": (8_000, 9_000), "b": (8_200, 8_900)}
    trials = [
        Made([plain(took=ms)], setup=setup, repeat=repeat, number=10 * repeat + ord(setup))
        for setup, both in took.items()
        for repeat, ms in enumerate(both)
    ]
    said = words(write_study(tmp_path, trials))
    assert "no clear winner: b and a are within their spread" in said or "no clear winner: a and b are" in said
    assert "fastest" not in said


def test_without_repeats_no_spread_is_invented(tmp_path: Path) -> None:
    trials = [Made([plain(took=took)], setup=str(took), number=took) for took in (5_000, 9_000)]
    said = words(write_study(tmp_path, trials))
    assert "±" not in said
    assert "5000 was ahead (in a single run): 7.0 s" in said
    assert "One repeat each: the variation between runs is unknown." in said


def test_a_set_up_that_did_not_complete_has_no_speed(tmp_path: Path) -> None:
    stopped = Made([plain(took=1), STUCK], setup="stuck", number=2, outcome="timeout", also={"detail": "gave up"})
    said = words(write_study(tmp_path, [Made([plain()]), stopped]))
    assert "1 of 2 set-ups completed everything; stuck timed out." in said
    assert "stuckchecked modeltimeout1 of 2 done" in said
    assert "kwok took 12.0 s" in said


def test_figures_that_are_not_to_be_trusted_are_said_so_at_the_top(tmp_path: Path) -> None:
    late = {"validity": {"valid": False, "reasons": ["the client was late"]}}
    said = words(write_study(tmp_path, [Made([plain()]), Made([plain()], setup="x", number=2, also=late)]))
    assert "In part: not all: 1 of 2 can be trusted (the client was late)." in said


def test_an_expectation_that_does_not_hold_is_said_at_the_top(tmp_path: Path) -> None:
    broken = [{"text": "p99_s < 1", "place": "a.yaml:3:1", "holds": False, "explanation": "p99_s is 12.03"}]
    out = write_study(tmp_path, [Made([plain()], also={"expect": broken})])
    assert "1 expectation of the scenario does not hold." in words(out)
    assert "p99_s is 12.0" in (out / "report.html").read_text(encoding="utf-8")


def test_a_study_of_requests_is_answered_by_them_and_gives_no_ranks(tmp_path: Path) -> None:
    """Who rejects much answers the rest fast."""
    trials = [Made([], setup=setup, number=number, also={"phases": {}}) for number, setup in enumerate(("off", "on"))]
    out = write_study(tmp_path, trials)
    for trial, code, took in zip(trials, (429, 200), (5, 90), strict=True):
        log = RequestLog(out / "trials" / trial.name)
        verb, kind, who, none, phase, by = map(log.number, ("create", "pods", "<tenant>", "", "mass", "client"))
        for n in range(10):
            answered = 200 if n else code
            log.add(n * MS, n * MS, took * MS, verb, kind, who, answered, none, -1.0, 1, phase, by)
        log.close()
    said = words(out)
    assert "20 requests sent: 1 rejected (429 Too Many Requests), 0 failed otherwise." in said
    assert "fastest" not in said
    assert "offchecked model5.0 ms1 of 10 rejected (10%)" in said
    text = (out / "report.html").read_text(encoding="utf-8")
    assert re.findall(r'<section id="(\w+)">', text) == ["summary", "api", "validity", "again"]
    assert "&lt;tenant&gt;" in text


def test_where_nothing_ran_the_page_says_so(tmp_path: Path) -> None:
    said = words(write_study(tmp_path, [], planned=["001-x-r0"]))
    assert "no trial was begun" in said
    assert "1 of 1 trials were not run" in said


def test_sections_without_data_are_not_there(tmp_path: Path) -> None:
    text = write_page(Study.open(write_study(tmp_path, [Made([plain()])]))).read_text(encoding="utf-8")
    sections = re.findall(r'<section id="(\w+)">', text)
    assert sections[0] == "summary"
    assert "totals" not in sections, "nothing varies"
    assert "clog" not in sections, "nothing clogged"


def test_a_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    text = write_page(Study.open(write_study(tmp_path, [Made([plain()])]))).read_text(encoding="utf-8")
    assert not re.findall(r"""(?:src|href)=["'](?!#)|@import|url\((?!#)""", text.replace("url(#", ""))
    assert "unsafe-inline" not in text
    assert not list(tmp_path.glob("*.part"))
