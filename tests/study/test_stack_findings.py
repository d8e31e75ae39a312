"""What a stack does otherwise than the scenario suggests is said before the run."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Seatrial

SCENARIO = """
name: teams
nodes: [{name: n, count: 2, capacity: {cpu: 4, memory: 8Gi}}]
queues: {red: {quota: {cpu: 4, memory: 8Gi}}, blue: {quota: {cpu: 4, memory: 8Gi}}}
priorities: {low: 10, high: PRIORITY}
preemption: {within-queue: never}
stacks: [default, kueue]
steps:
  - submit: {name: r, queue: red, count: 1, priority: low, duration: 1s, requests: {cpu: 1, memory: 1Gi}}
  - submit: {name: b, queue: blue, count: 1, priority: high, duration: 1s, requests: {cpu: 1, memory: 1Gi}}
  - wait: {for: completed}
"""
SAID = "set-up 'default': `preemption` has no effect on the stack 'default': kube-scheduler evicts pods of a lower priority"


def test_rules_of_preemption_that_kube_scheduler_does_not_have_are_said(seatrial: Seatrial, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SCENARIO.replace("PRIORITY", "20"))
    said = seatrial("validate", "s.yaml")
    assert said.returncode == 0, said.stderr
    assert SAID in said.stdout + said.stderr
    assert "set-up 'kueue': `preemption`" not in said.stdout + said.stderr
    (tmp_path / "s.yaml").write_text(SCENARIO.replace("PRIORITY", "10"))
    same = seatrial("validate", "s.yaml")
    assert SAID not in same.stdout + same.stderr
