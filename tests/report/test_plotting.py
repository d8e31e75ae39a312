"""`seatrial plot`: which workloads are drawn, and which are listed because their times cannot be."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from seatrial.analysis.impossible_times import hidden_stages, impossible
from seatrial.analysis.stage_times import lifecycle
from seatrial.analysis.studies import Study
from seatrial.record.trial_record import TrialRecord
from seatrial.report.plotting import Choice, by_reason, errors_of, plot, with_workloads
from seatrial.report.step_times import step_times
from tests.analysis.making import Job, Made, plain, write_study, write_trial

COARSE = {"sources": [{"name": "object", "error_ns": 500_000_000}]}


def _pod(**times: int) -> dict[str, int]:
    return {"pods_created": 20, "scheduled": 30, "running": 1030, "finished": 2030} | times


def _wrong(**pod: int) -> Job:
    return Job({"submitted": 0, "created": 10, "completed": 3000}, [_pod(**pod)])


def found(tmp_path: Path, *jobs: Job, **also: object) -> dict[str, str]:
    table = impossible(lifecycle(TrialRecord.open(write_trial(tmp_path, Made(list(jobs), also=also)))))
    return dict(table.iter_rows())


def test_a_stage_before_the_one_it_follows_is_impossible_if_errors_do_not_explain_it(tmp_path: Path) -> None:
    jobs = (plain(), _wrong(running=10), _wrong(finished=5))
    exact = found(tmp_path / "exact", *jobs)
    assert exact == {
        "short-1": "running is 0.020 s before scheduled",
        "short-2": "finished is 1.025 s before running",
    }
    assert found(tmp_path / "coarse", *jobs, **COARSE) == {"short-2": "finished is 1.025 s before running"}


def test_no_time_of_a_trial_that_was_killed_before_its_errors_were_recorded_is_impossible(tmp_path: Path) -> None:
    assert found(tmp_path, plain(), _wrong(running=10), sources=[]) == {}


def test_a_stage_that_nobody_saw_is_missing_only_if_a_later_one_was_reached(tmp_path: Path) -> None:
    under_way = Job({"submitted": 0, "created": 10}, [{"pods_created": 20, "scheduled": 30}])
    hidden = Job(
        {"submitted": 0, "created": 10, "completed": 3000}, [{"pods_created": 20, "scheduled": 30, "finished": 9}]
    )
    failed = Job({"submitted": 0, "failed": 10})
    trial = TrialRecord.open(write_trial(tmp_path, Made([under_way, hidden, failed])))
    assert dict(impossible(lifecycle(trial)).iter_rows()) == {
        "short-1": "running is missing, though a later stage was reached"
    }
    assert hidden_stages(lifecycle(trial)) == {"running": 1}


def test_an_interactive_workload_has_completed_when_it_runs(tmp_path: Path) -> None:
    runs = Job({"submitted": 0, "created": 10}, [{"pods_created": 20, "scheduled": 30, "running": 1030}])
    phases = {"short": {"pods": [1], "requests": {}, "gang": False, "duration_ns": 0, "interactive": True}}
    seen = lifecycle(TrialRecord.open(write_trial(tmp_path, Made([runs], also={"phases": phases}))))
    assert seen.workloads["completed"].to_list() == seen.workloads["running"].to_list() == [1_030_000_000]
    assert impossible(seen).is_empty()
    assert hidden_stages(seen) == {}


@pytest.mark.parametrize(
    ("choice", "drawn"),
    [
        (Choice(), 9),
        (Choice(skip_errors=False), 10),
        (Choice(head=4), 3),
        (Choice(tail=4), 4),
        (Choice(head=2, tail=3), 4),
        (Choice(head=7, tail=7), 9),
        (Choice(head=500), 9),
    ],
)
def test_what_is_asked_for_is_drawn(tmp_path: Path, choice: Choice, drawn: int) -> None:
    out = write_study(tmp_path / "out", [Made([plain(0), _wrong(running=10), *(plain(n) for n in range(8))])])
    study = Study.open(out)
    errors, notes = errors_of(study, choice)
    assert step_times(with_workloads(study, choice, errors))["general"].workloads == drawn
    assert ("all are drawn" in " ".join(notes)) == (choice.head > 10)


def test_errors_are_listed_by_reason(tmp_path: Path) -> None:
    out = write_study(tmp_path / "out", [Made([plain(0), _wrong(running=10), _wrong(running=15), _wrong(finished=5)])])
    done = plot(out, "detailed", "png", Choice())
    assert by_reason(done.errors) == [
        ("running is before scheduled", 2, "short-1"),
        ("finished is before running", 1, "short-3"),
    ]
    assert pl.read_csv(out / "errors.csv").rows() == done.errors.rows()
    assert pl.read_csv(out / "times.csv").height == 4, "the tables have everything"
    names = ["times.csv", "pods.csv", "summary.csv", "errors.csv", "detailed.png"]
    assert [path.name for path in done.files] == names
