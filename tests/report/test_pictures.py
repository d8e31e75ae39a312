from pathlib import Path

import pytest

from seatrial.analysis.studies import Study
from seatrial.model.errors import UsageProblem
from seatrial.model.lifecycle import ADMITTED, PLAIN, QUEUED
from seatrial.report.drawing import marked
from seatrial.report.pictures import write_pictures
from seatrial.report.step_times import step_times
from seatrial.report.study_report import write_report
from tests.analysis.making import Job, Made, plain, write_many, write_study
from tests.effort import costs_at_most


def two_set_ups(out: Path, name: str = "queue", **also: object) -> Path:
    queued = []
    for n in range(4):
        job = plain(n * 100)
        job.at = {**job.at, "queued": n * 100 + 12, "admitted": n * 100 + 15}
        queued.append(job)
    stages = (*PLAIN[:2], QUEUED, ADMITTED, *PLAIN[2:])
    return write_study(out, [
        Made([plain(n * 100) for n in range(4)], params={"jobs": 4}),
        Made(queued, setup=name, stack="kueue", number=2, stages=stages, params={"jobs": 4}, also=also),
    ])  # fmt: skip


def test_a_study_gets_its_tables_and_pictures(tmp_path: Path) -> None:
    written = write_report(Study.open(two_set_ups(tmp_path)))
    assert [path.name for path in written] == [
        "times.csv", "pods.csv", "summary.csv", "general.png", "detailed.png", "report.html",
    ]  # fmt: skip
    assert all(path.stat().st_size > 100 for path in written)
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize(
    "kind", ["png", pytest.param("svg", marks=pytest.mark.slow), pytest.param("pdf", marks=pytest.mark.slow)]
)
def test_the_same_study_gives_the_same_pictures_to_the_byte(tmp_path: Path, kind: str) -> None:
    first = [path.read_bytes() for path in write_pictures(Study.open(two_set_ups(tmp_path / "a")), kind)]
    again = [path.read_bytes() for path in write_pictures(Study.open(two_set_ups(tmp_path / "b")), kind)]
    assert first == again
    assert len(first) == 2


def test_general_measures_from_the_last_general_step_and_detailed_has_them_all(tmp_path: Path) -> None:
    times = step_times(Study.open(two_set_ups(tmp_path)))
    general = {step.stage: step for step in times["general"].steps}
    detailed = {step.stage: step for step in times["detailed"].steps}
    assert "queued" not in general
    assert general["admitted"].since == ["created"]
    assert detailed["admitted"].since == ["queued"]
    assert general["admitted"].points["queue"].joined()[1] == pytest.approx([0.005] * 4)
    assert detailed["pods_created"].since == ["created", "admitted"]
    assert list(detailed)[-1] == "in all"


def test_a_repeat_that_is_not_to_be_trusted_is_not_in_the_pictures(tmp_path: Path) -> None:
    late = {"validity": {"valid": False, "reasons": ["late"]}}
    times = step_times(Study.open(write_study(tmp_path, [Made([plain()]), Made([plain()], repeat=1, also=late)])))
    assert times["general"].left_out == 1


def test_a_set_up_of_which_no_trial_is_to_be_trusted_stays_in_the_pictures_and_is_marked(tmp_path: Path) -> None:
    study = Study.open(two_set_ups(tmp_path, validity={"valid": False, "reasons": ["late"]}))
    assert step_times(study)["general"].setups == ["kwok", "queue"]
    assert study.doubtful == ["queue"]
    assert marked(["kwok", "queue"], study.doubtful) == ["kwok", "! queue"]


def test_total_time_is_drawn_over_the_one_number_that_varies(tmp_path: Path) -> None:
    over_jobs = [Made([plain()] * jobs, number=jobs, params={"jobs": jobs}) for jobs in (1, 10, 500)]
    assert "totals.png" in [path.name for path in write_pictures(Study.open(write_study(tmp_path / "a", over_jobs)))]
    over_words = [Made([plain()], number=n, params={"order": word}) for n, word in enumerate(("given", "shuffled"))]
    assert "totals.png" not in [
        path.name for path in write_pictures(Study.open(write_study(tmp_path / "b", over_words)))
    ]


def test_names_cannot_break_a_picture(tmp_path: Path) -> None:
    long = "$x^{2}$ <script> 世界 " + "n" * 250
    trials = [Made([plain()], setup=name, number=n) for n, name in enumerate((long, "_hidden"))]
    assert len(write_pictures(Study.open(write_study(tmp_path, trials)))) == 2


def test_workloads_that_never_got_anywhere_leave_their_steps_out(tmp_path: Path) -> None:
    stuck = Job({"submitted": 0, "created": 7, "failed": 9}, [], size=1)
    out = write_study(tmp_path, [Made([stuck], outcome="failed")])
    steps = step_times(Study.open(out))["detailed"].steps
    assert [step.stage for step in steps] == ["created", "failed"]
    assert steps[1].since == ["the last stage reached"]
    assert len(write_pictures(Study.open(out))) == 2


def test_a_study_in_which_nothing_ran_has_no_pictures_and_is_no_error(tmp_path: Path) -> None:
    assert [path.name for path in write_report(Study.open(write_study(tmp_path, [], planned=["001-x-r0"])))] == [
        "times.csv", "pods.csv", "summary.csv", "report.html",
    ]  # fmt: skip


def test_an_unknown_format_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem) as refused:
        write_pictures(Study.open(two_set_ups(tmp_path)), "gif")
    assert "png, svg, pdf" in refused.value.remedy


@pytest.mark.slow
def test_the_cost_of_a_hundred_thousand_workloads_is_in_proportion(tmp_path: Path) -> None:
    """How many seconds: benchmarks/plot.py."""

    def study(workloads: int) -> Path:
        out = write_study(tmp_path / str(workloads), [], planned=["001-kwok-r0"])
        write_many(out / "trials" / "001-kwok-r0", workloads, 1)
        return out

    few, many = study(10_000), study(100_000)
    # 1.2 times: axes and letters are most of it
    costs_at_most(3, lambda: write_pictures(Study.open(few)), lambda: write_pictures(Study.open(many)))
