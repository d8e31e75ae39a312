"""`submit: {trace: FILE}` in a scenario: what it becomes, and what is wrong with it, at its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.model.errors import ScenarioProblem
from seatrial.model.plan import Trial
from seatrial.model.units import SECOND
from seatrial.scenario.actions.replay_trace import ReplayedTrace
from seatrial.scenario.document import from_text
from seatrial.scenario.expansion import expand
from seatrial.scenario.findings import findings_of
from seatrial.traces.options import GPU_MODEL
from tests.scenario.support import STACKS, mistakes
from tests.traces import samples

NODES = "nodes: [{name: fake, count: 2, capacity: {cpu: 4, memory: 8Gi, nvidia.com/gpu: 8}}]\n"


def scenario(submit: str, top: str = "") -> str:
    return f"name: small\n{NODES}stacks: [default]\n{top}steps:\n  - submit: {{{submit}}}\n"


def planned(folder: Path, submit: str, top: str = "") -> tuple[Trial, ReplayedTrace]:
    text = from_text(scenario(submit, top), str(folder / "s.yaml"))
    [trial] = expand(text, on="sim", stacks=STACKS)
    [replay] = trial.phases(ReplayedTrace)
    return trial, replay


def test_a_trace_is_a_submit_with_the_times_and_sizes_of_the_file(tmp_path: Path) -> None:
    samples.swf(tmp_path / "t.swf")
    trial, replay = planned(tmp_path, "name: replay, trace: t.swf, speed: 2, requests: {memory: 1Gi}")
    load = replay.load(*replay.seeds(trial))
    assert load.due is not None
    assert load.due.tolist() == [0, 5 * SECOND, 5 * SECOND, 30 * SECOND]
    items = [load.item(index) for index in range(load.count)]
    assert [(item.name, item.pods, item.duration, item.gang) for item in items] == [
        ("replay-0", 4, 30 * SECOND, True), ("replay-1", 1, 30 * SECOND, True), ("replay-2", 4, 0, True),
        ("replay-3", 4, 30 * SECOND, True),
    ]  # fmt: skip
    assert items[0].shape is items[3].shape
    assert dict(items[0].shape.requests) == {"cpu": 1000, "memory": 1 << 30}
    assert (replay.count, replay.pods, replay.sizes_in(trial)) == (4, 13, [1, 4])


def test_items_do_not_depend_on_the_order_in_which_they_are_asked_for(tmp_path: Path) -> None:
    samples.openb(tmp_path / "p.csv")
    trial, replay = planned(tmp_path, "name: replay, trace: p.csv")
    load = replay.load(*replay.seeds(trial))
    assert [load.item(index) for index in (2, 0, 1)] == [replay.load(1).item(index) for index in (2, 0, 1)]


def test_what_is_left_out_too_large_or_for_other_gpus_is_a_finding(tmp_path: Path) -> None:
    samples.openb(tmp_path / "p.csv")
    trial, _ = planned(tmp_path, "name: replay, trace: p.csv")
    found = findings_of(trial)
    assert any("1 job asking for a fraction of a GPU: rounded up" in one for one in found)
    assert any(f"no node has the label {GPU_MODEL}" in one for one in found)
    assert any("1 of 3 workloads never start: a pod that requests cpu 8" in one for one in found)


def test_a_gang_larger_than_the_fleet_is_a_finding(tmp_path: Path) -> None:
    samples.swf(tmp_path / "t.swf", [samples.swf_line(1, 0, processors=9), samples.swf_line(2, 1)])
    trial, _ = planned(tmp_path, "name: replay, trace: t.swf")
    assert any("a gang of 9 pods" in one and "holds 8 of them" in one for one in findings_of(trial))


def test_jobs_go_to_the_queues_of_the_scenario(tmp_path: Path) -> None:
    samples.philly(tmp_path / "p.csv")
    queues = "queues: {red: {quota: {nvidia.com/gpu: 4}}, blue: {quota: {nvidia.com/gpu: 16}}}\n"
    to = "map: {queue: {by: queue, to: {aaa: red, '*': blue}}}"
    trial, replay = planned(tmp_path, f"name: replay, trace: p.csv, {to}", queues)
    load = replay.load(1)
    assert [load.item(index).queue for index in range(3)] == ["blue", "red", "red"]
    assert replay.queue_counts() == {"red": 2, "blue": 1}
    swapped = "map: {queue: {by: queue, to: {aaa: blue, '*': red}}}"
    trial, _ = planned(tmp_path, f"name: replay, trace: p.csv, {swapped}", queues)
    assert any("queue 'red' may use nvidia.com/gpu 4 at most" in one for one in findings_of(trial))


@pytest.mark.parametrize(
    ("submit", "said"),
    [
        ("trace: nothing.swf", "5:35: nothing.swf: no such file or directory"),
        ("trace: t.swf, count: 3", "'count' and 'trace' contradict each other"),
        ("trace: t.swf, duration: 3s", "'duration' and 'trace' contradict each other"),
        ("count: 3, duration: 3s, speed: 2", "'speed' goes with 'trace' (add 'trace' or remove 'speed')"),
        ("trace: t.swf, format: sfw", "unknown format 'sfw' (did you mean 'swf'?)"),
        ("trace: t.swf, speed: 0", "'0' cannot be a factor"),
        (
            "trace: t.swf, speed: quick",
            "'quick' is not a factor (write a number above 0, like 2 or 0.5, or fit into 1h)",
        ),
        ("trace: t.swf, speed: fit into 0s", "takes no time"),
        ("trace: t.swf, from: soon", "'soon' is not a duration"),
        ("trace: t.swf, from: 2h", "t.swf has no job between 'from' and 'until'"),
        ("trace: t.swf, sample: {share: 2}", "'2' is not a share"),
        ("trace: t.swf, fractions: half", "unknown way with fractions 'half'"),
        (
            "trace: t.csv, columns: {submit: arrived, duration: runtime}",
            "has no column 'runtime' (did you mean 'runtime_ms'?)",
        ),
        ("trace: t.csv, columns: {arrival: arrived}", "unknown field 'arrival' of a trace"),
        ("trace: t.csv, columns: {submit: {column: arrived, unit: parsec}}", "unknown unit 'parsec' of submit"),
        ("trace: t.csv", "t.csv is a table of an unknown layout"),
        (
            "trace: t.swf, map: {priority: {by: usr, to: {a: 1}}}",
            "unknown column of a trace 'usr' (did you mean 'user'?)",
        ),
        ("trace: t.swf, map: {priority: {to: {a: high}}}", "'high' is not a priority"),
        ("trace: torn.swf, strict: true", "torn.swf:6: cut off or mixed up"),
    ],
)
def test_mistakes_with_traces_have_a_place_and_a_remedy(tmp_path: Path, submit: str, said: str) -> None:
    samples.swf(tmp_path / "t.swf")
    samples.table(tmp_path / "t.csv")
    samples.swf(tmp_path / "torn.swf", [samples.swf_line(1, 0), "2 3"])
    with pytest.raises(ScenarioProblem) as caught:
        expand(from_text(scenario(f"name: replay, {submit}"), str(tmp_path / "s.yaml")), on="sim", stacks=STACKS)
    [mistake] = [str(one) for one in caught.value.mistakes]
    assert said in mistake
    assert "s.yaml:5:" in mistake


def test_a_submit_without_a_trace_still_needs_a_duration() -> None:
    [mistake] = mistakes(scenario("count: 3"))
    assert "'submit' has no 'duration' (add `duration:` (how long each pod runs" in mistake
