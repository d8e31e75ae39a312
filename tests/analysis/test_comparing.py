"""Studies and set-ups side by side."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.compare_power import ALIKE, CYCLE_US, bound_by_the_scheduler, compared
from seatrial.analysis.comparing import SideComparison, compare
from seatrial.analysis.studies import Study
from seatrial.model.errors import UsageProblem
from tests.analysis.making import Made, plain, write_study


def trials(*took: int, setup: str = "kwok", first: int = 1, **more: Any) -> list[Made]:
    """A trial of three jobs for each of these running times in ms."""
    return [
        Made([plain(0, ms), plain(100, ms + 50), plain(200, ms + 10)], setup=setup, repeat=n, number=first + n - 1, **more)
        for n, ms in enumerate(took, 1)
    ]  # fmt: skip


def study(out: Path, made: Sequence[Made], seed: int = 1, **also: Any) -> Path:
    write_study(out, [dataclasses.replace(one, also={"seed": seed, **one.also}) for one in made])
    document = json.loads((out / "study.json").read_text())
    (out / "study.json").write_text(json.dumps({**document, **also}))
    return out


def verdicts(comparison: SideComparison) -> dict[str, str]:
    return {found.name: found.verdict for found in comparison.tested}


FAST, SLOW = (10_000, 10_200, 9_900, 10_100, 10_050), (12_000, 12_300, 11_900, 12_200, 12_100)


def test_a_slower_study_is_called_slower_by_how_much(tmp_path: Path) -> None:
    a, b = study(tmp_path / "a", trials(*FAST)), study(tmp_path / "b", trials(*SLOW), seed=2)
    [comparison] = compare([Study.open(a), Study.open(b)])
    assert verdicts(comparison) == {
        "completed": "same", "total_s": "slower", "dispatch_per_s": "same",
        "p50_s": "slower", "p95_s": "slower", "p99_s": "slower",
    }  # fmt: skip
    total = next(found for found in comparison.found if found.name == "total_s")
    assert total.ratio == pytest.approx(sum(SLOW) / sum(FAST), rel=0.05)
    assert total.low is not None and total.high is not None and total.ratio is not None
    assert 1 < total.low < total.ratio < total.high
    assert total.level == pytest.approx(0.95)


def test_runs_that_differ_as_much_within_a_side_are_noise(tmp_path: Path) -> None:
    a, b = study(tmp_path / "a", trials(*FAST)), study(tmp_path / "b", trials(*reversed(FAST)), seed=2)
    [comparison] = compare([Study.open(a), Study.open(b)])
    assert not comparison.different
    assert verdicts(comparison)["total_s"] == "noise"


def test_one_run_each_has_a_ratio_and_no_interval(tmp_path: Path) -> None:
    a, b = study(tmp_path / "a", trials(10_000)), study(tmp_path / "b", trials(20_000))
    [comparison] = compare([Study.open(a), Study.open(b)])
    total = next(found for found in comparison.found if found.name == "total_s")
    assert total.ratio is not None and total.ratio > 1.5
    assert (total.low, total.high, total.p, total.verdict) == (None, None, None, "")
    assert "one run each" in total.why
    assert not comparison.different


def test_three_runs_each_are_said_to_be_too_few(tmp_path: Path) -> None:
    a, b = study(tmp_path / "a", trials(*FAST[:3])), study(tmp_path / "b", trials(*SLOW[:3]), seed=2)
    [comparison] = compare([Study.open(a), Study.open(b)])
    total = next(found for found in comparison.found if found.name == "total_s")
    assert total.verdict == ""
    assert "too few runs" in total.why
    assert total.level == pytest.approx(0.9)


def test_set_ups_of_one_study_are_pairs_once_there_are_eight(tmp_path: Path) -> None:
    few = study(tmp_path / "few", [*trials(*FAST), *trials(*SLOW, setup="mcad", first=6)])
    [comparison] = compare([Study.open(few)])
    assert comparison.different and not comparison.paired
    # The runs of a side differ by more than the sides do; within each pair it is always the same side that is slower.
    wide = [8_000 + 500 * n for n in range(8)]
    many = study(tmp_path / "many", [*trials(*wide), *trials(*(ms + 100 for ms in wide), setup="mcad", first=9)])
    [comparison] = compare([Study.open(many)], ["kwok", "mcad"])
    assert comparison.paired
    assert verdicts(comparison)["total_s"] == "slower"
    assert compare([Study.open(many)], ["mcad", "kwok"])[0].found[1].verdict == "faster"


def test_what_did_not_complete_is_not_compared_by_its_times(tmp_path: Path) -> None:
    waits = dataclasses.replace(plain(300), at={"submitted": 300}, pods=[], size=1)
    stuck = [dataclasses.replace(one, outcome="clogged", jobs=[*one.jobs, waits]) for one in trials(*SLOW)]
    a, b = study(tmp_path / "a", trials(*FAST)), study(tmp_path / "b", stuck, seed=2)
    [comparison] = compare([Study.open(a), Study.open(b)])
    total = next(found for found in comparison.found if found.name == "total_s")
    assert total.ratio is None
    assert "5 of 5 runs of b did not complete" in total.why
    doubtful = [
        dataclasses.replace(one, also={"validity": {"valid": False, "reasons": ["late"]}}) for one in trials(*SLOW)
    ]
    [comparison] = compare([Study.open(a), Study.open(study(tmp_path / "c", doubtful[:1] + trials(*SLOW)[1:], seed=2))])
    assert any("not to be trusted" in note for note in comparison.notes)
    assert len(comparison.found[1].runs[1]) == 4


def test_cells_are_compared_each_and_together(tmp_path: Path) -> None:
    def both(times: Sequence[int]) -> list[Made]:
        few = trials(*times, params={"jobs": 3})
        return [*few, *trials(*(2 * ms for ms in times), params={"jobs": 6}, first=len(few) + 1)]

    a, b = study(tmp_path / "a", both(FAST[:3])), study(tmp_path / "b", both(SLOW[:3]), seed=2)
    [comparison] = compare([Study.open(a), Study.open(b)])
    assert list(comparison.cells) == ["jobs=3", "jobs=6"]
    assert verdicts(comparison)["total_s"] == "slower", "3 against 3 twice: 2 of 400 ways"
    only = study(tmp_path / "c", trials(*SLOW[:3], params={"jobs": 3}), seed=2)
    with pytest.raises(UsageProblem, match="not comparable"):
        compare([Study.open(study(tmp_path / "d", trials(*FAST[:3], params={"jobs": 4}))), Study.open(only)])


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"scenario": {"name": "x", "steps": [1]}}, "the scenario is not the same in a and b \\(name, steps\\)"),
        ({"on": "local"}, "a ran on sim, b on local"),
        ({"name": "other"}, "are of other scenarios"),
    ],
)
def test_what_is_not_comparable_is_refused_unless_told(tmp_path: Path, change: dict[str, Any], word: str) -> None:
    a, b = study(tmp_path / "a", trials(*FAST)), study(tmp_path / "b", trials(*SLOW), **change)
    with pytest.raises(UsageProblem, match=word) as caught:
        compare([Study.open(a), Study.open(b)])
    assert "--anyway" in caught.value.remedy
    [comparison] = compare([Study.open(a), Study.open(b)], anyway=True)
    assert comparison.unlike and comparison.different


def test_settings_and_machines_must_be_alike(tmp_path: Path) -> None:
    def with_cycle(cycle: int) -> list[Made]:
        return [
            dataclasses.replace(one, also={"settings": {"kube-scheduler": {"cycle": cycle}}}) for one in trials(*FAST)
        ]

    a, b = study(tmp_path / "a", with_cycle(1)), study(tmp_path / "b", with_cycle(2))
    with pytest.raises(UsageProblem, match=r"settings of kwok differ \(kube-scheduler.cycle\)"):
        compare([Study.open(a), Study.open(b)])
    machines = [
        study(tmp_path / name, trials(*FAST), on="local", run={"cores": cores}) for name, cores in (("c", 2), ("d", 4))
    ]
    with pytest.raises(UsageProblem, match=r"other machines \(cores: 2, 4\)"):
        compare([Study.open(one) for one in machines])


def test_bad_input_is_said(tmp_path: Path) -> None:
    a = study(tmp_path / "a", trials(*FAST))
    with pytest.raises(UsageProblem, match="is no study"):
        compare([Study.open(a), Study.open(tmp_path)])
    with pytest.raises(UsageProblem, match="reads up to format 1"):
        compare([Study.open(a), Study.open(study(tmp_path / "new", trials(*FAST), format=2, seatrial="9.0"))])
    with pytest.raises(UsageProblem, match="has no set-up 'kwak'") as caught:
        compare([Study.open(a)], ["kwok", "kwak"])
    assert "it has kwok" in caught.value.remedy
    with pytest.raises(UsageProblem, match="nothing to compare it with"):
        compare([Study.open(a)])
    cut = study(
        tmp_path / "cut", [*trials(*FAST[:4]), dataclasses.replace(trials(*FAST)[4], outcome="running", sealed=False)]
    )
    [comparison] = compare([Study.open(a), Study.open(cut)])
    assert any("005-kwok-r5" in note and "not to be trusted" in note for note in comparison.notes)


def test_studies_alike_on_the_simulator_are_not_called_different_and_a_slower_scheduler_is() -> None:
    """The full form is benchmarks/compare_power.py; its figures are in docs/verified.md."""
    assert not any(
        compared(ALIKE, ALIKE, seed).different for seed in (1, 2)
    )  # the same seeds, so the same answer, every time
    slow = compared(bound_by_the_scheduler(CYCLE_US, 2000), bound_by_the_scheduler(CYCLE_US * 12 // 10, 2000), 1)
    assert verdicts(slow)["total_s"] == "slower"
