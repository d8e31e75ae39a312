"""What a scenario says to compare stacks: set-ups with settings and params of their own, waits that go on, overlays."""

from __future__ import annotations

import dataclasses

import pytest

from seatrial.model.errors import UsageProblem
from seatrial.model.interfaces import Manifest
from seatrial.model.labels import DURATION_ANNOTATION, WORKLOAD_LABEL
from seatrial.model.plan import Workload
from seatrial.model.randomness import stream_seed
from seatrial.scenario.actions.expect import Expect
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from seatrial.scenario.findings import findings_of
from seatrial.scenario.params import parse_sets
from seatrial.stacks.job_objects import job, manifests
from tests.scenario.support import NODES, SMALL, mistakes, trials, with_steps, with_submit

MIX = 'submit: {name: mix, sizes: [2, 3], each: "${iters * batches}", order: shuffled, duration: 1s, gang: true}'
ASKING = f"""\
name: asking
params: {{asks: 1, iters: 4, batches: 1}}
{NODES}setups:
  nothing: {{stack: mcad, params: {{asks: 0}}}}
  honest: {{stack: mcad, params: {{asks: 1}}}}
  plain: {{stack: kueue}}
  slow: {{stack: kueue, settings: {{kueue: {{backoff: 5s}}}}}}
steps:
  - submit: {{name: big, count: 1, duration: 1s, requests: {{cpu: 1, g: "${{8 * asks}}"}}, declares: {{cpu: 1, g: 8}}}}
  - {MIX}
  - wait: {{for: completed}}
"""


def submits(text: str, **options: object) -> dict[str, Submit]:
    """Set-up → its first submit."""
    return {trial.setup.name: trial.phases(Submit)[0] for trial in trials(text, **options)}


def test_a_setup_may_have_params_of_its_own() -> None:
    found = submits(ASKING)
    assert list(found) == ["nothing", "honest", "plain", "slow"]
    assert found["nothing"].shape.requests == {"cpu": 1000}
    assert found["nothing"].declares == {"cpu": 1000, "g": 8}
    assert found["honest"].shape.requests == found["plain"].shape.requests == {"cpu": 1000, "g": 8}
    assert [trial.params["asks"] for trial in trials(ASKING)] == [0, 1, 1, 1]


def test_declaring_what_the_pods_ask_for_is_declaring_nothing() -> None:
    assert submits(ASKING)["honest"].declares is None


def test_several_setups_of_one_stack_differ_in_its_settings() -> None:
    settings = {trial.setup.name: trial.setup.settings.get("kueue") for trial in trials(ASKING)}
    assert settings["plain"] == {"qps": 20, "backoff": 0}
    assert settings["slow"] == {"qps": 20, "backoff": 5_000_000_000}


def test_stack_means_the_stack_as_it_comes_and_every_setup_that_asks_something_else_of_it() -> None:
    kueue, *mcad, default = trials(ASKING, pick_stacks=["kueue", "mcad", "default"])
    assert (kueue.setup.name, kueue.setup.settings["kueue"]["backoff"], kueue.params["asks"]) == ("kueue", 0, 1)
    assert [(trial.setup.name, trial.params["asks"]) for trial in mcad] == [("nothing", 0), ("honest", 1)]
    assert default.setup.name == "default"


def test_all_setups_see_the_same_load_whatever_params_are_their_own() -> None:
    seeds = {stream_seed(trial.seed, trial.drawn_from, trial.repeat, "mix") for trial in trials(ASKING)}
    assert len(seeds) == 1
    loads = [trial.phases(Submit)[1].load(seeds.copy().pop()) for trial in trials(ASKING)]
    sizes = [[load.item(index).pods for index in range(load.count)] for load in loads]
    assert sizes == [sizes[0]] * 4
    assert sorted(sizes[0]) == [2] * 4 + [3] * 4
    assert sizes[0] != [2, 3] * 4, "shuffled"


def test_a_value_that_a_setup_overrules_makes_no_second_trial() -> None:
    found = trials(ASKING.replace("asks: 1, iters", "asks: [1, 2], iters"))
    assert [(trial.setup.name, trial.params["asks"]) for trial in found] == [
        ("nothing", 0), ("honest", 1), ("plain", 1), ("slow", 1), ("plain", 2), ("slow", 2),
    ]  # fmt: skip


def test_a_set_that_every_setup_overrules_is_refused() -> None:
    with pytest.raises(UsageProblem, match="--set asks has no effect"):
        trials(ASKING, sets={"asks": [5]}, pick_setups=["nothing", "honest"])
    assert trials(ASKING, sets={"asks": [5]}, pick_stacks=["kueue"])[0].params["asks"] == 5


def test_params_are_calculated_with() -> None:
    text = SMALL.replace("count: 3", 'count: "${2 * (jobs + 1) - 6 / 3}"') + "params: {jobs: [1, 4]}\n"
    counts = [trial.phases(Submit)[0].count for trial in trials(text)]
    assert counts == [2, 8]
    named = SMALL.replace("name: short", 'name: "short-${jobs * 2}"') + "params: {jobs: 3}\n"
    assert trials(named)[0].phases(Submit)[0].name == "short-6"


def test_a_comparison_of_params_is_true_or_false() -> None:
    text = SMALL.replace("count: 3", "count: 3, gang: \"${1 < jobs < 10 and kind == 'b'}\"")
    for kind, expected in (("a", [False] * 3), ("b", [False, True, False])):
        found = trials(text + f"params: {{jobs: [1, 5, 10], kind: {kind}}}\n")
        assert [trial.phases(Submit)[0].gang for trial in found] == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("${jobs / 2}", "s.yaml:4:39: '0.5' is not a whole number (write one like 10)"),
        ("${jobs / 0}", "s.yaml:4:39: ${jobs / 0}: `jobs / 0` divides by zero (guard it, or use other figures)"),
        ("${jbos * 2}", "s.yaml:4:39: ${jbos * 2}: unknown name 'jbos' (did you mean 'jobs'?)"),
        ("${jobs * }", "s.yaml:4:39: ${jobs * }: cannot be calculated (use params, numbers"),
        ("${jobs * word}", "s.yaml:4:39: ${jobs * word}: cannot calculate with the text 'a' (use a number)"),
        ("${len(word)}", "s.yaml:4:39: ${len(word)}: cannot be calculated (use params"),
    ],
)
def test_what_cannot_be_calculated_is_said_with_its_place(written: str, expected: str) -> None:
    found = mistakes(SMALL.replace("count: 3", f'count: "{written}"') + "params: {jobs: 1, word: a}\n")
    assert len(found) == 1
    assert found[0].startswith(expected)


def test_several_params_may_be_set_in_one_word() -> None:
    assert parse_sets(["iters=3,4,duration=5s", "a=b"]) == {"iters": [3, 4], "duration": ["5s"], "a": ["b"]}


WRONG_SETUPS = {
    "param": ("{stack: mcad, params: {askss: 0}}", "s.yaml:5:29: unknown param 'askss' (did you mean 'asks'?)"),
    "list": ("{stack: mcad, params: {asks: [0, 1]}}", "s.yaml:5:35: a list is not allowed here (write one number"),
    "what it does": ("{stack: mcad, params: {asks: none}}", "s.yaml:7:39: 'none' is not a whole number (write one like 10)"),
}  # fmt: skip


@pytest.mark.parametrize(("setup", "expected"), WRONG_SETUPS.values(), ids=WRONG_SETUPS.keys())
def test_wrong_params_of_a_setup(setup: str, expected: str) -> None:
    found = mistakes(
        f"name: a\nparams: {{asks: 1}}\n{NODES}setups:\n  a: {setup}\n  b: {{stack: default}}\n"
        'steps: [{submit: {name: short, count: "${asks}", duration: 10s}}]\n'
    )
    assert len(found) == 1, found
    assert found[0].startswith(expected)


def test_a_wait_may_go_on() -> None:
    submit = "  - submit: {count: 1, duration: 1s}\n"
    [trial] = trials(with_steps(f"{submit}  - wait: {{for: running}}\n  - wait: {{for: completed, otherwise: go-on}}"))
    assert [phase.go_on for step in trial.steps for phase in step if isinstance(phase, Wait)] == [False, True]
    assert mistakes(with_steps(f"{submit}  - wait: {{for: running, otherwise: goon}}")) == [
        "s.yaml:6:37: unknown choice 'goon' (did you mean 'go-on'?)"
    ]


def test_a_step_expects_only_what_is_known_by_then() -> None:
    [trial] = trials(with_steps("  - expect: [completed == 0, 'setup == \"default\" and pending == 0']"))
    assert isinstance(trial.steps[0][0], Expect)
    assert mistakes(with_steps("  - expect: total_s < 5 and failed == 0")) == [
        "s.yaml:5:13: 'total_s' is known only at the end of a trial (write it under the scenario's own `expect:`)"
    ]


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ('setup == "defualt"', "no setup is 'defualt' at its column 10 (did you mean 'default'?)"),
        ('stack != "mcda"', "no stack is 'mcda' at its column 10 (did you mean 'mcad'?)"),
    ],
)
def test_an_expectation_that_can_never_hold_is_a_mistake(text: str, remedy: str) -> None:
    [found] = mistakes(SMALL + f"expect: '{text}'\n")
    assert remedy in found
    assert trials(SMALL + 'expect: \'setup == "default" and stack != "mcad" and clog == ""\'\n')


# overlays

OVERLAY = (
    "overlay: {metadata: {labels: {team: blue}}, "
    "spec: {backoffLimit: 3, template: {spec: {priorityClassName: high, tolerations: [{operator: Exists}]}}}}"
)


def workload(fields: str = OVERLAY) -> Workload:
    [submit] = trials(with_submit(f"name: a, count: 1, duration: 2s, requests: {{cpu: 1}}, {fields}"))[0].phases(Submit)
    return submit.load(1).item(0)


def test_an_overlay_is_merged_into_the_job_and_replaces_lists() -> None:
    made = job(workload(), {"seatrial.dev/study": "x"})
    assert made["metadata"]["labels"] == {"team": "blue", "seatrial.dev/study": "x", WORKLOAD_LABEL: "a-0"}
    assert (made["spec"]["backoffLimit"], made["spec"]["completions"]) == (3, 1)
    spec = made["spec"]["template"]["spec"]
    assert (spec["priorityClassName"], spec["restartPolicy"]) == ("high", "Never")
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1"}
    assert made["spec"]["template"]["metadata"]["annotations"][DURATION_ANNOTATION] == "2000ms"


def test_what_a_stack_puts_into_a_job_does_not_get_into_the_next_one() -> None:
    first = workload()
    made = job(first, {})
    made["spec"]["template"]["spec"]["tolerations"].append("x")
    made["metadata"]["labels"]["queue"] = "a"
    assert job(first, {})["spec"]["template"]["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert "queue" not in job(first, {})["metadata"]["labels"]


def test_without_an_overlay_a_job_is_as_it_was() -> None:
    [made] = manifests(workload("gang: false"), {})
    assert isinstance(made, Manifest)
    assert made.body["spec"]["backoffLimit"] == 100


def test_params_stand_in_overlays() -> None:
    text = with_submit('count: 1, duration: 1s, overlay: {spec: {backoffLimit: "${n}"}}') + "params: {n: 7}\n"
    assert trials(text)[0].phases(Submit)[0].overlay == {"spec": {"backoffLimit": 7}}


def test_the_simulator_says_that_it_does_not_know_overlays() -> None:
    [trial] = trials(with_submit(f"name: a, count: 1, duration: 1s, {OVERLAY}"))
    assert findings_of(trial) == ["a: the simulator does not know `overlay`; it only has an effect on real clusters"]
    [without] = trials(with_submit("name: a, count: 1, duration: 1s, overlay: {}"))
    assert findings_of(without) == []


WRONG_OVERLAYS = {
    "a word": ("high", "s.yaml:5:47: 'high' is not part of a Job's manifest (write it like {spec:"),
    "a list": ("[a]", "s.yaml:5:47: a list is not part of a Job's manifest"),
    "a pod's field": ("{priorityClassName: high}", "s.yaml:5:67: 'priorityClassName' of a Job cannot be overlaid (an"),
    "spec of text": ("{spec: x}", "s.yaml:5:54: 'x' instead of a mapping (write it like"),
    "name": ("{metadata: {name: x}}", "s.yaml:5:65: 'metadata.name' of a Job cannot be overlaid (name the submit"),
    "pods": ("{spec: {completions: 3}}", "s.yaml:5:68: 'spec.completions' of a Job cannot be overlaid (write `pods`"),
    "label": ("{metadata: {labels: {seatrial.dev/workload: x}}}", "s.yaml:5:91: 'seatrial.dev/workload' is reserved"),
    "annotation": ("{spec: {template: {metadata: {annotations: {seatrial.dev/x: y}}}}}", "s.yaml:5:107: 'seatrial.dev/x' is res"),
    "nothing": ("{spec: {suspend: }}", "s.yaml:5:64: 'suspend' has no value"),
}  # fmt: skip


@pytest.mark.parametrize(("overlay", "expected"), WRONG_OVERLAYS.values(), ids=WRONG_OVERLAYS.keys())
def test_a_wrong_overlay(overlay: str, expected: str) -> None:
    found = mistakes(with_submit(f"count: 1, duration: 1s, overlay: {overlay}"))
    assert len(found) == 1, found
    assert found[0].startswith(expected)


# findings


def test_priorities_that_differ_are_no_finding_because_the_simulator_preempts_too() -> None:
    two = "  - submit: {count: 1, duration: 1s, priority: 5}\n  - submit: {count: 1, duration: 1s}"
    [trial] = trials(with_steps(two))
    assert findings_of(trial) == []
    assert findings_of(dataclasses.replace(trial, on="local")) == []


GANG = "name: big, count: 1, duration: 1s, gang: true, requests: {cpu: 3}"


def test_a_gang_larger_than_the_cluster_is_a_finding_and_no_mistake() -> None:
    [trial] = trials(with_submit(f"{GANG}, pods: 3"))
    assert findings_of(trial) == [
        "big: a gang of 3 pods that each request cpu 3 is larger than the cluster, which holds 2 of them"
    ]
    assert findings_of(trials(with_submit(f"{GANG}, pods: 2"))[0]) == []
    assert findings_of(trials(with_submit(f"{GANG}, pods: 3".replace("gang: true", "gang: false")))[0]) == []


def test_a_gang_that_fits_with_later_nodes_is_none() -> None:
    later = "{add: {name: later, count: 1, capacity: {cpu: 4, memory: 8Gi}}}"
    [trial] = trials(with_steps(f"  - submit: {{{GANG}, pods: 3}}\n  - nodes: {later}"))
    assert findings_of(trial) == []


def test_a_gang_without_requests_is_held_by_the_number_of_pods() -> None:
    text = with_submit("name: big, count: 1, duration: 1s, gang: true, pods: 221")
    [found] = findings_of(trials(text)[0])
    assert "which holds 220 of them" in found
