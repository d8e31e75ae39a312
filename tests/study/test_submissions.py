"""What a submission says of wrong options, and what it takes up again from its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.cli.submit import _wish
from seatrial.model.errors import SeatrialError, SetupProblem, UsageProblem
from seatrial.model.plan import PodShape, Workload
from seatrial.record.layout import SUBMITTED
from seatrial.record.submissions import Submissions, take_up
from seatrial.study import submission_sending

OPTIONS = ("type", "workloads", "parallel", "num-workers", "gpus", "delay", "project", "pvc", "stack", "template", "cluster",
           "context", "kubeconfig")  # fmt: skip


def _begin(out: Path, **asked: Any) -> None:
    named = {f"--{name}": asked.get(name.replace("-", "_")) for name in OPTIONS}
    submission_sending.begin(out, _wish(named, None), lambda *_: None)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"type": "batch"}, "choose one of training, distributed, interactive"),
        ({"num_workers": 3}, "-t distributed"),
        ({"cluster": "a", "context": "b"}, "keep one of them"),
        ({}, "--cluster, or a context with --context"),
        ({"cluster": "no-such-cluster"}, "seatrial cluster up no-such-cluster"),
        ({"context": "none", "stack": "kueu"}, "did you mean 'kueue'?"),
    ],
)
def test_wrong_options_are_said_before_anything_is_made(tmp_path: Path, asked: dict[str, Any], says: str) -> None:
    with pytest.raises(SeatrialError) as raised:
        _begin(tmp_path / "out", **asked)
    assert says in " ".join(raised.value.lines())
    assert not (tmp_path / "out").exists()


def _recorded(out: Path, name: str = "submit") -> None:
    out.mkdir()
    asked = {"--type": "training", "--workloads": 5, "--gpus": None, "--template": None}
    (out / "study.json").write_text(json.dumps({"name": name, "asked": asked, "scenario": {"template": "a: 1\n"}}))


def test_an_out_of_other_options_is_refused_with_what_differs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    _recorded(out)
    given_now = {"--type": "training", "--workloads": 6, "--gpus": 2, "--delay": None}
    with pytest.raises(UsageProblem) as raised:
        submission_sending.resume(out, given_now, "b: 1\n", lambda *_: None)
    said = raised.value.message
    assert "--workloads was 5, not 6" in said
    assert "--gpus was not given, not 2" in said
    assert "the template has changed" in said
    assert "--type" not in said
    assert "--resume" in raised.value.remedy


@pytest.mark.parametrize(
    ("name", "says"), [("many-small-jobs", "a study of 'many-small-jobs'"), ("", "no study to continue")]
)
def test_what_is_no_submission_is_not_taken_up(tmp_path: Path, name: str, says: str) -> None:
    out = tmp_path / "out"
    if name:
        _recorded(out, name)
    with pytest.raises(UsageProblem, match=says):
        submission_sending.resume(out, {}, None, lambda *_: None)


def test_a_submission_is_not_begun_over_another(tmp_path: Path) -> None:
    _recorded(tmp_path / "out")
    with pytest.raises(UsageProblem, match="holds a submission already") as raised:
        _begin(tmp_path / "out", cluster="any")
    assert "--resume" in raised.value.remedy


def _write(directory: Path, count: int, refused: set[int] | None = None) -> bytes:
    submissions = Submissions(directory)
    for index in range(count):
        workload = Workload(f"w-{index}", "training", index, 1, PodShape({}), 10**9)
        submissions.add(index, workload, index, "no" if index in (refused or ()) else "")
    submissions.close()
    return (directory / SUBMITTED).read_bytes()


@given(st.data())
def test_wherever_a_crash_cut_the_file_the_whole_lines_count_and_can_be_added_to(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("cut")
    whole = _write(directory, 5)
    cut = data.draw(st.integers(0, len(whole)))
    (directory / SUBMITTED).write_bytes(whole[:cut])
    lines = whole[:cut].count(b"\n")
    done = take_up(directory)
    assert done.indices == frozenset(range(lines))
    assert done.torn == (cut > 0 and not whole[:cut].endswith(b"\n"))
    assert (directory / SUBMITTED).read_bytes() == b"".join(whole.splitlines(keepends=True)[:lines])
    assert not take_up(directory).torn


def test_refused_ones_are_taken_out_only_to_be_sent_again(tmp_path: Path) -> None:
    _write(tmp_path, 5, refused={1, 3})
    assert take_up(tmp_path).refused == {1: "no", 3: "no"}
    assert take_up(tmp_path, retry_refused=True).indices == {0, 2, 4}
    assert take_up(tmp_path).indices == {0, 2, 4}


def test_zeros_after_a_power_cut_are_a_torn_line_and_damage_before_is_not_ours_to_mend(tmp_path: Path) -> None:
    whole = _write(tmp_path, 3)
    (tmp_path / SUBMITTED).write_bytes(whole + b"\0" * 40)
    assert take_up(tmp_path).torn
    (tmp_path / SUBMITTED).write_bytes(b"nonsense\n" + whole)
    with pytest.raises(SetupProblem, match="damaged before its last line"):
        take_up(tmp_path)
    assert (tmp_path / SUBMITTED).read_bytes() == b"nonsense\n" + whole
