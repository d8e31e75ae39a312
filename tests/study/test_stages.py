"""Waits for stages that only some stacks have."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial import stacks
from seatrial.model.errors import ScenarioProblem, UsageProblem
from seatrial.model.lifecycle import STANDARD
from seatrial.model.plan import Trial
from seatrial.scenario.document import from_text
from seatrial.scenario.expansion import expand
from seatrial.study.running import check
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
OWN = {"kueue": "quota_reserved", "mcad": "head_of_line", "gang": "group_scheduled"}


def _trials(names: str, stage: str) -> list[Trial]:
    text = SCENARIO.format(stacks=names, stage=stage)
    return expand(from_text(text, "s.yaml"), on="sim", stacks=stacks.settings(), stages=stacks.stages())


@pytest.mark.parametrize(("stack", "stage"), OWN.items())
def test_a_stage_of_the_stacks_own_can_be_waited_for(stack: str, stage: str, tmp_path: Path) -> None:
    [trial] = check(_trials(f"[{stack}]", stage)).trials
    ran = run(trial, tmp_path)
    assert ran.ending.outcome == "completed", ran.ending.detail
    assert ran.count(stage) == 2
    assert ran.count("completed") == 0, "the wait was over long before the end"


def test_every_stage_of_every_stack_is_known_to_the_language() -> None:
    own = {stage for name in stacks.names() for stage in stacks.stages_of(name)} - {stage.name for stage in STANDARD}
    assert own == set(OWN.values())
    for stage in own:
        assert _trials("[kueue]", stage)


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
    with pytest.raises(UsageProblem, match=r"set-up 'default' does not have \(stacks that have it: kueue\)"):
        check(_trials("[default]", "quota_reserved"))


def test_a_stage_that_no_stack_has_is_a_mistake_with_a_suggestion() -> None:
    with pytest.raises(
        ScenarioProblem, match=r"s.yaml:6:17: unknown stage 'quota_resreved' \(did you mean 'quota_reserved'"
    ):
        _trials("[kueue]", "quota_resreved")
