"""Head-of-line blocking is named after the run: which head, who would have fitted behind it, for how long, what to change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.analysis.audits import audits
from seatrial.model.lifecycle import ADMITTED, PLAIN, QUEUED
from seatrial.model.plan import NodeGroup, PodShape, Scalar, Span, Step
from seatrial.model.units import HOUR, MINUTE, SECOND
from seatrial.scenario.actions.pause import Pause
from seatrial.scenario.actions.submit_workloads import Submit
from seatrial.scenario.actions.wait import Wait
from seatrial.study.trials import run_trial
from tests.analysis.making import Job, Made, write_trial
from tests.sim.making import GI, trial

S = 1000  # milliseconds
QUEUEING = (*PLAIN[:2], QUEUED, ADMITTED, *PLAIN[2:])
STRICT: dict[str, Scalar] = {"strategy": "StrictFIFO"}


def cores(name: str, cpu: int, count: int = 1, seconds: int = 10) -> Submit:
    return Submit(name, count, (1,), False, PodShape({"cpu": cpu * 1000}), seconds * SECOND)


def blocked_case(stack: str, timeout: int = HOUR, own: dict[str, Scalar] | None = None, heads: int = 1) -> Any:
    """A long runner leaves 2 of 8 cores; the head asks for 4, ten behind it for 1 each."""
    steps: tuple[Step, ...] = (
        (cores("long", 6, seconds=1800),),
        (Wait("runs", "running", ("long",)),),
        (cores("head", 4, heads),),
        (Pause("later", 2 * SECOND),),
        (cores("tail", 1, 10),),
        (Wait("done", "completed", timeout=timeout),),
    )
    node = NodeGroup("n", 1, {"cpu": 8000, "memory": 64 * GI, "pods": 110}, start=Span(SECOND))
    return trial(*steps, nodes=[node], stack=stack, settings={stack: own or {}})


def ran(case: Any, directory: Path) -> dict[str, Any]:
    run_trial(case, directory, lambda *_: None)
    document: dict[str, Any] = json.loads((directory / "trial.json").read_text())
    return document


def audit_of(document: dict[str, Any]) -> dict[str, Any]:
    return next(audit for audit in document["audits"] if audit["audit"] == "head of line")


def test_a_strict_queue_is_told_who_blocked_whom_and_what_to_change(tmp_path: Path) -> None:
    document = ran(blocked_case("kueue", own=STRICT), tmp_path / "t")
    audit = audit_of(document)
    assert (document["outcome"], audit["count"]) == ("completed", 10)
    [example] = audit["examples"]
    assert (example["head"], example["behind"]) == ("head-0", 10)
    assert example["blocked_s"] == pytest.approx(1800, abs=10)
    assert "head-0 (1 pod of cpu 4) was first in the queue" in audit["finding"]
    assert "BestEffortFIFO" in audit["finding"]


@pytest.mark.parametrize("stack", ["kueue", "default"])
def test_what_lets_others_pass_blocks_nobody(stack: str, tmp_path: Path) -> None:
    assert audit_of(ran(blocked_case(stack), tmp_path / "t"))["count"] == 0


def test_mcad_blocks_for_a_while_and_that_is_said(tmp_path: Path) -> None:
    """Its worker sleeps 20 s for each of six heads before it comes to those behind; then they pass."""
    audit = audit_of(ran(blocked_case("mcad", heads=6), tmp_path / "t"))
    assert audit["count"] > 0
    assert audit["examples"][0]["head"].startswith("head-")
    assert 60 < audit["examples"][0]["blocked_s"] < 600
    assert "BestEffortFIFO" not in audit["finding"]


def test_a_time_out_says_who_waits_behind_whom(tmp_path: Path) -> None:
    document = ran(blocked_case("kueue", 10 * MINUTE, STRICT), tmp_path / "strict")
    assert document["outcome"] == "timeout"
    assert document["timed_out"]["kind"] == "head of line"
    assert (document["timed_out"]["workloads"], document["timed_out"]["waiters_in_all"]) == (["head-0"], 10)
    assert "0 of 12 workloads were completed: head of line: head-0 is first in the queue" in document["detail"]
    assert document["clog"] is None
    assert audit_of(document)["count"] == 10


@pytest.mark.parametrize("stack", ["kueue", "mcad", "default"])
def test_a_time_out_says_what_still_runs_and_what_waits_for_it(stack: str, tmp_path: Path) -> None:
    document = ran(blocked_case(stack, 10 * MINUTE), tmp_path / "t")
    assert document["timed_out"]["kind"] == "still running"
    assert "long-0 runs, until 180" in document["detail"]
    assert "head-0 waits: it needs room for 1 pod (cpu 4 each), and there is room for 0 now." in document["detail"]


# by hand


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 90), st.integers(0, 200), st.integers(1, 40) | st.just(400), st.integers(1, 3)),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 4),
)
def test_it_is_what_looking_every_second_gives(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[tuple[int, int, int, int]], capacity: int
) -> None:
    """Gangs on one node: submitted, admitted and bound so long after, running so long, of so many pods of one core."""
    end = 600
    made = []
    for submitted, waits, runs, pods in jobs:
        at = (submitted + waits) * S
        pod = {"pods_created": at, "scheduled": at, "running": at, "finished": at + runs * S}
        stages = {"submitted": submitted * S, "created": submitted * S, "queued": submitted * S, "admitted": at}
        made.append(Job({**stages, "completed": at + runs * S}, [pod] * pods, nodes=[0] * pods))
    node = {"cpu": capacity * 1000, "memory": 2**38, "pods": 110}
    spans = [{"group": "fake", "count": 1, "capacity": node, "from_ns": 0, "until_ns": None}]
    also = {"quota": {"cpu": capacity * 1000}}
    directory = tmp_path_factory.mktemp("line")
    write_trial(directory, Made(made, stages=QUEUEING, gang=True, nodes=spans, end_ms=end * S, also=also))
    audit = next(audit for audit in audits(directory) if audit["audit"] == "head of line")
    assert audit["count"] == len(blocked_every_second(jobs, capacity, end))


def blocked_every_second(jobs: list[tuple[int, int, int, int]], capacity: int, end: int) -> set[int]:
    admitted = [submitted + waits for submitted, waits, _, _ in jobs]
    order = sorted(range(len(jobs)), key=lambda n: (jobs[n][0], n))
    blocked: dict[tuple[int, int], int] = {}  # head, workload → seconds in all
    run: dict[int, int] = {}  # workload → seconds since somebody was let past the head, of those blocked
    first, since = -1, 0

    def close(until: int) -> None:
        if until - since > 60:
            for n, seconds in run.items():
                blocked[first, n] = blocked.get((first, n), 0) + seconds
        run.clear()

    for now in range(end):
        line = [n for n in order if jobs[n][0] <= now < admitted[n]]
        head = line[0] if line else -1
        if head != first or any(admitted[n] == now for n in range(len(jobs))):
            close(now)
            first, since = head, now
        used = sum(pods for n, (_, _, runs, pods) in enumerate(jobs) if admitted[n] <= now < admitted[n] + runs)
        if head >= 0 and jobs[head][3] > capacity - used:
            for n in line[1:]:
                if jobs[n][3] <= capacity - used:
                    run[n] = run.get(n, 0) + 1
    close(end)
    return {n for (_, n), seconds in blocked.items() if seconds > 60}
