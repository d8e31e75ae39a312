"""What a sound scenario means: the trials it becomes."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise
from pathlib import Path

import pytest

from seatrial import stacks
from seatrial.model.errors import ScenarioProblem, UsageProblem
from seatrial.model.plan import Pace, Span, Taint, Toleration, Trial, to_json
from seatrial.model.units import HOUR, MINUTE, SECOND
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.scenario.actions.delete_workloads import DeleteWorkloads
from seatrial.scenario.actions.expect import Expect
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from seatrial.scenario.document import find, from_document, from_text, override, read, shipped
from seatrial.scenario.expansion import expand
from seatrial.scenario.findings import check_never_fits
from seatrial.scenario.params import parse_sets
from tests.scenario.support import SMALL, STACKS, STEPS, trials, with_steps, with_submit

FAKE = "{name: fake, count: 1, capacity: {cpu: 1, memory: 1Gi}, taints: ['fake=yes:NoSchedule']}"
REAL = "{name: real, count: 1, capacity: {cpu: 1, memory: 1Gi}, kubelet: true}"
TWO_KINDS = f"""\
name: two-kinds
params: {{jobs: [1, 5], gpus: 0}}
nodes: {{reals: [{REAL}], fakes: [{FAKE}]}}
client: {{rate: 7/s}}
settings: {{qps: {{equal: 500}}, kube-scheduler: {{burst: 9}}, mcad: {{version: "1.32"}}}}
setups:
  kind: {{nodes: reals, stack: default}}
  kwok: {{nodes: fakes, stack: default, client: {{rate: 10/s}}}}
  kwok+mcad: {{nodes: fakes, stack: mcad, client: {{rate: 4/s}},
              settings: {{qps: as shipped, mcad: {{version: "1.40"}}}}}}
steps:
  - submit: {{name: short, count: "${{jobs}}", duration: 10s, requests: {{cpu: 5m, nvidia.com/gpu: "${{gpus}}"}}}}
  - wait: {{for: completed}}
repeat: 2
"""


def submit(fields: str) -> Submit:
    [trial] = trials(with_submit(fields))
    [found] = trial.phases(Submit)
    return found


def test_setups_are_interleaved_and_early_trials_compare_all_of_them() -> None:
    assert [trial.name for trial in trials(TWO_KINDS)] == [
        "001-kind-jobs=1-r1", "002-kwok-jobs=1-r1", "003-kwok+mcad-jobs=1-r1",
        "004-kind-jobs=5-r1", "005-kwok-jobs=5-r1", "006-kwok+mcad-jobs=5-r1",
        "007-kind-jobs=1-r2", "008-kwok-jobs=1-r2", "009-kwok+mcad-jobs=1-r2",
        "010-kind-jobs=5-r2", "011-kwok-jobs=5-r2", "012-kwok+mcad-jobs=5-r2",
    ]  # fmt: skip


def test_params_multiply_in_the_order_written_and_all_are_kept() -> None:
    found = trials(SMALL + "params: {b: [x, y], a: [1, 2], c: true}\n")
    assert [dict(trial.params) for trial in found] == [
        {"b": b, "a": a, "c": True} for b in ("x", "y") for a in (1, 2)
    ]  # fmt: skip
    assert found[0].name == "001-default-b=x-a=1-r1"


def test_a_trial_name_is_a_directory_name_whatever_the_params() -> None:
    long = "x" * 500
    for trial in trials(SMALL + f"params: {{a: ['../up', {long}, 'é ü']}}\n"):
        assert "/" not in trial.name
        assert len(trial.name.encode()) < 255


def test_a_param_keeps_its_type_alone_and_is_text_inside_text() -> None:
    text = with_submit('name: "job-${n}", count: "${n}", duration: "${n}s", gang: "${g}"') + "params: {n: 3, g: true}\n"
    [found] = trials(text)[0].phases(Submit)
    assert (found.name, found.count, found.duration, found.gang) == ("job-3", 3, 3 * SECOND, True)


def test_set_replaces_values_and_nothing_else() -> None:
    found = trials(TWO_KINDS, sets={"jobs": [10]}, repeat=1, seed=77)
    assert [trial.name for trial in found] == ["001-kind-r1", "002-kwok-r1", "003-kwok+mcad-r1"]
    assert {(trial.params["jobs"], trial.params["gpus"], trial.seed) for trial in found} == {(10, 0, 77)}


def test_set_is_read_like_yaml() -> None:
    assert parse_sets(["a=1,2.5,true", "b= on ,1:30", "c='1'"]) == {
        "a": [1, 2.5, True],
        "b": ["on", "1:30"],
        "c": ["1"],
    }


@pytest.mark.parametrize("text", ["a", "=1", "a=", "a=1,,2", "a=null"])
def test_a_set_without_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(UsageProblem, match="--set") as caught:
        parse_sets([text])
    assert caught.value.remedy


def test_a_param_set_twice_is_refused() -> None:
    with pytest.raises(UsageProblem, match="--set a is given twice"):
        parse_sets(["a=1", "a=2"])


def test_the_client_of_a_setup_wins_over_the_scenarios() -> None:
    assert [trial.setup.client.rate for trial in trials(TWO_KINDS)[:3]] == [7, 10, 4]


def test_settings_of_a_setup_win_over_the_scenarios_and_go_only_where_they_belong() -> None:
    kind, _, mcad = (trial.setup.settings for trial in trials(TWO_KINDS)[:3])
    assert {"qps": 500, "burst": 9}.items() <= kind["kube-scheduler"].items()
    assert kind["kube-controller-manager"]["burst"] == 1000
    assert "mcad" not in kind
    assert {"qps": 50, "burst": 9}.items() <= mcad["kube-scheduler"].items()
    assert mcad["mcad"] == {"version": "1.40", "preempt": False, "actions": "enqueue"}


def test_durations_of_settings_become_nanoseconds() -> None:
    text = SMALL.replace("[default]", "[kueue]") + "settings: {qps: unlimited, kueue: {backoff: 1m30s}}\n"
    assert trials(text)[0].setup.settings["kueue"] == {"qps": 0, "backoff": 90 * SECOND}


def test_stacks_are_short_for_a_setup_each() -> None:
    found = trials(SMALL.replace("[default]", "[default, mcad]"))
    assert [(trial.setup.name, trial.setup.stack) for trial in found] == [("default", "default"), ("mcad", "mcad")]


def test_picked_setups_run_in_the_order_picked() -> None:
    assert [trial.setup.name for trial in trials(TWO_KINDS, pick_setups=["kwok+mcad", "kind"])[:2]] == [
        "kwok+mcad",
        "kind",
    ]


def test_picked_stacks_run_on_the_fake_nodes_with_the_client_that_stands_there() -> None:
    found = trials(TWO_KINDS, pick_stacks=["kueue", "mcad"], repeat=1)
    assert [trial.setup.name for trial in found] == ["kueue", "mcad", "kueue", "mcad"]
    assert {(trial.setup.nodes[0].name, trial.setup.client.rate) for trial in found} == {("fake", 10)}
    assert found[1].setup.settings["mcad"]["version"] == "1.32"


def test_picked_stacks_run_on_the_only_nodes_there_are() -> None:
    [trial] = trials(f"name: a\nnodes: [{REAL}]\nstacks: [default]\n{STEPS}", pick_stacks=["mcad"])
    assert trial.setup.nodes[0].name == "real"


def test_nodes_get_their_defaults() -> None:
    text = (
        "name: a\nnodes: [{name: fake, count: 2, capacity: {cpu: 1500m, memory: 8Gi, nvidia.com/gpu: 8}, "
        "labels: {gen: 4, spot: true}, "
        "taints: ['a=b:NoExecute', 'c:PreferNoSchedule'], pods: {create: 1s, start: 1s..3s}}]\n"
    )
    [group] = trials(text + "stacks: [default]\n" + STEPS)[0].setup.nodes
    assert group.capacity == {"cpu": 1500, "memory": 8 * 2**30, "pods": 110, "nvidia.com/gpu": 8}
    assert group.labels == {"gen": "4", "spot": "true"}
    assert group.taints == (Taint("a", "b", "NoExecute"), Taint("c", "", "PreferNoSchedule"))
    assert (group.create, group.start) == (Span(SECOND, SECOND), Span(SECOND, 3 * SECOND))


@pytest.mark.parametrize(
    ("fields", "pace"),
    [
        ("count: 3", Pace()),
        ("count: 3, rate: 30/m", Pace("rate", per_s=0.5)),
        ("count: 3, rate: 10/s, arrival: even", Pace("rate", per_s=10)),
        ("count: 3, rate: 10/s, arrival: poisson", Pace("poisson", per_s=10)),
        ("count: 3, burst: 20, every: 5s", Pace("burst", size=20, every=5 * SECOND)),
        ("count: 3, parallel: 5, delay: 1s", Pace("rounds", size=5, every=SECOND)),
        ("count: 3, parallel: 5", Pace("rounds", size=5)),
    ],
)
def test_paces(fields: str, pace: Pace) -> None:
    assert submit(f"{fields}, duration: 1s").pace == pace


@pytest.mark.parametrize(
    ("fields", "count", "sizes", "shuffled"),
    [
        ("count: 3", 3, (1,), False),
        ("count: 3, pods: 4", 3, (4,), False),
        ("sizes: [2, 3, 4], each: 20", 60, (2, 3, 4), False),
        ("sizes: [2, 3], count: 5, order: shuffled", 5, (2, 3), True),
        ("sizes: [2, 3], order: given", 2, (2, 3), False),
    ],
)
def test_sizes(fields: str, count: int, sizes: tuple[int, ...], shuffled: bool) -> None:
    found = submit(f"{fields}, duration: 1s")
    assert (found.count, found.sizes, found.shuffled) == (count, sizes, shuffled)


def test_a_submit_says_all_about_its_pods() -> None:
    found = submit(
        "count: 1, duration: 1m, requests: {cpu: 5m, nvidia.com/gpu: 0}, gang: true, declares: {cpu: 1}, "
        "selector: {a: b}, affinity: {zone: [x, y]}, priority: -5, spread: true, "
        "tolerations: ['a=b:NoSchedule', 'c:NoExecute', d, 'e=f', '*']"
    )
    assert found.shape.requests == {"cpu": 5}
    assert found.shape.selector == {"a": "b"}
    assert found.shape.affinity == (("zone", ("x", "y")),)
    assert found.shape.tolerations == (
        Toleration("a", "Equal", "b", "NoSchedule"), Toleration("c", "Exists", "", "NoExecute"), Toleration("d"),
        Toleration("e", "Equal", "f"), Toleration(),
    )  # fmt: skip
    assert (found.shape.priority, found.shape.spread, found.gang) == (-5, True, True)
    assert found.declares == {"cpu": 1000}


def test_pods_tolerate_the_taints_of_all_nodes_also_of_later_ones() -> None:
    later = "{name: later, count: 1, capacity: {cpu: 1, memory: 1Gi}, taints: ['late:NoExecute']}"
    steps = f"steps: [{{submit: {{count: 1, duration: 1s}}}}, {{nodes: {{add: {later}}}}}]\n"
    [trial] = trials(f"name: a\nnodes: [{FAKE}]\nstacks: [default]\n{steps}")
    assert trial.phases(Submit)[0].shape.tolerations == (
        Toleration("fake", "Equal", "yes", "NoSchedule"), Toleration("late", "Equal", "", "NoExecute"),
    )  # fmt: skip
    assert check_never_fits(trial) == []


def test_no_tolerations_means_none() -> None:
    text = (
        f"name: a\nnodes: [{FAKE}]\nstacks: [default]\nsteps: [submit: {{count: 1, duration: 1s, tolerations: []}}]\n"
    )
    [trial] = trials(text)
    assert trial.phases(Submit)[0].shape.tolerations == ()
    assert check_never_fits(trial) == [
        "submit-1: a pod that requests nothing fits on no node "
        '(fake: has a taint that the pod does not tolerate (add "fake=yes:NoSchedule" to its tolerations))'
    ]


def test_a_pod_that_fits_nowhere_is_a_finding_and_no_mistake() -> None:
    [trial] = trials(with_submit("name: big, count: 1, duration: 1s, requests: {cpu: 5, memory: 1Gi}"))
    assert check_never_fits(trial) == [
        "big: a pod that requests cpu 5, memory 1Gi fits on no node (fake: too little cpu)"
    ]


def test_a_pod_that_fits_a_later_node_fits() -> None:
    later = "{add: {name: later, count: 1, capacity: {cpu: 8, memory: 8Gi}}}"
    [trial] = trials(with_steps(f"  - submit: {{count: 1, duration: 1s, requests: {{cpu: 5}}}}\n  - nodes: {later}"))
    assert check_never_fits(trial) == []


def test_every_phase_and_its_name() -> None:
    text = with_steps("""\
  - submit: {count: 4, duration: 1s}
  - - submit: {name: long, count: 3, duration: 1h}
    - wait: {for: running, of: long, count: 2, timeout: 90s}
  - pause: 10s
  - pause: {name: nap, duration: 1m}
  - nodes: {cordon: fake, count: 1}
  - nodes: {uncordon: fake}
  - nodes: {name: gone, remove: fake}
  - delete: {of: [long, submit-1]}
  - expect: failed == 0
  - expect: [deleted >= 3, "pending == 0"]
  - wait: {for: deleted}""")
    [trial] = trials(text)
    _, (_, beside), *rest = trial.steps
    assert beside == Wait("wait-3", "running", ("long",), 2, 90 * SECOND)
    *others, check, checks, last = [phase for (phase,) in rest]
    assert others == [
        Pause("pause-4", 10 * SECOND), Pause("nap", MINUTE), NodeChange("nodes-6", "cordon", "fake", 1),
        NodeChange("nodes-7", "uncordon", "fake"), NodeChange("gone", "remove", "fake"),
        DeleteWorkloads("delete-9", ("long", "submit-1")),
    ]  # fmt: skip
    assert last == Wait("wait-12", "deleted", (), None, HOUR)
    assert isinstance(check, Expect)
    assert isinstance(checks, Expect)
    assert [(one.text, one.place) for one in (*check.expect, *checks.expect)] == [
        ("failed == 0", "s.yaml:14:13"), ("deleted >= 3", "s.yaml:15:14"), ("pending == 0", "s.yaml:15:28"),
    ]  # fmt: skip


def test_expectations_know_where_they_stand_and_have_their_params_filled_in() -> None:
    [trial] = trials(SMALL + 'params: {most: 3}\nexpect:\n  - failed == 0\n  - "p99_s <= ${most}"\n')
    assert [(one.text, one.place) for one in trial.expect] == [
        ("failed == 0", "s.yaml:7:5"), ("p99_s <= 3", "s.yaml:8:5"),
    ]  # fmt: skip


def test_repeat_and_seed_may_be_params() -> None:
    found = trials(SMALL + 'params: {n: [1, 3]}\nrepeat: "${n}"\nseed: "${n}"\n')
    assert [(trial.params["n"], trial.repeat, trial.seed) for trial in found] == [
        (1, 1, 1),
        (3, 1, 3),
        (3, 2, 3),
        (3, 3, 3),
    ]


def test_one_shape_is_shared_by_all_pods_of_a_submit() -> None:
    first, second = trials(SMALL + "repeat: 2\n")
    assert first.phases(Submit)[0].shape is second.phases(Submit)[0].shape


def test_a_document_gives_the_same_trials_as_its_file() -> None:
    scenario = from_text(TWO_KINDS, "s.yaml")
    again = from_document(json.loads(json.dumps(scenario.document)), "study.json")
    assert expand(again, on="sim", stacks=STACKS) == trials(TWO_KINDS)


def test_an_overridden_scenario_is_a_document_that_needs_no_set() -> None:
    scenario = override(from_text(TWO_KINDS, "s.yaml"), {"jobs": [3, 4]})
    assert scenario.document["params"] == {"jobs": [3, 4], "gpus": 0}
    assert expand(scenario, on="sim", stacks=STACKS) == trials(TWO_KINDS, sets={"jobs": [3, 4]})


def test_a_mistake_in_a_document_names_its_path() -> None:
    document = {**from_text(SMALL, "s.yaml").document, "steps": [{"submit": {"count": -1, "duration": "1s"}}]}
    with pytest.raises(ScenarioProblem) as caught:
        expand(from_document(document, "study.json"), on="sim", stacks=STACKS)
    assert str(caught.value) == "study.json: steps[0].submit.count: -1 is less than 1 (write 1 or more)"


def test_trials_go_to_other_processes_and_into_json() -> None:
    for trial in trials(TWO_KINDS):
        again: Trial = pickle.loads(pickle.dumps(trial))
        assert again == trial
        assert json.loads(json.dumps(to_json(trial)))["setup"]["stack"] == trial.setup.stack


def test_every_scenario_that_comes_with_seatrial_is_sound_and_found_by_name_and_path() -> None:
    names = [scenario.name for scenario in shipped()]
    assert "many-small-jobs" in names
    for name, about, path in shipped():
        assert about.endswith("?")
        assert find(name) == find(path) == path
        assert read(name).document == read(path).document
        assert read(name).name == name
    assert read("many-small-jobs").path == "many-small-jobs.yaml"


def test_a_directory_does_not_hide_a_scenario_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("many-small-jobs").mkdir()
    assert read("many-small-jobs").name == "many-small-jobs"


def test_many_small_jobs_is_the_experiment() -> None:
    known = {name: stacks.find(name).settings for name in stacks.names()}
    found = expand(read("many-small-jobs"), on="sim", stacks=known)
    assert len(found) == 6 * 3 * 3
    assert [trial.setup.name for trial in found[:3]] == ["kind", "kwok", "kwok+mcad"]
    assert found[2].setup.settings["mcad"]["version"] == "nearest"
    assert found[0].phases(Submit)[0].shape.requests == {"cpu": 5, "memory": 50_000_000}
    assert all(before.number + 1 == after.number for before, after in pairwise(found))
    assert [check_never_fits(trial) for trial in found] == [[]] * len(found)


def test_real_processes_take_any_flag_by_its_name() -> None:
    text = (
        SMALL
        + 'settings: {kube-apiserver: {--max-requests-inflight: 8, feature-gates: "A=true"}, kube-scheduler: {args: "--v=4"}}\n'
    )
    [trial] = expand(from_text(text, "s.yaml"), on="sim", stacks=STACKS)[:1]
    flags = {"--max-requests-inflight": 8, "feature-gates": "A=true"}
    assert trial.setup.settings["kube-apiserver"].items() >= flags.items()
    assert trial.setup.settings["kube-scheduler"]["args"] == "--v=4"
