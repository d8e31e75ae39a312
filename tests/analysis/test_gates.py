"""Gates over repeats, set-ups and a baseline."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from seatrial.analysis.gates import Verdict, judge
from seatrial.analysis.studies import Study
from tests.analysis.making import Made, plain
from tests.analysis.test_comparing import FAST, SLOW, study, trials


def both(out: Path, *expect: str, slow: Sequence[int] = SLOW, fast: Sequence[int] = FAST, **also: Any) -> Path:
    """A study of `kwok` (fast) and `mcad` (slow) with these expectations."""
    made = [*trials(*fast), *trials(*slow, setup="mcad", stack="mcad", first=len(fast) + 1)]
    listed = [{"text": text, "place": f"s.yaml:{line}:5"} for line, text in enumerate(expect, 10)]
    return study(out, made, expect=listed, **also)


def gates(out: Path, baseline: Path | None = None) -> list[Verdict]:
    return [verdict for verdict in judge(Study.open(out), Study.open(baseline) if baseline else None) if verdict.place]


def test_a_ratio_between_set_ups_fails_only_beyond_noise(tmp_path: Path) -> None:
    out = both(
        tmp_path / "out",
        "p99_s(mcad) <= 1.3 * p99_s(kwok)",  # about 1.17
        "p99_s(mcad) <= 1.1 * p99_s(kwok)",
        "p99_s(mcad) / p99_s(kwok) < 1.1",
        "p99_s(mcad) <= 1.166 * p99_s(kwok)",
    )
    holds, fails, divided, near = gates(out)
    assert (holds.state, fails.state, divided.state) == ("holds", "fails", "fails")
    assert near.state == "open", "on average not, but in some repeats"
    assert fails.line.startswith(
        "many-small-jobs: s.yaml:11:5: `p99_s(mcad) <= 1.1 * p99_s(kwok)` does not hold: p99_s(mcad) is 14.18, "
    )
    assert "left − right is" in fails.line and "over 5 repeats" in fails.line
    assert "not beyond noise" in near.explanation


def test_a_figure_of_no_set_up_in_particular_is_judged_for_each(tmp_path: Path) -> None:
    out = both(tmp_path / "out", "p50_s <= 13", "p50_s <= 13 or setup == 'mcad'", "not p50_s > 13")
    assert [(v.where, v.state) for v in gates(out)] == [
        ("kwok", "holds"), ("mcad", "fails"), ("kwok", "holds"), ("mcad", "holds"), ("kwok", "holds"), ("mcad", "fails"),
    ]  # fmt: skip


def test_what_is_counted_must_hold_in_every_repeat(tmp_path: Path) -> None:
    made = trials(*FAST)
    made[3] = dataclasses.replace(made[3], jobs=made[3].jobs[:2])
    listed = [
        {"text": "completed == 3", "place": "s.yaml:1:1"},
        {"text": "completed(kwok) >= 3", "place": "s.yaml:2:1"},
    ]
    out = study(tmp_path / "out", made, expect=listed)
    one, other = gates(out)
    assert one.line == "004-kwok-r4: s.yaml:1:1: `completed == 3` does not hold: completed is 2"
    assert other.state == "fails" and "repeat 4" in other.where


def test_one_repeat_decides_alone(tmp_path: Path) -> None:
    out = both(tmp_path / "out", "p99_s(mcad) <= 1.199 * p99_s(kwok)", slow=(15_000,), fast=(10_000,))
    assert [v.state for v in gates(out)] == ["fails"]


def test_from_six_repeats_on_the_interval_is_one_of_95_percent(tmp_path: Path) -> None:
    """One repeat of ten that is on the right side does not save a gate."""
    slow = [12_000 + 10 * n for n in range(9)]
    out = both(tmp_path / "out", "p99_s(mcad) <= 1.1 * p99_s(kwok)", slow=[*slow, 11_000], fast=[10_000] * 10)
    assert [v.state for v in gates(out)] == ["fails"]


def test_a_baseline_is_another_study(tmp_path: Path) -> None:
    text = ("p99_s(mcad) <= 1.2 * baseline", "p99_s <= 1.05 * baseline")
    same = both(tmp_path / "same", *text)
    slower = both(tmp_path / "slower", *text, slow=[2 * ms for ms in SLOW])
    assert [v.state for v in gates(same, same)] == ["holds"] * 3
    assert [(v.where, v.state) for v in gates(slower, same)] == [
        ("many-small-jobs", "fails"),
        ("kwok", "holds"),
        ("mcad", "fails"),
    ]
    assert [v.state for v in gates(same)] == ["skipped", "skipped"]
    assert "no --baseline was given" in gates(same)[0].explanation


def test_a_baseline_that_lacks_the_stack_or_is_not_comparable_fails_the_gate(tmp_path: Path) -> None:
    out = both(tmp_path / "out", "p99_s(mcad) <= 1.2 * baseline", "p99_s(gone) < 3")
    lacking, not_run = gates(out, study(tmp_path / "lacking", trials(*FAST)))
    assert lacking.state == "fails"
    assert "the baseline has no set-up 'mcad'; it has kwok" in lacking.explanation
    assert not_run.state == "skipped" and "'gone' was not run" in not_run.explanation
    other = both(tmp_path / "other", on="local")
    assert "the baseline is not comparable: this study ran on sim" in gates(out, other)[0].explanation


@pytest.mark.parametrize("sure", [False, True])
def test_an_invalid_trial_fails_a_gate_rather_than_passing_it(tmp_path: Path, sure: bool) -> None:
    made = trials(*FAST)
    validity = {"valid": False, "reasons": ["the client was late"], "counted": sure}
    made[2] = dataclasses.replace(made[2], also={"validity": validity})
    listed = [
        {"text": text, "place": "s.yaml:1:1"}
        for text in ("p99_s < 1000", "completed == submitted", "p99_s(kwok) < 1000")
    ]
    measured, counted, named = gates(study(tmp_path / "out", made, expect=listed))
    assert measured.state == named.state == "fails"
    assert "003-kwok-r3 is not to be trusted: the client was late" in measured.explanation
    assert counted.state == ("holds" if sure else "fails"), (
        "a client that was late counts right; one that missed things does not"
    )


LATE = {"valid": False, "reasons": ["the client was late"], "counted": True}
RATIO = "p99_s(mcad) <= 1.3 * p99_s(kwok)"


def with_late(out: Path, *expect: str, kwok: Sequence[int] = (), mcad: Sequence[int] = (), **also: Any) -> Path:
    """A study like `both` in which the client was late in these repeats; the late ones would fail any ratio."""
    made = [*trials(*FAST), *trials(*SLOW, setup="mcad", stack="mcad", first=len(FAST) + 1)]
    late = {("kwok", repeat) for repeat in kwok} | {("mcad", repeat) for repeat in mcad}
    made = [
        dataclasses.replace(one, jobs=[plain(0, 90_000)] * 3, also={"validity": LATE})
        if (one.setup, one.repeat) in late
        else one
        for one in made
    ]
    listed = [{"text": text, "place": f"s.yaml:{line}:5"} for line, text in enumerate(expect, 10)]
    return study(out, made, expect=listed, **also)


def test_a_comparison_of_set_ups_leaves_out_an_invalid_repeat_and_says_so(tmp_path: Path) -> None:
    [holds] = gates(with_late(tmp_path / "one", RATIO, mcad=[3]))
    assert holds.state == "holds", "the four others do; with the late one the mean would not"
    assert "over 4 repeats" in holds.explanation
    assert holds.left_out.startswith(
        "left out 1 of 5 repeats: 008-mcad-r3 is not to be trusted: the client was late (affects times"
    )
    assert holds.explanation.endswith(holds.left_out)
    [fails] = gates(with_late(tmp_path / "still", "p99_s(mcad) <= 1.1 * p99_s(kwok)", mcad=[3]))
    assert fails.state == "fails" and "left out 1 of 5" in fails.explanation, "leaving out does not let a gate pass"


@pytest.mark.parametrize(
    ("kwok", "mcad", "left"), [([1], [2], 3), ([1, 2], [2, 1], 3), ([1, 2], [3], 2), ([], [1, 2, 3, 4, 5], 0)]
)
def test_a_comparison_needs_three_repeats_that_are_valid_on_all_sides(
    tmp_path: Path, kwok: list[int], mcad: list[int], left: int
) -> None:
    [verdict] = gates(with_late(tmp_path / "out", RATIO, kwok=kwok, mcad=mcad))
    if left >= 3:
        assert verdict.state == "holds" and f"over {left} repeats" in verdict.explanation
    else:
        assert verdict.state == "fails"
        assert f"of 5 repeats {left} can be used, and this comparison needs 3" in verdict.explanation


def test_more_than_half_of_many_repeats_must_be_left(tmp_path: Path) -> None:
    made = [*trials(*FAST, *FAST), *trials(*SLOW, *SLOW, setup="mcad", stack="mcad", first=11)]
    for number in range(5):
        made[number] = dataclasses.replace(made[number], also={"validity": LATE})
    [verdict] = gates(study(tmp_path / "out", made, expect=[{"text": RATIO, "place": "s.yaml:1:1"}]))
    assert "of 10 repeats 5 can be used, and this comparison needs 6" in verdict.explanation


def test_a_comparison_with_a_baseline_leaves_out_the_invalid_repeats_of_both(tmp_path: Path) -> None:
    text = "p99_s(mcad) <= 1.2 * baseline"
    mine, before = with_late(tmp_path / "mine", text, mcad=[1]), with_late(tmp_path / "before", text, mcad=[4])
    [verdict] = gates(mine, before)
    assert verdict.state == "holds" and "over 3 repeats" in verdict.explanation
    assert "006-mcad-r1 is not to be trusted" in verdict.left_out
    assert "the baseline's 009-mcad-r4 is not to be trusted" in verdict.left_out


def test_limits_and_comparisons_that_count_leave_nothing_out(tmp_path: Path) -> None:
    out = with_late(
        tmp_path / "out",
        "p99_s(mcad) < 1000",
        f"{RATIO} and failed == 0",
        "p99_s < 1000",
        f"{RATIO} and p99_s > 0",
        mcad=[3],
    )
    limit, mixed, also_mixed, kwok, mcad, *each = gates(out)
    assert (limit.state, mixed.state, also_mixed.state) == ("fails", "fails", "fails")
    assert (kwok.state, mcad.state) == ("holds", "fails")
    assert "expect the counts by themselves" in mixed.explanation
    assert [v.state for v in each] == ["holds", "holds"], "a comparison, judged for each set-up"


def test_an_interrupted_repeat_is_never_left_out(tmp_path: Path) -> None:
    made = [*trials(*FAST), *trials(*SLOW, setup="mcad", stack="mcad", first=6)]
    made[4] = dataclasses.replace(made[4], outcome="running", sealed=False)
    [verdict] = gates(study(tmp_path / "out", made, expect=[{"text": RATIO, "place": "s.yaml:1:1"}]))
    assert verdict.state == "fails" and "005-kwok-r5 was interrupted" in verdict.explanation


def test_a_trial_that_was_cut_off_or_never_run_fails(tmp_path: Path) -> None:
    made = trials(*FAST)
    made[4] = dataclasses.replace(made[4], outcome="running", sealed=False)
    out = study(tmp_path / "out", made, expect=[{"text": "completed == submitted", "place": "s.yaml:1:1"}])
    assert "005-kwok-r5 was interrupted" in gates(out)[0].explanation
    assert [v.line for v in judge(Study.open(out)) if v.state == "fails" and not v.place] == [
        "005-kwok-r5: interrupted: it was cut off before its validity was checked"
    ]
    for file in (out / "trials" / "005-kwok-r5").iterdir():
        file.unlink()
    assert "out: 1 trials were not run" in [v.line for v in judge(Study.open(out))]


def test_a_division_by_zero_and_an_empty_figure_fail_the_gate_with_a_clear_message(tmp_path: Path) -> None:
    stuck = [dataclasses.replace(one, outcome="clogged") for one in trials(*FAST)]
    listed = [
        {"text": text, "place": "s.yaml:1:1"}
        for text in ("p99_s / audit_misfit < 3", "total_s(kwok) < 900", "not total_s > 900")
    ]
    divided, empty, negated = gates(study(tmp_path / "out", stuck, expect=listed))
    assert divided.explanation.endswith("cannot be judged: `p99_s / audit_misfit` divides by zero")
    assert (empty.state, negated.state) == ("fails", "fails")
    assert "total_s(kwok) is empty" in empty.explanation


def test_an_outcome_that_no_expectation_names_is_a_gate_of_its_own(tmp_path: Path) -> None:
    stuck = [Made([plain()], outcome="clogged", also={"detail": "gang deadlock"})]
    out = study(tmp_path / "out", stuck)
    assert [v.line for v in judge(Study.open(out))] == ["001-kwok-r0: clogged: gang deadlock"]
    listed = [{"text": 'outcome == "clogged"', "place": "s.yaml:1:1"}]
    assert [v.state for v in judge(Study.open(study(tmp_path / "told", stuck, expect=listed)))] == ["holds"]


@pytest.mark.parametrize(("cell", "state"), [("jobs=3", "holds"), ("jobs=6", "fails")])
def test_each_choice_of_params_is_judged_by_itself_and_params_are_numbers(
    tmp_path: Path, cell: str, state: str
) -> None:
    made = [*trials(*FAST, params={"jobs": 3}), *trials(*SLOW, params={"jobs": 6}, first=6)]
    out = study(tmp_path / "out", made, expect=[{"text": "p50_s(kwok) < 13 and jobs < 10", "place": "s.yaml:1:1"}])
    assert {v.where: v.state for v in gates(out)}[cell] == state


def test_a_gate_may_ask_for_one_phase_also_of_one_set_up_and_of_the_baseline(tmp_path: Path) -> None:
    def made(ms: int) -> list[Made]:
        jobs = [dataclasses.replace(plain(took=ms), phase="prod"), dataclasses.replace(plain(took=90_000), phase="dev")]
        return [Made(jobs, end_ms=200_000)]

    texts = (
        "p99_s(phase=prod) < 20",
        "p99_s(phase=dev) < 20",
        "p99_s(kwok, phase=prod) < 20",
        "p99_s(phase=prod) <= 1.1 * baseline",
        "p99_s(phase=dev) <= 1.1 * baseline",
    )
    listed = [{"text": text, "place": "s.yaml:1:1"} for text in texts]
    before = study(tmp_path / "before", made(5_000), expect=listed)
    after = study(tmp_path / "after", made(10_000), expect=listed)
    assert [verdict.state for verdict in gates(after, before)] == ["holds", "fails", "holds", "fails", "holds"]
