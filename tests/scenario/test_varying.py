"""`--vary PATH=RANGE`: ranges, paths into a scenario, and what is wrong with either."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.errors import SeatrialError, UsageProblem
from seatrial.model.plan import Scalar, Trial
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.document import from_text
from seatrial.scenario.expansion import expand
from seatrial.scenario.value_ranges import parse_variation
from seatrial.scenario.varying import locate, without_effect

FLEET = """
name: fleet
params: {jobs: 6, length: [1s, 2s]}
nodes:
  small: [{name: cpu, count: 2, capacity: {cpu: 4, memory: 8Gi}}]
  big: [{name: gpu, count: 3, capacity: {cpu: 8, nvidia.com/gpu: 8, memory: 1Gi}}]
setups: {a: {nodes: small, stack: default}, b: {nodes: big, stack: kueue}}
steps:
  - submit: {name: load, count: "${jobs}", duration: "${length}", rate: 5/s, arrival: poisson, requests: {cpu: 1}}
  - [wait: {for: completed}, pause: 1s]
"""


def _expanded(*variations: str, sets: dict[str, list[Scalar]] | None = None) -> list[Trial]:
    return expand(
        from_text(FLEET, "fleet.yaml"), on="sim", stacks={"default": (), "kueue": ()}, sets=sets,
        vary=[parse_variation(one) for one in variations],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("x=1,2,4", (1, 2, 4)),
        ("x=10..14", (10, 11, 12, 13, 14)),
        ("x=10..70", (10, 20, 30, 40, 50, 60, 70)),
        ("x=10..1000 log 3", (10, 100, 1000)),
        ("x=1..3 log 7", (1, 2, 3)),
        ("x=0..1 step 0.25", (0, 0.25, 0.5, 0.75, 1)),
        ("x=1s..30s 3", ("1s", "16s", "30s")),
        ("x=1..5/s 2", ("1/s", "5/s")),
        ("x=0.5..1.5 3", (0.5, 1.0, 1.5)),
        ("x=on,off", ("on", "off")),
        ("x=4..4", (4,)),
    ],
)
def test_a_range_is_the_values_that_it_says(written: str, values: tuple[Scalar, ...]) -> None:
    assert parse_variation(written).values == values


def test_a_search_may_try_every_whole_number_of_a_range() -> None:
    assert list(parse_variation("nodes.gpu.count=10..500").grid) == list(range(10, 501))
    assert len(parse_variation("x=0.1..0.9").grid) == 101
    assert list(parse_variation("x=8,2,4").grid) == [2, 4, 8]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("x", "not of the form PATH=RANGE"),
        ("x=", "not of the form PATH=RANGE"),
        ("x=5..1", "an empty range"),
        ("x=1..a", "no range"),
        ("x=1..9 log", "'log' is no number of points"),
        ("x=0..9 log 3", "begins above 0"),
        ("x=1..9 0", "'0' is no number of points"),
        ("x=1..9 step 0", "'step 0' is no number of points"),
        ("x=1s..9m", "two units, s and m"),
        ("x=1,,2", "an empty value"),
        ("x=1,1", "listed twice"),
        ("x=1..99999999", "too many"),
    ],
)
def test_a_wrong_range_is_refused_with_a_remedy(written: str, said: str) -> None:
    with pytest.raises(UsageProblem, match=said) as refused:
        parse_variation(written)
    assert refused.value.remedy


@given(st.text(alphabet="0123456789.e-+ logstep,sm/=x", max_size=24))
def test_whatever_is_written_is_a_range_or_refused(written: str) -> None:
    try:
        found = parse_variation(f"x={written}")
    except SeatrialError as problem:
        assert problem.remedy
    else:
        assert found.values and len(set(found.values)) == len(found.values)


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("nodes.big.gpu.count", ("nodes", "big", 0, "count")),
        ("nodes.gpu.count", ("nodes", "big", 0, "count")),
        ("nodes.gpu.capacity.nvidia.com/gpu", ("nodes", "big", 0, "capacity", "nvidia.com/gpu")),
        ("nodes.cpu.capacity.nvidia.com/gpu", ("nodes", "small", 0, "capacity", "nvidia.com/gpu")),
        ("steps.load.count", ("steps", 0, "submit", "count")),
        ("steps.submit.requests.cpu", ("steps", 0, "submit", "requests", "cpu")),
        ("steps.0.submit.count", ("steps", 0, "submit", "count")),
        ("steps.pause", ("steps", 1, 1, "pause")),
        ("steps.wait.timeout", ("steps", 1, 0, "wait", "timeout")),
        ("settings.kueue.qps", ("settings", "kueue", "qps")),
        ("setups.b.settings.kueue.qps", ("setups", "b", "settings", "kueue", "qps")),
        ("setups.a.client.rate", ("setups", "a", "client", "rate")),
        ("client.rate", ("client", "rate")),
    ],
)
def test_a_path_names_entries_by_their_name(path: str, where: tuple[Any, ...]) -> None:
    assert locate(from_text(FLEET, "f").document, path) == where


@pytest.mark.parametrize(
    ("variation", "said", "remedy"),
    [
        ("nodes.gpus.count=1,2", "has no 'gpus.count' in nodes", "did you mean 'gpu'?"),
        ("nodes.zzz.count=1,2", "has no 'zzz.count' in nodes", "known: small, cpu, big, gpu"),
        ("noodes.gpu.count=1,2", "has no 'noodes.gpu.count'", "did you mean 'nodes'?"),
        ("steps.laod.count=1,2", "has no 'laod.count' in steps", "did you mean 'load'?"),
        ("nodes.gpu=1,2", "no single value", "count"),
        ("params.job=1,2", "has no param 'job'", "did you mean 'jobs'?"),
        ("repeat=1,2", "the same for all trials", "vary nodes"),
    ],
)
def test_a_variable_that_is_nowhere_in_the_scenario_is_refused_with_the_nearest(
    variation: str, said: str, remedy: str
) -> None:
    with pytest.raises(UsageProblem, match=said) as refused:
        _expanded(variation)
    assert remedy in refused.value.remedy


def test_a_varied_value_is_a_param_with_its_trials_names_and_cells() -> None:
    trials = _expanded("nodes.gpu.count=3,5", sets={"length": ["1s"]})
    assert [trial.name for trial in trials] == [
        "001-a-nodes.gpu.count=3-r1", "002-b-nodes.gpu.count=3-r1",
        "003-a-nodes.gpu.count=5-r1", "004-b-nodes.gpu.count=5-r1",
    ]  # fmt: skip
    assert [trial.setup.nodes[0].count for trial in trials] == [2, 3, 2, 5]
    assert without_effect(trials, "nodes.gpu.count") == ["a"]
    both = _expanded("nodes.gpu.count=3,5", "params.jobs=1,2,3")
    assert len(both) == 2 * 2 * 3 * 2
    assert {trial.phases(Submit)[0].count for trial in both} == {1, 2, 3}


def test_a_field_of_an_option_that_the_submit_does_not_have_can_be_varied() -> None:
    trials = _expanded("steps.load.requests.cpu=1,2", "steps.load.selector.disk=hdd,ssd")
    chosen = {str(submit.shape.selector) for trial in trials for submit in trial.phases(Submit)}
    assert chosen == {"{'disk': 'hdd'}", "{'disk': 'ssd'}"}
    with pytest.raises(SeatrialError, match=r"unknown key 'selectr' in 'submit' \(did you mean 'selector'\?\)"):
        _expanded("steps.load.selectr.disk=hdd,ssd")


def test_all_values_see_the_same_random_streams() -> None:
    plain, varied = _expanded(sets={"length": ["1s"]})[0], _expanded("nodes.cpu.count=3,5", sets={"length": ["1s"]})
    assert {str(trial.drawn_from) for trial in varied} == {str(plain.drawn_from)}
    assert {str(trial.drawn_from) for trial in _expanded("params.jobs=1,2", sets={"length": ["1s"]})} == {
        "{'length': '1s'}"
    }
