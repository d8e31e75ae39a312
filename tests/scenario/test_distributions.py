"""Durations and sizes that are drawn: what a file becomes, what is drawn, and that all set-ups get the same."""

# ruff: noqa: E501

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.distributions import Distribution, Empirical, Exponential, Lognormal, Uniform, WeightedChoice
from seatrial.model.plan import Trial
from seatrial.model.randomness import arrays
from seatrial.model.units import MILLISECOND, MINUTE, SECOND
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.document import read
from seatrial.scenario.expansion import expand
from seatrial.scenario.field_types import LONGEST_DURATION
from tests.scenario.support import NODES, STACKS, mistakes, trials, with_submit

BOUNDS = (MILLISECOND, 0, LONGEST_DURATION)
PODS = (1, 1, 1_000_000)


def submit_with(fields: str) -> Submit:
    [trial] = trials(with_submit(f"count: 5, {fields}"))
    return trial.phases(Submit)[0]


@pytest.mark.parametrize(
    ("written", "planned"),
    [
        ("10s", 10 * SECOND),
        ("5s..15s", Uniform(MILLISECOND, 5 * SECOND, 15 * SECOND)),
        ("{lognormal: {median: 30m, sigma: 1.2}}", Lognormal(*BOUNDS, 30 * MINUTE, 1.2)),
        ("{lognormal: {median: 30m, sigma: 1, most: 1m}}", Lognormal(MILLISECOND, 0, MINUTE, 30 * MINUTE, 1.0)),
        ("{exponential: {mean: 5s}}", Exponential(*BOUNDS, 5 * SECOND)),
        ("{choice: {1s: 3, 250ms: 1}}", WeightedChoice(*BOUNDS, (SECOND, 250 * MILLISECOND), (3.0, 1.0))),
    ],
)
def test_durations_are_planned(written: str, planned: int | Distribution) -> None:
    assert submit_with(f"duration: {written}").duration == planned


@pytest.mark.parametrize(
    ("written", "planned"),
    [
        ("4", (4,)),
        ("2..6", Uniform(1, 2, 6)),
        ("{choice: {1: 0.7, 8: 0.3}}", WeightedChoice(*PODS, (1, 8), (0.7, 0.3))),
        ("{lognormal: {median: 4, sigma: 1, most: 64}}", Lognormal(1, 1, 64, 4, 1.0)),
        ("{exponential: {mean: 3}}", Exponential(*PODS, 3)),
    ],
)
def test_sizes_are_planned(written: str, planned: tuple[int, ...] | Distribution) -> None:
    assert submit_with(f"duration: 1s, pods: {written}").sizes == planned


DRAWN = st.one_of(
    st.builds(lambda a, b: Uniform(1, min(a, b), max(a, b)), st.integers(1, 99), st.integers(1, 99)),
    st.builds(lambda m, s, top: Lognormal(1, 1, top, m, s), st.integers(1, 50), st.floats(0.1, 3), st.integers(1, 99)),
    st.builds(lambda m, top: Exponential(1, 1, top, m), st.integers(1, 50), st.integers(1, 99)),
    st.builds(
        lambda w: WeightedChoice(*PODS, tuple(range(1, len(w) + 1)), tuple(w)), st.lists(st.floats(0.01, 9), min_size=1)
    ),
    st.builds(
        lambda v: Empirical(*PODS, "f", "c", np.array(v, np.int64).tobytes()), st.lists(st.integers(1, 99), min_size=1)
    ),
)


@given(DRAWN, st.integers(0, 50), st.integers(0, 50), st.integers(0, 9))
def test_values_stay_in_bounds_and_a_longer_load_begins_like_a_shorter_one(
    drawn: Distribution, count: int, more: int, seed: int
) -> None:
    values = drawn.draw(arrays(seed), count + more)
    assert values.dtype == np.int64
    assert ((values >= drawn.least) & (values <= drawn.most)).all()
    assert drawn.draw(arrays(seed), count).tolist() == values[:count].tolist()
    if isinstance(drawn, WeightedChoice):
        assert set(values.tolist()) <= set(drawn.values)
    if isinstance(drawn, Empirical):
        assert set(values.tolist()) <= set(np.frombuffer(drawn.data, np.int64).tolist())


MANY = 200_000


def drawn(distribution: Distribution) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return distribution.draw(arrays(7), MANY)


def test_values_are_distributed_as_asked_for() -> None:
    lognormal = drawn(Lognormal(*BOUNDS, 30 * SECOND, 1.2))
    assert np.median(lognormal) == pytest.approx(30 * SECOND, rel=0.02)
    assert np.log(lognormal[lognormal > 0]).std() == pytest.approx(1.2, rel=0.02)
    assert drawn(Exponential(*BOUNDS, 5 * SECOND)).mean() == pytest.approx(5 * SECOND, rel=0.02)
    sizes, counts = np.unique(drawn(WeightedChoice(*PODS, (1, 8), (7, 3))), return_counts=True)
    assert sizes.tolist() == [1, 8]
    assert counts[1] / MANY == pytest.approx(0.3, rel=0.02)
    sizes, counts = np.unique(drawn(Uniform(1, 2, 6)), return_counts=True)
    assert sizes.tolist() == [2, 3, 4, 5, 6]
    assert counts / MANY == pytest.approx(np.full(5, 0.2), rel=0.03)


def test_the_mean_is_that_of_what_is_drawn() -> None:
    for one in (
        Uniform(1, 2, 9),
        WeightedChoice(*PODS, (1, 8), (7, 3)),
        Lognormal(*BOUNDS, SECOND, 0.5),
        Exponential(*BOUNDS, SECOND),
    ):
        assert drawn(one).mean() == pytest.approx(one.mean, rel=0.02)


FLEET = f"""\
name: fleet
{NODES}setups: {{a: {{stack: kueue}}, b: {{stack: default}}}}
queues: {{red: {{quota: {{cpu: 1}}}}, blue: {{quota: {{cpu: 1}}}}}}
steps: [{{submit: {{name: p, queue: each, count: 50, pods: 1..9, duration: {{exponential: {{mean: 5s}}}}, rate: 1/s, arrival: poisson}}}}]
repeat: 2
"""


def items(trial: Trial) -> list[tuple[str, int, int, int]]:
    [submit] = trial.phases(Submit)
    load = submit.load(*submit.seeds(trial))
    assert load.due is not None
    made = [load.item(index) for index in range(load.count)]
    return [(one.name, one.pods, one.duration, int(due)) for one, due in zip(made, load.due, strict=True)]


def test_all_set_ups_get_the_same_values_and_each_repeat_others() -> None:
    first, same, second, _ = (items(trial) for trial in trials(FLEET))
    assert first == same
    assert first != second


def test_each_queue_draws_values_of_its_own() -> None:
    first = items(trials(FLEET)[0])
    of = {queue: [one[1:] for one in first if one[0].startswith(f"p-{queue}-")] for queue in ("red", "blue")}
    assert len(of["red"]) == len(of["blue"]) == 50
    assert of["red"] != of["blue"]


def test_what_is_counted_before_a_run_is_what_is_drawn_in_it() -> None:
    trial = trials(FLEET)[0]
    [submit] = trial.phases(Submit)
    sizes = [one[1] for one in items(trial)]
    assert submit.pods_in(trial) == sum(sizes)
    assert submit.sizes_in(trial) == sorted(set(sizes))


def test_drawn_durations_do_not_change_arrivals_and_sizes() -> None:
    trial = trials(FLEET)[0]
    [submit] = trial.phases(Submit)
    plain = dataclasses.replace(trial, steps=((dataclasses.replace(submit, duration=SECOND),),))
    assert [(n, p, d) for n, p, _, d in items(plain)] == [(n, p, d) for n, p, _, d in items(trial)]


CSV = "name,runtime,size,broken,half\na,1.5,2,x,0.5\nb,90,3,y,1\n"


def from_file(folder: Path, fields: str, data: str = CSV) -> Submit:
    (folder / "jobs.csv").write_text(data, encoding="utf-8")
    (folder / "s.yaml").write_text(with_submit(f"count: 5, {fields}"), encoding="utf-8")
    [trial] = expand(read(folder / "s.yaml"), on="sim", stacks=STACKS)
    return trial.phases(Submit)[0]


def test_values_of_a_file_are_relative_to_the_scenario_and_have_units(tmp_path: Path) -> None:
    where = "file: jobs.csv, column"
    submit = from_file(
        tmp_path, f"duration: {{empirical: {{{where}: runtime}}}}, pods: {{empirical: {{{where}: size}}}}"
    )
    assert isinstance(submit.duration, Empirical)
    assert isinstance(submit.sizes, Empirical)
    assert np.frombuffer(submit.duration.data, np.int64).tolist() == [1500 * MILLISECOND, 90 * SECOND]
    assert np.frombuffer(submit.sizes.data, np.int64).tolist() == [2, 3]
    minutes = from_file(tmp_path, f"duration: {{empirical: {{{where}: runtime, unit: m}}}}").duration
    assert isinstance(minutes, Empirical)
    assert minutes.mean == pytest.approx((1.5 + 90) / 2 * MINUTE)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("duration: 3s..1s", "s.yaml:5:34: '3s..1s' ends before it begins (write 1s..3s)"),
        ("duration: {}", "s.yaml:5:34: a distribution without a kind (write one of lognormal, exponential, choice, empirical)"),
        ("duration: {lognromal: {median: 1s, sigma: 1}}", "s.yaml:5:35: unknown key 'lognromal' in 'duration' (did you mean 'lognormal'?)"),
        ("duration: {lognormal: {median: 0s, sigma: 1}}", "s.yaml:5:55: '0s' takes no time (write a duration above zero, like 10s)"),
        ("duration: {lognormal: {median: 5, sigma: 1}}", "s.yaml:5:55: '5' is not a duration (write it like 10s, 1m30s or 250ms)"),
        ("duration: {lognormal: {median: 5s, sigma: 0}}", "s.yaml:5:66: '0' cannot be a sigma (write a number above 0, at most 10)"),
        ("duration: {lognormal: {median: 5s, sigma: -1}}", "s.yaml:5:66: '-1' cannot be a sigma (write a number above 0, at most 10)"),
        ("duration: {lognormal: {median: 5s}}", "s.yaml:5:46: 'lognormal' has no 'sigma' (add `sigma:` (standard deviation"),
        ("duration: {exponential: {mean: 0s}}", "s.yaml:5:55: '0s' takes no time (write a duration above zero, like 10s)"),
        ("duration: {exponential: {mean: -5s}}", "s.yaml:5:55: '-5s' is not a duration (write it like"),
        ("duration: {choice: {1s: 0}}", "s.yaml:5:48: '0' cannot be a weight (write a number above 0, or remove the value)"),
        ("duration: {choice: {1s: .nan}}", "s.yaml:5:48: '.nan' is not a weight (write a number above 0, like 0.7)"),
        ("duration: {choice: {1x: 1}}", "s.yaml:5:48: '1x' is not a duration (write it like"),
        ("duration: {choice: {}}", "s.yaml:5:43: 'choice' is empty (write at least one, or remove it)"),
        ("duration: {choice: {1s: 1}, exponential: {mean: 1s}}", "s.yaml:5:35: 'choice' and 'exponential' contradict each other (remove one of them)"),
        ("duration: 1s, pods: 8..2", "s.yaml:5:44: '8..2' ends before it begins (write 2..8)"),
        ("duration: 1s, pods: 0..2", "s.yaml:5:44: 0 is less than 1 (write 1 or more)"),
        ("duration: 1s, pods: a..2", "s.yaml:5:44: 'a..2' is not a span of pods (write it like 1..8)"),
        ("duration: 1s, pods: {choice: {0: 1}}", "s.yaml:5:57: 0 is less than 1 (write 1 or more)"),
        ("duration: 1s, pods: {exponential: {mean: 5s}}", "s.yaml:5:65: '5s' is not a whole number (write one like 10)"),
        ("duration: {empirical: {file: none.csv, column: a}}", "s.yaml:5:53: none.csv: no such file or directory (its path is relative to the scenario file)"),
        ("duration: {empirical: {file: jobs.csv, column: runtme}}", "s.yaml:5:71: jobs.csv has no column 'runtme' (did you mean 'runtime'?)"),
        ("duration: {empirical: {file: jobs.csv, column: broken}}", "s.yaml:5:71: 'broken' of jobs.csv has values that are no numbers (it must have durations)"),
        ("duration: {empirical: {file: jobs.csv, column: runtime, unit: d}}", "s.yaml:5:86: unknown unit 'd' (known: ms, s, m, h)"),
        ("duration: 1s, pods: {empirical: {file: jobs.csv, column: half}}", "s.yaml:5:81: 'half' of jobs.csv has fractions of pods (it must have whole numbers of pods)"),
    ],
)  # fmt: skip
def test_an_impossible_distribution(
    fields: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(CSV, encoding="utf-8")
    [found] = mistakes(with_submit(f"count: 1, {fields}"))
    assert found.startswith(expected)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("", "s.yaml:5:53: jobs.csv is not CSV: empty"),
        ("runtime\n", "s.yaml:5:71: 'runtime' of jobs.csv"),
        ("runtime,x\n1,2\n,2\n", "s.yaml:5:71: 'runtime' of jobs.csv has rows without a value (remove those rows)"),
        ("runtime\n-1\n", "s.yaml:5:71: 'runtime' of jobs.csv has -1, which is too small (write durations from 0 to"),
        ("runtime\n1e12\n", "s.yaml:5:71: 'runtime' of jobs.csv has 1e+12, which is too large"),
    ],
)
def test_a_file_without_usable_values(
    data: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(data, encoding="utf-8")
    [found] = mistakes(with_submit("count: 1, duration: {empirical: {file: jobs.csv, column: runtime}}"))
    assert found.startswith(expected)
