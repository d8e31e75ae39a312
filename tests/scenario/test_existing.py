"""`nodes: {existing: SELECTOR}`: pods on nodes that are there."""

from __future__ import annotations

import pytest

from seatrial.model.errors import SetupProblem
from seatrial.scenario.document import from_text
from seatrial.scenario.expansion import expand
from seatrial.scenario.findings import check_never_fits
from seatrial.study.eligibility import check
from tests.scenario.support import NODES, STACKS, STEPS, mistakes, trials

ALONE = f"name: a\nnodes: {{existing: 'pool=batch,!spot'}}\nstacks: [default]\n{STEPS}"
BOTH = (
    "name: a\nnodes:\n  real: {existing: pool}\n  fakes: [{name: fake, count: 2, capacity: {cpu: 4, memory: 8Gi}}]\n"
    f"setups:\n  real: {{stack: default, nodes: real}}\n  fake: {{stack: default, nodes: fakes}}\n{STEPS}"
)


def test_existing_nodes_alone_or_beside_others() -> None:
    [trial] = trials(ALONE)
    assert [group.existing for group in trial.setup.nodes] == ["pool=batch,!spot"]
    assert check_never_fits(trial) == [], "what those nodes have is not known here"
    real, fake = trials(BOTH)
    assert [group.existing for group in (*real.setup.nodes, *fake.setup.nodes)] == ["pool", ""]


def test_an_entry_of_groups_may_be_called_existing() -> None:
    text = NODES.replace("nodes: ", "nodes:\n  existing: ")
    [trial] = trials(f"name: a\n{text}setups: {{x: {{stack: default, nodes: existing}}}}\n{STEPS}")
    assert trial.setup.nodes[0].name == "fake"


def test_a_stack_picked_on_the_command_line_takes_the_fake_nodes() -> None:
    [trial] = trials(BOTH, pick_stacks=["mcad"])
    assert not trial.setup.nodes[0].existing


@pytest.mark.parametrize("on", ["sim", "local"])
def test_where_there_are_none_the_set_up_is_left_out_with_a_line_that_says_so(on: str) -> None:
    checked = check(expand(from_text(BOTH, "s.yaml"), on=on, stacks=STACKS))
    assert [trial.setup.name for trial in checked.trials] == ["fake"]
    assert checked.skipped == [
        f"set-up 'real' is left out: it stands on existing nodes, and --on {on} has none; they need --on kubeconfig"
    ]
    with pytest.raises(SetupProblem, match="existing nodes"):
        check(expand(from_text(ALONE, "s.yaml"), on=on, stacks=STACKS))


def test_on_a_kubeconfig_it_runs() -> None:
    assert len(check(expand(from_text(BOTH, "s.yaml"), on="kubeconfig", stacks=STACKS)).trials) == 2


WRONG = {
    "selector": ("nodes: {existing: 'a b'}", STEPS, "s.yaml:2:19: 'a b' is not a label selector (write it like"),
    "empty": ("nodes: {existing: ''}", STEPS, "s.yaml:2:19: an empty selector means every node (write labels"),
    "number": ("nodes: {real: {existing: 1}}", STEPS, "s.yaml:2:26: '1' is not a label selector (write it in quotes"),
    "key": ("nodes: {existing: a, count: 2}", STEPS, "s.yaml:2:22: unknown key 'count' in 'nodes' (known: existing"),
    "cordoned": (
        "nodes: {existing: a}",
        "steps: [{submit: {count: 1, duration: 1s}}, {nodes: {add: {name: b, count: 1, capacity: {cpu: 1, memory: 1}}}}]",
        "s.yaml:4:59: set-up 'default' uses existing nodes, and its pods run only there (remove the step",
    ),
}


@pytest.mark.parametrize(("nodes", "steps", "expected"), WRONG.values(), ids=WRONG.keys())
def test_what_cannot_be(nodes: str, steps: str, expected: str) -> None:
    found = mistakes(f"name: a\n{nodes}\nstacks: [default]\n{steps}")
    assert any(line.startswith(expected) for line in found), found
