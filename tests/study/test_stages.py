"""Waits for stages that only some stacks have."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial import stacks
from seatrial.model.errors import ScenarioProblem, UsageProblem
from seatrial.model.lifecycle import ADMITTED, QUEUED, STANDARD, Stage, lifecycle_with
from seatrial.model.plan import Trial
from seatrial.scenario.document import from_text
from seatrial.scenario.expansion import expand
from seatrial.study.eligibility import check
from tests.sim.making import run

SCENARIO = """\
name: waits
nodes: [{{name: n, count: 2, capacity: {{cpu: 4, memory: 8Gi}}, pods: {{start: 1s}}}}]
stacks: {stacks}
steps:
  - submit: {{count: 2, pods: 2, gang: true, duration: 10s, requests: {{cpu: 1}}}}
  - wait: {{for: {stage}, timeout: 1m}}
  - pause: 1ms
"""
USUAL = {stage.name for stage in STANDARD}
OWN = [(name, stage) for name in stacks.names() for stage in stacks.stages_of(name) if stage not in USUAL]
SIMULATED = [(name, stage) for name, stage in OWN if "sim" in stacks.find(name).runs_on]


def _trials(names: str, stage: str) -> list[Trial]:
    text = SCENARIO.format(stacks=names, stage=stage)
    return expand(from_text(text, "s.yaml"), on="sim", stacks=stacks.settings(), stages=stacks.stages())


@pytest.mark.parametrize(("stack", "stage"), SIMULATED)
def test_a_stage_of_the_stacks_own_can_be_waited_for(stack: str, stage: str, tmp_path: Path) -> None:
    [trial] = check(_trials(f"[{stack}]", stage)).trials
    ran = run(trial, tmp_path)
    assert ran.ending.outcome == "completed", ran.ending.detail
    assert ran.count(stage) == 2
    assert ran.count("completed") == 0, "the wait was over long before the end"


def test_every_stage_of_every_stack_is_known_to_the_language() -> None:
    assert {("kueue", "quota_reserved"), ("mcad", "head_of_line"), ("gang", "group_scheduled")} <= set(OWN)
    for _, stage in OWN:
        assert _trials("[kueue]", stage)


def test_own_stages_follow_the_one_they_name_in_the_order_given() -> None:
    first, second = (Stage(name, "workload", "", after=QUEUED) for name in ("first", "second"))
    third = Stage("third", "workload", "", after=first)
    order = [stage.name for stage in lifecycle_with(QUEUED, first, third, second, ADMITTED)]
    assert order[:7] == ["submitted", "created", "queued", "first", "third", "second", "admitted"]


def test_a_stage_after_one_that_the_stack_lacks_is_a_mistake() -> None:
    with pytest.raises(
        ValueError, match="the stage 'first' comes after 'queued', which is not among the stack's stages"
    ):
        lifecycle_with(Stage("first", "workload", "", after=QUEUED))


def test_where_some_set_ups_lack_the_stage_they_are_named_with_its_place() -> None:
    with pytest.raises(UsageProblem) as raised:
        check(_trials("[default, kueue, mcad]", "quota_reserved"))
    assert raised.value.message == (
        "s.yaml:6:17: wait-2 waits for 'quota_reserved', which set-ups 'default', 'mcad' do not have (set-up 'kueue' has it)"
    )
    assert raised.value.remedy.startswith(
        "run only set-up 'kueue', or wait for a stage that all have: submitted, created,"
    )


def test_where_no_set_up_has_the_stage_the_stacks_that_do_are_named() -> None:
    with pytest.raises(
        UsageProblem, match=r"set-up 'default' does not have \(stacks that have it: appwrapper-kueue, kueue\)"
    ):
        check(_trials("[default]", "quota_reserved"))


def test_a_stage_that_no_stack_has_is_a_mistake_with_a_suggestion() -> None:
    with pytest.raises(
        ScenarioProblem, match=r"s.yaml:6:17: unknown stage 'quota_resreved' \(did you mean 'quota_reserved'"
    ):
        _trials("[kueue]", "quota_resreved")
