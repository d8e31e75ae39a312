"""Looking at workloads on a real control plane: as often as one likes, and whatever is killed meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from seatrial.analysis.directory import read_trial
from seatrial.analysis.lifecycle import lifecycle
from seatrial.clusters.local import kept
from seatrial.kube import Client
from seatrial.kube.resources import JOBS
from seatrial.record import merging
from tests.conftest import Seatrial
from tests.sampling.conftest import Start
from tests.sampling.loading import Load, complete

pytestmark = pytest.mark.local

Times = dict[tuple[str, str], tuple[int, int]]  # pod or workload, stage → error, time


def known(directory: Path) -> Times:
    """The best of all that is known, by names."""
    trial = read_trial(directory)
    errors = trial.errors_ns or [0, 50_000_000, 10**9, 1000, 500_000_000, 100_000_000]
    part = merging.read(directory, trial.stages, errors)
    names = part.pods["name"].to_list()
    table = part.observed.with_columns(merging.error_of(errors).alias("error"))
    best: Times = {}
    for row in table.iter_rows(named=True):
        stage = trial.stages[row["stage"]]
        thing = names[row["object"]] if stage.of == "pod" else str(row["object"])
        key = (thing, stage.name)
        best[key] = min(best.get(key, (2**63, 0)), (row["error"], row["at_ns"]))
    return best


def no_worse(before: Times, after: Times) -> None:
    worse = {key: (value, after.get(key)) for key, value in before.items() if after.get(key, (2**63, 0)) > value}
    assert not worse


def document(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(out.glob("trials/*/trial.json")).read_text())
    return found


def do(load: Load, story: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with load.client() as client:
            await story(client)

    asyncio.run(main())


async def until(holds: Callable[[], bool], what: str, within: float = 60.0) -> None:
    end = time.monotonic() + within
    while not holds():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.05)


def test_nothing_is_lost_when_the_follower_and_the_api_server_are_killed(
    start: Start, seatrial: Seatrial, tmp_path: Path, cluster: str
) -> None:
    load = Load(tmp_path / "out", cluster, 200, 4, "killed")
    load.begin()
    first = start("sample", "-o", "out", "--follow")
    before: Times = {}

    async def story(client: Client) -> None:
        await load.send(client, range(100))
        await until(lambda: len(known(load.directory)) > 150, "the follower has seen nothing")
        first.kill()
        first.wait()
        before.update(known(load.directory))
        os.kill(kept.find(cluster).pids["kube-apiserver"], signal.SIGKILL)
        await load.send(client, range(100, 200))  # waits for the API server, which comes again
        for index in (0, 1, 2):
            await client.delete(JOBS, f"load-{index}", load.namespace)

    do(load, story)
    second = start("sample", "-o", "out", "--follow")
    shown, words = second.communicate(timeout=120)
    assert second.returncode == 0, words
    after = known(load.directory)
    no_worse(before, after)
    trial = document(tmp_path / "out")
    assert trial["outcome"] == "completed"
    assert trial["submitted"] == 200
    validity = trial["validity"]
    assert [gap for gap in validity["gaps"] if gap["reason"] == "nobody watched"], "the gap is shown"
    assert not validity["valid"]
    seen = lifecycle(read_trial(load.directory))
    unseen = [0, 1, 2] if not validity["hidden"] else []
    ended = seen.workloads["completed"].is_not_null() | seen.workloads["deleted"].is_not_null()
    assert set(seen.workloads.filter(~ended)["number"]) <= {0, 1, 2}
    assert validity["gone"] == int((~ended).sum()) <= 3, unseen
    assert "nobody watched" in shown
    assert not list(load.directory.glob("*.seg")), "sealed, since nobody writes any more"
    drawn = seatrial("plot", "-o", "out")
    assert drawn.returncode == 0, drawn.stderr
    assert (tmp_path / "out" / "general.png").stat().st_size > 10_000


def test_a_sample_keeps_what_earlier_ones_saw_of_objects_that_are_gone(
    seatrial: Seatrial, tmp_path: Path, cluster: str
) -> None:
    load = Load(tmp_path / "out", cluster, 6, 0.5, "gone")
    load.begin()

    async def some(client: Client) -> None:
        await load.send(client, range(4))
        await complete(client, load.namespace, 4)

    async def others(client: Client) -> None:
        for index in range(4):
            await client.delete(JOBS, f"load-{index}", load.namespace)
        await load.send(client, range(4, 6))
        await complete(client, load.namespace, 2)

    do(load, some)
    early = seatrial("sample", "-o", "out")
    assert early.returncode == 0, early.stderr
    assert "4 of 6 submitted: 4 completed" in early.stdout
    before = known(load.directory)
    assert {stage for _, stage in before} >= {
        "created",
        "pods_created",
        "scheduled",
        "running",
        "finished",
        "completed",
    }
    scheduled = [error for (_, stage), (error, _) in before.items() if stage == "scheduled"]
    assert max(scheduled) < min(error for (_, stage), (error, _) in before.items() if stage == "running"), (
        "the scheduler's events have microseconds, objects whole seconds"
    )
    do(load, others)
    late = seatrial("sample", "-o", "out")
    assert late.returncode == 0, late.stderr
    assert "6 of 6 submitted: 6 completed" in late.stdout
    no_worse(before, known(load.directory))
    trial = document(tmp_path / "out")
    assert (trial["outcome"], trial["validity"]["valid"]) == ("completed", True)
    after = known(load.directory)
    assert seatrial("sample", "-o", "out", "--project", load.namespace).returncode == 0
    no_worse(after, known(load.directory))
    assert document(tmp_path / "out")["outcome"] == "completed"
    other = seatrial("sample", "-o", "out", "--project", "somebody-else")
    assert other.returncode == 2
    assert load.namespace in other.stderr
    seen = pl.read_csv(tmp_path / "out" / "times.csv") if (tmp_path / "out" / "times.csv").exists() else None
    assert seen is None, "a sample draws nothing"


SCENARIO = """
name: killed
nodes: [{name: fake, count: 3, capacity: {cpu: 8, memory: 32Gi}}]
stacks: [default]
settings: {qps: {equal: 500}}
steps:
  - submit: {name: short, count: 12, duration: 6s, requests: {cpu: 100m}}
  - wait: {for: completed, timeout: 2m}
"""


def test_a_run_that_was_killed_is_followed_to_its_end(
    start: Start, seatrial: Seatrial, tmp_path: Path, cluster: str
) -> None:
    (tmp_path / "killed.yaml").write_text(SCENARIO)
    run = start("run", "killed.yaml", "--on", "local", "--cluster", cluster, "-o", "out")

    def running() -> bool:
        lines = list(tmp_path.glob("out/trials/*/submitted.jsonl"))
        return bool(
            lines and lines[0].read_text().count("\n") == 12 and document(tmp_path / "out").get("wall_epoch_ns")
        )

    asyncio.run(until(running, "the run has not begun"))
    run.kill()
    run.wait()
    directory = next(tmp_path.glob("out/trials/*"))
    before = known(directory)
    assert before
    followed = seatrial("sample", "-o", "out", "--follow")
    assert followed.returncode == 0, followed.stderr
    no_worse(before, known(directory))
    trial = document(tmp_path / "out")
    assert trial["outcome"] == "completed"
    assert lifecycle(read_trial(directory)).reached("completed") == 12
    assert seatrial("clean", "-o", "out").returncode == 0
