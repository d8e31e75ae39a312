import csv
import json
import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from seatrial.analysis.studies import Study
from seatrial.report.page.html_page import page
from seatrial.report.page.view import view_of
from seatrial.report.study_report import write_report
from seatrial.report.terminal import summary_table
from seatrial.report.text_tables import decimals_for
from tests.analysis.making import Job, Made, plain, write_study


def study(out: Path, clogged: bool = False) -> Path:
    trials = [
        Made([plain(n * 100) for n in range(jobs)], setup=setup, repeat=repeat, number=number, params={"jobs": jobs})
        for number, (setup, jobs, repeat) in enumerate(
            (setup, jobs, repeat) for setup in ("kind", "kwok", "kwok+mcad") for jobs in (1, 100) for repeat in range(3)
        )
    ]
    if clogged:
        stuck = Job({"submitted": 0, "created": 1}, [], size=1)
        last = trials[-1]
        last.jobs, last.outcome = [plain(), stuck], "clogged"
        last.also = {"detail": "two gangs wait for each other"}
    return write_study(out, trials)


def printed(out: Path, width: int = 80, terminal: bool = False, encoding: str = "utf-8") -> str:
    class File(StringIO):
        @property
        def encoding(self) -> str:  # type: ignore[override]
            return encoding

    file = File()
    summary_table(Study.open(out), Console(file=file, width=width, force_terminal=terminal, legacy_windows=False))
    return file.getvalue()


def test_a_pipe_gets_one_plain_line_per_row_with_all_columns(tmp_path: Path) -> None:
    text = printed(study(tmp_path))
    assert "\x1b" not in text
    rows = [line for line in text.splitlines() if line.startswith("2026-07-25")]
    assert len(rows) == 6
    assert rows[5].split() == [
        "2026-07-25", "kwok+mcad", "model", "100", "100", "21.9", "±", "0.0", "3", "of", "3",
        "10.0", "10.0", "12.0", "12.0", "12.0",
    ]  # fmt: skip
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_a_param_with_the_name_of_another_column_is_told_apart(tmp_path: Path) -> None:
    trials = [Made([plain()] * 3, number=n, params={"jobs": n + 1, "as": n + 4}) for n in range(2)]
    text = printed(write_study(tmp_path, trials))
    header = next(line.split() for line in text.splitlines() if line.startswith("date"))
    assert header[:7] == ["date", "set-up", "as", "param_jobs", "param_as", "jobs", "pods"]
    row = next(line.split() for line in text.splitlines() if line.startswith("2026-07-25"))
    assert row[3:7] == ["1", "4", "3", "3"]


def test_a_terminal_of_80_columns_shows_every_column_uncut_with_the_date_above(tmp_path: Path) -> None:
    text = printed(study(tmp_path), terminal=True)
    plain_text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = plain_text.splitlines()
    assert max(map(len, lines)) <= 80
    assert "2026-07-25" in lines[0]
    assert "…" not in plain_text
    assert sum("kwok+mcad" in line and "3 of 3" in line for line in lines) == 2


def test_no_color_means_no_colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = printed(study(tmp_path, clogged=True), terminal=True)
    assert "\x1b[33m" not in text
    assert "\x1b[31m" not in text


def test_a_set_up_that_clogged_once_does_not_look_fast_and_says_why(tmp_path: Path) -> None:
    text = printed(study(tmp_path, clogged=True))
    row = next(line for line in text.splitlines() if "2 of 3" in line)
    assert row.split()[-3:] == ["-", "-", "-"]
    assert row.split()[5:9] == ["-", "2", "of", "3"]
    assert "clogged with 1 of 2 workloads completed: two gangs wait for each other" in text


def test_a_trial_that_is_not_to_be_trusted_is_marked_with_its_reason(tmp_path: Path) -> None:
    late = {"validity": {"valid": False, "reasons": ["8 of 10 submissions/s"]}}
    text = printed(write_study(tmp_path, [Made([plain()]), Made([plain()], repeat=1, also=late)]))
    assert "! 12.0" in text
    assert "! 001-kwok-r1 is not to be trusted: 8 of 10 submissions/s" in text


def test_what_a_crash_left_out_is_said(tmp_path: Path) -> None:
    text = printed(write_study(tmp_path, [Made([plain()], outcome="running", sealed=False)], planned=["002-kwok-r1"]))
    assert "001-kwok-r0 was cut off" in text
    assert "1 of 2 trials were not run" in text
    assert "0 of 1" in text


def test_a_study_without_a_trial_is_a_sentence(tmp_path: Path) -> None:
    assert "no trial was begun" in printed(write_study(tmp_path, [], planned=["001-kwok-r0"]))


def test_a_console_without_unicode_gets_ascii(tmp_path: Path) -> None:
    assert printed(study(tmp_path), encoding="ascii").isascii()


def test_a_varying_parameter_other_than_the_number_of_jobs_has_its_column(tmp_path: Path) -> None:
    trials = [Made([plain()], number=n, params={"fair": fair}) for n, fair in enumerate((True, False))]
    text = printed(write_study(tmp_path, trials))
    assert "fair" in text
    assert "false" in text


def test_markup_and_control_characters_in_names_stay_text(tmp_path: Path) -> None:
    text = printed(write_study(tmp_path, [Made([plain()], setup="[red]x[/]\x1b[31m")]))
    assert "[red]x[/]" in text
    assert "\x1b" not in text


def test_decimals_show_three_digits_of_the_largest() -> None:
    assert [decimals_for([value]) for value in (1234, 135.2, 9.999, 9.26, 0.83, 0.0)] == [1, 1, 1, 2, 3, 1]
    assert decimals_for([132.0, 0.05]) == 2


CLOG = {"kind": "gang deadlock", "summary": "a holds node-1 and waits for b", "at_ns": 63_000_000_000}
AUDITS = [
    {"audit": "aggregate admission", "count": 2, "finding": "2 admitted workloads fit no node."},
    {"audit": "gang in part", "count": 0, "finding": "Every gang started as a whole."},
]
NOTES = [{"at_ns": 5_500_000_000, "text": "wait-2: after 5s 0 of 1 workloads were completed; the run continued"}]


def test_a_clog_is_told_with_its_moment_kind_and_summary(tmp_path: Path) -> None:
    stuck = Job({"submitted": 0, "created": 1}, [], size=1)
    text = printed(
        write_study(tmp_path, [Made([plain(), stuck], outcome="clogged", also={"clog": CLOG, "detail": "x"})])
    )
    told = (
        "001-kwok-r0 clogged at 63.0 s with 1 of 2 workloads completed: gang deadlock: a holds node-1 and waits for b"
    )
    assert told in text.splitlines()


def test_stalls_are_told_once_per_set_up_with_the_longest_and_its_cause(tmp_path: Path) -> None:
    def stall(begin: int, end: int, resolved: bool = True) -> dict[str, object]:
        moments = {"from_ns": begin * 10**9, "until_ns": end * 10**9, "noticed_ns": (begin + 30) * 10**9}
        return {**moments, "resolved": resolved, "kind": "livelock", "summary": f"Told at {begin}."}

    trials = [
        Made([plain()], also={"stalls": [stall(45, 128), stall(200, 240)]}),
        Made([plain()], setup="other", number=2, also={"stalls": [stall(10, 70, resolved=False)]}),
    ]
    lines = printed(write_study(tmp_path, trials)).splitlines()
    assert (
        "kwok: stalled 2 times, the longest 83 s from 45.0 s to 128.0 s of 001-kwok-r0: livelock: Told at 45." in lines
    )
    [other] = [line for line in lines if line.startswith("other: stalled")]
    assert "stalled 60 s from 10.0 s to 70.0 s" in other
    assert "until the next step or the end of the trial" in other


def test_audits_that_found_something_are_told_once_per_set_up(tmp_path: Path) -> None:
    trials = [Made([plain()], repeat=repeat, number=repeat, also={"audits": AUDITS}) for repeat in range(3)]
    lines = [line for line in printed(write_study(tmp_path, trials)).splitlines() if line.startswith("kwok:")]
    assert lines == ["kwok: aggregate admission, in 3 of 3 trials, the first: 2 admitted workloads fit no node."]


def test_waits_that_went_on_are_told(tmp_path: Path) -> None:
    text = printed(write_study(tmp_path, [Made([plain(500)], also={"notes": NOTES})]))
    assert "001-kwok-r0 at 5.0 s: wait-2: after 5s 0 of 1 workloads were completed; the run continued" in text


def test_findings_are_short(tmp_path: Path) -> None:
    trials = [Made([plain()], setup=f"s{n}", number=n, also={"audits": AUDITS}) for n in range(20)]
    text = printed(write_study(tmp_path, trials))
    assert text.count("aggregate admission") == 16
    assert "and 4 more like these: see stalls, audits and notes in trial.json" in text


def test_workloads_by_size_are_a_table_where_sizes_differ(tmp_path: Path) -> None:
    jobs = [plain(0, 1000, 2), plain(0, 3000, 2), plain(0, 5000, 6), Job({"submitted": 0}, [], size=6)]
    out = write_study(tmp_path, [Made(jobs, outcome="clogged")])
    text = printed(out)
    assert "by size: mean ± standard deviation of n workloads, in seconds" in text
    assert [line.split() for line in text.splitlines()[-2:]] == [
        ["kwok", "2", "2", "of", "2", "4.03", "±", "1.41", "2", "2.00", "±", "1.41", "2"],
        ["kwok", "6", "1", "of", "2", "7.03", "1", "5.00", "1"],
    ]
    assert printed(out, encoding="ascii").isascii()
    on_terminal = re.sub(r"\x1b\[[0-9;]*m", "", printed(out, terminal=True))
    assert max(map(len, on_terminal.splitlines()[3:])) <= 80
    assert "by size" not in printed(write_study(tmp_path / "alike", [Made([plain()])]))


def test_a_row_says_whether_it_is_real_a_verified_model_or_another(tmp_path: Path) -> None:
    trials = [
        Made([plain()], setup="kueue", number=1),
        Made([plain()], setup="fluence", number=2, also={"model": {"verified": False}}),
        Made([plain()], setup="older", number=3, also={"model": None}),
        Made([plain()], setup="there", number=4, also={"on": "local"}),
    ]
    text = printed(write_study(tmp_path, trials))
    rows = {line.split()[1]: line.split()[2] for line in text.splitlines() if line.startswith("2026-")}
    assert rows == {"kueue": "model", "fluence": "model?", "older": "model?", "there": "real"}
    assert "fluence: simulated by a model not checked against the real stack yet, so it is not ranked" in text


def gpus(out: Path, hours: int = 0) -> Path:
    nodes = [
        {"group": "gpu", "count": 2, "capacity": {"cpu": 32000, "nvidia.com/gpu": 8}, "from_ns": 0, "until_ns": None}
    ]
    took = hours * 3_600_000 + 180_000
    job = plain(took=took)
    return write_study(
        out, [Made([job], requests={"cpu": 1000, "nvidia.com/gpu": 8}, nodes=nodes, end_ms=took + 10_000)]
    )


def test_utilisation_is_in_the_table_where_gpus_are_asked_for_and_only_there(tmp_path: Path) -> None:
    for terminal in (False, True):
        text = printed(gpus(tmp_path / f"gpus-{terminal}"), terminal=terminal)
        row = next(line for line in text.splitlines() if "kwok" in line)
        assert row.split()[-5:-3] == ["2%", "49%"], "cpu and gpu"
    assert "gpu" not in printed(study(tmp_path / "none"))


def test_a_narrow_terminal_leaves_out_columns_and_not_the_use_of_gpus(tmp_path: Path) -> None:
    text = printed(gpus(tmp_path), width=66, terminal=True)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert max(map(len, lines)) <= 66
    row = next(line for line in lines if "kwok" in line)
    assert "49%" in row and "182.0" in row


def test_times_over_an_hour_read_as_hours(tmp_path: Path) -> None:
    out = gpus(tmp_path / "long", hours=12)
    assert "12 h 03 m" in printed(out)
    assert "12 h 03 m" in page(view_of(Study.open(out)))
    write_report(Study.open(out))
    rows = list(csv.DictReader((out / "summary.csv").read_text().splitlines()))
    assert float(rows[0]["total_s"]) == pytest.approx(43382.03), "tables for programs stay in seconds"


def test_an_answer_stands_above_the_table_unless_every_figure_of_it_is_a_column(tmp_path: Path) -> None:
    out = write_study(tmp_path, [Made([plain()])])
    document = json.loads((out / "study.json").read_text())
    for answer, is_printed in ((["p99_s"], False), (["cpu_util"], True), (["max_s"], True)):
        (out / "study.json").write_text(json.dumps({**document, "answer": answer}))
        assert (answer[0] in printed(out)) is is_printed
