"""Looking at workloads on a real control plane: as often as one likes, and whatever is killed meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from seatrial.analysis.stage_times import lifecycle
from seatrial.clusters.access import kept_clusters
from seatrial.kube import ApiProblem, Client, access_from
from seatrial.kube.resources import JOBS
from seatrial.record import merging
from seatrial.record.trial_record import TrialRecord
from tests.conftest import Seatrial
from tests.sampling.conftest import JOB, Start
from tests.waiting import eventually

pytestmark = pytest.mark.local

Times = dict[tuple[str, str], tuple[int, int]]  # pod or workload, stage → error, time


def known(directory: Path) -> Times:
    """The best of all that is known, by names."""
    trial = TrialRecord.open(directory)
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


def lines(out: Path) -> list[dict[str, Any]]:
    found = list(out.glob("trials/*/submitted.jsonl"))
    return [json.loads(line) for line in found[0].read_text().splitlines()] if found else []


def remove(out: Path, cluster: str, names: Sequence[str]) -> None:
    """Their Jobs, and with those their pods. An API server that has just come again answers 403 until it knows its roles."""

    async def main() -> None:
        async with Client(access_from(kept_clusters.find(cluster).kubeconfig())) as client, asyncio.timeout(60):
            left = list(names)
            while left:
                try:
                    await client.delete(JOBS, left[-1], document(out)["target"]["namespace"])
                    left.pop()
                except ApiProblem:
                    await asyncio.sleep(0.1)

    asyncio.run(main())


def test_nothing_is_lost_when_the_follower_and_the_api_server_are_killed(
    start: Start, seatrial: Seatrial, tmp_path: Path, cluster: str
) -> None:
    """200 pods; `SEATRIAL_PODS=1000 pytest …` for as many as one likes (docs/verified.md)."""
    count = int(os.environ.get("SEATRIAL_PODS", "200"))
    (tmp_path / "job.yaml").write_text(JOB.replace("DURATION", "10s"))
    out = tmp_path / "out"
    rounds = ("-n", str(count), "-p", str(count // 25), "--delay", "0.2", "--template", "job.yaml")
    submit = start("submit", "-o", "out", *rounds, "--cluster", cluster)
    assert eventually(lambda: len(lines(out)) > 50), "nothing was submitted"
    submit.kill()
    directory = next(out.glob("trials/*"))
    first = start("sample", "-o", "out", "--follow")
    assert eventually(lambda: len(known(directory)) > 100), "the follower has seen nothing"
    first.kill()
    first.wait()
    before = known(directory)
    so_far = len(lines(out))
    rest = start("submit", "-o", "out", "--resume")
    assert eventually(lambda: len(lines(out)) > so_far), "the submission does not go on"
    os.kill(kept_clusters.find(cluster).pids["kube-apiserver"], signal.SIGKILL)
    _, words = rest.communicate(timeout=120)  # waits for the API server, which comes again
    assert rest.returncode == 0, words
    cut_short = [line["workload"] for line in lines(out)[-3:]]
    remove(out, cluster, cut_short)  # a moment old: they run for 10 s, and nobody watches
    second = start("sample", "-o", "out", "--follow")
    shown, words = second.communicate(timeout=120)
    assert second.returncode == 0, words
    no_worse(before, known(directory))
    trial = document(out)
    assert (trial["outcome"], trial["submitted"]) == ("completed", count)
    validity = trial["validity"]
    assert [gap for gap in validity["gaps"] if gap["reason"] == "no process watched"], "the gap is shown"
    assert not validity["valid"], "and it hides how three ended"
    assert validity["gone"] == 3
    assert "3 workloads were gone" in shown
    seen = lifecycle(TrialRecord.open(directory)).workloads
    assert set(seen.filter(pl.col("completed").is_null())["workload"]) == set(cut_short)
    assert not list(directory.glob("*.seg")), "sealed, since nobody writes any more"
    drawn = seatrial("plot", "-o", "out")
    assert drawn.returncode == 0, drawn.stderr
    assert (out / "general.png").stat().st_size > 10_000


def test_a_sample_keeps_what_earlier_ones_saw_of_objects_that_are_gone(
    seatrial: Seatrial, tmp_path: Path, cluster: str
) -> None:
    (tmp_path / "job.yaml").write_text(JOB.replace("DURATION", "100ms"))
    out = tmp_path / "out"
    sent = seatrial("submit", "-o", "out", "-n", "4", "--template", "job.yaml", "--cluster", cluster)
    assert sent.returncode == 0, sent.stderr
    directory = next(out.glob("trials/*"))
    assert eventually(lambda: "4 completed" in seatrial("sample", "-o", "out").stdout), "they do not complete"
    before = known(directory)
    assert {stage for _, stage in before} >= {
        "created",
        "pods_created",
        "scheduled",
        "running",
        "finished",
        "completed",
    }
    errors = {stage: max(error for (_, one), (error, _) in before.items() if one == stage) for _, stage in before}
    assert errors["scheduled"] < errors["running"], "the scheduler's events have microseconds, objects whole seconds"
    remove(out, cluster, [line["workload"] for line in lines(out)])
    late = seatrial("sample", "-o", "out", "--project", document(out)["target"]["namespace"])
    assert late.returncode == 0, late.stderr
    assert "4 of 4 submitted: 4 completed" in late.stdout
    no_worse(before, known(directory))
    trial = document(out)
    assert (trial["outcome"], trial["validity"]["valid"], trial["validity"]["gone"]) == ("completed", True, 0)
    other = seatrial("sample", "-o", "out", "--project", "somebody-else")
    assert other.returncode == 2
    assert trial["target"]["namespace"] in other.stderr


SCENARIO = """
name: killed
nodes: [{name: fake, count: 3, capacity: {cpu: 8, memory: 32Gi}}]
stacks: [default]
settings: {qps: {equal: 1000}}
steps:
  - submit: {name: short, count: 12, duration: 8s, requests: {cpu: 100m}}
  - wait: {for: completed, timeout: 2m}
"""


def test_a_run_that_was_killed_is_followed_to_its_end(
    start: Start, seatrial: Seatrial, tmp_path: Path, cluster: str
) -> None:
    (tmp_path / "killed.yaml").write_text(SCENARIO)
    run = start("run", "killed.yaml", "--on", "local", "--cluster", cluster, "-o", "out")

    out = tmp_path / "out"
    assert eventually(lambda: len(lines(out)) == 12 and bool(document(out).get("wall_epoch_ns"))), (
        "the run has not begun"
    )
    run.kill()
    run.wait()
    directory = next(out.glob("trials/*"))
    before = known(directory)
    assert before
    followed = seatrial("sample", "-o", "out", "--follow")
    assert followed.returncode == 0, followed.stderr
    no_worse(before, known(directory))
    trial = document(out)
    assert trial["outcome"] == "completed"
    assert lifecycle(TrialRecord.open(directory)).reached("completed") == 12
    assert seatrial("clean", "-o", "out").returncode == 0
