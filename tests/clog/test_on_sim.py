"""States of the simulator, read by the same functions: what it lets happen is seen as what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.clog import diagnose, knot
from seatrial.model.plan import NodeGroup, PodShape, Span, Step, Submit, Wait
from seatrial.model.units import MINUTE, SECOND
from tests.sim.making import GI, run, trial

NODES = NodeGroup("fake", 8, {"cpu": 3000, "memory": 32 * GI, "pods": 110}, start=Span(SECOND))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_default_scheduler_leaves_gangs_in_a_deadlock(tmp_path: Path, seed: int) -> None:
    shape = PodShape({"cpu": 2000}, spread=True)
    ensemble = Submit("gang", 100, (2, 3, 4, 5, 6), True, shape, 10 * SECOND, gang=True)
    wait = Wait("done", "completed", timeout=30 * MINUTE)
    ran = run(trial((ensemble,), (wait,), nodes=[NODES], seed=seed), tmp_path)
    state = ran.cluster.state()
    proof = knot(state)
    assert proof is not None
    assert (proof.kind, proof.proven, proof.can_finish) == ("gang deadlock", True, 0)
    assert len(proof.workloads) >= 2
    assert len(proof.nodes) <= 8
    assert len(proof.workloads) + len(proof.waiters) == len(state.workloads) == 100 - ran.count("completed")
    assert diagnose(state, MINUTE) == proof


def test_gangs_that_come_one_after_another_are_never_a_knot(tmp_path: Path) -> None:
    shape = PodShape({"cpu": 2000}, spread=True)
    steps: list[Step] = []
    for number in range(3):
        one = Submit(f"gang{number}", 2, (4,), False, shape, 10 * SECOND, gang=True)
        steps += [(one,), (Wait(f"done{number}", "completed"),)]
    ran = run(trial(*steps, nodes=[NODES]), tmp_path)
    assert ran.count("completed") == 6
    assert knot(ran.cluster.state()) is None
