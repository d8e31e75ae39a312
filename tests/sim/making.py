"""Small simulated clusters for tests, without a scenario file."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from seatrial import stacks
from seatrial.clusters.sim_cluster import SimCluster
from seatrial.model.fleet import Fleet
from seatrial.model.lifecycle import index_of
from seatrial.model.plan import (
    ClientSettings,
    Expectation,
    NodeGroup,
    PodShape,
    Scalar,
    Setup,
    Span,
    Step,
    Toleration,
    Trial,
)
from seatrial.model.settings import CONTROL_PLANE, resolve
from seatrial.model.units import SECOND
from seatrial.record import merging
from seatrial.record.ledger import Ledger
from seatrial.record.segments import Segment
from seatrial.record.submissions import Submissions
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from seatrial.steps.choreography import StepsResult, run_steps

GI = 1 << 30
SMALL = PodShape({"cpu": 100, "memory": 100_000_000}, tolerations=(Toleration(),))


def fakes(count: int = 4, cpu: int = 32_000, pods: int = 110, **more: int) -> NodeGroup:
    return NodeGroup("fake", count, {"cpu": cpu, "memory": 256 * GI, "pods": pods, **more}, start=Span(SECOND))


def submit(count: int = 10, pods: int = 1, shape: PodShape = SMALL, seconds: float = 5, **more: object) -> Submit:
    return Submit("load", count, (pods,), False, shape, int(seconds * SECOND), **more)  # type: ignore[arg-type]


def trial(
    *steps: Step,
    nodes: Sequence[NodeGroup] | None = None,
    stack: str = "default",
    qps: str | float = "as shipped",
    settings: Mapping[str, Mapping[str, Scalar]] | None = None,
    rate: float | None = None,
    seed: int = 1,
    fleet: Fleet | None = None,
) -> Trial:
    table = [*CONTROL_PLANE, *stacks.find(stack).settings]
    resolved = resolve(table, qps, settings or {})
    setup = Setup(
        stack, stack, tuple(nodes or [fakes()]), ClientSettings(rate), resolved, fleet=fleet or Fleet()
    )  # fmt: skip
    return Trial(1, "test", "sim", setup, {}, 1, seed, steps)


def to_the_end(*phases: Submit) -> tuple[Step, ...]:
    return (tuple(phases), (Wait("done", "completed"),))


@dataclass
class Ran:
    """What a trial left: its ending, its cluster, and every transition by name."""

    ending: StepsResult
    cluster: SimCluster
    seen: pl.DataFrame
    evictions: pl.DataFrame

    def count(self, stage: str) -> int:
        return self.seen.filter(pl.col("stage") == stage).height

    def times(self, stage: str) -> list[float]:
        return (self.seen.filter(pl.col("stage") == stage).sort("object")["at_ns"] / 1e9).to_list()

    @property
    def end_s(self) -> float:
        return self.cluster.now() / 1e9


def never_judged(_expectation: Expectation, _figures: dict[str, float | str | None]) -> str | None:
    raise AssertionError("this trial has no expectations")


def run(trial: Trial, directory: Path) -> Ran:
    directory.mkdir(parents=True, exist_ok=True)
    stack = stacks.find(trial.setup.stack)
    ledger = Ledger(stack.stages, Segment(directory))
    submissions = Submissions(directory)
    cluster = SimCluster(trial, stack, ledger, submissions, directory)

    async def main() -> StepsResult:
        return await asyncio.wait_for(
            run_steps(cluster, trial, never_judged, stack.releases(trial.setup.settings)), None
        )

    ending = cluster.run(main())
    submissions.close()
    ledger.close()
    names = {number: name for name, number in index_of(stack.stages).items()}
    left = merging.read(directory, stack.stages, [])
    seen = left.observed.with_columns(pl.col("stage").replace_strict(names, return_dtype=pl.String, default=""))
    return Ran(ending, cluster, seen, left.evictions)
