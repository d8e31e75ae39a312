"""Studies of many tiny trials: what a trial costs beside its load (`benchmarks/tiny_trials.py` has the seconds)."""

from __future__ import annotations

import html
import itertools
from pathlib import Path

import pytest

from seatrial.analysis import stage_times as reading
from seatrial.analysis.stage_times import Lifecycle
from seatrial.analysis.studies import Study
from seatrial.record.trial_record import TrialRecord
from seatrial.report.page.html_page import page
from seatrial.report.page.view import CHARTED, view_of
from seatrial.report.study_report import write_report
from seatrial.study.executors import InProcess, Pool, executor_for
from tests.analysis.making import Job, Made, write_study
from tests.sim.making import fakes, submit, to_the_end, trial


def _odd(took_ns: int) -> Job:
    """A job whose times end in half a microsecond, where rounding is a tie."""
    at = {"submitted": 0, "created": 10, "completed": 3000}
    pod = {"pods_created": 20, "scheduled": 30, "running": 30 + took_ns / 1e6, "finished": 2000}
    return Job(at, [pod])


def test_a_report_reads_every_small_trial_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = write_study(tmp_path, [Made([_odd(0)], number=number, repeat=number) for number in range(1, 6)])
    read: list[str] = []
    before = reading.lifecycle

    def counted(one: TrialRecord) -> Lifecycle:
        read.append(one.name)
        return before(one)

    monkeypatch.setattr(reading, "lifecycle", counted)
    write_report(Study.open(out))
    assert sorted(read) == sorted(set(read))
    assert len(read) == 5


def test_of_a_long_sweep_the_page_charts_some_sets_of_params_and_says_where_the_rest_is(tmp_path: Path) -> None:
    made = [Made([_odd(0)], number=number, params={"n": number}) for number in range(1, 251)]
    made[122] = Made([Job({"submitted": 0, "created": 10}, [])], number=123, params={"n": 123}, outcome="timeout")
    view = view_of(Study.open(write_study(tmp_path, made)))
    charted = [int(dict(chosen)["n"]) for chosen in view.charted]
    assert len(charted) == CHARTED
    assert {1, 123, 250} <= set(charted), "the ends and the one that did not complete"
    assert charted == sorted(charted)
    assert max(b - a for a, b in itertools.pairwise(charted)) <= 4
    assert view.left_out in html.unescape(page(view))
    assert "100 of 250 sets of params" in view.left_out


def test_a_row_does_not_depend_on_how_many_other_trials_there_are(tmp_path: Path) -> None:
    made = [Made([_odd(3_619_500 + 1_000 * number)], number=number, repeat=number) for number in range(1, 9)]
    write_report(Study.open(write_study(tmp_path / "all", made)))
    rows = {name: (tmp_path / "all" / name).read_text().splitlines()[1:] for name in ("times.csv", "pods.csv")}
    for place, one in enumerate(made):
        alone = write_study(tmp_path / str(place), [one])
        write_report(Study.open(alone))
        for name, lines in rows.items():
            assert (alone / name).read_text().splitlines()[1:] == [lines[place]]


def test_many_tiny_trials_are_run_on_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seatrial.study.executors._usable_cores", lambda: 2)
    tiny = trial(*to_the_end(submit(1)), nodes=[fakes(1)])
    assert executor_for([tiny] * 10) == InProcess(), "workers would need longer to start"
    assert executor_for([tiny] * 1000) == Pool(2)
