"""States of the simulator, read by the same functions: what it lets happen is seen as what it is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from seatrial import stacks
from seatrial.clog import Diagnosis, diagnose, knot
from seatrial.clusters.sim_cluster import SimCluster
from seatrial.model.plan import NodeGroup, Pace, PodShape, Span, Step, Trial
from seatrial.model.units import MINUTE, SECOND
from seatrial.record.ledger import Ledger
from seatrial.record.segments import Segment
from seatrial.record.submissions import Submissions
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from seatrial.steps.choreography import StepsResult, run_steps
from tests.sim.making import GI, never_judged, run, trial

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


def test_a_knot_claimed_at_any_moment_never_comes_loose_and_no_other_trial_gets_stuck(tmp_path: Path) -> None:
    """Random gangs on the default scheduler, looked at every second; by hand 150 such trials had 29 knots, all true."""
    knots = 0
    for seed in range(30):
        claimed, left = _watched(_random_trial(Random(seed)), tmp_path / str(seed))
        assert bool(claimed) == bool(left)
        assert {name for clog in claimed for name in clog.workloads} <= left
        knots += bool(claimed)
    assert 0 < knots < 30


def _random_trial(random: Random) -> Trial:
    cores = random.choice([3000, 4000, 6000])
    nodes = NodeGroup(
        "fake", random.randint(4, 10), {"cpu": cores, "memory": 256 * GI, "pods": 110}, start=Span(SECOND)
    )
    sizes = tuple(random.randint(1, min(6, nodes.count * (cores // 2000))) for _ in range(4))
    shape = PodShape({"cpu": 2000}, spread=random.random() < 0.5)
    pace = Pace("rate", per_s=random.choice([0.2, 1, 5]))
    gangs = Submit(
        "gang", random.randint(2, 12), sizes, True, shape, random.randint(1, 30) * SECOND, gang=True, pace=pace
    )
    pods = Submit("pods", random.randint(0, 20), (1,), False, PodShape({"cpu": 1000}), 5 * SECOND)
    return trial((gangs, pods), (Pause("long enough", 8 * MINUTE),), nodes=[nodes], seed=random.randint(0, 1000))


def _watched(trial: Trial, directory: Path) -> tuple[list[Diagnosis], set[str]]:
    """The knots seen on the way, and the names of the workloads left at the end."""
    directory.mkdir()
    stack = stacks.find(trial.setup.stack)
    cluster = SimCluster(trial, stack, Ledger(stack.stages, Segment(directory)), Submissions(directory))
    claimed = []

    async def main() -> StepsResult:
        steps = asyncio.ensure_future(run_steps(cluster, trial, never_judged))
        while not steps.done():
            if clog := knot(cluster.state()):
                claimed.append(clog)
            await asyncio.sleep(1)
        return await steps

    cluster.run(main())
    return claimed, {workload.name for workload in cluster.state().workloads}
