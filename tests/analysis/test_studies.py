import json
from pathlib import Path

import pytest

from seatrial.analysis.studies import Study
from seatrial.analysis.trial_figures import figures
from seatrial.model.errors import SeatrialError, SetupProblem, UsageProblem
from seatrial.record.submissions import read_submitted
from tests.analysis.making import Made, plain, write_study, write_trial


def test_a_directory_that_is_no_study_is_refused_with_a_remedy(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UsageProblem) as refused:
            Study.open(place)
        assert str(place) in refused.value.message
        assert "seatrial run" in refused.value.remedy


def test_a_study_of_a_newer_format_is_refused_and_names_the_version_that_wrote_it(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text(json.dumps({"format": 7, "seatrial": "9.1", "trials": []}))
    with pytest.raises(UsageProblem, match=r"format 7, written by seatrial 9\.1") as refused:
        Study.open(tmp_path)
    assert "Upgrade" in refused.value.remedy


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "1"}', "\x00\x00"])
def test_a_damaged_study_is_one_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(SeatrialError) as refused:
        Study.open(tmp_path)
    assert refused.value.remedy


def test_a_study_cut_off_by_a_crash_is_read_as_far_as_it_went_and_says_so(tmp_path: Path) -> None:
    killed = Made([plain()], number=2, outcome="running", sealed=False)
    write_study(tmp_path, [Made([plain()]), killed], planned=["003-kwok-r2", "004-kwok-r3"])
    study = Study.open(tmp_path)
    assert [trial.outcome for trial in study.trials] == ["completed", "interrupted"]
    assert any("002-kwok-r0 was cut off" in note for note in study.notes)
    assert any("2 of 4 trials were not run" in note for note in study.notes)


def test_a_trial_without_its_description_is_left_out_by_name(tmp_path: Path) -> None:
    out = write_study(tmp_path, [Made([plain()]), Made([plain()], number=2)], planned=["003-kwok-r2"])
    (out / "trials" / "002-kwok-r0" / "trial.json").unlink()
    study = Study.open(out)
    assert [trial.name for trial in study.trials] == ["001-kwok-r0"]
    assert study.notes == ("1 of 3 trials were not run", "002-kwok-r0 is left out: it has no trial.json")


def test_a_line_that_the_crash_tore_is_among_the_notes(tmp_path: Path) -> None:
    out = write_study(tmp_path, [Made([plain()], outcome="running", sealed=False)])
    with (out / "trials" / "001-kwok-r0" / "submitted.jsonl").open("a") as file:
        file.write('{"worklo')
    assert "001-kwok-r0: the last line of submitted.jsonl was torn" in Study.open(out).notes[1]


def test_damaged_observations_are_one_clear_error(tmp_path: Path) -> None:
    trial = write_trial(tmp_path, Made([plain()]))
    (trial / "observed.parquet").write_bytes(b"PAR1 nothing more")
    with pytest.raises(SetupProblem, match="cannot be read") as refused:
        figures(trial)
    assert refused.value.remedy


def test_a_trial_that_was_killed_has_figures_of_what_was_seen_but_no_total_and_is_not_valid(tmp_path: Path) -> None:
    jobs = [plain(0), plain(100)]
    trial = write_trial(tmp_path / "t", Made(jobs, outcome="running", sealed=False, also={"validity": None}))
    row = figures(trial)
    assert (row["outcome"], row["completed"], row["total_s"], row["valid"]) == ("interrupted", 2, None, False)


@pytest.mark.parametrize("torn", ['{"workload":"short-2","num', "\x00\x00\x00\n", '{"workload":\n'])
def test_a_torn_last_line_is_dropped_and_the_caller_is_told(tmp_path: Path, torn: str) -> None:
    trial = write_trial(tmp_path, Made([plain(0), plain(5)]))
    with (trial / "submitted.jsonl").open("a") as file:
        file.write(torn)
    submitted = read_submitted(trial)
    assert submitted.frame["workload"].to_list() == ["short-0", "short-1"]
    assert "torn" in submitted.note


def test_whole_lines_are_read_without_a_note_and_a_line_written_twice_counts_once(tmp_path: Path) -> None:
    trial = write_trial(tmp_path, Made([plain(0), plain(5)]))
    whole = (trial / "submitted.jsonl").read_text()
    (trial / "submitted.jsonl").write_text(whole + whole.splitlines()[0] + "\n")
    submitted = read_submitted(trial)
    assert submitted.frame["number"].to_list() == [0, 1]
    assert submitted.note == ""


def test_damage_in_the_middle_is_an_error_and_not_silently_fewer_workloads(tmp_path: Path) -> None:
    trial = write_trial(tmp_path, Made([plain(0), plain(5), plain(9)]))
    lines = (trial / "submitted.jsonl").read_text().splitlines(keepends=True)
    (trial / "submitted.jsonl").write_text(lines[0] + "garbage\n" + lines[2])
    with pytest.raises(SetupProblem, match="damaged before its last line"):
        read_submitted(trial)
