"""What `queues`, `cohorts`, `flavors`, `priorities` and `preemption` become, and who gets which load."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial import stacks
from seatrial.model.errors import SetupProblem
from seatrial.model.fleet import Cohort, Flavor, FlavorQuota, Preemption, Queue
from seatrial.model.plan import Pace, PodShape, Trial
from seatrial.model.randomness import stream_seed
from seatrial.model.settings import CONTROL_PLANE, resolve
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from seatrial.study import eligibility
from tests.scenario.support import NODES, trials

TEAMS = f"""\
name: teams
{NODES}stacks: [kueue]
priorities: {{batch: 50, urgent: 200}}
queues:
  red: {{cohort: all, quota: {{cpu: 2}}}}
  blue: {{cohort: all, quota: {{cpu: 6}}, borrow: 3, lend: none, weight: 2.5}}
preemption: {{within-queue: lower-priority, reclaim: any}}
steps:
  - - submit: {{name: nightly, queue: red, class: long, priority: batch, count: 3, duration: 10s, checkpoint: 2s}}
    - submit: {{name: probe, queue: each, priority: -5, count: 2, duration: 1s, rate: 1/s}}
  - wait: {{for: completed, of: probe}}
"""


def only(text: str) -> Trial:
    [trial] = trials(text)
    return trial


def test_queues_become_the_fleet_of_every_set_up() -> None:
    fleet = only(TEAMS).setup.fleet
    assert fleet.queues == (
        Queue("red", (FlavorQuota("", {"cpu": 2000}),), "all"),
        Queue("blue", (FlavorQuota("", {"cpu": 6000}, {"cpu": 3000}, {"cpu": 0}),), "all", 2.5),
    )
    assert fleet.preemption == Preemption("lower-priority", "any")
    assert fleet.priorities == {"batch": 50, "urgent": 200}
    assert fleet.queue("blue").weight == 2.5


def test_a_scenario_without_queues_has_an_empty_fleet() -> None:
    text = TEAMS[: TEAMS.index("queues:")] + "steps: [{submit: {priority: urgent, count: 1, duration: 1s}}]\n"
    trial = only(text)
    assert not trial.setup.fleet.queues
    [submit] = trial.phases(Submit)
    assert (submit.shape.priority, submit.queue, submit.queues) == (200, "", ())


def test_a_submit_says_queue_class_priority_and_checkpoint_of_its_workloads() -> None:
    nightly = only(TEAMS).phases(Submit)[0]
    workload = nightly.load(1).item(2)
    assert (workload.name, workload.phase, workload.queue, workload.class_name) == (
        "nightly-2",
        "nightly",
        "red",
        "long",
    )
    assert (workload.shape.priority, workload.checkpoint) == (50, 2_000_000_000)


def test_each_sends_the_same_load_to_every_queue_and_stays_one_phase() -> None:
    trial = only(TEAMS)
    probe, wait = trial.phases(Submit)[1], trial.phases(Wait)[0]
    load = probe.load(*probe.seeds(trial))
    sent = [load.item(index) for index in range(load.count)]
    assert [workload.name for workload in sent] == ["probe-red-0", "probe-blue-0", "probe-red-1", "probe-blue-1"]
    assert {workload.phase for workload in sent} == {"probe"}
    assert (probe.count, probe.per_queue, probe.pods, wait.of) == (4, 2, 4, ("probe",))
    assert load.due is not None
    assert load.due.tolist() == [0, 0, 10**9, 10**9]


SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=4)
PACES = st.sampled_from([Pace(), Pace("rate", 2.0), Pace("poisson", 3.0), Pace("burst", size=2, every=5)])
NAMES = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=5, unique=True)


@given(st.integers(1, 12), SIZES, PACES, NAMES, st.integers(0, 9))
def test_another_queue_does_not_change_what_a_queue_gets(
    count: int, sizes: list[int], pace: Pace, names: list[str], seed: int
) -> None:
    def sent(*queues: str) -> list[tuple[int, str, int]]:
        submit = Submit(
            "p", count * len(queues), tuple(sizes), True, PodShape({}), 1, pace=pace, queues=queues
        )  # fmt: skip
        load = submit.load(*(stream_seed(seed, {}, 0, queue) for queue in queues))
        assert load.due is not None
        assert sorted(load.due.tolist()) == load.due.tolist()
        assert load.count == submit.count
        assert sum(load.item(i).pods for i in range(load.count)) == submit.pods
        items = [(int(load.due[i]), load.item(i)) for i in range(load.count)]
        return [(due, item.name, item.pods) for due, item in items if item.queue == names[0]]

    assert sent(*names) == sent(names[0])


def test_a_round_of_each_has_its_workloads_of_every_queue() -> None:
    submit = Submit("p", 6, (1,), False, PodShape({}), 1, pace=Pace("rounds", size=2, every=7), queues=("a", "b"))
    load = submit.load(1, 2)
    assert (load.due, load.pace.size, load.pace.every) == (None, 4, 7)
    assert [load.item(index).name for index in range(4)] == ["p-a-0", "p-b-0", "p-a-1", "p-b-1"]


MANY = f"""\
name: many
params: {{cohorts: 2, size: 3}}
{NODES}stacks: [kueue]
queues:
  "cq-${{i}}": {{count: "${{cohorts * size}}", cohort: "co-${{i // size}}", quota: {{cpu: "${{i + 1}}"}}}}
cohorts: {{"co-${{i}}": {{count: "${{cohorts}}", parent: org, weight: "${{i % 2 + 1}}"}}}}
steps: [{{submit: {{queue: cq-4, count: 1, duration: 1s}}}}]
"""


def test_count_makes_many_queues_alike_with_values_that_follow_the_number() -> None:
    fleet = only(MANY).setup.fleet
    assert [queue.name for queue in fleet.queues] == [f"cq-{i}" for i in range(6)]
    assert [queue.cohort for queue in fleet.queues] == ["co-0"] * 3 + ["co-1"] * 3
    assert [queue.quotas[0].nominal["cpu"] for queue in fleet.queues] == [1000, 2000, 3000, 4000, 5000, 6000]
    assert fleet.cohorts == (Cohort("co-0", "org", weight=1), Cohort("co-1", "org", weight=2))


FLAVORS = """\
name: flavors
nodes:
  - {name: a, count: 1, capacity: {cpu: 8, memory: 1Gi, nvidia.com/gpu: 2}}
  - {name: b, count: 1, capacity: {cpu: 8, memory: 1Gi, nvidia.com/gpu: 2}}
stacks: [kueue]
flavors: {h100: {nodes: b}, a100: {nodes: a}}
queues:
  red: {quota: {a100: {cpu: 8, nvidia.com/gpu: 2}, h100: {cpu: 4}}, cohort: all, borrow-first: false, preempt-first: true,
        borrow: {a100: {nvidia.com/gpu: 1}, h100: none}, lend: {cpu: 2}}
steps: [{submit: {queue: red, count: 1, duration: 1s}}]
"""


def test_quotas_of_several_flavors_keep_the_order_of_trying() -> None:
    [red] = only(FLAVORS).setup.fleet.queues
    assert red.quotas == (
        FlavorQuota("a100", {"cpu": 8000, "nvidia.com/gpu": 2}, {"nvidia.com/gpu": 1}, {"cpu": 2000}),
        FlavorQuota("h100", {"cpu": 4000}, {"cpu": 0}, {"cpu": 2000}),
    )
    assert (red.borrows_first, red.preempts_first) == (False, True)


def test_a_quota_without_a_flavor_is_of_the_only_one() -> None:
    text = FLAVORS.replace("h100: {nodes: b}, ", "")
    fleet = only(text[: text.index("  red:")] + "  red: {quota: {cpu: 1}}\n" + text[text.index("steps") :]).setup.fleet
    assert fleet.flavors == (Flavor("a100", "a"),)
    assert fleet.queues[0].quotas == (FlavorQuota("a100", {"cpu": 1000}),)


def test_a_set_up_changes_single_rules_of_preemption() -> None:
    setups = "setups: {plain: {stack: kueue}, fair: {stack: kueue, preemption: {fair-sharing: true, reclaim: never}}}"
    plain, fair = trials(TEAMS.replace("stacks: [kueue]", setups))
    assert plain.setup.fleet.preemption == Preemption("lower-priority", "any")
    assert fair.setup.fleet.preemption == Preemption("lower-priority", fair_sharing=True)
    assert plain.phases(Submit) == fair.phases(Submit)


def test_a_threshold_of_preemption_may_be_a_name() -> None:
    text = TEAMS.replace("reclaim: any", "reclaim: any, while-borrowing: lower-priority, while-borrowing-up-to: batch")
    assert only(text).setup.fleet.preemption.while_borrowing_up_to == 50


@pytest.mark.parametrize("stack", ["mcad", "fluence"])
def test_a_stack_without_queues_is_left_out_with_the_parts_it_lacks(stack: str) -> None:
    trial = only(TEAMS)
    refused = stacks.find(stack).refuses(
        dataclasses.replace(trial, setup=dataclasses.replace(trial.setup, stack=stack))
    )
    assert refused is not None
    assert all(part in refused for part in ("(`queues`)", "(`cohort`)", "`checkpoint`"))


def test_the_line_names_the_set_up_that_is_left_out() -> None:
    trial = only(TEAMS)
    settings = resolve((*CONTROL_PLANE, *stacks.find("fluence").settings), "as shipped", {})
    setup = dataclasses.replace(trial.setup, name="m", stack="fluence", settings=settings)
    with pytest.raises(SetupProblem, match="set-up 'm' is left out: the stack 'fluence' has no quotas"):
        eligibility.check([dataclasses.replace(trial, setup=setup)])
