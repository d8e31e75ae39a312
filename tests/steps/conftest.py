"""Small trials that are run by the same code on `sim` and on `local`. The latter share one kept control plane."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from seatrial import stacks
from seatrial.clusters import programs
from seatrial.clusters.kwok.stage_objects import default_stages
from seatrial.clusters.local import kept_planes
from seatrial.clusters.local.components import PlaneOptions
from seatrial.clusters.programs.binaries import ensure_binaries
from seatrial.clusters.sim_cluster import SimCluster
from seatrial.model.plan import NodeGroup, Scalar, Span, Step, Target, Trial
from seatrial.model.settings import CONTROL_PLANE, resolve
from seatrial.model.units import MILLISECOND, SECOND
from seatrial.record import request_log
from seatrial.record.ledger import Ledger
from seatrial.record.segments import Segment
from seatrial.record.submissions import Submissions
from seatrial.scenario.actions.change_nodes import NodeChange
from seatrial.steps.choreography import StepsResult, run_steps
from seatrial.study.trials import cluster_for, judge
from tests.sim.making import GI, trial

KEPT = "steps-tests"


def group(count: int = 2, cpu: int = 4000, name: str = "fake") -> NodeGroup:
    capacity = {"cpu": cpu, "memory": 64 * GI, "pods": 110}
    return NodeGroup(name, count, capacity, start=Span(100 * MILLISECOND, 100 * MILLISECOND))


@dataclass(frozen=True)
class Ran:
    """What a trial left."""

    ending: StepsResult
    counts: dict[str, int]
    requests: pl.DataFrame
    end_s: float

    def took(self, phase: str) -> float:
        [took] = [one for one in self.ending.took if one.phase == phase]
        return (took.until_ns - took.from_ns) / SECOND


@dataclass(frozen=True)
class Runner:
    """Runs steps on one kind of cluster. `later` are changes that nobody of the trial makes, seconds after it began."""

    on: str
    folder: Path
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1000)))

    def __call__(
        self,
        *steps: Step,
        nodes: Sequence[NodeGroup] = (group(),),
        namespaces: int = 0,
        params: dict[str, Scalar] | None = None,
        settings: dict[str, dict[str, Scalar]] | None = None,
        later: dict[float, NodeChange] | None = None,
    ) -> Ran:
        made = trial(*steps, nodes=nodes, settings=settings)
        made = dataclasses.replace(
            made, on=self.on, namespaces=namespaces, params=params or {}, target=Target(cluster=KEPT)
        )
        return self._run(made, self.folder / str(next(self.numbers)), later or {})

    def _run(self, made: Trial, directory: Path, later: dict[float, NodeChange]) -> Ran:
        directory.mkdir()
        stack = stacks.find(made.setup.stack)
        ledger = Ledger(stack.stages, Segment(directory))
        submissions = Submissions(directory)
        cluster = cluster_for(made, stack, ledger, submissions, directory)

        async def main() -> StepsResult:
            loop = asyncio.get_running_loop()
            changes = [loop.create_task(_change(cluster, after, change)) for after, change in later.items()]
            try:
                return await run_steps(cluster, made, judge, stack.releases(made.setup.settings))
            finally:
                for change in changes:
                    change.cancel()
                await cluster.down()

        ending = cluster.run(main())
        submissions.close()
        ledger.close()
        request_log.seal(directory)
        counts = {name: ledger.counts[number] for name, number in ledger.number.items()}
        return Ran(ending, counts, request_log.requests(directory), cluster.now() / SECOND)


async def _change(cluster: Any, after: float, change: NodeChange) -> None:
    """On the simulator it is an event of the kernel: otherwise nothing would be under way, which is a clog."""
    loop = asyncio.get_running_loop()
    due: asyncio.Future[None] = loop.create_future()
    if isinstance(cluster, SimCluster):
        cluster._kernel.at(int(after * SECOND), due.set_result, None)
    else:
        loop.call_later(after, due.set_result, None)
    await due
    await cluster.nodes(change)


@pytest.fixture(scope="session")
def control_plane(own_state: Path) -> Iterator[None]:  # noqa: ARG001
    """A control plane for all tests of steps, in the state directory of all tests."""
    options = PlaneOptions(settings=resolve(CONTROL_PLANE, "unlimited", {}), stages=default_stages(), audit=False)
    kept_planes.up(KEPT, options, ensure_binaries(programs.CONTROL_PLANE))
    yield
    kept_planes.down(KEPT)


@pytest.fixture(params=["sim", pytest.param("local", marks=pytest.mark.local)])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Runner:
    if request.param == "local":
        request.getfixturevalue("control_plane")
    return Runner(request.param, tmp_path)
